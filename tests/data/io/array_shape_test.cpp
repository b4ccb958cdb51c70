// SPDX-License-Identifier: BSD-3-Clause
#include "data/io/array_shape.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>

namespace tapestry {
namespace {

TEST_CASE("byte_count() returns the size of an array in bytes, or nullopt if it exceeds 64 bits") {
  CHECK(byte_count({}, 8) == 8);
  CHECK(byte_count({3, 4}, 2) == 24);
  CHECK(byte_count({3, 4}, 0) == 0);
  CHECK(byte_count({std::uint64_t{1} << 63, 0, 4}, 8) == 0);
  CHECK(byte_count({std::uint64_t{1} << 32, 1U << 31U}, 2) == std::nullopt);
  CHECK(byte_count({std::uint64_t{1} << 32, 1U << 31U}, 1) == std::uint64_t{1} << 63U);
  CHECK(byte_count({~std::uint64_t{0}}, 1) == ~std::uint64_t{0});
}

TEST_CASE("a shape is printed with parentheses and commas") {
  CHECK(to_string(ArrayShape{}) == "()");
  CHECK(to_string(ArrayShape{3}) == "(3)");
  CHECK(to_string(ArrayShape{3, 0, 4}) == "(3, 0, 4)");
}

}  // namespace
}  // namespace tapestry
