#include "layers/transformer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "autograd/error.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/losses.h"
#include "autograd/tape.h"
#include "tests/layers/transformer_cases.h"
#include "tests/support/parameters.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

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

/// "name (shape)" of the parameters outside the two stacks.
std::vector<std::string> outer_parameters(const TransformerOptions& options) {
  std::vector<std::string> names;
  for (const std::string& line : listing(TestTransformer(options).parameters)) {
    if (!line.starts_with("encoder.") && !line.starts_with("decoder.")) names.push_back(line);
  }
  return names;
}

}  // namespace

TEST_CASE("with no layers the logits are tied dot products of embeddings plus positions") {
  TransformerOptions options{.d_model = 2,
                             .num_heads = 1,
                             .num_encoder_layers = 0,
                             .num_decoder_layers = 0,
                             .dropout = 0.0,
                             .norm = NormPlacement::post,
                             .tie_embeddings = TiedEmbeddings::target};
  const TestTransformer model(options, DType::float64, 1, 3);
  set_values(model.parameters, "target_embedding.weight", {0, 0, 1, 2, 3, 4});
  set_values(model.parameters, "output.bias", {10, 20, 30});
  const TokenBatch tokens{.ids = {{1, 2}}, .lengths = {2}};
  const Tensor y = model.transformer(tokens, tokens, Mode::inference());
  CHECK(y.shape() == Shape{1, 2, 3});
  const double root = std::sqrt(2.0);
  const double a = 3 * root + std::sin(1.0);
  const double b = 4 * root + std::cos(1.0);
  check_values(y, {10, 20 + root + 2 * (2 * root + 1), 30 + 3 * root + 4 * (2 * root + 1),  //
                   10, 20 + a + 2 * b, 30 + 3 * a + 4 * b});
}

TEST_CASE("tied weights are one matrix and listed once") {
  TransformerOptions options = small();
  options.tie_embeddings = TiedEmbeddings::none;
  CHECK(outer_parameters(options) == std::vector<std::string>{"target_embedding.weight (11, 8)",
                                                              "source_embedding.weight (11, 8)",
                                                              "output.weight (11, 8)",
                                                              "output.bias (11)"});
  options.tie_embeddings = TiedEmbeddings::target;
  CHECK(outer_parameters(options) == std::vector<std::string>{"target_embedding.weight (11, 8)",
                                                              "source_embedding.weight (11, 8)",
                                                              "output.bias (11)"});
  options.tie_embeddings = TiedEmbeddings::all;
  CHECK(outer_parameters(options) ==
        std::vector<std::string>{"target_embedding.weight (11, 8)", "output.bias (11)"});
}

