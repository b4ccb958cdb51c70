# SPDX-License-Identifier: BSD-3-Clause
# The API reference: Doxygen's pages of the public headers and the guide layers/from_pytorch.md, in
# reference/html of the build folder. The target `reference` builds it. It fails if Doxygen prints a
# warning, for example about a public function without a comment.

find_program(TAPESTRY_DOXYGEN doxygen DOC "Doxygen, for the API reference")
mark_as_advanced(TAPESTRY_DOXYGEN)
if(NOT TAPESTRY_DOXYGEN)
  return()
endif()

# A page for each public header, in the group of its folder, see reference/groups.dox.
get_property(headers GLOBAL PROPERTY TAPESTRY_PUBLIC_HEADERS)
set(pages "")
foreach(header ${headers})
  get_filename_component(folder ${header} DIRECTORY)
  string(REPLACE "/" "_" group ${folder})
  string(APPEND pages "/// \\file tapestry/${header}\n/// \\ingroup ${group}\n\n")
endforeach()
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/headers.dox CONTENT "${pages}" @ONLY)

set(TAPESTRY_REFERENCE_DIR ${PROJECT_BINARY_DIR}/reference)
file(MAKE_DIRECTORY ${TAPESTRY_REFERENCE_DIR})
configure_file(${PROJECT_SOURCE_DIR}/cmake/reference/Doxyfile.in ${PROJECT_BINARY_DIR}/Doxyfile @ONLY)
set(TAPESTRY_REFERENCE_COMMAND ${TAPESTRY_DOXYGEN} ${PROJECT_BINARY_DIR}/Doxyfile)
add_custom_target(reference COMMAND ${TAPESTRY_REFERENCE_COMMAND}
  COMMENT "API reference: ${TAPESTRY_REFERENCE_DIR}/html/index.html" VERBATIM)
add_dependencies(reference tapestry_headers)
