#include "layers/encoder_models.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/error.h"
#include "tests/layers/network_cases.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

KindOptions masked(TransformerOptions options = small()) {
  return with_kind(options, ModelKind::masked_language_model);
}

Tensor logits(const MadeNetwork& made, const TokenBatch& tokens) {
  return (*made.network)({.target = tokens}, Mode::inference());
}

}  // namespace

TEST_CASE("a masked language model without layers scores by embeddings plus positions alone") {
  KindOptions options = masked();
  options.d_model = 2;
  options.num_encoder_layers = 0;
  options.norm = NormPlacement::post;
  Parameters parameters(DType::float64, 1);
  const MaskedLanguageModel model(Scope(parameters), options, 3, padding_id);
  set_values(parameters, "embedding.weight", {0, 0, 1, 2, 3, 4});
  set_values(parameters, "output.bias", {10, 20, 30});
  const Network& network = model;
  const Tensor y = network({.target = {.ids = {{1, 2}}, .lengths = {2}}}, Mode::inference());
  CHECK(y.shape() == Shape{1, 2, 3});
  const double root = std::sqrt(2.0);
  const double a = 3 * root + std::sin(1.0), b = 4 * root + std::cos(1.0);
  check_values(y, {10, 20 + root + 2 * (2 * root + 1), 30 + 3 * root + 4 * (2 * root + 1),  //
                   10, 20 + a + 2 * b, 30 + 3 * a + 4 * b});
}

TEST_CASE("a masked language model has num_encoder_layers and ignores num_decoder_layers") {
  KindOptions options = masked();
  options.num_encoder_layers = 3;
  options.num_decoder_layers = 5;
  const MadeNetwork made(options);
  CHECK(made.parameters.find("encoder.layers.2.ff.linear1.weight") != nullptr);
  CHECK(made.parameters.find("encoder.layers.3.ff.linear1.weight") == nullptr);
  CHECK(made.parameters.find("decoder.norm.weight") == nullptr);
}

TEST_CASE("parameters of a masked language model outside its stack: embedding, positions, output") {
  KindOptions options = masked();
  CHECK(outside("encoder.", MadeNetwork(options).parameters) ==
        std::vector<std::string>{"embedding.weight (11, 8)", "output.bias (11)"});
  options.tie_embeddings = TiedEmbeddings::none;
  options.positions = PositionKind::learned;
  CHECK(outside("encoder.", MadeNetwork(options).parameters) ==
        std::vector<std::string>{"embedding.weight (11, 8)", "positions.weight (7, 8)",
                                 "output.weight (11, 8)", "output.bias (11)"});
}

TEST_CASE("every token of a masked language model depends on all tokens of its sentence") {
  const MadeNetwork made(masked());
  CHECK_FALSE(made.network->causal());
  const Tensor before = logits(made, sentences);
  CHECK(before.shape() == Shape{2, 4, vocabulary});
  for (std::size_t changed = 0; changed < 4; ++changed) {
    TokenBatch other = sentences;
    other.ids(0, changed) = 2;
    const Tensor after = logits(made, other);
    for (std::size_t t = 0; t < 4; ++t) {
      CHECK(scores_at(before, 0, t) != scores_at(after, 0, t));
      CHECK(scores_at(before, 1, t) == scores_at(after, 1, t));
    }
  }
}

TEST_CASE("the logits of a masked language model do not depend on padding") {
  const MadeNetwork made(masked());
  TokenBatch other = sentences;
  other.ids(1, 2) = 1;
  other.ids(1, 3) = padding_id;
  const Tensor before = logits(made, sentences), after = logits(made, other);
  for (std::size_t t = 0; t < 2; ++t) CHECK(scores_at(before, 1, t) == scores_at(after, 1, t));
}

TEST_CASE("the gradient of a masked language model agrees with differences, for every choice") {
  for (const TransformerOptions& options : every_choice()) {
    CAPTURE(static_cast<int>(options.norm));
    CAPTURE(static_cast<int>(options.activation));
    const MadeNetwork made(masked(options));
    perturb(made.parameters);
    const auto run = [&] {
      return (*made.network)({.target = sentences}, Mode::training(RandomStream(4)));
    };
    check_gradients(run, made.parameters, {}, {.max_coordinates = 6});
  }
}

TEST_CASE("a masked language model refuses long sequences and unknown ids") {
  const MadeNetwork made(masked());
  CHECK_THROWS_WITH_AS(logits(made, padded(sentences, 4, padding_id)),
                       "positions: positions: the sequence has 8 tokens, expected at most 7 "
                       "(max_length)",
                       ShapeError);
  TokenBatch wrong = sentences;
  wrong.ids(1, 2) = 11;
  CHECK_THROWS_WITH_AS(logits(made, wrong),
                       "embedding: embedding: id (1, 2) is 11, expected 0 <= id < 11", ValueError);
}
