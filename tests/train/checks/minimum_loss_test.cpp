// SPDX-License-Identifier: BSD-3-Clause
#include "train/checks/check.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace tapestry {
namespace {

using doctest::Approx;
using Rows = std::vector<std::size_t>;

Batch windows(const std::vector<std::vector<std::int32_t>>& tokens) {
  std::vector<Example> examples;
  Rows all;
  for (const auto& window : tokens) {
    all.push_back(examples.size());
    examples.push_back({.target = window});
  }
  return make_batch(examples, all, {.layout = window_rows});
}

TEST_CASE("the minimum loss is 0 if every prefix has one next token") {
  CHECK(minimum_loss(windows({{4, 5, 6}, {5, 5, 7}}), true) == 0.0);
  CHECK(minimum_loss(windows({{4, 5, 6}, {4, 5, 6}}), true) == 0.0);
}

TEST_CASE("the minimum loss of a prefix with two next tokens is their entropy") {
  // 5 and 6 follow 4 once each; all later tokens are certain.
  CHECK(minimum_loss(windows({{4, 5, 7}, {4, 6, 8}}), true) == Approx(2 * std::log(2.0) / 4));
  // 5 is twice as frequent as 6.
  CHECK(minimum_loss(windows({{4, 5}, {4, 5}, {4, 6}}), true) ==
        Approx((2 * std::log(1.5) + std::log(3.0)) / 3));
}

TEST_CASE("the minimum loss excludes padding") {
  CHECK(minimum_loss(windows({{4, 5, 7, 8}, {5, 6}}), true) == 0.0);
}

TEST_CASE(
    "the minimum loss of a non-causal model distinguishes rows by later tokens and by position") {
  Batch batch = windows({{4, 5, 7}, {4, 6, 8}});
  CHECK(minimum_loss(batch, false) == 0.0);
  batch.input = {4, 4, 4, 4};
  batch.labels = {5, 6, 5, 6};
  CHECK(minimum_loss(batch, false) == 0.0);
  batch.labels = {5, 6, 5, 7};
  CHECK(minimum_loss(batch, false) == Approx(2 * std::log(2.0) / 4));
}

TEST_CASE("the minimum loss distinguishes rows by their source or pixels") {
  const std::vector<Example> pairs = {{{4}, {5}}, {{6}, {7}}, {{4}, {8}}};
  CHECK(minimum_loss(make_batch(pairs, Rows{0, 1}), true) == 0.0);
  CHECK(minimum_loss(make_batch(pairs, Rows{0, 2}), true) == Approx(2 * std::log(2.0) / 4));
  const std::vector<Example> images = {{.target = {4}, .pixels = {0.0F}},
                                       {.target = {5}, .pixels = {1.0F}},
                                       {.target = {5}, .pixels = {0.0F}}};
  const BatchRules rules{.layout = class_rows};
  CHECK(minimum_loss(make_batch(images, Rows{0, 1}, rules), false) == 0.0);
  CHECK(minimum_loss(make_batch(images, Rows{0, 2}, rules), false) == Approx(std::log(2.0)));
}

}  // namespace
}  // namespace tapestry
