// SPDX-License-Identifier: BSD-3-Clause
#include "layers/transformer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>

#include "autograd/error.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/losses.h"
#include "autograd/ops/reductions.h"
#include "autograd/tape.h"
#include "tests/layers/transformer_cases.h"
#include "tests/support/errors.h"
#include "tests/support/gradients.h"
#include "tests/support/guarded_memory.h"
#include "tests/support/parameters.h"
#include "tests/support/threads.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

TEST_CASE("two models in different scopes can share one Parameters object") {
  Parameters parameters(DType::float64, 1);
  const Transformer first(Scope(parameters) / "a", small(), 11, 11, padding_id);
  const Transformer second(Scope(parameters) / "b", small(), 11, 11, padding_id);
  const TestTransformer alone(small());
  REQUIRE(parameters.list().size() == 2 * alone.parameters.list().size());
  for (const NamedTensor& p : alone.parameters) {
    CHECK(parameters.find("a." + p.name) != nullptr);
    CHECK(parameters.find("b." + p.name) != nullptr);
  }
  CHECK(values_of(first(source, target, Mode::inference())) !=
        values_of(second(source, target, Mode::inference())));
}

TEST_CASE("a Transformer has the given number and sizes of encoder and decoder layers") {
  const TestTransformer model(small());
  CHECK(parameter(model.parameters, "encoder.layers.1.ff.linear1.weight").shape() == Shape{12, 8});
  CHECK(parameter(model.parameters, "decoder.layers.1.cross_attn.v_proj.weight").shape() ==
        Shape{8, 8});
  const std::size_t attention = 4 * (8 * 8 + 8);
  const std::size_t rest = 12 * 8 + 12 + 8 * 12 + 8;
  const std::size_t encoder = 2 * (attention + rest + 2 * 16) + 16;
  const std::size_t decoder = 2 * (2 * attention + rest + 3 * 16) + 16;
  CHECK(model.parameters.num_values() == encoder + decoder + 2 * 11 * 8 + 11);
  CHECK(model.parameters.num_constants() == 2 * 7 * 8);  // positions of both sides
  CHECK(model.transformer.options().d_ff == 12);
}

TEST_CASE("calling a Transformer equals encode(), decode() and logits() in sequence") {
  const TestTransformer model(small());
  const Tensor memory = model.transformer.encode(source, Mode::inference());
  const Tensor decoded = model.transformer.decode(target, memory, source, Mode::inference());
  CHECK(memory.shape() == Shape{3, 4, 8});
  CHECK(decoded.shape() == Shape{3, 3, 8});
  CHECK(values_of(model.transformer.logits(decoded)) ==
        values_of(model.transformer(source, target, Mode::inference())));
}

TEST_CASE("the first loss is near ln(vocabulary), and half a nat higher with tied embeddings") {
  constexpr std::size_t words = 1000;
  const auto first_loss = [](NormPlacement norm, TiedEmbeddings tie) {
    TransformerOptions options = small();
    options.d_model = 32;
    options.norm = norm;
    options.tie_embeddings = tie;
    const TestTransformer model(options, DType::float32, 1, words);
    const TokenBatch tokens{.ids = random_ids(16, 7, words, 1),
                            .lengths = std::vector<std::int32_t>(16, 7)};
    return cross_entropy(model.transformer(tokens, tokens, Mode::inference()),
                         random_ids(16, 7, words, 2))
        .mean.item();
  };
  const double chance = std::log(1000.0);
  for (const NormPlacement norm : {NormPlacement::pre, NormPlacement::post}) {
    CHECK(first_loss(norm, TiedEmbeddings::none) == doctest::Approx(chance).epsilon(0.01));
    // Rows of variance 1 / d_model make logits of variance 1, which increases ln sum exp by 1/2.
    const double tied = first_loss(norm, TiedEmbeddings::target);
    CHECK(tied == doctest::Approx(chance + 0.5).epsilon(0.02));
  }
}

