# cmake --install, and what find_package(tapestry) and pkg-config need afterwards.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

install(DIRECTORY ${TAPESTRY_INCLUDE_DIR}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tapestry)
get_property(components GLOBAL PROPERTY TAPESTRY_COMPONENTS)
foreach(component ${components})
  install(EXPORT tapestry-${component}-targets NAMESPACE tapestry:: DESTINATION ${package_dir}
    COMPONENT dev)
endforeach()
configure_package_config_file(.cmake/tapestry-config.cmake.in tapestry-config.cmake
  INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may change the API.
write_basic_package_version_file(tapestry-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  ${CMAKE_CURRENT_BINARY_DIR}/tapestry-config.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/tapestry-config-version.cmake
  DESTINATION ${package_dir} COMPONENT dev)

file(RELATIVE_PATH TAPESTRY_PREFIX_FROM_PC /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(.cmake/tapestry.pc.in tapestry.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tapestry.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
