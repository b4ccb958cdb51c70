#include "train/config/error.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <type_traits>

namespace tapestry {

static_assert(std::is_base_of_v<std::runtime_error, ConfigError>);

TEST_CASE("a problem is printed with its line, a caret and a hint") {
  const Diagnostic problem{{.file = "configs/copy.yaml",
                            .line = 12,
                            .column = 3,
                            .length = 6,
                            .source_line = "  d_modl: 64"},
                           "unknown key `d_modl` in `model`",
                           "did you mean `d_model`?"};
  CHECK(to_string(problem) ==
        "configs/copy.yaml:12:3: unknown key `d_modl` in `model`\n"
        "    d_modl: 64\n"
        "    ^~~~~~\n"
        "hint: did you mean `d_model`?");
}

TEST_CASE("a problem without a line or hint is one line") {
  CHECK(to_string({{.file = "x.yaml"}, "is empty", ""}) == "x.yaml: is empty");
}

TEST_CASE("the caret is under the character, not the byte") {
  const Place place{
      .file = "x", .line = 1, .column = 5, .length = 2, .source_line = "ä: ü\U0001F600z"};
  CHECK(to_string({place, "m", ""}) == "x:1:5: m\n    ä: ü\U0001F600z\n        ^~");
}

TEST_CASE("a tab before the caret is kept, so that the caret has the right column") {
  const Place place{.file = "x", .line = 1, .column = 4, .length = 1, .source_line = "a:\tb"};
  CHECK(to_string({place, "m", ""}) == "x:1:4: m\n    a:\tb\n      \t^");
}

TEST_CASE("a caret in the indentation or behind the line has a line above it") {
  const Place tab{.file = "x", .line = 1, .column = 1, .length = 1, .source_line = "\ta: b"};
  CHECK(to_string({tab, "m", ""}) == "x:1:1: m\n    \ta: b\n    ^");
  const Place end{.file = "x", .line = 1, .column = 3, .length = 5, .source_line = "ab"};
  CHECK(to_string({end, "m", ""}) == "x:1:3: m\n    ab\n      ^");
}

TEST_CASE("of a long line the part around the caret is printed") {
  const std::string line = std::string(200, 'a') + "HERE" + std::string(200, 'b');
  const Place place{.file = "x", .line = 1, .column = 201, .length = 4, .source_line = line};
  const std::string shown = std::string(45, 'a') + "HERE" + std::string(41, 'b');
  CHECK(to_string({place, "m", ""}) ==
        fmt::format("x:1:201: m\n    {}\n    {}^~~~", shown, std::string(45, ' ')));
}

TEST_CASE("problems are in the order of their lines, those without a line at the end") {
  Diagnostics problems;
  problems.add({.file = "command line: a"}, "third");
  problems.add({.file = "x", .line = 9, .column = 1}, "second");
  problems.add({.file = "x", .line = 2, .column = 1}, "first");
  try {
    problems.throw_if_any();
    FAIL("expected a ConfigError");
  } catch (const ConfigError& error) {
    REQUIRE(error.diagnostics().size() == 3);
    CHECK(error.diagnostics()[0].message == "first");
    CHECK(error.diagnostics()[1].message == "second");
    CHECK(error.diagnostics()[2].message == "third");
    CHECK(std::string(error.what()) ==
          "x:2:1: first\n    \n    ^\nx:9:1: second\n    \n    ^\ncommand line: a: third");
  }
}

TEST_CASE("an empty list of problems throws nothing") {
  const Diagnostics problems;
  CHECK(problems.empty());
  CHECK_NOTHROW(problems.throw_if_any());
}

TEST_CASE("the list of problems ends after fifty") {
  Diagnostics problems;
  for (int i = 0; i < 50; ++i) problems.add({.file = "x"}, "bad");
  try {
    problems.add({.file = "x"}, "bad");
    FAIL("expected a ConfigError");
  } catch (const ConfigError& error) {
    CHECK(error.diagnostics().size() == 51);
    CHECK(to_string(error.diagnostics().back()) ==
          "x: more than 50 errors, the rest is not listed\n"
          "hint: check that this file is meant to be a config");
  }
}

}  // namespace tapestry
