// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace tapestry::test {

/// Runs the action and returns "what\nhint: hint" of the error of type E that it throws.
template <class E>
std::string error_text(const auto& action) {
  try {
    action();
  } catch (const E& error) {
    return std::string(error.what()) + "\nhint: " + error.hint();
  }
  return "nothing was thrown";
}

}  // namespace tapestry::test
