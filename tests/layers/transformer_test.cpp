#include "layers/transformer.h"

#include <doctest/doctest.h>

#include <cmath>
#include <xtensor/xtensor.hpp>

#include "autograd/error.h"
#include "autograd/kernels/parallel.h"
#include "autograd/ops/cross_entropy.h"
#include "autograd/ops/mul.h"
#include "autograd/tape.h"
#include "layers/token_batch.h"
#include "tests/support/gradients.h"
#include "tests/support/parameters.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::testing;

namespace {

constexpr std::int32_t padding_id = 0;
constexpr std::size_t vocabulary = 11;

TransformerOptions small() {
  return {.d_model = 8, .num_heads = 2, .num_encoder_layers = 2, .num_decoder_layers = 2,
          .d_ff = 12, .dropout = 0.0, .max_length = 7};
}

struct Model {
  explicit Model(const TransformerOptions& options, DType dtype = DType::float64,
                 std::uint64_t seed = 1, std::size_t words = vocabulary)
      : parameters(dtype, seed), transformer(parameters, options, words, words, padding_id) {}

  Parameters parameters;
  Transformer transformer;
};

const TokenBatch source{.ids = {{5, 6, 7, 8}, {9, 4, 0, 0}, {3, 10, 5, 0}}, .lengths = {4, 2, 3}};
const TokenBatch target{.ids = {{1, 8, 7}, {1, 4, 9}, {1, 5, 0}}, .lengths = {3, 3, 2}};

/// The logits of the positions that hold tokens; 0 elsewhere.
Tensor logits_of_tokens(const Tensor& logits, const TokenBatch& tokens) {
  const Shape& shape = logits.shape();
  Tensor keep = Tensor::zeros({shape[0], shape[1], 1}, logits.dtype());
  for (std::size_t r = 0; r < shape[0]; ++r) {
    const auto row = keep.mutable_values<double>().subspan(r * shape[1]);
    std::fill_n(row.begin(), tokens.lengths[r], 1.0);
  }
  return mul(logits, keep);
}

/// One choice of each kind; together they take every choice once or more.
std::vector<TransformerOptions> every_choice() {
  const auto with = [](NormPlacement norm, Activation activation, PositionKind positions,
                       TiedEmbeddings tie, double dropout) {
    TransformerOptions options = small();
    options.norm = norm;
    options.activation = activation;
    options.positions = positions;
    options.tie_embeddings = tie;
    options.dropout = dropout;
    return options;
  };
  using enum NormPlacement;
  using enum Activation;
  using enum PositionKind;
  using Tied = TiedEmbeddings;
  return {with(pre, relu, sinusoidal, Tied::target, 0.0),
          with(post, relu, learned, Tied::none, 0.0),
          with(pre, Activation::gelu, learned, Tied::all, 0.0),
          with(post, Activation::gelu_tanh, sinusoidal, Tied::all, 0.3),
          with(pre, Activation::gelu_tanh, sinusoidal, Tied::none, 0.3)};
}

/// The batch with its rows in another order.
TokenBatch permuted(const TokenBatch& tokens, const std::vector<std::size_t>& order) {
  TokenBatch result = tokens;
  for (std::size_t r = 0; r < order.size(); ++r) {
    result.lengths[r] = tokens.lengths[order[r]];
    for (std::size_t t = 0; t < tokens.ids.shape(1); ++t) result.ids(r, t) = tokens.ids(order[r], t);
  }
  return result;
}

/// The batch with `columns` more columns of padding, filled with `id`.
TokenBatch padded(const TokenBatch& tokens, std::size_t columns, std::int32_t id) {
  const std::size_t rows = tokens.ids.shape(0);
  const std::size_t length = tokens.ids.shape(1);
  TokenBatch result{.ids = xt::xtensor<std::int32_t, 2>({rows, length + columns}, id),
                    .lengths = tokens.lengths};
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t t = 0; t < length; ++t) result.ids(r, t) = tokens.ids(r, t);
  }
  return result;
}

/// The logits (vocabulary) of position t in row r.
std::vector<double> at(const Tensor& logits, std::size_t r, std::size_t t) {
  const auto all = values_of(logits);
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(
                                       (r * logits.shape()[1] + t) * logits.shape()[2]);
  return {begin, begin + static_cast<std::ptrdiff_t>(logits.shape()[2])};
}

