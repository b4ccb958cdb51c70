#include "layers/encoder_models.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/error.h"
#include "tests/layers/network_cases.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

KindOptions classifying(TransformerOptions options = small(),
                        PoolingKind pooling = PoolingKind::class_token) {
  options.pooling = pooling;
  return with_kind(options, ModelKind::classifier);
}

constexpr PoolingKind both_kinds[] = {PoolingKind::class_token, PoolingKind::mean};

Tensor logits(const MadeNetwork& made, const TokenBatch& tokens) {
  return (*made.network)({.source = tokens}, Mode::inference());
}

}  // namespace

TEST_CASE("a classifier without layers scores its first token, or the mean of its tokens") {
  for (const PoolingKind pooling : both_kinds) {
    KindOptions options = classifying(small(), pooling);
    options.d_model = 2;
    options.num_encoder_layers = 0;
    options.norm = NormPlacement::post;
    Parameters parameters(DType::float64, 1);
    const Classifier model(Scope(parameters), options, 3, 2, padding_id);
    set_values(parameters, "embedding.weight", {0, 0, 1, 2, 3, 4});
    set_values(parameters, "head.weight", {1, 0, 0, 10});
    set_values(parameters, "head.bias", {100, 200});
    const Network& network = model;
    const Tensor y = network({.source = {.ids = {{1, 2, 0}}, .lengths = {2}}}, Mode::inference());
    CHECK(y.shape() == Shape{1, 1, 2});
    const double root = std::sqrt(2.0);
    const double first[] = {root, 2 * root + 1};
    const double second[] = {3 * root + std::sin(1.0), 4 * root + std::cos(1.0)};
    if (pooling == PoolingKind::class_token) {
      check_values(y, {100 + first[0], 200 + 10 * first[1]});
    } else {
      check_values(y, {100 + (first[0] + second[0]) / 2, 200 + 5 * (first[1] + second[1])});
    }
  }
}

TEST_CASE("a classifier has the parameters of a masked language model except for its head") {
  TransformerOptions options = small();
  options.positions = PositionKind::learned;
  const MadeNetwork made(classifying(options));
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

TEST_CASE("logits of a classifier depend on every token of its sentence and on nothing else") {
  for (const PoolingKind pooling : both_kinds) {
    const MadeNetwork made(classifying(small(), pooling));
    CHECK_FALSE(made.network->causal());
    const Tensor before = logits(made, sentences);
    CHECK(before.shape() == Shape{2, 1, classes});
    for (std::size_t changed = 0; changed < 4; ++changed) {
      TokenBatch other = sentences;
      other.ids(1, changed) = 2;
      const Tensor after = logits(made, other);
      CHECK(scores_at(before, 0, 0) == scores_at(after, 0, 0));
      CHECK((scores_at(before, 1, 0) == scores_at(after, 1, 0)) == (changed >= 2));
    }
  }
}

TEST_CASE("the loss of a classifier is the cross entropy of its scores") {
  const MadeNetwork made(classifying());
  const NetworkInput input{.source = sentences};
  const Tensor pooled = made.network->features(made.network->embed(input, Mode::inference()), input,
                                               Mode::inference());
  CHECK(pooled.shape() == Shape{2, 1, 8});
  const Ids labels{{2}, {0}};
  const Loss loss = made.network->loss(pooled, labels, {.label_smoothing = 0.1});
  const Loss expected =
      cross_entropy((*made.network)(input, Mode::inference()), labels, {.label_smoothing = 0.1});
  CHECK(loss.mean.item() == doctest::Approx(expected.mean.item()));
  CHECK(loss.nll_sum == doctest::Approx(expected.nll_sum));
}

TEST_CASE("the gradient of a classifier agrees with differences, for every choice") {
  for (const PoolingKind pooling : both_kinds) {
    for (const TransformerOptions& options : every_choice()) {
      CAPTURE(static_cast<int>(options.norm));
      CAPTURE(static_cast<int>(options.activation));
      const MadeNetwork made(classifying(options, pooling));
      perturb(made.parameters);
      const auto run = [&] {
        return (*made.network)({.source = sentences}, Mode::training(RandomStream(4)));
      };
      check_gradients(run, made.parameters, {}, {.max_coordinates = 6});
    }
  }
}

TEST_CASE("a classifier refuses long sentences, unknown ids and lengths that do not fit") {
  const MadeNetwork made(classifying(small(), PoolingKind::mean));
  CHECK_THROWS_WITH_AS(logits(made, padded(sentences, 4, padding_id)),
                       "positions: positions: the sequence has 8 tokens, expected at most 7 "
                       "(max_length)",
                       ShapeError);
  TokenBatch wrong = sentences;
  wrong.ids(0, 0) = -1;
  CHECK_THROWS_WITH_AS(logits(made, wrong),
                       "embedding: embedding: id (0, 0) is -1, expected 0 <= id < 11", ValueError);
  TokenBatch one_length = sentences;
  one_length.lengths.pop_back();
  CHECK_THROWS_AS(logits(made, one_length), ShapeError);
}
