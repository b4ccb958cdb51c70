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

# Manual pages and shell completion are printed by the program, which therefore has to run here.
function(tapestry_printed_file file destination)
  set(path ${CMAKE_CURRENT_BINARY_DIR}/share/${file})
  cmake_path(GET path PARENT_PATH folder)
  file(MAKE_DIRECTORY ${folder})
  add_custom_command(OUTPUT ${path} COMMAND tapestry ${ARGN} > ${path} VERBATIM)
  set_property(GLOBAL APPEND PROPERTY TAPESTRY_PRINTED_FILES ${path})
  install(FILES ${path} DESTINATION ${destination} COMPONENT program)
endfunction()

if((NOT CMAKE_CROSSCOMPILING OR CMAKE_CROSSCOMPILING_EMULATOR) AND NOT TAPESTRY_SANITIZE)
  tapestry_printed_file(man/tapestry.1 ${CMAKE_INSTALL_MANDIR}/man1 man)
  tapestry_printed_file(man/tapestry-config.5 ${CMAKE_INSTALL_MANDIR}/man5 man tapestry-config)
  set(share ${CMAKE_INSTALL_DATAROOTDIR})
  tapestry_printed_file(bash/tapestry ${share}/bash-completion/completions completion bash)
  tapestry_printed_file(zsh/_tapestry ${share}/zsh/vendor-completions completion zsh)
  tapestry_printed_file(fish/tapestry.fish ${share}/fish/vendor_completions.d completion fish)
  get_property(printed GLOBAL PROPERTY TAPESTRY_PRINTED_FILES)
  add_custom_target(tapestry_printed_files ALL DEPENDS ${printed})
endif()

install(FILES README.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
set(dev_doc ${CMAKE_INSTALL_DATAROOTDIR}/doc/libtapestry-dev)
install(FILES layers/from_pytorch.md DESTINATION ${dev_doc} COMPONENT dev)
install(DIRECTORY tests/examples/ DESTINATION ${dev_doc}/examples COMPONENT dev
  FILES_MATCHING PATTERN "*.cpp" PATTERN "*.py")
install(DIRECTORY configs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT program)

if(PROJECT_IS_TOP_LEVEL)
  include(TapestryPackages)
endif()
