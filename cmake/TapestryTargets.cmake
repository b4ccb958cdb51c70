# SPDX-License-Identifier: BSD-3-Clause
# Compiler options of all targets of Tapestry, and functions that declare libraries.

option(TAPESTRY_UNITY "Compile the sources of the libraries in groups of ten files" ON)
# For trying the program, not for packages: code outside kernels is slower.
option(TAPESTRY_QUICK_BUILD
  "Compile in large groups, with -Og except for kernels, and with one precompiled header" OFF)

add_library(tapestry_compile_options INTERFACE)
target_include_directories(tapestry_compile_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(tapestry_compile_options INTERFACE
  # In a group, a local name may shadow a name of another file, and g++ treats the files as headers.
  -Wall -Wextra -Wpedantic
  "$<IF:$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>,$<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage;-Wshadow=local>,-Wshadow>"
  -Wnon-virtual-dtor -Wconversion -Wno-sign-conversion
  # False warnings of g++ 12 about fmt, std::string (GCC bug 105651) and AVX-512
  # intrinsics (GCC bug 105593).
  "$<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread>"
  "$<$<CXX_COMPILER_ID:GNU>:-Wno-restrict;-Wno-uninitialized;-Wno-maybe-uninitialized>"
  # clang 19 reports deprecated functions inside std::stable_sort() of libstdc++ 12.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>
  $<$<BOOL:${TAPESTRY_WERROR}>:-Werror>
  # -fno-math-errno and -fno-trapping-math do not change results: errno is never read, and
  # floating-point traps are never enabled.
  -fno-math-errno -fno-trapping-math -ffp-contract=fast
  # Makes g++ free memory less often, which saves a tenth of the time and uses a third more memory.
  $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=524288>)
target_link_options(tapestry_compile_options INTERFACE LINKER:--as-needed)
# Coverage counts the branches of an inlined function separately at each call. Kernels would take
# hours without inlining.
set(TAPESTRY_NOT_INLINED "" CACHE STRING "Folders to compile without inlining, for coverage")
function(tapestry_inlining target folder)
  if(folder IN_LIST TAPESTRY_NOT_INLINED)
    target_compile_options(${target} PRIVATE -fno-inline)
  endif()
endfunction()
if(TAPESTRY_SANITIZE)
  target_compile_options(tapestry_compile_options INTERFACE
    -fsanitize=${TAPESTRY_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(tapestry_compile_options INTERFACE -fsanitize=${TAPESTRY_SANITIZE})
  # Checks indices of strings, views and containers, which the sanitizers do not check.
  target_compile_definitions(tapestry_compile_options INTERFACE _GLIBCXX_ASSERTIONS)
  # Disables two checks that are stricter in clang than in g++: xsimd's exp converts infinities and
  # then ignores the result; kernels increment null pointers to operands without elements. Fuzzers
  # do not need to count the branches of kernels.
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    target_compile_options(tapestry_compile_options INTERFACE
      -fno-sanitize=float-cast-overflow,pointer-overflow
      "$<$<BOOL:$<TARGET_PROPERTY:TAPESTRY_IS_KERNELS>>:-fno-sanitize=fuzzer-no-link>")
  endif()
  # Compilers have different macros for sanitizers.
  if(TAPESTRY_SANITIZE MATCHES address)
    target_compile_definitions(tapestry_compile_options INTERFACE TAPESTRY_ASAN)
  endif()
  if(TAPESTRY_SANITIZE MATCHES thread)
    target_compile_definitions(tapestry_compile_options INTERFACE TAPESTRY_TSAN)
    # The thread sanitizer does not support fences. The only fence decides when a worker of the
    # thread pool may sleep; it does not protect data.
    target_compile_options(tapestry_compile_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
  endif()
endif()

# tapestry_precompile(TARGET HEADER ...): precompiles headers that take seconds to compile, the
# headers below and HEADER, for the target. A quick build precompiles headers once for all targets
# except kernels.
function(tapestry_precompile target)
  get_target_property(is_kernels ${target} TAPESTRY_IS_KERNELS)
  if(TAPESTRY_QUICK_BUILD AND NOT is_kernels)
    target_precompile_headers(${target} REUSE_FROM tapestry_precompiled)
    return()
  endif()
  target_precompile_headers(${target} PRIVATE
    <algorithm> <cmath> <filesystem> <functional> <memory> <span> <string> <vector>
    <fmt/format.h> ${ARGN})
endfunction()

# tapestry_compile_quickly(TARGET): compiles with -O1 instead of -O3, in two thirds of the time. For
# the command line, tests and parts of train/, which spend their time in the libraries. A quick build
# uses -Og, which takes 5 % less time, for everything except kernels. Results on x86-64 have the
# same bits.
function(tapestry_compile_quickly target)
  set(level -O1)
  if(TAPESTRY_QUICK_BUILD)
    set(level -Og)
  endif()
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:${level}>)
endfunction()

# tapestry_group(TARGET): compiles ten files together (twenty in a quick build), which halves the
# time of a first build. Kernels are not grouped, so that their bits do not depend on the option.
function(tapestry_group target)
  set(size 10)
  if(TAPESTRY_QUICK_BUILD)
    set(size 20)
  endif()
  set_target_properties(${target} PROPERTIES
    UNITY_BUILD ${TAPESTRY_UNITY} UNITY_BUILD_BATCH_SIZE ${size})
endfunction()

# tapestry_sources(VARIABLE [EXCEPT REGEX]): sets VARIABLE to all .cpp files below the current
# folder, relative to it. The build detects new files.
function(tapestry_sources variable)
  cmake_parse_arguments(ARG "" "EXCEPT" "" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} *.cpp)
  if(ARG_EXCEPT)
    list(FILTER sources EXCLUDE REGEX "${ARG_EXCEPT}")
  endif()
  set(${variable} ${sources} PARENT_SCOPE)
endfunction()

# tapestry_library_options(TARGET): sets the compiler options of libraries.
function(tapestry_library_options target)
  # Static libraries can be linked into a shared library, which then does not export their symbols.
  # Without the TLS model, each access to a thread_local variable would call a function.
  set_target_properties(${target} PROPERTIES
    POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_compile_options(${target} PRIVATE -ftls-model=initial-exec)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:tapestry_compile_options>)
endfunction()

# tapestry_library(NAME [SOURCES ...] [PER_INSTRUCTION_SET ...] USES ... [PRIVATE_USES ...]
#                  PUBLIC_HEADERS ...): declares the library tapestry::NAME of the current folder,
# by default with all sources of the folder. The sources PER_INSTRUCTION_SET are compiled once per
# instruction set, see TapestryKernels.cmake. USES are libraries that the headers of the library
# use, PRIVATE_USES libraries that only the sources use. Each library is a component of
# find_package(tapestry).
function(tapestry_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PER_INSTRUCTION_SET;USES;PRIVATE_USES;PUBLIC_HEADERS"
    ${ARGN})
  if(NOT ARG_SOURCES)
    tapestry_sources(ARG_SOURCES)
  endif()
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  tapestry_public_headers(${folder} ${ARG_PUBLIC_HEADERS})
  add_library(tapestry_${name} STATIC ${ARG_SOURCES})
  tapestry_library_options(tapestry_${name})
  if(TAPESTRY_QUICK_BUILD)
    tapestry_compile_quickly(tapestry_${name})
  endif()
  tapestry_group(tapestry_${name})
  tapestry_component(${name} USES ${ARG_USES})
  target_link_libraries(tapestry_${name} PRIVATE ${ARG_PRIVATE_USES})
  if(ARG_PER_INSTRUCTION_SET)
    tapestry_kernels(tapestry_${name}
      SOURCES ${ARG_PER_INSTRUCTION_SET} USES ${ARG_USES} ${ARG_PRIVATE_USES})
  endif()
  tapestry_inlining(tapestry_${name} ${folder})
endfunction()

# tapestry_component(NAME USES ...): makes the target tapestry_NAME usable by other projects.
function(tapestry_component name)
  cmake_parse_arguments(ARG "" "" "USES" ${ARGN})
  get_target_property(type tapestry_${name} TYPE)
  set(scope PUBLIC)
  if(type STREQUAL "INTERFACE_LIBRARY")
    set(scope INTERFACE)
  endif()
  add_library(tapestry::${name} ALIAS tapestry_${name})
  add_dependencies(tapestry_${name} tapestry_headers)
  target_include_directories(tapestry_${name} ${scope}
    $<BUILD_INTERFACE:${TAPESTRY_INCLUDE_DIR}> $<INSTALL_INTERFACE:include>)
  target_compile_features(tapestry_${name} ${scope} cxx_std_20)
  target_link_libraries(tapestry_${name} ${scope} ${ARG_USES})
  set_target_properties(tapestry_${name} PROPERTIES EXPORT_NAME ${name})
  set_property(GLOBAL APPEND PROPERTY TAPESTRY_COMPONENTS ${name})
  if(TAPESTRY_INSTALL)
    install(TARGETS tapestry_${name} EXPORT tapestry-${name}-targets ARCHIVE COMPONENT dev)
  endif()
endfunction()

# The precompiled header of a quick build.
if(TAPESTRY_QUICK_BUILD)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/precompiled.cpp CONTENT "")
  add_library(tapestry_precompiled OBJECT ${PROJECT_BINARY_DIR}/precompiled.cpp)
  tapestry_library_options(tapestry_precompiled)
  tapestry_compile_quickly(tapestry_precompiled)
  target_link_libraries(tapestry_precompiled PRIVATE fmt::fmt nlohmann_json::nlohmann_json)
  target_precompile_headers(tapestry_precompiled PRIVATE
    <algorithm> <chrono> <cmath> <filesystem> <fstream> <functional> <map> <memory> <optional>
    <ranges> <set> <span> <sstream> <string> <thread> <variant> <vector>
    <fmt/format.h> <fmt/ranges.h> <nlohmann/json.hpp>)
endif()
