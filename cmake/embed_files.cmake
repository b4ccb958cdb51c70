# SPDX-License-Identifier: BSD-3-Clause
# Writes a source file that defines tapestry::page_files(): the names and bytes of files.
# usage: cmake -DOUTPUT=FILE.cpp "-DFILES=A;B" -P embed_files.cmake
set(arrays "")
set(entries "")
foreach(file ${FILES})
  get_filename_component(name ${file} NAME)
  string(MAKE_C_IDENTIFIER ${name} variable)
  file(READ ${file} bytes HEX)
  string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${bytes}")
  string(APPEND arrays "constexpr char ${variable}[] = {${bytes}};\n")
  string(APPEND entries "    {\"${name}\", {${variable}, sizeof ${variable}}},\n")
endforeach()
file(WRITE ${OUTPUT} "#include \"train/report/html_page.h\"

namespace tapestry {
namespace {

${arrays}
constexpr PageFile files[] = {
${entries}};

}  // namespace

std::span<const PageFile> page_files() { return files; }

}  // namespace tapestry
")
