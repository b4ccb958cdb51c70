#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace tapestry {

/// A page from its template in page_files(): with the files that the template names and the data. A
/// single file without references to others. Text that is not UTF-8 is replaced by U+FFFD.
///
/// data  may contain untrusted text. Of page.html, the page of a report: what ReportData::json()
///       returns; of explain.html: what computation_json() returns
std::string html_page(const nlohmann::ordered_json& data,
                      std::string_view template_name = "page.html");

/// JSON that can stand in a <script> element: `<`, `>`, `&` and the line separators U+2028 and
/// U+2029 are written as \uXXXX, so that no text of the data ends the element or begins a comment.
///
/// json  valid JSON, in which these characters occur in strings only
std::string json_for_script(std::string_view json);

}  // namespace tapestry
