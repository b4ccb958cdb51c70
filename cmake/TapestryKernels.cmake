# SPDX-License-Identifier: BSD-3-Clause
# Sources that are compiled once per instruction set. The program chooses the set when it starts
# (autograd/instruction_set.h).

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(kernels_of_processor baseline avx2 avx512)
else()
  set(kernels_of_processor baseline)
endif()
set(TAPESTRY_KERNELS "${kernels_of_processor}" CACHE STRING
  "Instruction sets to compile kernels for: baseline, avx2, avx512; or only native (this machine)")

set(TAPESTRY_FLAGS_baseline "")
set(TAPESTRY_FLAGS_avx2 -mavx2 -mfma)
set(TAPESTRY_FLAGS_avx512
  -mavx2 -mfma -mavx512f -mavx512bw -mavx512cd -mavx512dq -mavx512vl -mprefer-vector-width=512)
set(TAPESTRY_FLAGS_native -march=native)
foreach(kernels ${TAPESTRY_KERNELS})
  if(NOT DEFINED TAPESTRY_FLAGS_${kernels})
    message(FATAL_ERROR
      "TAPESTRY_KERNELS: found ${kernels}, expected names of ${kernels_of_processor}, or native")
  endif()
endforeach()
list(LENGTH TAPESTRY_KERNELS count)
if("native" IN_LIST TAPESTRY_KERNELS AND count GREATER 1)
  message(FATAL_ERROR "TAPESTRY_KERNELS: found native and other sets, expected only native")
endif()

# tapestry_kernel_flags(TARGET KERNELS): adds the compiler flags of an instruction set. Kernels are
# in a namespace named after their set, see autograd/kernels/namespace.h.
function(tapestry_kernel_flags target kernels)
  target_compile_options(${target} PRIVATE ${TAPESTRY_FLAGS_${kernels}})
  # The last two macros rename inline functions of xsimd 8.1 that would have the same names in all
  # sets.
  target_compile_definitions(${target} PRIVATE
    TAPESTRY_KERNELS_NAMESPACE=${kernels} TAPESTRY_INSTRUCTION_SET="${kernels}"
    __kernel_rem_pio2=kernel_rem_pio2_${kernels} __ieee754_rem_pio2=ieee754_rem_pio2_${kernels})
endfunction()

# tapestry_kernels(TARGET SOURCES ... USES ...): adds SOURCES to a static library, compiled for each
# instruction set.
function(tapestry_kernels target)
  cmake_parse_arguments(ARG "" "" "SOURCES;USES" ${ARGN})
  foreach(kernels ${TAPESTRY_KERNELS})
    set(objects ${target}_${kernels})
    add_library(${objects} OBJECT ${ARG_SOURCES})
    tapestry_library_options(${objects})
    set_target_properties(${objects} PROPERTIES TAPESTRY_IS_KERNELS ON)
    tapestry_kernel_flags(${objects} ${kernels})
    target_link_libraries(${objects} PRIVATE ${ARG_USES})
    tapestry_precompile(${objects} <xsimd/xsimd.hpp>)
    # Excludes the precompiled header, which some versions of CMake list as an object.
    target_sources(${target} PRIVATE "$<FILTER:$<TARGET_OBJECTS:${objects}>,INCLUDE,[.]o$>")
  endforeach()
endfunction()
