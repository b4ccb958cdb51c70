# SPDX-License-Identifier: BSD-3-Clause
# The libraries that Tapestry uses; README.md lists their purposes.
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
# Does not use FindHDF5, which compiles a C program and fails in projects without C.
pkg_search_module(HDF5 REQUIRED IMPORTED_TARGET hdf5 hdf5-serial)
pkg_check_modules(OPENBLAS REQUIRED IMPORTED_TARGET openblas)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)

# Does not use pkg-config, since sentencepiece.pc of Debian 13 requires a package that Debian does
# not install with it.
find_path(SENTENCEPIECE_INCLUDE_DIR sentencepiece_trainer.h REQUIRED)
find_path(XTENSOR_BLAS_INCLUDE_DIR xtensor-blas/xblas.hpp REQUIRED)
find_path(RANDOM123_INCLUDE_DIR Random123/philox.h REQUIRED)

# Optional, for training in several processes. Skips the deprecated C++ interface of MPI. FindMPI
# fails if the compiler wrapper is installed (openmpi-bin) but the headers are not.
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
