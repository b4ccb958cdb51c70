#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "autograd/error.h"
#include "autograd/ops/linear.h"
#include "layers/heads.h"
#include "tests/support/gradients.h"
#include "tests/support/parameters.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

const std::vector<std::int32_t> lengths = {3, 2};

struct Head {
  explicit Head(PoolingKind pooling) : layer(Scope(parameters) / "head", 4, 3, pooling) {}

  Parameters parameters{DType::float64, 1};
  ClassificationHead layer;
};

}  // namespace

TEST_CASE("a classification head has a weight and a bias for the classes") {
  const Head head(PoolingKind::mean);
  CHECK(listing(head.parameters) ==
        std::vector<std::string>{"head.weight (3, 4)", "head.bias (3)"});
}

TEST_CASE("the features of a classification head are one pooled vector for each sequence") {
  const Tensor x = random_leaf({2, 3, 4}, 1);
  for (const PoolingKind kind : {PoolingKind::class_token, PoolingKind::mean}) {
    const Tensor features = Head(kind).layer.features(x, lengths);
    CHECK(features.shape() == Shape{2, 1, 4});
    CHECK(values_of(features) == values_of(pool(kind, x, lengths)));
  }
}

TEST_CASE("by default a classification head pools the class token") {
  Parameters parameters(DType::float64, 1);
  const Tensor x = random_leaf({2, 3, 4}, 1);
  CHECK(values_of(ClassificationHead(Scope(parameters), 4, 3).features(x, lengths)) ==
        values_of(pool(PoolingKind::class_token, x, lengths)));
}

TEST_CASE("the logits of a classification head are linear, and the loss is their cross entropy") {
  const Head head(PoolingKind::mean);
  perturb(head.parameters);
  const Tensor features = random_leaf({2, 1, 4}, 1);
  const Tensor expected = linear(features, parameter(head.parameters, "head.weight"),
                                 parameter(head.parameters, "head.bias"));
  check_values(head.layer.logits(features), values_of(expected));
  const Ids labels{{2}, {0}};
  const CrossEntropyOptions options{.label_smoothing = 0.1};
  check_values(head.layer.loss(features, labels, options).mean,
               values_of(cross_entropy(expected, labels, options).mean));
}

TEST_CASE("the gradients of a classification head agree with differences") {
  for (const PoolingKind kind : {PoolingKind::class_token, PoolingKind::mean}) {
    const Head head(kind);
    perturb(head.parameters);
    const Tensor x = random_leaf({2, 3, 4}, 1);
    check_gradients([&] { return head.layer.logits(head.layer.features(x, lengths)); },
                    head.parameters, {x});
  }
}

TEST_CASE("a classification head refuses another width and names itself") {
  CHECK_THROWS_WITH_AS(
      Head(PoolingKind::mean).layer.logits(Tensor::zeros({2, 1, 5}, DType::float64)),
      "head: linear: x has shape (2, 1, 5), expected last axis 4 (weight is (3, 4))", ShapeError);
}
