# Writes down what a wheel holds that is not ours, as CycloneDX, into its .dist-info/sboms (PEP 770).

# version_in(<file> <regular expression with one group> <variable>): the numbers that the lines of a file hold
function(version_in file pattern variable)
  file(STRINGS "${file}" lines REGEX "${pattern}")
  set(numbers)
  foreach(line IN LISTS lines)
    string(REGEX REPLACE ".*${pattern}.*" "\\1" number "${line}")
    list(APPEND numbers "${number}")
  endforeach()
  string(REPLACE ";" "." version "${numbers}")
  if(NOT version MATCHES "^[0-9]+\\.[0-9]+\\.[0-9]+$")
    message(FATAL_ERROR "no version found in ${file}, but '${version}'; cmake/sbom.cmake must be told where it is now")
  endif()
  set(${variable} "${version}" PARENT_SCOPE)
endfunction()

version_in("${NB_DIR}/include/nanobind/nanobind.h" "define NB_VERSION_[MP][A-Z]+ +([0-9]+)" nanobind_version)
version_in("${NB_DIR}/ext/robin_map/include/tsl/robin_growth_policy.h"
           "define TSL_RH_VERSION_[MP][A-Z]+ +([0-9]+)" robin_map_version)
set(robin_map_tag "v${robin_map_version}")
version_in("${CMAKE_CURRENT_SOURCE_DIR}/src/core/unicode_tables.inc" "from Unicode ([0-9.]+);" unicode_version)

configure_file(cmake/labelprism.cdx.json.in labelprism.cdx.json @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/labelprism.cdx.json" DESTINATION "${SKBUILD_METADATA_DIR}/sboms")
