// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>

namespace tapestry::test {

/// Checks that `call` throws an E whose message contains each of the `words`, separated by `|`.
template <class E>
void check_error(std::string_view words, const std::function<void()>& call) {
  CAPTURE(words);
  std::string message;  // empty if nothing is thrown, so that no word is found
  try {
    call();
  } catch (const E& error) {
    message = error.what();
  }
  CAPTURE(message);
  for (std::size_t begin = 0; begin <= words.size();) {
    const std::size_t end = std::min(words.find('|', begin), words.size());
    const std::string_view word = words.substr(begin, end - begin);
    CAPTURE(word);
    CHECK(message.find(word) != std::string::npos);
    begin = end + 1;
  }
}

}  // namespace tapestry::test
