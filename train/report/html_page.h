// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace tapestry {

/// The page of `tapestry report`, or with its script of `tapestry explain`, which draws the data: a
/// single file without references to others. Text that is not UTF-8 is replaced by U+FFFD.
///
/// data     may contain untrusted text. Of a report: what ReportData::json() returns; of
/// explain.js:
///          what computation_json() returns
/// scripts  of page_files()
std::string html_page(const nlohmann::ordered_json& data,
                      std::initializer_list<std::string_view> scripts = {
                          "common.js", "charts.js", "overview.js", "held_out.js", "report.js"});

/// JSON that can stand in a <script> element: `<`, `>`, `&` and the line separators U+2028 and
/// U+2029 are written as \uXXXX, so that no text of the data ends the element or begins a comment.
///
/// json  valid JSON, with these characters only in strings
std::string json_for_script(std::string_view json);

/// A file of the folder train/report/page as it was when the program was built.
struct PageFile {
  std::string_view name;     ///< "page.css"
  std::string_view content;  ///< its bytes
};

/// All files of the folder (cmake/embed_files.cmake): the template page.html with the marks
/// `/*page.css*/`, `/*script*/` and `/*data*/`, and what takes their places.
std::span<const PageFile> page_files();

}  // namespace tapestry
