#include "layers/encoder_models.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/error.h"
#include "tests/layers/network_cases.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

KindOptions tagging(const TransformerOptions& options = small()) {
  return with_kind(options, ModelKind::tagger);
}

Tensor logits(const MadeNetwork& made, const TokenBatch& tokens) {
  return (*made.network)({.target = tokens}, Mode::inference());
}

}  // namespace

TEST_CASE("a tagger without layers scores each token by its embedding plus position") {
  KindOptions options = tagging();
  options.d_model = 2;
  options.num_encoder_layers = 0;
  options.norm = NormPlacement::post;
  Parameters parameters(DType::float64, 1);
  const Tagger model(Scope(parameters), options, 3, 2, padding_id);
  set_values(parameters, "embedding.weight", {0, 0, 1, 2, 3, 4});
  set_values(parameters, "head.weight", {1, 0, 0, 10});
  set_values(parameters, "head.bias", {100, 200});
  const Network& network = model;
  const Tensor y = network({.target = {.ids = {{1, 2}}, .lengths = {2}}}, Mode::inference());
  CHECK(y.shape() == Shape{1, 2, 2});
  const double root = std::sqrt(2.0);
  check_values(y, {100 + root, 200 + 10 * (2 * root + 1), 100 + 3 * root + std::sin(1.0),
                   200 + 10 * (4 * root + std::cos(1.0))});
}

TEST_CASE("a tagger has the parameters of a masked language model except for its head") {
  TransformerOptions options = small();
  options.positions = PositionKind::learned;
  const MadeNetwork made(tagging(options));
  CHECK(outside("encoder.", made.parameters) ==
        std::vector<std::string>{"embedding.weight (11, 8)", "positions.weight (7, 8)",
                                 "head.weight (3, 8)", "head.bias (3)"});
  const MadeNetwork masked(with_kind(options, ModelKind::masked_language_model));
  for (const NamedTensor& p : made.parameters) {
    if (p.name.starts_with("head.")) continue;
    CAPTURE(p.name);
    CHECK(parameter(masked.parameters, p.name).shape() == p.tensor.shape());
  }
}

TEST_CASE("the logits of a token depend on all tokens of its sentence and on no others") {
  const MadeNetwork made(tagging());
  const Tensor before = logits(made, sentences);
  for (const std::size_t changed : {0, 3}) {
    TokenBatch other = sentences;
    other.ids(0, changed) = 9;
    const Tensor after = logits(made, other);
    for (std::size_t t = 0; t < 4; ++t) CHECK(scores_at(after, 0, t) != scores_at(before, 0, t));
    for (std::size_t t = 0; t < 2; ++t) CHECK(scores_at(after, 1, t) == scores_at(before, 1, t));
  }
  TokenBatch padding = sentences;
  padding.ids(1, 2) = 9;
  for (std::size_t t = 0; t < 2; ++t) {
    CHECK(scores_at(logits(made, padding), 1, t) == scores_at(before, 1, t));
  }
}

TEST_CASE("a tagger refuses ids outside its vocabulary and sentences longer than its positions") {
  const MadeNetwork made(tagging());
  CHECK_THROWS_AS(logits(made, {.ids = {{11}}, .lengths = {1}}), ValueError);
  CHECK_THROWS_AS(logits(made, {.ids = Ids(Shape{1, 8}, 5), .lengths = {8}}), ShapeError);
}
