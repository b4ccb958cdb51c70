# The API reference: Doxygen's pages of the public headers and of the guide layers/from_pytorch.md, in
# reference/html of the build folder. The target `reference` builds it and fails if Doxygen warns, for
# example of a public function without a comment.

find_program(TAPESTRY_DOXYGEN doxygen DOC "Doxygen, for the API reference")
mark_as_advanced(TAPESTRY_DOXYGEN)
if(NOT TAPESTRY_DOXYGEN)
  return()
endif()

set(TAPESTRY_REFERENCE_DIR ${PROJECT_BINARY_DIR}/reference)
configure_file(${PROJECT_SOURCE_DIR}/.cmake/reference/Doxyfile.in ${PROJECT_BINARY_DIR}/Doxyfile @ONLY)
set(TAPESTRY_REFERENCE_COMMAND ${PROJECT_SOURCE_DIR}/.cmake/reference/build.sh
  ${TAPESTRY_DOXYGEN} ${PROJECT_BINARY_DIR}/Doxyfile ${TAPESTRY_REFERENCE_DIR})
add_custom_target(reference COMMAND ${TAPESTRY_REFERENCE_COMMAND}
  COMMENT "API reference: ${TAPESTRY_REFERENCE_DIR}/html/index.html" VERBATIM)
add_dependencies(reference tapestry_headers)
