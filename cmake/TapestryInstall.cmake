# SPDX-License-Identifier: BSD-3-Clause
# Rules of cmake --install, including the files for find_package(tapestry) and pkg-config.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

install(DIRECTORY ${TAPESTRY_INCLUDE_DIR}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tapestry)
get_property(components GLOBAL PROPERTY TAPESTRY_COMPONENTS)
foreach(component ${components})
  install(EXPORT tapestry-${component}-targets NAMESPACE tapestry:: DESTINATION ${package_dir}
    COMPONENT dev)
endforeach()
configure_package_config_file(cmake/tapestry-config.cmake.in tapestry-config.cmake
  INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may change the API.
write_basic_package_version_file(tapestry-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  ${CMAKE_CURRENT_BINARY_DIR}/tapestry-config.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/tapestry-config-version.cmake
  DESTINATION ${package_dir} COMPONENT dev)

file(RELATIVE_PATH TAPESTRY_PREFIX_FROM_PC /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(cmake/tapestry.pc.in tapestry.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tapestry.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)

# Shell completion and manual pages are output of the program, which must therefore run on this
# machine. Manual pages also require help2man.
function(tapestry_printed_file file destination)
  set(path ${CMAKE_CURRENT_BINARY_DIR}/share/${file})
  cmake_path(GET path PARENT_PATH folder)
  file(MAKE_DIRECTORY ${folder})
  add_custom_command(OUTPUT ${path} COMMAND tapestry ${ARGN} > ${path} DEPENDS tapestry VERBATIM)
  set_property(GLOBAL APPEND PROPERTY TAPESTRY_PRINTED_FILES ${path})
  install(FILES ${path} DESTINATION ${destination} COMPONENT program)
endfunction()

if((NOT CMAKE_CROSSCOMPILING OR CMAKE_CROSSCOMPILING_EMULATOR) AND NOT TAPESTRY_SANITIZE)
  set(share ${CMAKE_INSTALL_DATAROOTDIR})
  tapestry_printed_file(bash/tapestry ${share}/bash-completion/completions completion bash)
  tapestry_printed_file(zsh/_tapestry ${share}/zsh/vendor-completions completion zsh)
  tapestry_printed_file(fish/tapestry.fish ${share}/fish/vendor_completions.d completion fish)
  get_property(printed GLOBAL PROPERTY TAPESTRY_PRINTED_FILES)
  find_program(HELP2MAN help2man)
  if(HELP2MAN)
    set(pages ${CMAKE_CURRENT_BINARY_DIR}/share/man)
    set(script ${CMAKE_CURRENT_SOURCE_DIR}/cmake/manual_pages.sh)
    add_custom_command(OUTPUT ${pages}.made
      COMMAND ${script} $<TARGET_FILE:tapestry> ${pages}
      COMMAND ${CMAKE_COMMAND} -E touch ${pages}.made
      DEPENDS tapestry ${script} train/cli/manual.h2m VERBATIM)
    list(APPEND printed ${pages}.made)
    install(DIRECTORY ${pages}/ DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT program)
  endif()
  add_custom_target(tapestry_printed_files ALL DEPENDS ${printed})
endif()

# tapestry_installed_text(FILE NAME DESTINATION COMPONENT TEXT): installs TEXT, generated from the
# source FILE, as NAME.
function(tapestry_installed_text file name destination component text)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  set(path ${CMAKE_CURRENT_BINARY_DIR}/share/doc/${component}/${name})
  file(WRITE ${path} "${text}")
  install(FILES ${path} DESTINATION ${destination} COMPONENT ${component})
endfunction()

# tapestry_installed_page(PAGE NAME DESTINATION COMPONENT FROM TO ...): installs a Markdown page as
# NAME. In links, replaces a prefix FROM, a path in the sources, with TO. Replaces links to other
# files, which are not installed, with their text.
function(tapestry_installed_page page name destination component)
  file(READ ${page} text)
  set(kept "](@")
  foreach(start http "#")
    string(REPLACE "](${start}" "${kept}${start}" text "${text}")
  endforeach()
  while(ARGN)
    list(POP_FRONT ARGN from to)
    string(REPLACE "](${from}" "${kept}${to}" text "${text}")
  endwhile()
  string(REGEX REPLACE "\\[([^]\n]+)\\]\\([^@) \n][^) \n]*\\)" "\\1" text "${text}")
  string(REPLACE "${kept}" "](" text "${text}")
  tapestry_installed_text(${page} ${name} ${destination} ${component} "${text}")
endfunction()

set(dev_doc ${CMAKE_INSTALL_DATAROOTDIR}/doc/libtapestry-dev)
file(RELATIVE_PATH to_dev_doc /prefix/${CMAKE_INSTALL_DOCDIR} /prefix/${dev_doc})
tapestry_installed_page(README.md README.md ${CMAKE_INSTALL_DOCDIR} program
  train/cli/README.md commands.md
  train/tutorial/README.md tutorial/README.md
  layers/from_pytorch.md ${to_dev_doc}/from_pytorch.md
  tests/examples ${to_dev_doc}/examples
  configs/ examples/
  LICENSE copyright
  CHANGELOG.md CHANGELOG.md)
tapestry_installed_page(CHANGELOG.md CHANGELOG.md ${CMAKE_INSTALL_DOCDIR} program)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright COMPONENT program)
install(FILES LICENSE DESTINATION ${dev_doc} RENAME copyright COMPONENT dev)
if(TARGET tapestry_mpi)
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/tapestry-mpi RENAME copyright COMPONENT mpi)
endif()
tapestry_installed_page(train/cli/README.md commands.md ${CMAKE_INSTALL_DOCDIR} program
  ../tutorial/README.md tutorial/README.md
  ../../configs/ examples/)
file(GLOB pictures CONFIGURE_DEPENDS train/tutorial/*.png)
set(links)
foreach(picture ${pictures})
  cmake_path(GET picture FILENAME name)
  list(APPEND links ${name} ${name})
endforeach()
tapestry_installed_page(train/tutorial/README.md tutorial/README.md ${CMAKE_INSTALL_DOCDIR}/tutorial program
  ${links}
  ../cli/README.md ../commands.md
  ../../README.md ../README.md
  ../../configs/ ../examples/
  ../../layers/from_pytorch.md ../${to_dev_doc}/from_pytorch.md
  ../../tests/examples ../${to_dev_doc}/examples)
install(FILES ${pictures} DESTINATION ${CMAKE_INSTALL_DOCDIR}/tutorial COMPONENT program)
tapestry_installed_page(layers/from_pytorch.md from_pytorch.md ${dev_doc} dev ../tests/examples examples)
tapestry_installed_page(autograd/README.md README.md ${dev_doc}/autograd dev ../layers/from_pytorch.md ../from_pytorch.md)
install(DIRECTORY tests/examples/ DESTINATION ${dev_doc}/examples COMPONENT dev
  FILES_MATCHING PATTERN "*.cpp" PATTERN "*.h" PATTERN "*.py")
# The installed example configs name data files in their own folder, not in the source tree.
file(GLOB config_pages CONFIGURE_DEPENDS configs/*.md)
install(FILES ${config_pages} DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT program)
file(GLOB configs CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} configs/*.yaml)
foreach(config ${configs})
  file(READ ${config} text)
  string(REGEX REPLACE "\\.\\./[^ \n]*/" "" text "${text}")
  cmake_path(GET config FILENAME name)
  tapestry_installed_text(${config} ${name} ${CMAKE_INSTALL_DOCDIR}/examples program "${text}")
endforeach()

if(PROJECT_IS_TOP_LEVEL)
  include(TapestryPackages)
endif()
