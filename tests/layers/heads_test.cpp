#include "layers/heads.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "autograd/error.h"
#include "autograd/ops/linear.h"
#include "layers/embedding.h"
#include "tests/support/errors.h"
#include "tests/support/gradients.h"
#include "tests/support/parameters.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

constexpr std::size_t words = 7, width = 4;

struct Projection {
  explicit Projection(bool tied)
      : parameters(DType::float64, 1),
        embedding(Scope(parameters) / "embedding", words, width),
        output(tied ? OutputProjection(Scope(parameters) / "output", embedding.weight())
                    : OutputProjection(Scope(parameters) / "output", width, words)) {}

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

TEST_CASE("an output projection has its own weight unless it is given one") {
  CHECK(listing(Projection(false).parameters) == std::vector<std::string>{"embedding.weight (7, 4)",
                                                                          "output.weight (7, 4)",
                                                                          "output.bias (7)"});
  CHECK(listing(Projection(true).parameters) ==
        std::vector<std::string>{"embedding.weight (7, 4)", "output.bias (7)"});
}

TEST_CASE("logits are linear, and the loss is their cross entropy") {
  const Tensor x = random_leaf({2, 3, width}, 1);
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

TEST_CASE("an output projection rejects shapes that do not fit and names itself") {
  const Projection p(false);
  const Tensor x = Tensor::zeros({1, 1, width + 1}, DType::float64);
  check_error<ShapeError>("output: linear", [&] { p.output.logits(x); });
  check_error<ShapeError>("output: linear", [&] { p.output.loss(x, Ids{{0}}, {}); });
}

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

TEST_CASE("a classification head rejects another width and names itself") {
  check_error<ShapeError>("head: linear:|(2, 1, 5)|4|(3, 4)", [&] {
    Head(PoolingKind::mean).layer.logits(Tensor::zeros({2, 1, 5}, DType::float64));
  });
}

using Lengths = std::vector<std::int32_t>;

namespace {

/// Two sequences of three tokens of width 2.
Tensor two_sequences(DType dtype = DType::float64) {
  return Tensor::from({2, 3, 2},
                      {1, 2, 3, 4, 8, 0,  //
                       -1, 5, 3, 7, 100, 100},
                      dtype);
}

}  // namespace

TEST_CASE("class-token pooling takes the first token, whatever the lengths") {
  for (const DType dtype : dtypes) {
    for (const Lengths& lengths : {Lengths{}, Lengths{3, 1}}) {
      const Tensor y = pool(PoolingKind::class_token, two_sequences(dtype), lengths);
      CHECK(y.shape() == Shape{2, 1, 2});
      check_values(y, {1, 2, -1, 5});
    }
  }
}

TEST_CASE("mean pooling averages the tokens of each sequence without its padding") {
  for (const DType dtype : dtypes) {
    const Tensor y = pool(PoolingKind::mean, two_sequences(dtype), Lengths{3, 2});
    CHECK(y.dtype() == dtype);
    CHECK(y.shape() == Shape{2, 1, 2});
    check_values(y, {4, 2, 1, 6}, tolerance(dtype));
  }
}

TEST_CASE("mean pooling without lengths averages all tokens") {
  check_values(pool(PoolingKind::mean, two_sequences(), {}), {4, 2, 34, 112.0 / 3});
  check_values(pool(PoolingKind::mean, two_sequences(), {3, 2}),
               values_of(pool(PoolingKind::mean, two_sequences(), Lengths{3, 2})));
}

TEST_CASE("values of padding do not affect mean pooling") {
  Tensor x = two_sequences();
  const auto before = values_of(pool(PoolingKind::mean, x, Lengths{3, 2}));
  x.mutable_values<double>()[10] = -1e300;
  CHECK(values_of(pool(PoolingKind::mean, x, Lengths{3, 2})) == before);
}

TEST_CASE("pooling rejects lengths that do not fit") {
  const Tensor x = two_sequences();
  check_error<ShapeError>("pooling:|1|(2, 3, 2)|2",
                          [&] { pool(PoolingKind::mean, x, Lengths{3}); });
  check_error<ShapeError>("pooling:|3|(2, 3, 2)|2", [&] {
    pool(PoolingKind::mean, x, Lengths{3, 3, 3});
  });
  check_error<ShapeError>("pooling:|1|(2, 3, 2)|-1|3", [&] {
    pool(PoolingKind::mean, x, Lengths{3, -1});
  });
  CHECK_NOTHROW(pool(PoolingKind::mean, x, Lengths{1, 3}));
  check_error<ShapeError>("pooling:|1|(2, 3, 2)|4|3", [&] {
    pool(PoolingKind::mean, x, Lengths{3, 4});
  });
  check_error<ShapeError>("pooling:|0|(2, 3, 2)|1|3", [&] {
    pool(PoolingKind::mean, x, Lengths{0, 3});
  });
}