TEST_CASE("two models in different scopes share one Parameters") {
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

TEST_CASE("the padding row of either embedding gets no gradient") {
  TransformerOptions options = small();
  options.tie_embeddings = TiedEmbeddings::none;
  const TestTransformer model(options);
  // Within the lengths, where a padding id has an influence on the logits.
  const TokenBatch tokens{.ids = {{5, padding_id, 7}}, .lengths = {3}};
  Tape tape;
  const Tensor logits = model.transformer(tokens, tokens, Mode::inference());
  tape.backward(logits, logits);
  for (const char* side : {"source", "target"}) {
    const auto gradient =
        values_of(parameter(model.parameters, std::string(side) + "_embedding.weight").gradient());
    CHECK(std::ranges::all_of(std::span(gradient).first(8), [](double g) { return g == 0.0; }));
    CHECK(std::ranges::any_of(gradient, [](double g) { return g != 0.0; }));
  }
}

TEST_CASE("learned positions have one table for source and target each") {
  TransformerOptions options = small();
  options.positions = PositionKind::learned;
  CHECK(outer_parameters(options) == std::vector<std::string>{"target_embedding.weight (11, 8)",
                                                              "source_embedding.weight (11, 8)",
                                                              "source_positions.weight (7, 8)",
                                                              "target_positions.weight (7, 8)",
                                                              "output.bias (11)"});
}

TEST_CASE("a Transformer has encoder and decoder layers of the given number and sizes") {
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

TEST_CASE("the gradient of every parameter agrees with differences, for every choice") {
  for (const TransformerOptions& options : every_choice()) {
    CAPTURE(static_cast<int>(options.norm));
    CAPTURE(static_cast<int>(options.activation));
    const TestTransformer model(options);
    perturb(model.parameters);
    const auto run = [&] {
      return logits_of_tokens(model.transformer(source, target, Mode::training(RandomStream(4))),
                              target);
    };
    check_gradients(run, model.parameters, {}, {.max_coordinates = 6});
  }
}

TEST_CASE("each of the four rates of dropout applies in its places, and `dropout` in the others") {
  const auto logits = [](const TransformerOptions& options) {
    return values_of(
        TestTransformer(options).transformer(source, target, Mode::training(RandomStream(4))));
  };
  TransformerOptions everywhere = small(), nowhere = small();
  everywhere.dropout = 0.3;
  using Rate = std::optional<double> TransformerOptions::*;
  constexpr Rate rates[] = {
      &TransformerOptions::embedding_dropout, &TransformerOptions::attention_dropout,
      &TransformerOptions::activation_dropout, &TransformerOptions::residual_dropout};
  TransformerOptions all_by_place = small(), none_by_place = everywhere;
  std::set<std::vector<double>> different{logits(nowhere), logits(everywhere)};
  for (const Rate rate : rates) {
    TransformerOptions only = nowhere, without = everywhere;
    only.*rate = all_by_place.*rate = 0.3;
    without.*rate = none_by_place.*rate = 0.0;
    different.insert({logits(only), logits(without)});
  }
  CHECK(different.size() == 2 + 2 * 4);
  CHECK(logits(all_by_place) == logits(everywhere));
  CHECK(logits(none_by_place) == logits(nowhere));
}

TEST_CASE("the call operator is encode, decode and logits one after the other") {
  const TestTransformer model(small());
  const Tensor memory = model.transformer.encode(source, Mode::inference());
  const Tensor decoded = model.transformer.decode(target, memory, source, Mode::inference());
  CHECK(memory.shape() == Shape{3, 4, 8});
  CHECK(decoded.shape() == Shape{3, 3, 8});
  CHECK(values_of(model.transformer.logits(decoded)) ==
        values_of(model.transformer(source, target, Mode::inference())));
}

TEST_CASE("dropout applies to the embeddings of either side") {
  TransformerOptions options = small();
  options.num_encoder_layers = 0;
  options.num_decoder_layers = 0;
  options.dropout = 0.5;
  const TestTransformer model(options);
  const Transformer& transformer = model.transformer;
  const Mode mode = Mode::training(RandomStream(1));
  const Tensor memory = transformer.encode(source, Mode::inference());
  CHECK(values_of(transformer.encode(source, mode)) != values_of(memory));
  CHECK(values_of(transformer.decode(target, memory, source, mode)) !=
        values_of(transformer.decode(target, memory, source, Mode::inference())));
}

TEST_CASE("the first loss is near ln(vocabulary), and half a nat above it with tied embeddings") {
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
    // Rows of variance 1 / d_model make logits of variance 1: ln sum exp is 1/2 more.
    const double tied = first_loss(norm, TiedEmbeddings::target);
    CHECK(tied == doctest::Approx(chance + 0.5).epsilon(0.02));
  }
}

TEST_CASE("a sequence of max_length passes, a longer source or target is refused") {
  const TestTransformer model(small());
  const TokenBatch longest = padded(source, 3, padding_id);
  CHECK(model.transformer(longest, longest, Mode::inference()).shape() == Shape{3, 7, 11});
  const TokenBatch longer = padded(source, 4, padding_id);
  CHECK_THROWS_WITH_AS(model.transformer(longer, target, Mode::inference()),
                       "source_positions: positions: the sequence has 8 tokens, expected at most 7 "
                       "(max_length)",
                       ShapeError);
  CHECK_THROWS_WITH_AS(model.transformer(source, longer, Mode::inference()),
                       "target_positions: positions: the sequence has 8 tokens, expected at most 7 "
                       "(max_length)",
                       ShapeError);
}

TEST_CASE("ids outside the vocabulary are refused with side and position") {
  const TestTransformer model(small());
  TokenBatch wrong = source;
  wrong.ids(2, 1) = 11;
  CHECK_THROWS_WITH_AS(model.transformer(wrong, target, Mode::inference()),
                       "source_embedding: embedding: id (2, 1) is 11, expected 0 <= id < 11",
                       ValueError);
  wrong.ids(2, 1) = -1;
  CHECK_THROWS_WITH_AS(model.transformer(source, wrong, Mode::inference()),
                       "target_embedding: embedding: id (2, 1) is -1, expected 0 <= id < 11",
                       ValueError);
}

TEST_CASE("lengths, batches and widths that do not fit are refused with the path of the layer") {
  const TestTransformer model(small());
  TokenBatch short_of_lengths = source;
  short_of_lengths.lengths.pop_back();
  CHECK_THROWS_WITH_AS(model.transformer(short_of_lengths, target, Mode::inference()),
                       "encoder.layers.0.self_attn: scaled_dot_product_attention: the padding mask "
                       "has 2 lengths, expected 3 (the batch size)",
                       ShapeError);
  CHECK_THROWS_WITH_AS(
      model.transformer.logits(Tensor::zeros({3, 7}, DType::float64)),
      "output: linear: x has shape (3, 7), expected last axis 8 (weight is (11, 8))", ShapeError);
  TransformerOptions options = small();
  options.num_heads = 3;
  CHECK_THROWS_WITH_AS(TestTransformer{options},
                       "encoder.layers.0.self_attn: multi-head attention: d_model 8 is not a "
                       "multiple of num_heads 3",
                       ShapeError);
}

TEST_CASE("embeddings shared by all require one common vocabulary") {
  TransformerOptions options = small();
  options.tie_embeddings = TiedEmbeddings::all;
  Parameters parameters(DType::float32, 1);
  CHECK_THROWS_WITH_AS(Transformer(Scope(parameters), options, 10, 11, padding_id),
                       "transformer: tie_embeddings is all, but the vocabularies have 10 and 11 "
                       "entries, expected one common vocabulary",
                       ShapeError);
}
