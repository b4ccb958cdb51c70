#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <thread>

#include "autograd/ops/losses.h"
#include "autograd/ops/reductions.h"
#include "autograd/tape.h"
#include "tests/layers/transformer_cases.h"
#include "tests/support/gradients.h"
#include "tests/support/parameters.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// `rows` sentences of `length` tokens each, all counted as tokens.
TokenBatch full_batch(std::size_t rows, std::size_t length) {
  return {.ids = random_ids(rows, length, vocabulary, 3),
          .lengths = std::vector<std::int32_t>(rows, static_cast<std::int32_t>(length))};
}

/// The gradients of all parameters, one after the other; an absent one counts as zeros.
std::vector<double> all_gradients(const Parameters& parameters) {
  std::vector<double> all;
  for (const NamedTensor& p : parameters) {
    const Tensor gradient = p.tensor.gradient();
    const auto values =
        gradient.defined() ? values_of(gradient) : std::vector<double>(p.tensor.size());
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

/// Forward, backward and the gradients they leave.
std::vector<double> step(const TestTransformer& model, const TokenBatch& from, const TokenBatch& to,
                         const Mode& mode) {
  Tape tape;
  const Tensor logits = model.transformer(from, to, mode);
  tape.backward(logits, random_leaf(logits.shape(), 5).copied(logits.dtype()));
  return all_gradients(model.parameters);
}

bool all_zero(const std::vector<double>& values) {
  return std::ranges::all_of(values, [](double value) { return value == 0.0; });
}

bool all_finite(const std::vector<double>& values) {
  return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
}

std::vector<double> row_of(const Tensor& x, std::size_t r) {
  const auto all = values_of(x);
  const auto n = static_cast<std::ptrdiff_t>(all.size() / x.shape()[0]);
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(r) * n;
  return {begin, begin + n};
}

/// The loss of a small step in float32, and the gradients it leaves.
std::vector<double> small_training_step(std::uint64_t seed) {
  TransformerOptions options = small();
  options.dropout = 0.2;
  const TestTransformer model(options, DType::float32, seed);
  return step(model, source, target, Mode::training(RandomStream(seed)));
}

}  // namespace

TEST_CASE("a batch of 0 sentences has no logits and zero gradients") {
  for (const TransformerOptions& options : every_choice()) {
    const TestTransformer model(options);
    const Tensor logits = model.transformer(full_batch(0, 3), full_batch(0, 2), Mode::inference());
    CHECK(logits.shape() == Shape{0, 2, vocabulary});
    CHECK(all_zero(step(model, full_batch(0, 3), full_batch(0, 2), Mode::inference())));
  }
}

TEST_CASE("targets of 0 tokens have no logits and zero gradients") {
  for (const TransformerOptions& options : every_choice()) {
    const TestTransformer model(options);
    CHECK(model.transformer(source, full_batch(3, 0), Mode::inference()).shape() ==
          Shape{3, 0, vocabulary});
    CHECK(all_zero(step(model, source, full_batch(3, 0), Mode::inference())));
  }
}

TEST_CASE("sources of 0 tokens give finite logits and gradients") {
  for (const TransformerOptions& options : every_choice()) {
    const TestTransformer model(options);
    CHECK(all_finite(values_of(model.transformer(full_batch(3, 0), target, Mode::inference()))));
    CHECK(all_finite(step(model, full_batch(3, 0), target, Mode::inference())));
  }
}

TEST_CASE("the gradients of sentences of one token agree with differences") {
  for (const TransformerOptions& options : every_choice()) {
    const TestTransformer model(options);
    perturb(model.parameters);
    const Threads one(1);
    const auto run = [&] {
      return model.transformer(full_batch(1, 1), full_batch(1, 1), Mode::training(RandomStream(2)));
    };
    const auto report = gradcheck(run, model.parameters.list(), {.max_coordinates = 4});
    CHECK(report.worst_relative_error() < 1e-6);
  }
}

TEST_CASE("a source of padding only is finite and leaves the other sentences unchanged") {
  TokenBatch blank = source;
  blank.lengths[1] = 0;
  for (const TransformerOptions& options : every_choice()) {
    const TestTransformer model(options);
    const Tensor before = model.transformer(source, target, Mode::inference());
    const Tensor after = model.transformer(blank, target, Mode::inference());
    CHECK(row_of(after, 0) == row_of(before, 0));
    CHECK(row_of(after, 2) == row_of(before, 2));
    CHECK(row_of(after, 1) != row_of(before, 1));
    CHECK(all_finite(values_of(after)));
    CHECK(all_finite(step(model, blank, target, Mode::inference())));
  }
}

TEST_CASE("ids of a sentence of padding only change nothing") {
  TokenBatch blank = source;
  blank.lengths[1] = 0;
  TokenBatch other = blank;
  for (std::size_t t = 0; t < 4; ++t) other.ids(1, t) = 7;
  for (const TransformerOptions& options : every_choice()) {
    const TestTransformer model(options);
    CHECK(values_of(model.transformer(other, target, Mode::inference())) ==
          values_of(model.transformer(blank, target, Mode::inference())));
  }
}

TEST_CASE("with dropout at rate 1 logits and gradients are finite, and those of embeddings zero") {
  TransformerOptions options = small();
  options.dropout = 1.0;
  options.tie_embeddings = TiedEmbeddings::none;
  const TestTransformer model(options);
  const Mode mode = Mode::training(RandomStream(3));
  CHECK(all_finite(values_of(model.transformer(source, target, mode))));
  CHECK(all_finite(step(model, source, target, mode)));
  for (const char* name : {"source_embedding.weight", "target_embedding.weight"}) {
    CHECK(all_zero(values_of(parameter(model.parameters, name).gradient())));
  }
  CHECK_FALSE(all_zero(values_of(parameter(model.parameters, "output.bias").gradient())));
}

TEST_CASE("dropout at rate 0 with a stream is dropout without one, to the bit") {
  const TestTransformer model(small());
  const TestTransformer same(small());
  CHECK(values_of(model.transformer(source, target, Mode::training(RandomStream(3)))) ==
        values_of(model.transformer(source, target, Mode::inference())));
  CHECK(step(model, source, target, Mode::training(RandomStream(3))) ==
        step(same, source, target, Mode::inference()));
}

TEST_CASE("backward through the encoder gives its parameters gradients, and the decoder's none") {
  const TestTransformer model(small());
  Tape tape;
  const Tensor memory = model.transformer.encode(source, Mode::inference());
  tape.backward(memory, random_leaf(memory.shape(), 5).copied(DType::float64));
  for (const NamedTensor& p : model.parameters) {
    CAPTURE(p.name);
    const bool of_encoder = p.name.starts_with("encoder.") || p.name.starts_with("source_");
    CHECK(p.tensor.gradient().defined() == of_encoder);
  }
}

TEST_CASE("ids that do not occur and positions beyond the sentences have zero gradients") {
  TransformerOptions options = small();
  options.positions = PositionKind::learned;
  options.tie_embeddings = TiedEmbeddings::none;
  const TestTransformer model(options);
  step(model, source, target, Mode::inference());
  const Tensor words = parameter(model.parameters, "source_embedding.weight").gradient();
  const Tensor places = parameter(model.parameters, "source_positions.weight").gradient();
  for (const std::size_t absent : {1, 2}) CHECK(all_zero(row_of(words, absent)));
  CHECK(all_zero(row_of(words, padding_id)));
  CHECK_FALSE(all_zero(row_of(words, 5)));
  for (const std::size_t beyond : {4, 5, 6}) CHECK(all_zero(row_of(places, beyond)));
  CHECK_FALSE(all_zero(row_of(places, 3)));
}

TEST_CASE("one batch may be source and target, and one tensor queries and memory") {
  const TokenBatch tokens = full_batch(2, 3);
  for (const TransformerOptions& options : every_choice()) {
    const TestTransformer model(options);
    perturb(model.parameters);
    const Threads one(1);
    const auto report =
        gradcheck([&] { return model.transformer(tokens, tokens, Mode::inference()); },
                  model.parameters.list(), {.max_coordinates = 4});
    CHECK(report.worst_relative_error() < 1e-6);
  }
}

TEST_CASE("backward works after the model is destroyed, if a parameter is still held") {
  std::optional<TestTransformer> model(std::in_place, small());
  const Tensor weight = parameter(model->parameters, "encoder.layers.0.ff.linear1.weight");
  const TestTransformer same(small());
  Tape tape;
  const Tensor logits = model->transformer(source, target, Mode::inference());
  model.reset();
  tape.backward(logits, random_leaf(logits.shape(), 5).copied(DType::float64));
  step(same, source, target, Mode::inference());
  CHECK(values_of(weight.gradient()) ==
        values_of(parameter(same.parameters, "encoder.layers.0.ff.linear1.weight").gradient()));
}

TEST_CASE("two threads train a model each, with the bits of one thread") {
  const std::vector<std::vector<double>> alone = {small_training_step(1), small_training_step(2)};
  REQUIRE(alone[0] != alone[1]);
  std::vector<int> wrong(2, 0);
  const auto work = [&](std::size_t i) {
    for (int repeat = 0; repeat < 5; ++repeat) wrong[i] += small_training_step(i + 1) != alone[i];
  };
  std::thread first(work, 0), second(work, 1);
  first.join();
  second.join();
  CHECK(wrong == std::vector<int>{0, 0});
}

TEST_CASE("two threads that call one model at the same time get the same logits") {
  const TestTransformer model(small(), DType::float32);
  const auto alone = values_of(model.transformer(source, target, Mode::inference()));
  std::vector<int> wrong(2, 0);
  const auto work = [&](std::size_t i) {
    for (int repeat = 0; repeat < 20; ++repeat) {
      wrong[i] += values_of(model.transformer(source, target, Mode::inference())) != alone;
    }
  };
  std::thread first(work, 0), second(work, 1);
  first.join();
  second.join();
  CHECK(wrong == std::vector<int>{0, 0});
}
