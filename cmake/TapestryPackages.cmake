# SPDX-License-Identifier: BSD-3-Clause
# Debian packages, built by `cpack` in the build folder: tapestry (the program), tapestry-mpi (its
# MPI plugin, if built) and libtapestry-dev (the libraries).
set(TAPESTRY_MAINTAINER "Tapestry maintainers <maintainers@tapestry.invalid>" CACHE STRING
  "Name and address of the maintainer of the Debian packages")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "${TAPESTRY_MAINTAINER}")
set(CPACK_COMPONENTS_ALL program dev)
if(TARGET tapestry_mpi)
  list(APPEND CPACK_COMPONENTS_ALL mpi)
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each package has its own
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE
  GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
# Compresses manual pages and adds changelogs, as Debian's policy requires.
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/debian_files.cmake)

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME tapestry)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION
"trainer of Transformers on CPUs
Tapestry trains and applies Transformer models (translation, language
modelling, classification, tagging, vision on patches) from config files, on
CPUs. Runs resume bit-identically after a crash, results are bit-identical on
any number of threads, and gradients are checked against finite differences.

This package has the command-line program, its manual pages, example configs,
and completion for Bash, Zsh and fish.")

set(CPACK_DEBIAN_MPI_PACKAGE_NAME tapestry-mpi)
set(CPACK_DEBIAN_MPI_PACKAGE_SECTION science)
set(CPACK_DEBIAN_MPI_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_MPI_PACKAGE_DEPENDS "tapestry (= ${PROJECT_VERSION}), openmpi-bin")
set(CPACK_DEBIAN_MPI_DESCRIPTION
"trainer of Transformers on CPUs (several machines)
Tapestry trains and applies Transformer models on CPUs. With this package,
mpirun and srun train one model in several processes, on one or several
machines, with the same bits as in one process.")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libtapestry-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS "tapestry (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_DEV_DESCRIPTION
"training framework for Transformers on CPUs (C++ library)
Tapestry is a C++20 library for automatic differentiation, Transformer layers,
optimizers and training loops on CPUs.

This package has the headers, the static libraries, and the files for CMake's
find_package and for pkg-config.")

# tapestry_same_version(VARIABLE PACKAGE): appends a dependency on the minor version of PACKAGE that
# is installed on this machine. For libraries whose ABI changes between minor versions, since
# objects in a static library need the same ABI.
function(tapestry_same_version variable package)
  execute_process(COMMAND dpkg-query -W -f "\${Version}" ${package}
    OUTPUT_VARIABLE version ERROR_QUIET RESULT_VARIABLE unknown)
  if(unknown OR NOT version MATCHES "^([0-9]+:)?([0-9]+)[.]([0-9]+)")
    set(found ${package})
  else()
    math(EXPR next "${CMAKE_MATCH_3} + 1")
    set(found
      "${package} (>= ${CMAKE_MATCH_1}${CMAKE_MATCH_2}.${CMAKE_MATCH_3})"
      "${package} (<< ${CMAKE_MATCH_1}${CMAKE_MATCH_2}.${next}~)")
  endif()
  set(${variable} ${${variable}} ${found} PARENT_SCOPE)
endfunction()

# The libraries that tapestry-config.cmake and tapestry.pc require.
set(dependencies libopenblas-dev libsentencepiece-dev libutf8proc-dev libxtensor-dev libxxhash-dev
  nlohmann-json3-dev pkgconf xtl-dev)
foreach(package libfmt-dev libhdf5-dev libspdlog-dev libyaml-cpp-dev)
  tapestry_same_version(dependencies ${package})
endforeach()
list(JOIN dependencies ", " CPACK_DEBIAN_DEV_PACKAGE_DEPENDS)

include(CPack)
