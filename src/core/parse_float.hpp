// Decimal text to float32, correctly rounded, without the locale and without a copy.
#pragma once

namespace labelprism {

// Reads a decimal number such as `1`, `-0.25`, `.5`, `3.` or `1e-3`, rounded once, to nearest, up to the end of its
// token: a blank, a '#' or `end`. Returns the end of the token, or null if the token is anything else, "nan" and "inf"
// included. Numbers beyond float32 give an infinity.
const char* parse_float(const char* begin, const char* end, float* value);

}  // namespace labelprism
