#include "train/tasks/checked_network.h"

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

#include "autograd/ops/reductions.h"
#include "autograd/tape.h"

namespace tapestry {
namespace {

/// A network whose functions can be replaced.
class Replaceable : public Network {
 public:
  std::function<TokenVectors(const NetworkInput&)> embed_with = [](const NetworkInput& input) {
    const Shape& ids = input.target.ids.shape();
    return TokenVectors{.target = Tensor::ones({ids[0], ids[1], 3})};
  };
  std::function<Tensor(const Tensor&)> features_with = [](const Tensor& x) { return x; };
  std::function<Tensor(const Tensor&)> logits_with = [](const Tensor& x) {
    return Tensor::zeros(x.shape().with_last(5), x.dtype());
  };
  std::function<Loss(const Tensor&)> loss_with = [](const Tensor& x) {
    return Loss{.mean = mean(x)};
  };

  TokenVectors embed(const NetworkInput& input, const Mode&) const override {
    return embed_with(input);
  }
  Tensor features(const TokenVectors& vectors, const NetworkInput&, const Mode&) const override {
    return features_with(vectors.target);
  }
  Tensor logits(const Tensor& features) const override { return logits_with(features); }
  Loss loss(const Tensor& features, const Ids&, const CrossEntropyOptions&) const override {
    return loss_with(features);
  }
  bool causal() const override { return true; }
};

struct Checked {
  explicit Checked(NetworkContract contract = {.kind = "mine", .logits = 5}) {
    auto inner = std::make_unique<Replaceable>();
    network = inner.get();
    checked = checked_network(std::move(inner), std::move(contract));
  }

  void forward() const { (*checked)(input, Mode::inference()); }
  /// The error of a forward pass.
  std::string error() const {
    try {
      forward();
    } catch (const CustomModelError& wrong) {
      CHECK(wrong.exit_code() == ExitCode::bug);
      return wrong.what();
    }
    return "none";
  }
  std::string hint() const {
    try {
      forward();
    } catch (const CustomModelError& wrong) {
      return wrong.hint();
    }
    return "none";
  }

