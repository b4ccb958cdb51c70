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

TEST_CASE("elements of every type are restored from an array store") {
  ArrayStore arrays;
  arrays.put<float>("float32", std::array{1.5F, -2.0F}, {2});
  arrays.put<double>("float64", std::array{0.1}, {1, 1});
  arrays.put<std::int32_t>("int32", std::array{-3, 4}, {2, 1});
  arrays.put<std::int64_t>("int64", std::array<std::int64_t, 1>{-5'000'000'000}, {1});
  arrays.put<std::uint64_t>("uint64", std::array{std::numeric_limits<std::uint64_t>::max()}, {1});
  arrays.put<std::uint8_t>("uint8", std::array<std::uint8_t, 1>{255}, {1});

  CHECK(arrays.get<float>("float32")[1] == -2.0F);
  CHECK(arrays.get<double>("float64", {1, 1})[0] == 0.1);
  CHECK(arrays.get<std::int32_t>("int32", {2, 1})[0] == -3);
  CHECK(arrays.get<std::int64_t>("int64")[0] == -5'000'000'000);
  CHECK(arrays.get<std::uint64_t>("uint64")[0] == std::numeric_limits<std::uint64_t>::max());
  CHECK(arrays.get<std::uint8_t>("uint8")[0] == 255);
  CHECK(arrays.byte_size() == 8 + 8 + 8 + 8 + 8 + 1);
}

TEST_CASE("the bytes of an array are its elements in little-endian order") {
  ArrayStore arrays;
  arrays.put<std::int32_t>("x", std::array{1, -2}, {2});
  const std::vector<std::byte> expected{std::byte{1},    std::byte{0},    std::byte{0},
                                        std::byte{0},    std::byte{0xfe}, std::byte{0xff},
                                        std::byte{0xff}, std::byte{0xff}};
  CHECK(arrays.at("x").bytes == expected);
}

TEST_CASE("scalars and texts are restored from an array store, an empty text included") {
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

TEST_CASE("an array store iterates over its arrays in byte order of the paths") {
  ArrayStore arrays;
  for (const char* path : {"b", "a/x", "a.b", "B"}) arrays.put_text(path, "");
  std::vector<std::string> paths;
  for (const auto& [path, array] : arrays) paths.push_back(path);
  CHECK(paths == std::vector<std::string>{"B", "a.b", "a/x", "b"});
}

TEST_CASE("array stores with the same arrays are equal, whatever their origin") {
  ArrayStore a("a.h5");
  ArrayStore b("b.h5");
  a.put_text("x", "1");
  b.put_text("x", "1");
  CHECK(a == b);
  b.put_text("y", "2");
  CHECK_FALSE(a == b);
}

TEST_CASE("get() of a missing array or another type reports path, found and expected") {
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

TEST_CASE("put() rejects bytes that do not fit the shape, also if the product overflows") {
  ArrayStore arrays;
  const std::uint64_t huge = std::uint64_t{1} << 62U;
  CHECK_THROWS_AS(arrays.put<float>("x", std::array{1.0F}, {2}), std::invalid_argument);
  CHECK_THROWS_AS(arrays.put<float>("x", {}, {}), std::invalid_argument);
  CHECK_THROWS_AS(arrays.put<float>("x", {}, {huge, 4}), std::invalid_argument);
  CHECK(arrays.size() == 0);
}

TEST_CASE("element types have the names of messages") {
  const std::array types{ElementType::float32, ElementType::float64, ElementType::int32,
                         ElementType::int64,   ElementType::uint64,  ElementType::uint8};
  const std::array names{"float32", "float64", "int32", "int64", "uint64", "uint8"};
  for (std::size_t i = 0; i < types.size(); ++i) CHECK(element_type_name(types[i]) == names[i]);
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

/// How two arrays of one store each differ.
std::string difference(const std::vector<double>& x, const std::vector<double>& y) {
  ArrayStore a, b;
  a.put("parameters/w", std::span<const double>(x), {x.size()});
  b.put("parameters/w", std::span<const double>(y), {y.size()});
  const auto differences = compare_arrays(a, b);
  return differences.empty() ? "" : differences.front().what;
}

TEST_CASE("the largest difference is of finite elements, and others are counted") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double inf = std::numeric_limits<double>::infinity();
  CHECK(difference({1, nan}, {1, nan}).empty());
  CHECK(difference({1, 2, 3}, {1, 2.5, 2}) ==
        "2 of 3 elements differ, the first at [1]: 2 and 2.5, by at most 1");
  CHECK(difference({1, 2, inf}, {nan, 2.25, 0}) ==
        "3 of 3 elements differ, the first at [0]: 1 and nan, by at most 0.25, 2 of them with a "
        "value that is not finite");
}

}  // namespace
}  // namespace tapestry
