// SPDX-License-Identifier: BSD-3-Clause
#include "train/checkpoint/array_store.h"

#include <doctest/doctest.h>

#include <array>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/train/error_text.h"
#include "train/base/error.h"

namespace tapestry {
namespace {

using test::error_text;

template <class T>
void check_element_type(const char* name, T low, T high) {
  CAPTURE(name);
  ArrayStore arrays;
  arrays.put<T>("x", std::array{low, high}, {2, 1});
  CHECK(element_type_name(arrays.at("x").type) == name);
  CHECK(arrays.byte_size() == 2 * sizeof(T));
  CHECK(arrays.get<T>("x")[0] == low);
  CHECK(arrays.get<T>("x", {2, 1})[1] == high);
}

TEST_CASE("elements of every type are restored from an array store") {
  check_element_type<float>("float32", -2.0F, 1.5F);
  check_element_type<double>("float64", 0.1, 1e300);
  check_element_type<std::int32_t>("int32", -3, 4);
  check_element_type<std::int64_t>("int64", -5'000'000'000, 1);
  check_element_type<std::uint64_t>("uint64", 0, std::numeric_limits<std::uint64_t>::max());
  check_element_type<std::uint8_t>("uint8", 0, 255);
}

TEST_CASE("scalars, texts and empty arrays are restored from an array store") {
  ArrayStore arrays;
  arrays.put_scalar<std::uint64_t>("progress/step", 1234);
  arrays.put_text("config", "seed: 1\n\0\xff");
  arrays.put_text("empty", "");
  CHECK(arrays.get_scalar<std::uint64_t>("progress/step") == 1234);
  CHECK(arrays.at("progress/step").shape.empty());
  CHECK(arrays.get_text("config") == "seed: 1\n\0\xff");
  CHECK(arrays.get_text("empty").empty());
  arrays.put<float>("x", {}, {3, 0, 2});
  CHECK(arrays.get<float>("x", {3, 0, 2}).empty());
}

TEST_CASE("array stores with the same arrays are equal even if their origins differ") {
  ArrayStore a("a.h5");
  ArrayStore b("b.h5");
  a.put_text("x", "1");
  b.put_text("x", "1");
  CHECK(a == b);
  b.put_text("y", "2");
  CHECK_FALSE(a == b);
}

TEST_CASE(
    "get() rejects missing arrays, wrong types and wrong shapes with the path and the expected "
    "array") {
  ArrayStore arrays("run/step.h5");
  arrays.put<float>("w", std::array{1.0F, 2.0F}, {2, 1});
  const auto rejection = [](const auto& get) { return error_text<CheckpointError>(get); };
  CHECK(rejection([&] {
          arrays.get<float>("v");
        }).starts_with("run/step.h5: v: found nothing, expected an array"));
  CHECK(rejection([&] {
          arrays.get<double>("w");
        }).starts_with("run/step.h5: w: found float32 (2, 1), expected float64"));
  CHECK(rejection([&] {
          arrays.get<float>("w", {1, 2});
        }).starts_with("run/step.h5: w: found float32 (2, 1), expected float32 (1, 2)"));
  CHECK_THROWS_AS(arrays.get_scalar<float>("w"), CheckpointError);
  CHECK_THROWS_AS(arrays.get_text("w"), CheckpointError);
}

TEST_CASE(
    "put() rejects bytes that do not match the shape, even if the product of its extents "
    "overflows") {
  ArrayStore arrays;
  const std::uint64_t huge = std::uint64_t{1} << 62U;
  CHECK_THROWS_AS(arrays.put<float>("x", std::array{1.0F}, {2}), std::invalid_argument);
  CHECK_THROWS_AS(arrays.put<float>("x", {}, {}), std::invalid_argument);
  CHECK_THROWS_AS(arrays.put<float>("x", {}, {huge, 4}), std::invalid_argument);
  CHECK(arrays.size() == 0);
}

TEST_CASE("put() rejects malformed paths and paths in use") {
  ArrayStore arrays;
  for (const char* path : {"", "/a", "a/", "a//b", "a b", ".", "a/..", "\n", "a\x7f", "\xc3\xa4"}) {
    CAPTURE(path);
    CHECK_THROWS_AS(arrays.put_text(path, ""), std::invalid_argument);
  }
  CHECK_NOTHROW(arrays.put_text("!/~/...", ""));
  arrays.put_text("a/b/c", "");
  CHECK_THROWS_AS(arrays.put_text("a/b/c", ""), std::invalid_argument);
  CHECK_NOTHROW(arrays.put_text("a/b.c", ""));
}

/// The difference between two arrays, as described by compare_arrays().
std::string difference(const std::vector<double>& x, const std::vector<double>& y) {
  ArrayStore a, b;
  a.put("parameters/w", std::span<const double>(x), {x.size()});
  b.put("parameters/w", std::span<const double>(y), {y.size()});
  const auto differences = compare_arrays(a, b);
  return differences.empty() ? "" : differences.front().what;
}

TEST_CASE("the maximum difference covers finite elements, and non-finite elements are counted") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double inf = std::numeric_limits<double>::infinity();
  CHECK(difference({1, nan}, {1, nan}).empty());
  CHECK(difference({1, 2, 3}, {1, 2.5, 2}) ==
        "2 of 3 elements differ, the first at [1]: 2 and 2.5, by at most 1");
  CHECK(difference({1, 2, inf}, {nan, 2.25, 0}) ==
        "3 of 3 elements differ, the first at [0]: 1 and nan, by at most 0.25, 2 of them with a "
        "non-finite value");
}

}  // namespace
}  // namespace tapestry