  NetworkInput input{.source = {.ids = Ids(Shape{2, 0}), .lengths = {0, 0}},
                     .target = {.ids = Ids(Shape{2, 4}), .lengths = {4, 3}}};
  Replaceable* network = nullptr;
  std::unique_ptr<Network> checked;
};

TEST_CASE("a network that fulfils its contract gives the same results when it is checked") {
  const Checked good;
  CHECK((*good.checked)(good.input, Mode::inference()).shape() == Shape{2, 4, 5});
  CHECK(&good.checked->unwrapped() == good.network);
  CHECK(good.checked->causal());
  const Tensor features = Tensor::ones({2, 4, 3});
  CHECK(good.checked->loss(features, Ids(Shape{2, 4}), {}).mean.item() == 1.0);
}

TEST_CASE("logits of another width, element type or shape are refused") {
  const Checked wrong;
  wrong.network->logits_with = [](const Tensor& x) { return x; };
  CHECK(wrong.error() ==
        "custom model mine: logits() returned (2, 4, 3) of float32, expected (2, 4, 5) of float32: "
        "rows, labels per row, vocabulary");
  CHECK(wrong.hint() ==
        "correct logits() of the model: batches have target tokens (input.target); input.source "
        "and input.images are absent");
  wrong.network->logits_with = [](const Tensor&) {
    return Tensor::ones({2, 4, 5}, DType::float64);
  };
  CHECK(wrong.error().starts_with("custom model mine: logits() returned (2, 4, 5) of float64, "));
  wrong.network->logits_with = [](const Tensor&) { return Tensor(); };
  CHECK(wrong.error().starts_with("custom model mine: logits() returned an absent tensor, "));
}

TEST_CASE("token vectors that are absent, or of other tokens, are refused") {
  const Checked wrong;
  wrong.network->embed_with = [](const NetworkInput&) { return TokenVectors{}; };
  CHECK(wrong.error() ==
        "custom model mine: embed() returned no vectors in .target, expected (rows, tokens, "
        "width)");
  wrong.network->embed_with = [](const NetworkInput&) {
    return TokenVectors{.target = Tensor::ones({2, 3, 3})};
  };
  CHECK(wrong.error() ==
        "custom model mine: embed() returned (2, 3, 3) of float32 in .target, expected (2, 4, "
        "width): rows, tokens, any width");
  wrong.network->embed_with = [](const NetworkInput&) {
    return TokenVectors{.source = Tensor::ones({2, 4, 3}), .target = Tensor::ones({2, 4, 3})};
  };
  CHECK(wrong.error() ==
        "custom model mine: embed() returned source vectors, expected target vectors only");
}

TEST_CASE("source tokens need source vectors, images need either kind of vectors") {
  Checked classifier(
      {.kind = "mine", .logits = 5, .reads_source = true, .one_label_per_row = true});
  CHECK(classifier.error() ==
        "custom model mine: embed() returned no vectors in .source, expected (rows, tokens, "
        "width)");
  const Checked images({.kind = "mine", .logits = 5, .reads_images = true});
  CHECK(images.error() == "none");
  images.network->embed_with = [](const NetworkInput&) { return TokenVectors{}; };
  CHECK(images.error() ==
        "custom model mine: embed() returned no vectors in .source or .target, expected (rows, "
        "tokens, width)");
}

TEST_CASE("features of other rows or labels are refused") {
  const Checked wrong;
  for (const Shape& shape : {Shape{2, 4}, Shape{2, 1, 3}, Shape{3, 4, 3}}) {
    wrong.network->features_with = [&](const Tensor&) { return Tensor::ones(shape); };
    CHECK(wrong.error() == "custom model mine: features() returned " + to_string(shape) +
                               " of float32, expected (2, 4, width) of float32, as embed() "
                               "returned: rows, labels per row, any width");
  }
}

TEST_CASE("features of another element type than that of the vectors are refused") {
  const Checked wrong;
  wrong.network->features_with = [](const Tensor& x) { return x.copied(DType::float64); };
  CHECK(wrong.error() ==
        "custom model mine: features() returned (2, 4, 3) of float64, expected (2, 4, width) of "
        "float32, as embed() returned: rows, labels per row, any width");
  wrong.network->embed_with = [](const NetworkInput&) {
    return TokenVectors{.target = Tensor::ones({2, 4, 3}, DType::float64)};
  };
  CHECK(wrong.error() == "none");
}

TEST_CASE("a loss is a scalar, and its features have logits of the right width") {
  const Ids labels(Shape{2, 4});
  const Tensor features = Tensor::ones({2, 4, 3});
  const Checked vector;
  vector.network->loss_with = [](const Tensor& x) { return Loss{.mean = x}; };
  CHECK_THROWS_WITH_AS(vector.checked->loss(features, labels, {}),
                       "custom model mine: loss() returned a mean that is (2, 4, 3) of float32, "
                       "expected a scalar",
                       CustomModelError);
  const Checked wide;
  wide.network->logits_with = [](const Tensor& x) { return x; };
  CHECK_THROWS_WITH_AS(wide.checked->loss(features, labels, {}),
                       "custom model mine: logits() returned (1, 1, 3) of float32, expected (1, 1, "
                       "5) of float32: rows, labels per row, vocabulary",
                       CustomModelError);
}

TEST_CASE("an exception of the code of a network names the model and the function") {
  const Checked wrong;
  wrong.network->embed_with = [](const NetworkInput&) -> TokenVectors {
    throw std::out_of_range("map::at");
  };
  CHECK(wrong.error() == "custom model mine: embed() threw: map::at");
  CHECK(wrong.hint() ==
        "correct embed() of the model, or what it calls; batches have target tokens "
        "(input.target); input.source and input.images are absent");
  wrong.network->embed_with = [](const NetworkInput&) -> TokenVectors { throw 42; };
  CHECK(wrong.error() == "custom model mine: embed() threw an object that is not a std::exception");
}

TEST_CASE("errors outside of the code of a network are rethrown unchanged") {
  const Checked checked;
  checked.network->embed_with = [](const NetworkInput&) -> TokenVectors { throw std::bad_alloc(); };
  CHECK_THROWS_AS(checked.forward(), std::bad_alloc);
  checked.network->embed_with = [](const NetworkInput&) -> TokenVectors {
    throw NumericError("not finite");
  };
  CHECK_THROWS_AS(checked.forward(), NumericError);
  checked.network->embed_with = [](const NetworkInput&) -> TokenVectors {
    throw AnomalyError("not finite");
  };
  CHECK_THROWS_AS(checked.forward(), AnomalyError);
  checked.network->embed_with = [](const NetworkInput&) -> TokenVectors {
    throw kernels::Cancelled();
  };
  CHECK_THROWS_AS(checked.forward(), kernels::Cancelled);
}

}  // namespace
}  // namespace tapestry
