#pragma once

#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace tapestry {

/// The page of `tapestry report`, or with its script of `tapestry explain`, which draws the data: a
/// single file without references to others. Text that is not UTF-8 is replaced by U+FFFD.
///
/// data     may contain untrusted text. Of a report: what ReportData::json() returns; of explain.js:
///          what computation_json() returns
/// scripts  of page_files()
std::string html_page(const nlohmann::ordered_json& data,
                      std::initializer_list<std::string_view> scripts = {"common.js", "charts.js",
                                                                         "report.js"});

/// JSON that can stand in a <script> element: `<`, `>`, `&` and the line separators U+2028 and
/// U+2029 are written as \uXXXX, so that no text of the data ends the element or begins a comment.
///
/// json  valid JSON, in which these characters occur in strings only
std::string json_for_script(std::string_view json);

}  // namespace tapestry