std::vector<std::string> outer_parameters(const TransformerOptions& options) {
  std::vector<std::string> names;
  for (const std::string& line : listing(Model(options).parameters)) {
    if (!line.starts_with("encoder.") && !line.starts_with("decoder.")) names.push_back(line);
  }
  return names;
}

Ids random_ids(std::size_t rows, std::size_t length, std::size_t words, std::uint64_t seed) {
  Ids ids = xt::xtensor<std::int32_t, 2>::from_shape({rows, length});
  std::uint64_t counter = 0;
  for (std::int32_t& id : ids) {
    const double u = RandomStream(seed).uniform(counter++);
    id = 1 + static_cast<std::int32_t>(u * static_cast<double>(words - 1));
  }
  return ids;
}

}  // namespace

TEST_CASE("with no layers the logits are tied dot products of embeddings plus positions") {
  TransformerOptions options{.d_model = 2, .num_heads = 1, .num_encoder_layers = 0,
                             .num_decoder_layers = 0, .dropout = 0.0, .norm = NormPlacement::post};
  const Model model(options, DType::float64, 1, 3);
  set_values(model.parameters, "target_embedding.weight", {0, 0, 1, 2, 3, 4});
  set_values(model.parameters, "output.bias", {10, 20, 30});
  const TokenBatch tokens{.ids = {{1, 2}}, .lengths = {2}};
  const Tensor y = model.transformer(tokens, tokens);
  CHECK(y.shape() == Shape{1, 2, 3});
  const double root = std::sqrt(2.0);
  const double a = 3 * root + std::sin(1.0);
  const double b = 4 * root + std::cos(1.0);
  check_values(y, {10, 20 + root + 2 * (2 * root + 1), 30 + 3 * root + 4 * (2 * root + 1),  //
                   10, 20 + a + 2 * b, 30 + 3 * a + 4 * b});
}

TEST_CASE("tying decides which matrices there are; each stands in the map once") {
  TransformerOptions options = small();
  options.tie_embeddings = TiedEmbeddings::none;
  CHECK(outer_parameters(options) ==
        std::vector<std::string>{"target_embedding.weight (11, 8)", "source_embedding.weight (11, 8)",
                                 "output.weight (11, 8)", "output.bias (11)"});
  options.tie_embeddings = TiedEmbeddings::target;
  CHECK(outer_parameters(options) ==
        std::vector<std::string>{"target_embedding.weight (11, 8)", "source_embedding.weight (11, 8)",
                                 "output.bias (11)"});
  options.tie_embeddings = TiedEmbeddings::all;
  CHECK(outer_parameters(options) ==
        std::vector<std::string>{"target_embedding.weight (11, 8)", "output.bias (11)"});
}

TEST_CASE("learned positions have one table for each side") {
  TransformerOptions options = small();
  options.positions = PositionKind::learned;
  CHECK(outer_parameters(options) ==
        std::vector<std::string>{"target_embedding.weight (11, 8)", "source_embedding.weight (11, 8)",
                                 "source_positions.weight (7, 8)", "target_positions.weight (7, 8)",
                                 "output.bias (11)"});
}

TEST_CASE("a Transformer has two encoder and two decoder layers of the sizes asked for") {
  const Model model(small());
  CHECK(parameter(model.parameters, "encoder.layers.1.ff.linear1.weight").shape() == Shape{12, 8});
  CHECK(parameter(model.parameters, "decoder.layers.1.cross_attn.v_proj.weight").shape() ==
        Shape{8, 8});
  const std::size_t attention = 4 * (8 * 8 + 8);
  const std::size_t rest = 12 * 8 + 12 + 8 * 12 + 8;
  const std::size_t encoder = 2 * (attention + rest + 2 * 16) + 16;
  const std::size_t decoder = 2 * (2 * attention + rest + 3 * 16) + 16;
  CHECK(model.parameters.num_values() == encoder + decoder + 2 * 11 * 8 + 11);
  CHECK(model.transformer.options().d_ff == 12);
}

TEST_CASE("the gradient of every parameter agrees with differences, for every choice") {
  for (const TransformerOptions& options : every_choice()) {
    CAPTURE(static_cast<int>(options.norm));
    CAPTURE(static_cast<int>(options.activation));
    const Model model(options);
    perturb(model.parameters);
    const auto run = [&] {
      return logits_of_tokens(model.transformer(source, target, RandomStream(4)), target);
    };
    // Small steps: the kinks of ReLU must not lie within them.
    check_gradients(run, model.parameters, {}, {.step = 1e-4, .max_coordinates = 6});
  }
}

