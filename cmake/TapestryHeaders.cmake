# SPDX-License-Identifier: BSD-3-Clause
# Public headers are copied to include/ in the build folder. Programs include them and `cmake
# --install` installs them from there. Includes of other public headers, "autograd/tensor.h" in the
# sources, become "tapestry/autograd/tensor.h", to avoid collisions with folders of the user.

set(TAPESTRY_INCLUDE_DIR ${PROJECT_BINARY_DIR}/include)

# tapestry_public_headers(FOLDER HEADER ...): declares public headers, named relative to FOLDER.
function(tapestry_public_headers folder)
  foreach(header ${ARGN})
    set_property(GLOBAL APPEND PROPERTY TAPESTRY_PUBLIC_HEADERS ${folder}/${header})
  endforeach()
endfunction()

# tapestry_copied_header(FROM TO): copies a header. FROM is relative to the sources, TO to the
# include folder.
function(tapestry_copied_header from to)
  set(script ${PROJECT_SOURCE_DIR}/cmake/public_header.cmake)
  add_custom_command(OUTPUT ${TAPESTRY_INCLUDE_DIR}/${to}
    COMMAND ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR} -DHEADER=${from}
      -DCOPY=${TAPESTRY_INCLUDE_DIR}/${to} "-DPUBLIC=${public}" -P ${script}
    DEPENDS ${PROJECT_SOURCE_DIR}/${from} ${script} VERBATIM)
  set_property(GLOBAL APPEND PROPERTY TAPESTRY_COPIED_HEADERS ${TAPESTRY_INCLUDE_DIR}/${to})
endfunction()

# tapestry_short_header(NAME HEADER ...): declares a header that includes the given headers.
function(tapestry_short_header name)
  list(TRANSFORM ARGN PREPEND "#include \"")
  list(TRANSFORM ARGN APPEND "\"\n")
  list(JOIN ARGN "" includes)
  file(CONFIGURE OUTPUT ${TAPESTRY_INCLUDE_DIR}/${name} CONTENT "#pragma once\n\n${includes}")
endfunction()

# Call it after all libraries are declared.
function(tapestry_copy_public_headers)
  get_property(public GLOBAL PROPERTY TAPESTRY_PUBLIC_HEADERS)
  file(GLOB_RECURSE old RELATIVE ${TAPESTRY_INCLUDE_DIR} ${TAPESTRY_INCLUDE_DIR}/*)
  foreach(header ${public})
    tapestry_copied_header(${header} tapestry/${header})
    list(REMOVE_ITEM old tapestry/${header})
  endforeach()
  tapestry_copied_header(train/tapestry.h tapestry.h)
  # Short names for headers that users include separately.
  tapestry_short_header(tapestry/xtensor.h tapestry/autograd/xtensor.h)
  tapestry_short_header(tapestry/program.h
    tapestry/train/cli/program.h tapestry/train/tasks/custom_model.h)
  list(REMOVE_ITEM old tapestry.h tapestry/xtensor.h tapestry/program.h)
  foreach(header ${old})
    file(REMOVE ${TAPESTRY_INCLUDE_DIR}/${header})
  endforeach()
  get_property(copies GLOBAL PROPERTY TAPESTRY_COPIED_HEADERS)
  add_custom_target(tapestry_headers ALL DEPENDS ${copies})
endfunction()