TEST_CASE("inconsistent lengths, widths and head counts are rejected with the path of the layer") {
  const TestTransformer model(small());
  TokenBatch short_of_lengths = source;
  short_of_lengths.lengths.pop_back();
  check_error<ShapeError>("0|2|3|encoder.layers.0.self_attn",
                          [&] { model.transformer(short_of_lengths, target, Mode::inference()); });
  check_error<ShapeError>("output: linear:|(3, 7)|8|(11, 8)", [&] {
    model.transformer.logits(Tensor::zeros({3, 7}, DType::float64));
  });
  TransformerOptions options = small();
  options.num_heads = 3;
  check_error<ShapeError>("0|8|3|encoder.layers.0.self_attn", [&] { TestTransformer{options}; });
}

TEST_CASE("sharing all embeddings requires one common vocabulary") {
  TransformerOptions options = small();
  options.tie_embeddings = TiedEmbeddings::all;
  Parameters parameters(DType::float32, 1);
  check_error<ShapeError>("transformer:|10|11",
                          [&] { Transformer(Scope(parameters), options, 10, 11, padding_id); });
}

namespace {

/// The logits (vocabulary) of position t in row r.
std::vector<double> at(const Tensor& logits, std::size_t r, std::size_t t) {
  const auto all = values_of(logits);
  const auto begin =
      all.begin() + static_cast<std::ptrdiff_t>((r * logits.shape()[1] + t) * logits.shape()[2]);
  return {begin, begin + static_cast<std::ptrdiff_t>(logits.shape()[2])};
}

/// Checks equality up to rounding: BLAS rounds a row differently at different positions in a
/// matrix.
void check_close(const std::vector<double>& found, const std::vector<double>& expected) {
  check_values(Tensor::from({found.size()}, found, DType::float64), expected, 1e-13);
}

}  // namespace

TEST_CASE("additional columns of padding with any ids do not change the logits of tokens") {
  for (const TransformerOptions& options : every_choice()) {
    const TestTransformer model(options);
    const Tensor before = model.transformer(source, target, Mode::inference());
    const Tensor after =
        model.transformer(padded(source, 3, 7), padded(target, 2, 9), Mode::inference());
    for (std::size_t r = 0; r < 3; ++r) {
      for (std::size_t t = 0; t < static_cast<std::size_t>(target.lengths[r]); ++t) {
        check_close(at(after, r, t), at(before, r, t));
      }
    }
  }
}

TEST_CASE("initial values depend on seed and name, and agree in both precisions up to rounding") {
  const TestTransformer exact(small());
  const TestTransformer rounded(small(), DType::float32);
  const TestTransformer other(small(), DType::float64, 2);
  TransformerOptions deeper = small();
  deeper.num_encoder_layers = 3;
  deeper.tie_embeddings = TiedEmbeddings::none;
  const TestTransformer larger(deeper);
  for (const NamedTensor& p : exact.parameters) {
    CAPTURE(p.name);
    const auto values = values_of(p.tensor);
    const auto singles = values_of(parameter(rounded.parameters, p.name));
    for (std::size_t i = 0; i < values.size(); ++i) {
      CHECK(singles[i] == static_cast<float>(values[i]));
    }
    CHECK(values_of(parameter(larger.parameters, p.name)) == values);
    const bool random = p.name.ends_with("weight") && !p.name.ends_with("norm.weight");
    CHECK((values_of(parameter(other.parameters, p.name)) != values) == random);
  }
  CHECK(values_of(parameter(exact.parameters, "encoder.layers.0.self_attn.q_proj.weight")) !=
        values_of(parameter(exact.parameters, "encoder.layers.1.self_attn.q_proj.weight")));
}

TEST_CASE("dropout of source and target drops different elements, even for the same tokens") {
  TransformerOptions options = small();
  options.num_encoder_layers = 0;
  options.num_decoder_layers = 0;
  options.norm = NormPlacement::post;
  options.tie_embeddings = TiedEmbeddings::all;
  options.dropout = 0.2;
  const Transformer model = TestTransformer(options).transformer;
  const auto encoded = [&](const Mode& mode) { return values_of(model.encode(source, mode)); };
  const auto decoded = [&](const Mode& mode) {
    return values_of(model.decode(source, model.encode(source, Mode::inference()), source, mode));
  };
  CHECK(encoded(Mode::inference()) == decoded(Mode::inference()));
  CHECK(encoded(Mode::training(RandomStream(1))) != decoded(Mode::training(RandomStream(1))));
}

