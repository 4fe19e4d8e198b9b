// Decimal text to float32, correctly rounded, without the locale and without a copy.
#pragma once

namespace labelprism {

// Reads all of [begin, end) as a decimal number such as `1`, `-0.25`, `.5`, `3.` or `1e-3`, rounded once, to nearest.
// False if the text is anything else, "nan" and "inf" included. Numbers beyond float32 give an infinity.
bool parse_float(const char* begin, const char* end, float* value);

}  // namespace labelprism
