# Sources that are compiled once for each instruction set, with the choice made when the program
# starts (autograd/instruction_set.h).

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(kernels_of_processor baseline avx2 avx512)
else()
  set(kernels_of_processor baseline)
endif()
set(TAPESTRY_KERNELS "${kernels_of_processor}" CACHE STRING
  "Instruction sets to compile kernels for: baseline, avx2, avx512; or native, for this machine alone")

set(TAPESTRY_FLAGS_baseline "")
set(TAPESTRY_FLAGS_avx2 -mavx2 -mfma)
set(TAPESTRY_FLAGS_avx512
  -mavx2 -mfma -mavx512f -mavx512bw -mavx512cd -mavx512dq -mavx512vl -mprefer-vector-width=512)
set(TAPESTRY_FLAGS_native -march=native)
foreach(kernels ${TAPESTRY_KERNELS})
  if(NOT DEFINED TAPESTRY_FLAGS_${kernels})
    message(FATAL_ERROR "TAPESTRY_KERNELS: found ${kernels}, expected some of ${kernels_of_processor}, or native")
  endif()
endforeach()
list(LENGTH TAPESTRY_KERNELS count)
if("native" IN_LIST TAPESTRY_KERNELS AND count GREATER 1)
  message(FATAL_ERROR "TAPESTRY_KERNELS: found native beside others, expected it alone")
endif()

# tapestry_kernel_flags(TARGET KERNELS): what sources with SIMD vectors are compiled with.
function(tapestry_kernel_flags target kernels)
  target_compile_options(${target} PRIVATE ${TAPESTRY_FLAGS_${kernels}})
  target_compile_definitions(${target} PRIVATE TAPESTRY_INSTRUCTION_SET="${kernels}")
endfunction()

# tapestry_kernels(TARGET SOURCES ... USES ...): adds SOURCES to a static library, compiled for each
# instruction set. All sets define the same symbols. Each set becomes one object file in which they
# are local, so that no code for one processor can be linked into the path of another, and a small
# object file with the symbols jumps to the set in use.
function(tapestry_kernels target)
  cmake_parse_arguments(ARG "" "" "SOURCES;USES" ${ARGN})
  set(object_libraries "")
  set(object_files "")
  set(object_lists "")
  foreach(kernels ${TAPESTRY_KERNELS})
    set(objects ${target}_${kernels})
    add_library(${objects} OBJECT ${ARG_SOURCES})
    tapestry_library_options(${objects})
    set_target_properties(${objects} PROPERTIES TAPESTRY_IS_KERNELS ON)
    tapestry_kernel_flags(${objects} ${kernels})
    target_link_libraries(${objects} PRIVATE ${ARG_USES})
    tapestry_precompile(${objects} <xsimd/xsimd.hpp>)
    # Without the precompiled header, which some versions of CMake count among the objects.
    set(files "$<FILTER:$<TARGET_OBJECTS:${objects}>,INCLUDE,[.]o$>")
    list(APPEND object_libraries ${objects})
    list(APPEND object_files "${files}")
    string(APPEND object_lists "set(OBJECTS_${kernels} \"${files}\")\n")
  endforeach()
  list(LENGTH TAPESTRY_KERNELS count)
  if(count EQUAL 1)
    target_sources(${target} PRIVATE ${object_files})
    return()
  endif()

  set(folder ${CMAKE_CURRENT_BINARY_DIR}/kernels)
  file(GENERATE OUTPUT ${folder}/objects.cmake CONTENT "${object_lists}")
  set(linked ${TAPESTRY_KERNELS} dispatch)
  list(TRANSFORM linked PREPEND ${folder}/)
  list(TRANSFORM linked APPEND .o)
  set(script ${PROJECT_SOURCE_DIR}/.cmake/link_kernels.cmake)
  add_custom_command(OUTPUT ${linked}
    COMMAND ${CMAKE_COMMAND} "-DKERNELS=${TAPESTRY_KERNELS}" -DFOLDER=${folder}
      -DLINKER=${CMAKE_LINKER} -DREADELF=${CMAKE_READELF} -DOBJCOPY=${CMAKE_OBJCOPY}
      -DCOMPILER=${CMAKE_CXX_COMPILER} -P ${script}
    DEPENDS ${object_libraries} ${object_files} ${script} ${folder}/objects.cmake
    COMMENT "Linking the kernels of ${target}" VERBATIM)
  set_source_files_properties(${linked} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  target_sources(${target} PRIVATE ${linked})
endfunction()
