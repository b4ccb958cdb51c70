# SPDX-License-Identifier: BSD-3-Clause
# How every target of Tapestry is compiled, and the function that declares a library folder.

option(TAPESTRY_UNITY "Compile the sources of the libraries in groups" OFF)
# For a first try of the program, not for packages: what runs outside kernels becomes slower.
option(TAPESTRY_QUICK_BUILD
  "Compile in large groups, with -Og except for kernels, and with one precompiled header" OFF)
if(TAPESTRY_QUICK_BUILD)
  set(TAPESTRY_UNITY ON)
endif()

add_library(tapestry_compile_options INTERFACE)
target_include_directories(tapestry_compile_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(tapestry_compile_options INTERFACE
  # In a group, a local name may shadow one of another file, and g++ takes each file for a header.
  -Wall -Wextra -Wpedantic $<IF:$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>,-Wno-subobject-linkage,-Wshadow>
  -Wnon-virtual-dtor -Wconversion -Wno-sign-conversion
  # g++ 12 is mistaken about fmt, about std::string (GCC bug 105651) and about its own AVX-512
  # intrinsics (105593).
  -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread -Wno-restrict
  -Wno-uninitialized -Wno-maybe-uninitialized
  $<$<BOOL:${TAPESTRY_WERROR}>:-Werror>
  # Neither changes a result: errno is never read and floating point traps are never enabled.
  -fno-math-errno -fno-trapping-math -ffp-contract=fast)
target_link_options(tapestry_compile_options INTERFACE LINKER:--as-needed)
# Where counters are woven in, a function that is inlined would have its branches counted anew at
# each place; kernels, which live by inlining, would take hours without it.
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
  # Indices of strings, views and containers, which the sanitizers cannot judge.
  target_compile_definitions(tapestry_compile_options INTERFACE _GLIBCXX_ASSERTIONS)
  # Two checks that clang makes more strictly than g++: xsimd's exp converts infinities, and then does
  # not use what comes out; kernels move pointers to operands that have no elements, and are null.
  # Fuzzers need not count the branches of kernels.
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    target_compile_options(tapestry_compile_options INTERFACE
      -fno-sanitize=float-cast-overflow,pointer-overflow
      "$<$<BOOL:$<TARGET_PROPERTY:TAPESTRY_IS_KERNELS>>:-fno-sanitize=fuzzer-no-link>")
  endif()
  # The macros by which compilers tell are not the same in all.
  if(TAPESTRY_SANITIZE MATCHES address)
    target_compile_definitions(tapestry_compile_options INTERFACE TAPESTRY_ASAN)
  endif()
  if(TAPESTRY_SANITIZE MATCHES thread)
    target_compile_definitions(tapestry_compile_options INTERFACE TAPESTRY_TSAN)
    # The thread sanitizer does not know fences. The one there is decides when a worker of the thread
    # pool may sleep, never which thread may touch what.
    target_compile_options(tapestry_compile_options INTERFACE -Wno-tsan)
  endif()
endif()

# tapestry_precompile(TARGET HEADER ...): headers that take seconds to compile, those below and more,
# are compiled once for the target; in a quick build once for all targets but kernels.
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

# tapestry_compile_quickly(TARGET): -O1 instead of -O3, which compiles in two thirds of the time, for
# command line, configs and tests, which spend their time in the libraries; in a quick build -Og, which
# takes 5 % less still, for everything but kernels. On x86-64 the results have the same bits.
function(tapestry_compile_quickly target)
  set(level -O1)
  if(TAPESTRY_QUICK_BUILD)
    set(level -Og)
  endif()
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:${level}>)
endfunction()

# tapestry_group(TARGET): a first build takes half the time if a compiler reads ten files at once, in
# a quick build twenty. Kernels stay alone, so that their bits do not depend on it.
function(tapestry_group target)
  set(size 10)
  if(TAPESTRY_QUICK_BUILD)
    set(size 20)
  endif()
  set_target_properties(${target} PROPERTIES
    UNITY_BUILD ${TAPESTRY_UNITY} UNITY_BUILD_BATCH_SIZE ${size})
endfunction()

# tapestry_sources(VARIABLE [EXCEPT REGEX]): all .cpp files below the current folder, relative to it.
# The build looks for new files by itself.
function(tapestry_sources variable)
  cmake_parse_arguments(ARG "" "EXCEPT" "" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} *.cpp)
  if(ARG_EXCEPT)
    list(FILTER sources EXCLUDE REGEX "${ARG_EXCEPT}")
  endif()
  set(${variable} ${sources} PARENT_SCOPE)
endfunction()

# tapestry_library_options(TARGET): how sources of libraries are compiled.
function(tapestry_library_options target)
  # Static libraries that may become part of a shared one, which then exports nothing of them.
  # Without the TLS model each use of a thread_local variable would call a function.
  set_target_properties(${target} PROPERTIES
    POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_compile_options(${target} PRIVATE -ftls-model=initial-exec)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:tapestry_compile_options>)
endfunction()

# tapestry_library(NAME [SOURCES ...] [PER_INSTRUCTION_SET ...] USES ... [PRIVATE_USES ...]
#                  PUBLIC_HEADERS ...): the library of the current folder as tapestry::NAME; without
# SOURCES of all that is in the folder. The sources PER_INSTRUCTION_SET are compiled once for each,
# see TapestryKernels.cmake. USES are the other libraries that appear in its headers, PRIVATE_USES
# those in its sources. Each library is a component of find_package(tapestry).
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

# tapestry_component(NAME USES ...): what users of the target tapestry_NAME need.
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
