// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/contains.h"
#include "train/config/config.h"
#include "train/config/error.h"
#include "train/config/load.h"

/// Helpers for tables of invalid configs.
namespace tapestry::test {

/// An expected error of a config.
struct ExpectedError {
  std::string place;               ///< "x:2:3", or only a name for an error without a line
  std::string underlined{};        ///< the text marked by the caret and tildes
  std::vector<std::string> words;  ///< parts of the message or hint
};

/// The errors of a config named x.
inline std::vector<Diagnostic> config_errors(const std::string& text,
                                             const std::vector<std::string>& overrides = {}) {
  try {
    parse_config(text, "x", overrides);
  } catch (const ConfigError& error) {
    return error.diagnostics();
  }
  return {};
}

/// Checks that the errors match `expected` and that each error has a hint.
inline void check_errors(const std::vector<Diagnostic>& errors,
                         const std::vector<ExpectedError>& expected) {
  REQUIRE(errors.size() == expected.size());
  for (std::size_t i = 0; i < errors.size(); ++i) {
    const std::string text = to_string(errors[i]);
    CHECK_MESSAGE(text.starts_with(expected[i].place + ": "), text);
    for (const std::string& word : expected[i].words) CHECK_MESSAGE(contains(text, word), text);
    CHECK_FALSE(errors[i].hint.empty());
    if (expected[i].underlined.empty()) continue;
    const std::size_t caret = text.find('^'), line = text.rfind('\n', text.rfind('\n', caret) - 1);
    const std::size_t column = caret - text.rfind('\n', caret) - 1;
    const std::size_t length = text.find_first_not_of('~', caret + 1) - caret;
    CHECK(text.substr(line + 1 + column, length) == expected[i].underlined);
  }
}

}  // namespace tapestry::test
