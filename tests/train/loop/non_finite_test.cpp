// SPDX-License-Identifier: BSD-3-Clause
#include "train/loop/non_finite.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "autograd/kernels/parallel.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reductions.h"
#include "data/readers/symbol_tasks.h"
#include "optim/optimizer.h"
#include "tests/support/contains.h"
#include "tests/train/tiny_run.h"
#include "train/checkpoint/parameter_file.h"
#include "train/tasks/task.h"

/// Tests messages about non-finite values; trainer_non_finite_test.cpp tests runs with such values.
namespace tapestry {
namespace {

using test::contains;

constexpr double infinity = std::numeric_limits<double>::infinity();

/// The message about `count` consecutive pairs, starting with pair 3.
std::string words_for_pairs(std::size_t count) {
  std::vector<std::size_t> pairs(count);
  std::iota(pairs.begin(), pairs.end(), std::size_t{2});
  return in_words({.operation = "head: exp", .examples = pairs, .by_themselves = true},
                  test::tiny_config());
}

TEST_CASE(
    "up to eight examples at fault are listed; if there are more, seven are listed and the rest "
    "are counted") {
  CHECK(words_for_pairs(1) == "\n  first in head: exp\n  caused only by training pair 3");
  const std::string first = "\n  first in head: exp\n  each of training pairs 3";
  const std::string last = " causes it by itself";
  CHECK(words_for_pairs(2) == first + " and 4" + last);
  CHECK(words_for_pairs(3) == first + ", 4 and 5" + last);
  CHECK(words_for_pairs(8) == first + ", 4, 5, 6, 7, 8, 9 and 10" + last);
  CHECK(words_for_pairs(9) == first + ", 4, 5, 6, 7, 8, 9 and 2 more" + last);
  CHECK(words_for_pairs(12) == first + ", 4, 5, 6, 7, 8, 9 and 5 more" + last);
}

TEST_CASE("the report says if no single operation or example is at fault") {
  CHECK(in_words({.operation = "", .examples = {0, 4}}, test::tiny_config()) ==
        "\n  every operation is finite, the sum of gradients overflows\n  in the batch of training "
        "pairs 1 and 5");
  const std::vector<Example> pairs = {{{4}, {5}}, {{4, 6}, {5, 4}}};
  const TextCodec codec({}, symbol_vocabulary(3), symbol_vocabulary(3));
  CHECK(to_text({.operation = "", .examples = {1}}, pairs, test::tiny_config(), codec) ==
        "every operation is finite, the sum of gradients overflows\n"
        "The batch has these pairs; none of these causes it by itself:\n"
        "training pair 2\n  source  a c\n  target  b a\n");
  CHECK(to_text({.operation = "head: exp", .examples = {0}, .by_themselves = true}, pairs,
                test::tiny_config(), codec) ==
        "head: exp\nEach of these pairs causes it by itself:\n"
        "training pair 1\n  source  a\n  target  b\n");
}

/// The report on one example, which causes a non-finite value by itself.
std::string report_on(const Example& example, const char* kind, const TextCodec& codec) {
  Config config;
  config.model_kind = kind;
  return to_text({.operation = "head: exp", .examples = {0}, .by_themselves = true}, {example},
                 config, codec);
}

TEST_CASE("the report uses the task's names for examples and their parts") {
  const std::string front = "head: exp\nEach of these ";
  const Vocabulary words({"Ada", "spoke"}), tags({"B-PER", "O"}), digits({"3", "7"});
  const Example tagged{.source = {4, 5}, .target = {4, 5}};
  CHECK(report_on(tagged, "tagger", TextCodec({}, words, tags)) ==
        front +
            "sentences causes it by itself:\ntraining sentence 1\n  text    Ada spoke\n"
            "  labels  B-PER O\n");
  const Example image{.target = {5}, .pixels = {0.5F, -1.0F, 0.25F}};
  CHECK(report_on(image, "vision_transformer", TextCodec({}, {}, digits)) ==
        front +
            "images causes it by itself:\ntraining image 1\n  pixels  from -1 to 0.5\n"
            "  label   7\n");
  const Example sentence{.source = {bos_id, 5}, .target = {4}};
  CHECK(report_on(sentence, "classifier", TextCodec({}, words, digits)) ==
        front +
            "sentences causes it by itself:\ntraining sentence 1\n  text    spoke\n"
            "  label   3\n");
  const Example text{.target = {bos_id, 4, 5, eos_id}};
  CHECK(contains(report_on(text, "masked_language_model", TextCodec({}, words, words)),
                 " 1\n  text    Ada spoke\n"));
  Config config;
  config.model_kind = "vision_transformer";
  CHECK(in_words({.operation = "head: exp", .examples = {2, 4}}, config) ==
        "\n  first in head: exp\n  in the batch of training images 3 and 5");
}

/// The origin of non-finite values in a step with the batches (3 1) of epoch 0 and (2 0) of epoch
/// 1. The losses of the batches are multiplied by `factor`.
NonFiniteOrigin find_origin(const std::function<double(const Batch&, std::size_t)>& factor) {
  const Config config = test::tiny_config();
  const std::vector<Example> pairs = {{{4}, {4}}, {{5}, {5}}, {{6}, {6}}, {{7}, {7}}};
  Model model(network_maker(config, {.source = 9, .target = 9}), DType::float64, 1);
  const Tensor weight = model.parameters.list().front().tensor;
  const BatchLoss loss = [&](const Batch& batch, std::size_t index) {
    return scale(sum(weight), factor(batch, index));
  };
  const std::vector<Batch> batches = {
      make_batch(pairs, std::vector<std::size_t>{3, 1}),
      make_batch(pairs, std::vector<std::size_t>{2, 0}, {.epoch = 1})};
  return find_non_finite_origin(loss, pairs, {}, batches, model.parameters);
}

TEST_CASE("only the examples at fault in the first non-finite batch are listed") {
  const NonFiniteOrigin second =
      find_origin([](const Batch&, std::size_t index) { return index == 1 ? infinity : 1.0; });
  CHECK(second.operation.find("scale") != std::string::npos);
  CHECK(second.examples == std::vector<std::size_t>{0, 2});
  CHECK(second.by_themselves);
  const NonFiniteOrigin both = find_origin([](const Batch&, std::size_t) { return infinity; });
  CHECK(both.examples == std::vector<std::size_t>{1, 3});
}

TEST_CASE("single pairs are prepared with the epoch of their batch") {
  const NonFiniteOrigin second = find_origin(
      [](const Batch& batch, std::size_t) { return batch.epoch == 1 ? infinity : 1.0; });
  CHECK(second.examples == std::vector<std::size_t>{0, 2});
  CHECK(second.by_themselves);
}

TEST_CASE("if no single example is at fault, the whole batch is listed") {
  const NonFiniteOrigin together = find_origin([](const Batch& batch, std::size_t index) {
    return index == 1 && batch.rows == 2 ? infinity : 1.0;
  });
  CHECK(together.examples == std::vector<std::size_t>{0, 2});
  CHECK_FALSE(together.by_themselves);
  const NonFiniteOrigin none = find_origin([](const Batch&, std::size_t) { return 1.0; });
  CHECK(none.operation.empty());
  CHECK(none.examples == std::vector<std::size_t>{0, 1, 2, 3});
  CHECK_FALSE(none.by_themselves);
}

TEST_CASE("every tensor of a checkpoint is checked, and the first non-finite tensor is named") {
  Config config = test::tiny_config();
  config.model.normalization = Normalization::batch_norm;
  Model model(network_maker(config, {.source = 9, .target = 9}), DType::float32, 1);
  const auto optimizer = make_optimizer(config.optimizer, model.parameters.list());
  const auto spoil = [](const NamedTensor& named, float value) {
    Tensor tensor = named.tensor;
    tensor.mutable_values<float>().back() = value;
  };
  CHECK_FALSE(find_non_finite_state(model.parameters, *optimizer));
  const NamedTensor moment = optimizer->state().back();
  spoil(moment, std::numeric_limits<float>::quiet_NaN());
  CHECK(find_non_finite_state(model.parameters, *optimizer) ==
        "optimizer/" + moment.name + " has a value that is not finite");
  const NamedTensor average = model.parameters.buffers().back();
  spoil(average, std::numeric_limits<float>::infinity());
  CHECK(find_non_finite_state(model.parameters, *optimizer) ==
        average.name + " has a value that is not finite");
  const NamedTensor weight = model.parameters.list().back();
  spoil(weight, -std::numeric_limits<float>::infinity());
  CHECK(find_non_finite_state(model.parameters, *optimizer) ==
        weight.name + " has a value that is not finite");
}

TEST_CASE("a signal does not cancel the check and the copy of the state for a save") {
  const Config config = test::tiny_config();
  Model model(network_maker(config, {.source = 9, .target = 9}), DType::float32, 1);
  const auto optimizer = make_optimizer(config.optimizer, model.parameters.list());
  const std::atomic<bool> stopped = true;
  const kernels::CancellationScope scope(&stopped);
  CHECK_FALSE(find_non_finite_state(model.parameters, *optimizer));
  ArrayStore arrays;
  put_tensors(arrays, "parameters", model.parameters.list());
  put_tensors(arrays, "optimizer", optimizer->state());
  CHECK(arrays.contains("parameters/output.weight"));
}

}  // namespace
}  // namespace tapestry
