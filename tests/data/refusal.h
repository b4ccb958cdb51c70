#pragma once

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "data/error.h"

namespace tapestry::testing {

/// The text of the DataError that `action` throws; fails the test if it throws none or one without
/// a hint.
template <typename Action>
std::string refusal(Action action) {
  try {
    action();
  } catch (const DataError& error) {
    CHECK_FALSE(error.hint().empty());
    return error.what();
  }
  FAIL("expected a DataError");
  return {};
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace tapestry::testing
