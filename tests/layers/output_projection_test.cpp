#include "layers/heads.h"

#include <doctest/doctest.h>

#include <xtensor/xtensor.hpp>

#include "autograd/error.h"
#include "autograd/ops/linear.h"
#include "tests/support/gradients.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::testing;

namespace {

constexpr std::size_t vocabulary = 7, d_model = 4;

struct Projection {
  explicit Projection(TiedEmbeddings tie)
      : parameters(DType::float64, 1),
        embedding(Scope(parameters) / "embedding", vocabulary, d_model, std::nullopt),
        output(Scope(parameters) / "output", tie, embedding) {}

  Tensor weight() const {
    const NamedTensor* own = parameters.find("output.weight");
    return own != nullptr ? own->tensor : embedding.weight();
  }
  Tensor bias() const { return parameters.find("output.bias")->tensor; }

  Parameters parameters;
  Embedding embedding;
  OutputProjection output;
};

}  // namespace

TEST_CASE("an output projection has a weight of its own unless embeddings are tied") {
  CHECK(Projection(TiedEmbeddings::none).parameters.find("output.weight") != nullptr);
  for (const TiedEmbeddings tie : {TiedEmbeddings::target, TiedEmbeddings::all}) {
    const Projection tied(tie);
    CHECK(tied.parameters.find("output.weight") == nullptr);
    CHECK(tied.bias().shape() == Shape{vocabulary});
  }
}

TEST_CASE("logits are linear, and the loss is their cross entropy") {
  const Tensor x = random_leaf({2, 3, d_model}, 1);
  const Ids labels{{0, 6, 1}, {2, 2, 5}};
  const CrossEntropyOptions options{.ignored_id = 1, .label_smoothing = 0.1};
  for (const TiedEmbeddings tie : {TiedEmbeddings::none, TiedEmbeddings::all}) {
    const Projection p(tie);
    const Tensor expected = linear(x, p.weight(), p.bias());
    check_values(p.output.logits(x), values_of(expected));
    const Loss loss = p.output.loss(x, labels, options);
    const Loss expected_loss = cross_entropy(expected, labels, options);
    check_values(loss.mean, values_of(expected_loss.mean));
    CHECK(loss.nll_sum == doctest::Approx(expected_loss.nll_sum));
  }
}

TEST_CASE("an output projection names itself where shapes do not fit") {
  const Projection p(TiedEmbeddings::none);
  const Tensor x = Tensor::zeros({1, 1, d_model + 1}, DType::float64);
  CHECK_THROWS_WITH_AS(p.output.logits(x), doctest::Contains("output: linear"), ShapeError);
  CHECK_THROWS_WITH_AS(p.output.loss(x, Ids{{0}}, {}), doctest::Contains("output: linear"),
                       ShapeError);
}
