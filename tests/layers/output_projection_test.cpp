#include "layers/heads.h"

#include <doctest/doctest.h>

#include "autograd/error.h"
#include "autograd/ops/linear.h"
#include "layers/embedding.h"
#include "tests/support/gradients.h"
#include "tests/support/parameters.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

constexpr std::size_t vocabulary = 7, d_model = 4;

struct Projection {
  explicit Projection(bool tied)
      : parameters(DType::float64, 1),
        embedding(Scope(parameters) / "embedding", vocabulary, d_model),
        output(tied ? OutputProjection(Scope(parameters) / "output", embedding.weight())
                    : OutputProjection(Scope(parameters) / "output", d_model, vocabulary)) {}

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

TEST_CASE("an output projection has a weight of its own unless it is given one") {
  CHECK(listing(Projection(false).parameters) == std::vector<std::string>{"embedding.weight (7, 4)",
                                                                          "output.weight (7, 4)",
                                                                          "output.bias (7)"});
  CHECK(listing(Projection(true).parameters) ==
        std::vector<std::string>{"embedding.weight (7, 4)", "output.bias (7)"});
}

TEST_CASE("logits are linear, and the loss is their cross entropy") {
  const Tensor x = random_leaf({2, 3, d_model}, 1);
  const Ids labels{{0, 6, 1}, {2, 2, 5}};
  const CrossEntropyOptions options{.ignored_id = 1, .label_smoothing = 0.1};
  for (const bool tied : {false, true}) {
    const Projection p(tied);
    const Tensor expected = linear(x, p.weight(), p.bias());
    check_values(p.output.logits(x), values_of(expected));
    const Loss loss = p.output.loss(x, labels, options);
    const Loss expected_loss = cross_entropy(expected, labels, options);
    check_values(loss.mean, values_of(expected_loss.mean));
    CHECK(loss.nll_sum == doctest::Approx(expected_loss.nll_sum));
  }
}

TEST_CASE("an output projection refuses shapes that do not fit and names itself") {
  const Projection p(false);
  const Tensor x = Tensor::zeros({1, 1, d_model + 1}, DType::float64);
  CHECK_THROWS_WITH_AS(p.output.logits(x), doctest::Contains("output: linear"), ShapeError);
  CHECK_THROWS_WITH_AS(p.output.loss(x, Ids{{0}}, {}), doctest::Contains("output: linear"),
                       ShapeError);
}
