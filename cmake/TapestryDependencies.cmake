# SPDX-License-Identifier: BSD-3-Clause
# The libraries that Tapestry uses; README.md says for what.
find_package(xtl REQUIRED)
find_package(xtensor REQUIRED)
find_package(xsimd REQUIRED)
find_package(Threads REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(CLI11 REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(PkgConfig REQUIRED)
# Not FindHDF5: it compiles a C program, which fails in projects of C++ alone.
pkg_search_module(HDF5 REQUIRED IMPORTED_TARGET hdf5 hdf5-serial)
pkg_check_modules(OPENBLAS REQUIRED IMPORTED_TARGET openblas)
pkg_check_modules(SENTENCEPIECE REQUIRED IMPORTED_TARGET sentencepiece)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)

find_path(XTENSOR_BLAS_INCLUDE_DIR xtensor-blas/xblas.hpp REQUIRED)
find_path(RANDOM123_INCLUDE_DIR Random123/philox.h REQUIRED)

# Optional: training in several processes. The deprecated C++ interface is not used. FindMPI ends with
# an error where the compiler wrapper is installed (openmpi-bin) and the headers are not.
set(MPI_CXX_SKIP_MPICXX ON)
find_program(TAPESTRY_MPI_WRAPPER NAMES mpicxx mpic++)
mark_as_advanced(TAPESTRY_MPI_WRAPPER)
if(TAPESTRY_MPI_WRAPPER)
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/mpi_header.cpp "#include <mpi.h>\n")
  execute_process(COMMAND ${TAPESTRY_MPI_WRAPPER} -fsyntax-only mpi_header.cpp
    WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR} RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
  if(status EQUAL 0)
    find_package(MPI QUIET COMPONENTS CXX)
  endif()
endif()