TEST_CASE("the call operator is encode, decode and logits one after the other") {
  const Model model(small());
  const Tensor memory = model.transformer.encode(source);
  const Tensor decoded = model.transformer.decode(target, memory, source);
  CHECK(memory.shape() == Shape{3, 4, 8});
  CHECK(decoded.shape() == Shape{3, 3, 8});
  CHECK(values_of(model.transformer.logits(decoded)) ==
        values_of(model.transformer(source, target)));
}

TEST_CASE("what comes later in the target changes nothing before it, not a bit") {
  for (const TransformerOptions& options : every_choice()) {
    const Model model(options);
    TokenBatch other = target;
    other.ids(0, 2) = 10;
    const Tensor before = model.transformer(source, target);
    const Tensor after = model.transformer(source, other);
    CHECK(at(before, 0, 0) == at(after, 0, 0));
    CHECK(at(before, 0, 1) == at(after, 0, 1));
    CHECK(at(before, 0, 2) != at(after, 0, 2));
    CHECK(at(before, 1, 2) == at(after, 1, 2));
  }
}

TEST_CASE("every target position sees all of its source sentence") {
  const Model model(small());
  for (std::size_t changed = 0; changed < 4; ++changed) {
    TokenBatch other = source;
    other.ids(0, changed) = 10;
    const Tensor before = model.transformer(source, target);
    const Tensor after = model.transformer(other, target);
    for (std::size_t t = 0; t < 3; ++t) CHECK(at(before, 0, t) != at(after, 0, t));
    CHECK(at(before, 1, 0) == at(after, 1, 0));
  }
}

TEST_CASE("more columns of padding, whatever they hold, change nothing, not a bit") {
  for (const TransformerOptions& options : every_choice()) {
    const Model model(options);
    const Tensor before = model.transformer(source, target);
    const Tensor after = model.transformer(padded(source, 3, 7), padded(target, 2, 9));
    for (std::size_t r = 0; r < 3; ++r) {
      for (std::size_t t = 0; t < static_cast<std::size_t>(target.lengths[r]); ++t) {
        CHECK(at(before, r, t) == at(after, r, t));
      }
    }
  }
}

TEST_CASE("permuting the sentences of a batch permutes the logits, bit for bit") {
  const Model model(small());
  const std::vector<std::size_t> order = {2, 0, 1};
  const Tensor before = model.transformer(source, target);
  const Tensor after = model.transformer(permuted(source, order), permuted(target, order));
  for (std::size_t r = 0; r < 3; ++r) {
    for (std::size_t t = 0; t < 3; ++t) CHECK(at(after, r, t) == at(before, order[r], t));
  }
}

