# SPDX-License-Identifier: BSD-3-Clause
# cpack runs this script on the files of the packages before it builds them. It compresses manual
# pages without timestamps and adds a changelog, as Debian's policy requires. The date of the
# changelog is SOURCE_DATE_EPOCH, or now.
function(compress)
  execute_process(COMMAND gzip -9nf ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(GLOB pages ${CPACK_TEMPORARY_DIRECTORY}/*/usr/share/man/man*/*.[1-9])
if(pages)
  compress(${pages})
endif()

string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
foreach(component ${CPACK_COMPONENTS_ALL})
  string(TOUPPER ${component} name)
  set(folder ${CPACK_TEMPORARY_DIRECTORY}/${component}/usr/share/doc/${CPACK_DEBIAN_${name}_PACKAGE_NAME})
  file(WRITE ${folder}/changelog
    "tapestry (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium\n\n"
    "  * Build of version ${CPACK_PACKAGE_VERSION}.\n\n"
    " -- ${CPACK_PACKAGE_CONTACT}  ${date}\n")
  compress(${folder}/changelog)
endforeach()
