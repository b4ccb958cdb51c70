# cmake --install, and what find_package(tapestry) needs afterwards.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# Headers in folders named detail are for the library's own sources.
install(DIRECTORY autograd layers optim data train
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tapestry FILES_MATCHING PATTERN "*.h"
  PATTERN detail EXCLUDE)
install(EXPORT tapestry-targets NAMESPACE tapestry::
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tapestry)
configure_package_config_file(.cmake/tapestry-config.cmake.in tapestry-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tapestry)
write_basic_package_version_file(tapestry-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  ${CMAKE_CURRENT_BINARY_DIR}/tapestry-config.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/tapestry-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tapestry)
