#pragma once

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "data/io/error.h"
#include "tests/support/contains.h"

namespace tapestry::test {

using test::contains;

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

}  // namespace tapestry::test
