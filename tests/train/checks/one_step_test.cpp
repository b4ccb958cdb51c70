// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/train/checks/context.h"
#include "train/checks/one_step.h"

/// Tests the comparisons that the checks use.
namespace tapestry {
namespace {

/// (a b -> x), (c -> y z): the first target is one token shorter.
Batch two_sentences() {
  return make_batch({{.source = {4, 5}, .target = {6}}, {.source = {7}, .target = {8, 9}}},
                    std::vector<std::size_t>{0, 1});
}

TEST_CASE("select_rows pads the selected rows to the longest of these rows") {
  const Batch second = select_rows(two_sentences(), 1, 2);
  CHECK(second.rows == 1);
  CHECK(second.source == std::vector<std::int32_t>{7, eos_id});
  CHECK(second.input == std::vector<std::int32_t>{bos_id, 8, 9});
  CHECK(second.labels == std::vector<std::int32_t>{8, 9, eos_id});
  CHECK(second.target_tokens == 3);
  const Batch turned = select_rows(two_sentences(), std::vector<std::size_t>{1, 0});
  CHECK(turned.source == std::vector<std::int32_t>{7, eos_id, pad_id, 4, 5, eos_id});
  CHECK(turned.target_lengths == std::vector<std::size_t>{3, 2});
  CHECK(turned.examples == std::vector<std::size_t>{1, 0});
}

TEST_CASE("a wider batch has more padding and is otherwise equal") {
  const Batch wide = add_padding(two_sentences(), 1, 2);
  CHECK(wide.source == std::vector<std::int32_t>{4, 5, eos_id, pad_id, 7, eos_id, pad_id, pad_id});
  CHECK(wide.target_length == 5);
  CHECK(wide.labels == std::vector<std::int32_t>{6, eos_id, -1, -1, -1, 8, 9, eos_id, -1, -1});
  CHECK(wide.target_lengths == two_sentences().target_lengths);
  CHECK(wide.target_tokens == 5);
}

TEST_CASE("logits are compared token by token, without the padding") {
  const Batch batch = two_sentences();
  const Tensor before = Tensor::from({2, 3, 1}, {1, 2, 99, 3, 4, -5}, DType::float64);
  const Tensor after = Tensor::from({2, 3, 1}, {3, 4.25, -5, 1, 2.125, 0}, DType::float64);
  const auto found = max_difference(batch, before, after, std::vector<std::size_t>{1, 0});
  CHECK(found.max == 0.25);
  CHECK(found.scale == 5.0);
  CHECK(found.to_string() == "logits of example 2 at token 2 went from 4 to 4.25");
  CHECK(max_difference(batch, before, before).max == 0.0);
  CHECK(LogitDifference{.before = 0.5, .after = 0.5 + 0x1p-52}.to_string() ==
        "logits of example 1 at token 1 went from 0.5 to 0.5000000000000002");
  const Tensor broken = Tensor::from({2, 3, 1}, {1, std::nan(""), 0, 90, 4, -5}, DType::float64);
  CHECK(std::isinf(max_difference(batch, before, broken).max));
  CHECK(max_difference(batch, before, broken).to_string() ==
        "logits of example 1 at token 2 went from 2 to nan");
}

TEST_CASE("the first difference of two steps is reported: loss, then logits, then gradients") {
  CheckedModel model;
  model.parameters = {{"a", Tensor()}, {"b", Tensor()}};
  const StepValues first{.loss = 1.5, .logits = {3.0, 4.0, 5.0}, .gradients = {{6.0}, {7.0, 8.0}}};
  const auto difference = [&](const StepValues& second) {
    return first_difference(model, first, second).value_or("none");
  };
  StepValues second = first;
  CHECK(difference(second) == "none");
  second.gradients[1] = {};
  CHECK(difference(second) == "gradient of b: 2 values, then 0");
  second.gradients[1] = {7.0, 8.5};
  CHECK(difference(second) == "gradient of b, value 2: 8, then 8.5");
  second.logits[2] = 5.25;
  CHECK(difference(second) == "logits, value 3: 5, then 5.25");
  second.loss = 1.75;
  CHECK(difference(second) == "loss, value 1: 1.5, then 1.75");
}

TEST_CASE("differences of gradients are relative to their norm, or to 1/1000 of the largest norm") {
  CheckedModel model;
  model.parameters = {{"large", Tensor()}, {"small", Tensor()}};
  const StepValues expected{.loss = 0.0, .logits = {}, .gradients = {{3.0, 4.0}, {0.0}}};
  const auto distance_of = [&](std::vector<std::vector<double>> gradients) {
    return max_distance(model, {.loss = 0.0, .logits = {}, .gradients = gradients}, expected);
  };
  CHECK(distance_of({{3.0, 4.0}, {0.0}}).relative == 0.0);
  CHECK(distance_of({{3.0, 4.5}, {0.0}}).relative == doctest::Approx(0.1));
  CHECK(distance_of({{3.0, 4.5}, {0.0}}).parameter == "large");
  CHECK(distance_of({{3.0, 4.0}, {0.001}}).relative == doctest::Approx(0.2));
  CHECK(distance_of({{3.0, 4.0}, {0.001}}).parameter == "small");
  CHECK(std::isinf(distance_of({{3.0, 4.0}, {}}).relative));
  CHECK(std::isinf(distance_of({{3.0, std::nan("")}, {0.0}}).relative));
  CHECK(std::isinf(distance_of({{3.0, std::nan("")}, {0.001}}).relative));
  CHECK(distance_of({{3.0, std::nan("")}, {0.001}}).parameter == "large");
  CHECK(distance_of({{3.0, 4.0}, {std::nan("")}}).parameter == "small");
}

}  // namespace
}  // namespace tapestry
