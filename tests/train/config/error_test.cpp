// SPDX-License-Identifier: BSD-3-Clause
#include "train/config/error.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <type_traits>

namespace tapestry {

static_assert(std::is_base_of_v<std::runtime_error, ConfigError>);

TEST_CASE("an error is printed with its line, a caret under its characters and a hint") {
  const std::string line = std::string(200, 'a') + "HERE" + std::string(200, 'b');
  const struct {
    Diagnostic error;
    std::string text;
  } rows[] = {
      {{{"configs/copy.yaml", 12, 3, 6, "  d_modl: 64"},
        "unknown key `d_modl` in `model`",
        "did you mean `d_model`?"},
       "configs/copy.yaml:12:3: unknown key `d_modl` in `model`\n    d_modl: 64\n    ^~~~~~\n"
       "hint: did you mean `d_model`?"},
      // Errors without a line or a hint.
      {{{.file = "x.yaml"}, "is empty", ""}, "x.yaml: is empty"},
      // Characters of several bytes.
      {{{"x", 1, 5, 2, "ä: ü\U0001F600z"}, "m", ""}, "x:1:5: m\n    ä: ü\U0001F600z\n        ^~"},
      // A tab in the line is repeated before the caret, so that the columns match.
      {{{"x", 1, 4, 1, "a:\tb"}, "m", ""}, "x:1:4: m\n    a:\tb\n      \t^"},
      // A caret in the indentation, and after the end of the line.
      {{{"x", 1, 1, 1, "\ta: b"}, "m", ""}, "x:1:1: m\n    \ta: b\n    ^"},
      {{{"x", 1, 3, 5, "ab"}, "m", ""}, "x:1:3: m\n    ab\n      ^"},
      // A long line is cut to the part around the caret.
      {{{"x", 1, 201, 4, line}, "m", ""},
       fmt::format("x:1:201: m\n    {}HERE{}\n    {}^~~~", std::string(45, 'a'),
                   std::string(41, 'b'), std::string(45, ' '))},
  };
  for (const auto& row : rows) CHECK(to_string(row.error) == row.text);
}

TEST_CASE("errors are sorted by line, with errors without a line at the end") {
  Diagnostics problems;
  CHECK_NOTHROW(problems.throw_if_any());
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

TEST_CASE("at most fifty errors are listed") {
  Diagnostics problems;
  for (int i = 0; i < 50; ++i) problems.add({.file = "x"}, "bad");
  try {
    problems.add({.file = "x"}, "bad");
    FAIL("expected a ConfigError");
  } catch (const ConfigError& error) {
    CHECK(error.diagnostics().size() == 51);
    CHECK(to_string(error.diagnostics().back()) ==
          "x: more than 50 errors; the rest are not listed\n"
          "hint: check that this file is meant to be a config");
  }
}

}  // namespace tapestry
