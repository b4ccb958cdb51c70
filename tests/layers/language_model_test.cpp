#include "layers/encoder_models.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/error.h"
#include "tests/layers/transformer_cases.h"
#include "tests/support/parameters.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

struct DecoderOnly {
  explicit DecoderOnly(const TransformerOptions& options, std::size_t words = vocabulary)
      : model(Scope(parameters), options, words, padding_id) {}

  Parameters parameters{DType::float64, 1};
  LanguageModel model;
};

const TokenBatch tokens{.ids = {{5, 6, 7, 8}, {9, 4, 3, 10}}, .lengths = {4, 4}};

/// The logits (vocabulary) of position t in row r.
std::vector<double> at(const Tensor& logits, std::size_t r, std::size_t t) {
  const auto all = values_of(logits);
  const auto begin =
      all.begin() + static_cast<std::ptrdiff_t>((r * logits.shape()[1] + t) * vocabulary);
  return {begin, begin + static_cast<std::ptrdiff_t>(vocabulary)};
}

/// Names and shapes of the parameters outside the stack.
std::vector<std::string> outer_parameters(const TransformerOptions& options) {
  std::vector<std::string> names;
  for (const std::string& line : listing(DecoderOnly(options).parameters)) {
    if (!line.starts_with("decoder.")) names.push_back(line);
  }
  return names;
}

}  // namespace

TEST_CASE("a language model without layers scores by embeddings plus positions alone") {
  TransformerOptions options{.d_model = 2,
                             .num_heads = 1,
                             .num_decoder_layers = 0,
                             .norm = NormPlacement::post,
                             .tie_embeddings = TiedEmbeddings::target};
  const DecoderOnly made(options, 3);
  set_values(made.parameters, "embedding.weight", {0, 0, 1, 2, 3, 4});
  set_values(made.parameters, "output.bias", {10, 20, 30});
  const Tensor y = made.model({.ids = {{1, 2}}, .lengths = {2}}, Mode::inference());
  CHECK(y.shape() == Shape{1, 2, 3});
  const double root = std::sqrt(2.0);
  const double a = 3 * root + std::sin(1.0);
  const double b = 4 * root + std::cos(1.0);
  check_values(y, {10, 20 + root + 2 * (2 * root + 1), 30 + 3 * root + 4 * (2 * root + 1),  //
                   10, 20 + a + 2 * b, 30 + 3 * a + 4 * b});
}

TEST_CASE("a language model has num_decoder_layers and ignores num_encoder_layers") {
  TransformerOptions options = small();
  options.num_encoder_layers = 5;
  options.num_decoder_layers = 3;
  const DecoderOnly made(options);
  CHECK(parameter(made.parameters, "decoder.layers.2.ff.linear1.weight").shape() == Shape{12, 8});
  CHECK(parameter(made.parameters, "decoder.norm.weight").shape() == Shape{8});
  CHECK(made.parameters.find("decoder.layers.3.ff.linear1.weight") == nullptr);
  CHECK(made.parameters.find("decoder.layers.0.cross_attn.q_proj.weight") == nullptr);
  CHECK(made.model.options().num_encoder_layers == 5);
}

TEST_CASE("tying a language model in any way makes its embedding the output projection") {
  TransformerOptions options = small();
  options.tie_embeddings = TiedEmbeddings::none;
  options.positions = PositionKind::learned;
  CHECK(outer_parameters(options) ==
        std::vector<std::string>{"embedding.weight (11, 8)", "positions.weight (7, 8)",
                                 "output.weight (11, 8)", "output.bias (11)"});
  options.positions = PositionKind::sinusoidal;
  for (const TiedEmbeddings tied : {TiedEmbeddings::target, TiedEmbeddings::all}) {
    options.tie_embeddings = tied;
    CHECK(outer_parameters(options) ==
          std::vector<std::string>{"embedding.weight (11, 8)", "output.bias (11)"});
  }
}

TEST_CASE("the call of a language model is decode and logits one after the other") {
  const DecoderOnly made(small());
  const Tensor decoded = made.model.decode(tokens, Mode::inference());
  CHECK(decoded.shape() == Shape{2, 4, 8});
  CHECK(values_of(made.model.logits(decoded)) == values_of(made.model(tokens, Mode::inference())));
}

