// SPDX-License-Identifier: BSD-3-Clause
#include "train/report/html_page.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tapestry {
namespace {

std::string_view content_of(std::string_view name) {
  return std::ranges::find(page_files(), name, &PageFile::name)->content;
}

/// Replaces the first occurrence of `placeholder` with `text`.
void fill_in(std::string& page, std::string_view placeholder, std::string_view text) {
  page.replace(page.find(placeholder), placeholder.size(), text);
}

}  // namespace

std::string html_page(const nlohmann::ordered_json& data,
                      std::initializer_list<std::string_view> scripts) {
  using Handler = nlohmann::ordered_json::error_handler_t;
  std::string script;
  for (const std::string_view name : scripts) script += content_of(name);
  std::string page(content_of("page.html"));
  fill_in(page, "/*page.css*/", content_of("page.css"));
  fill_in(page, "/*script*/", script);
  // The data are inserted last, so that text in them that looks like a placeholder is not replaced.
  fill_in(page, "/*data*/", json_for_script(data.dump(-1, ' ', false, Handler::replace)));
  return page;
}

std::string json_for_script(std::string_view json) {
  constexpr std::string_view separator = "\xE2\x80";  // followed by A8 or A9
  std::string text;
  text.reserve(json.size() + json.size() / 16);
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '<') {
      text += "\\u003c";
    } else if (c == '>') {
      text += "\\u003e";
    } else if (c == '&') {
      text += "\\u0026";
    } else if (json.substr(i, 2) == separator && i + 2 < json.size() &&
               (json[i + 2] == '\xA8' || json[i + 2] == '\xA9')) {
      text += json[i + 2] == '\xA8' ? "\\u2028" : "\\u2029";
      i += 2;
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace tapestry
