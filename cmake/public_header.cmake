# SPDX-License-Identifier: BSD-3-Clause
# Copies the public header ROOT/HEADER to COPY, see TapestryHeaders.cmake. PUBLIC lists all public
# headers.
cmake_minimum_required(VERSION 3.25)
file(READ ${ROOT}/${HEADER} text)
string(REGEX MATCHALL "#include \"[^\"]+\"" includes "${text}")
foreach(include ${includes})
  string(REGEX REPLACE "#include \"(.*)\"" "\\1" included "${include}")
  if(NOT included IN_LIST PUBLIC)
    message(FATAL_ERROR "${HEADER} is public and includes ${included}, which is not public: "
      "include it in the .cpp, or list it in the PUBLIC_HEADERS of its library")
  endif()
endforeach()
string(REGEX REPLACE "#include \"([^\"]+)\"" "#include \"tapestry/\\1\"" text "${text}")
file(WRITE ${COPY} "${text}")
