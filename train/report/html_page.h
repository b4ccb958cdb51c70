// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace tapestry {

/// The page of `tapestry report` or `tapestry explain`: one HTML file whose scripts draw the data,
/// without references to other files. Replaces invalid UTF-8 by U+FFFD.
///
/// data     ReportData::json() for a report, computation_json() for explain.js; may contain
///          untrusted text
/// scripts  names of files in page_files(), in the order of the page
std::string html_page(const nlohmann::ordered_json& data,
                      std::initializer_list<std::string_view> scripts = {
                          "common.js", "charts.js", "overview.js", "held_out.js", "report.js"});

/// Escapes JSON for a <script> element: writes `<`, `>`, `&` and the line separators U+2028 and
/// U+2029 as \uXXXX, so that no text of the data ends the element or begins a comment.
///
/// json  valid JSON, with these characters only in strings
std::string json_for_script(std::string_view json);

/// A file of the folder train/report/page, embedded when the program is built.
struct PageFile {
  std::string_view name;     ///< "page.css"
  std::string_view content;  ///< bytes of the file
};

/// All files of the folder, which cmake/embed_files.cmake embeds: the template page.html with the
/// placeholders `/*page.css*/`, `/*script*/` and `/*data*/`, the style and the scripts.
std::span<const PageFile> page_files();

}  // namespace tapestry