namespace {

/// `rows` sentences of `length` tokens each, all counted as tokens.
TokenBatch full_batch(std::size_t rows, std::size_t length) {
  return {.ids = random_ids(rows, length, vocabulary, 3),
          .lengths = std::vector<std::int32_t>(rows, static_cast<std::int32_t>(length))};
}

/// The gradients of all parameters in one array; an absent gradient counts as zeros.
std::vector<double> flat_gradients(const Parameters& parameters) {
  std::vector<double> all;
  for (const NamedTensor& p : parameters) {
    const Tensor gradient = p.tensor.grad();
    const auto values =
        gradient.defined() ? values_of(gradient) : std::vector<double>(p.tensor.size());
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

/// Runs forward and backward; returns the gradients.
std::vector<double> step(const TestTransformer& model, const TokenBatch& from, const TokenBatch& to,
                         const Mode& mode) {
  Tape tape;
  const Tensor logits = model.transformer(from, to, mode);
  tape.backward(logits, random_leaf(logits.shape(), 5).detach().to(logits.dtype()));
  return flat_gradients(model.parameters);
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

}  // namespace

TEST_CASE("sources of 0 tokens give finite logits and gradients") {
  for (const TransformerOptions& options : every_choice()) {
    const TestTransformer model(options);
    CHECK(all_finite(values_of(model.transformer(full_batch(3, 0), target, Mode::inference()))));
    CHECK(all_finite(step(model, full_batch(3, 0), target, Mode::inference())));
  }
}

// Takes seconds, since it repeats the same computation for every coordinate.
TEST_CASE("the gradients of sentences of one token agree with finite differences" *
          doctest::skip(is_guarded_run())) {
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

TEST_CASE("a source of only padding gives finite values and does not change other sentences") {
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

TEST_CASE("dropout at rate 1 gives finite logits and gradients, and zero gradients of embeddings") {
  TransformerOptions options = small();
  options.dropout = 1.0;
  options.tie_embeddings = TiedEmbeddings::none;
  const TestTransformer model(options);
  const Mode mode = Mode::training(RandomStream(3));
  CHECK(all_finite(values_of(model.transformer(source, target, mode))));
  CHECK(all_finite(step(model, source, target, mode)));
  for (const char* name : {"source_embedding.weight", "target_embedding.weight"}) {
    CHECK(all_zero(values_of(parameter(model.parameters, name).grad())));
  }
  CHECK_FALSE(all_zero(values_of(parameter(model.parameters, "output.bias").grad())));
}

TEST_CASE("backward through the encoder gives gradients only to the parameters of the encoder") {
  const TestTransformer model(small());
  Tape tape;
  const Tensor memory = model.transformer.encode(source, Mode::inference());
  tape.backward(memory, random_leaf(memory.shape(), 5).detach().to(DType::float64));
  for (const NamedTensor& p : model.parameters) {
    CAPTURE(p.name);
    const bool of_encoder = p.name.starts_with("encoder.") || p.name.starts_with("source_");
    CHECK(p.tensor.grad().defined() == of_encoder);
  }
}

TEST_CASE("ids that do not occur and positions beyond the sentences have zero gradients") {
  TransformerOptions options = small();
  options.positions = PositionKind::learned;
  options.tie_embeddings = TiedEmbeddings::none;
  const TestTransformer model(options);
  step(model, source, target, Mode::inference());
  const Tensor words = parameter(model.parameters, "source_embedding.weight").grad();
  const Tensor places = parameter(model.parameters, "source_positions.weight").grad();
  for (const std::size_t absent : {1, 2}) CHECK(all_zero(row_of(words, absent)));
  CHECK(all_zero(row_of(words, padding_id)));
  CHECK_FALSE(all_zero(row_of(words, 5)));
  for (const std::size_t beyond : {4, 5, 6}) CHECK(all_zero(row_of(places, beyond)));
  CHECK_FALSE(all_zero(row_of(places, 3)));
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