TEST_CASE("initial values are keyed by seed and name, the same in both precisions up to rounding") {
  const Model exact(small());
  const Model rounded(small(), DType::float32);
  const Model other(small(), DType::float64, 2);
  TransformerOptions deeper = small();
  deeper.num_encoder_layers = 3;
  deeper.tie_embeddings = TiedEmbeddings::none;
  const Model larger(deeper);
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

TEST_CASE("a step in float32 has the same bits on one thread and on two") {
  TransformerOptions options = small();
  options.d_model = 64;
  options.d_ff = 256;
  options.dropout = 0.1;
  options.max_length = 24;
  const TokenBatch tokens{.ids = random_ids(12, 24, 500, 1),
                          .lengths = std::vector<std::int32_t>(12, 24)};
  const auto step = [&](std::size_t threads) {
    kernels::set_num_threads(threads);
    const Model model(options, DType::float32, 1, 500);
    Tape tape;
    const Tensor logits = model.transformer(tokens, tokens, RandomStream(1));
    tape.backward(cross_entropy(logits, tokens.ids));
    kernels::set_num_threads(0);
    std::vector<std::vector<double>> results{values_of(logits)};
    for (const NamedTensor& p : model.parameters) results.push_back(values_of(p.tensor.gradient()));
    return results;
  };
  CHECK(step(1) == step(2));
}

TEST_CASE("a gathered model gives the very bits of one that is not") {
  const auto step = [](bool gather) {
    Model model(small());
    if (gather) model.parameters.gather();
    Tape tape;
    const Tensor logits = model.transformer(source, target, RandomStream(1));
    tape.backward(logits, logits);
    std::vector<std::vector<double>> results{values_of(logits)};
    for (const NamedTensor& p : model.parameters) results.push_back(values_of(p.tensor.gradient()));
    return results;
  };
  CHECK(step(true) == step(false));
}

TEST_CASE("dropout follows the stream and is off without one") {
  TransformerOptions options = small();
  const Model plain(options);
  options.dropout = 0.2;
  const Model model(options);
  const auto logits = values_of(model.transformer(source, target, RandomStream(1).at(1)));
  CHECK(values_of(model.transformer(source, target, RandomStream(1).at(1))) == logits);
  CHECK(values_of(model.transformer(source, target, RandomStream(1).at(2))) != logits);
  CHECK(values_of(model.transformer(source, target)) ==
        values_of(plain.transformer(source, target)));
}

TEST_CASE("a fresh model knows nothing: its loss is near ln(vocabulary)") {
  constexpr std::size_t words = 1000;
  for (const NormPlacement norm : {NormPlacement::pre, NormPlacement::post}) {
    for (const TiedEmbeddings tie : {TiedEmbeddings::none, TiedEmbeddings::target}) {
      TransformerOptions options = small();
      options.d_model = 32;
      options.norm = norm;
      options.tie_embeddings = tie;
      const Model model(options, DType::float32, 1, words);
      const TokenBatch tokens{.ids = random_ids(16, 7, words, 1),
                              .lengths = std::vector<std::int32_t>(16, 7)};
      const Tensor logits = model.transformer(tokens, tokens);
      const double loss = cross_entropy(logits, random_ids(16, 7, words, 2)).item();
      CHECK(loss == doctest::Approx(std::log(1000.0)).epsilon(0.01));
    }
  }
}

TEST_CASE("a sequence of the greatest length passes, a longer one is refused on either side") {
  const Model model(small());
  const TokenBatch longest = padded(source, 3, padding_id);
  CHECK(model.transformer(longest, longest).shape() == Shape{3, 7, 11});
  const TokenBatch longer = padded(source, 4, padding_id);
  CHECK_THROWS_WITH_AS(model.transformer(longer, target),
                       "source_positions: positions: the sequence has 8 tokens, expected at most 7 "
                       "(model.max_length)",
                       ShapeError);
  CHECK_THROWS_WITH_AS(model.transformer(source, longer),
                       "target_positions: positions: the sequence has 8 tokens, expected at most 7 "
                       "(model.max_length)",
                       ShapeError);
}

TEST_CASE("ids outside the vocabulary are refused, naming the side and the place") {
  const Model model(small());
  TokenBatch wrong = source;
  wrong.ids(2, 1) = 11;
  CHECK_THROWS_WITH_AS(model.transformer(wrong, target),
                       "source_embedding: embedding: id (2, 1) is 11, expected 0 <= id < 11",
                       ValueError);
  wrong.ids(2, 1) = -1;
  CHECK_THROWS_WITH_AS(model.transformer(source, wrong),
                       "target_embedding: embedding: id (2, 1) is -1, expected 0 <= id < 11",
                       ValueError);
}

TEST_CASE("lengths, batches and widths that do not fit are refused, naming the layer") {
  const Model model(small());
  TokenBatch short_of_lengths = source;
  short_of_lengths.lengths.pop_back();
  CHECK_THROWS_WITH_AS(model.transformer(short_of_lengths, target),
                       "encoder.layers.0.self_attn: scaled_dot_product_attention: the padding mask "
                       "has 2 lengths, expected 3 (the batch size)",
                       ShapeError);
  CHECK_THROWS_WITH_AS(model.transformer.logits(Tensor::zeros({3, 7}, DType::float64)),
                       "output: linear: x has shape (3, 7), expected last axis 8 (weight is (11, 8))",
                       ShapeError);
  TransformerOptions options = small();
  options.num_heads = 3;
  CHECK_THROWS_WITH_AS(Model{options},
                       "encoder.layers.0.self_attn: multi-head attention: d_model 8 is not a "
                       "multiple of num_heads 3",
                       ShapeError);
}

TEST_CASE("embeddings shared by all need one common vocabulary") {
  TransformerOptions options = small();
  options.tie_embeddings = TiedEmbeddings::all;
  Parameters parameters(DType::float32, 1);
  CHECK_THROWS_WITH_AS(Transformer(parameters, options, 10, 11, padding_id),
                       "transformer: tie_embeddings is all, but the vocabularies have 10 and 11 "
                       "entries, expected one common vocabulary",
                       ShapeError);
}
