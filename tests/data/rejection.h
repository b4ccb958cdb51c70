// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "data/io/error.h"
#include "tests/support/contains.h"

namespace tapestry::test {

/// The message of the DataError that `action` throws. Fails the test if there is no error, or no
/// hint.
template <typename Action>
std::string rejection(Action action) {
  try {
    action();
  } catch (const DataError& error) {
    CHECK_FALSE(error.hint().empty());
    return error.what();
  }
  FAIL("expected a DataError");
  return {};
}

/// The hint of the DataError that `action` throws.
template <typename Action>
std::string hint_of(Action action) {
  try {
    action();
  } catch (const DataError& error) {
    return error.hint();
  }
  FAIL("expected a DataError");
  return {};
}

/// An input that a reader rejects, and words that the message or the hint must have.
struct BadInput {
  std::string input;
  std::vector<std::string> words;
};

/// Checks for each input that read(input) throws an `Error` that contains the words.
template <class Error = DataError, typename Read>
void check_rejected(const std::vector<BadInput>& inputs, Read read) {
  for (const BadInput& bad : inputs) {
    CAPTURE(bad.input.substr(0, 200));
    std::string text = "no error";
    try {
      read(bad.input);
    } catch (const Error& error) {
      CHECK_FALSE(error.hint().empty());
      text = std::string(error.what()) + " | " + error.hint();
    }
    CHECK(text.size() < 2000);  // only excerpts of long inputs
    for (const std::string& word : bad.words) {
      CAPTURE(text);
      CAPTURE(word);
      CHECK(contains(text, word));
    }
  }
}

}  // namespace tapestry::test
