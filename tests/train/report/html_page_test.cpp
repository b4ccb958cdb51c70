// SPDX-License-Identifier: BSD-3-Clause
#include "train/report/html_page.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <string>

#include "tests/support/contains.h"

namespace tapestry {
namespace {

using Json = nlohmann::ordered_json;
using test::contains;

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++n;
  return n;
}

/// The data of a page, as a browser reads it.
Json data_of(const std::string& page) {
  const std::string begin = R"(<script type="application/json" id="data">)";
  const std::size_t at = page.find(begin) + begin.size();
  return Json::parse(page.substr(at, page.find("</script>", at) - at));
}

TEST_CASE("text in the data cannot end the script element") {
  const std::string attack =
      "</script><script>alert(1)</script><!-- ]]> & &amp; \u2028\u2029 \" \\ '";
  const std::string safe = json_for_script(Json(attack).dump());
  for (const char* part : {"<", ">", "&", "\u2028", "\u2029"}) CHECK_FALSE(contains(safe, part));
  CHECK(Json::parse(safe).get<std::string>() == attack);
  CHECK(json_for_script("\"\xE2\x80\xA7\xE2\x80\"") ==
        "\"\xE2\x80\xA7\xE2\x80\"");  // other characters are kept
}

TEST_CASE("a page contains its data, and the data add no elements") {
  const std::string empty = html_page(Json::object());
  const Json data = {{"name", "</script><script>alert(1)</script><img src=x>"},
                     {"placeholders", "/*data*/ /*script*/ /*page.css*/"},
                     {"bytes", "caf\xE9"}};
  const std::string page = html_page(data);
  CHECK(count(page, "<script") == 2);
  CHECK(count(page, "<script") == count(empty, "<script"));
  CHECK(count(page, "<img") == 0);
  const Json read = data_of(page);
  CHECK(read["name"] == data["name"]);
  CHECK(read["placeholders"] == data["placeholders"]);
  CHECK(read["bytes"] == "caf\uFFFD");
}

TEST_CASE("a page contains its style and scripts, and refers to no other file") {
  const std::string report = html_page(Json::object());
  const std::string computation = html_page(Json::object(), {"common.js", "explain.js"});
  CHECK(page_files().size() >= 3);
  for (const PageFile& file : page_files()) {
    CAPTURE(file.name);
    if (file.name.ends_with(".html")) continue;
    CHECK((contains(report, file.content) || contains(computation, file.content)));
    for (const char* part : {"</script", "<!--", "/*data*/"}) {
      CHECK_FALSE(contains(file.content, part));
    }
  }
  const std::string page = report + computation;
  const std::regex placeholder("/\\*[a-z]+([.]js|[.]css)?\\*/");
  CHECK_FALSE(std::regex_search(page, placeholder));
  CHECK(count(page, "default-src 'none'") == 2);
  CHECK(count(computation, "<script") == 2);
  // The only URL is the SVG namespace, which browsers do not load.
  const std::regex url("https?://[^'\"]*");
  for (auto i = std::sregex_iterator(page.begin(), page.end(), url); i != std::sregex_iterator();
       ++i) {
    CHECK(i->str() == "http://www.w3.org/2000/svg");
  }
  for (const char* part :
       {"innerHTML", "outerHTML", "document.write", "insertAdjacentHTML", "eval("}) {
    CHECK_FALSE(contains(page, part));
  }
}

}  // namespace
}  // namespace tapestry