TEST_CASE("a token changes no bit of earlier logits and all logits from its position on") {
  for (const TransformerOptions& options : every_choice()) {
    const DecoderOnly made(options);
    const Tensor before = made.model(tokens, Mode::inference());
    for (std::size_t changed = 0; changed < 4; ++changed) {
      TokenBatch other = tokens;
      other.ids(0, changed) = 2;
      const Tensor after = made.model(other, Mode::inference());
      for (std::size_t t = 0; t < 4; ++t) {
        CHECK((at(before, 0, t) == at(after, 0, t)) == (t < changed));
        CHECK(at(before, 1, t) == at(after, 1, t));
      }
    }
  }
}

TEST_CASE("tokens behind the length of a row change no logits of its tokens") {
  const DecoderOnly made(small());
  TokenBatch shorter = tokens;
  shorter.lengths = {4, 2};
  TokenBatch other = shorter;
  other.ids(1, 2) = 1;
  other.ids(1, 3) = padding_id;
  const Tensor before = made.model(shorter, Mode::inference());
  const Tensor after = made.model(other, Mode::inference());
  for (std::size_t t = 0; t < 2; ++t) CHECK(at(before, 1, t) == at(after, 1, t));
}

TEST_CASE("padding inside a language model's stack is masked") {
  const DecoderOnly made(small());
  TokenBatch shorter = tokens;
  shorter.lengths = {4, 2};
  const Tensor before = made.model(tokens, Mode::inference());
  const Tensor after = made.model(shorter, Mode::inference());
  CHECK(at(before, 1, 1) == at(after, 1, 1));
  CHECK(at(before, 1, 3) != at(after, 1, 3));
}

TEST_CASE("dropout of a language model follows the stream and is off without one") {
  TransformerOptions options = small();
  const DecoderOnly plain(options);
  options.dropout = 0.2;
  const DecoderOnly made(options);
  const auto dropped = values_of(made.model(tokens, Mode::training(RandomStream(1).at(1))));
  CHECK(values_of(made.model(tokens, Mode::training(RandomStream(1).at(1)))) == dropped);
  CHECK(values_of(made.model(tokens, Mode::training(RandomStream(1).at(2)))) != dropped);
  CHECK(values_of(made.model(tokens, Mode::inference())) ==
        values_of(plain.model(tokens, Mode::inference())));
}

TEST_CASE("dropout of a language model applies to its embeddings") {
  TransformerOptions options = small();
  options.num_decoder_layers = 0;
  options.dropout = 0.5;
  const DecoderOnly made(options);
  CHECK(values_of(made.model.decode(tokens, Mode::training(RandomStream(1)))) !=
        values_of(made.model.decode(tokens, Mode::inference())));
}

TEST_CASE("the gradient of a language model agrees with differences, for every choice") {
  for (const TransformerOptions& options : every_choice()) {
    CAPTURE(static_cast<int>(options.norm));
    CAPTURE(static_cast<int>(options.activation));
    const DecoderOnly made(options);
    perturb(made.parameters);
    const auto run = [&] { return made.model(tokens, Mode::training(RandomStream(4))); };
    check_gradients(run, made.parameters, {}, {.max_coordinates = 6});
  }
}

TEST_CASE("a language model refuses long sequences, unknown ids and lengths that do not fit") {
  const DecoderOnly made(small());
  CHECK(made.model(padded(tokens, 3, padding_id), Mode::inference()).shape() == Shape{2, 7, 11});
  CHECK_THROWS_WITH_AS(made.model(padded(tokens, 4, padding_id), Mode::inference()),
                       "positions: positions: the sequence has 8 tokens, expected at most 7 "
                       "(max_length)",
                       ShapeError);
  TokenBatch wrong = tokens;
  wrong.ids(1, 2) = 11;
  CHECK_THROWS_WITH_AS(made.model(wrong, Mode::inference()),
                       "embedding: embedding: id (1, 2) is 11, expected 0 <= id < 11", ValueError);
  wrong.ids(1, 2) = -1;
  CHECK_THROWS_WITH_AS(made.model(wrong, Mode::inference()),
                       "embedding: embedding: id (1, 2) is -1, expected 0 <= id < 11", ValueError);
  TokenBatch one_length = tokens;
  one_length.lengths.pop_back();
  CHECK_THROWS_WITH_AS(made.model(one_length, Mode::inference()),
                       "decoder.layers.0.self_attn: scaled_dot_product_attention: the padding mask "
                       "has 1 lengths, expected 2 (the batch size)",
                       ShapeError);
  CHECK_THROWS_WITH_AS(
      made.model.logits(Tensor::zeros({2, 7}, DType::float64)),
      "output: linear: x has shape (2, 7), expected last axis 8 (weight is (11, 8))", ShapeError);
}
