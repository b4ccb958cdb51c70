// SPDX-License-Identifier: BSD-3-Clause
#include "train/tasks/checked_network.h"

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "autograd/ops/reductions.h"
#include "autograd/tape.h"
#include "tests/support/contains.h"

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
  /// The message and the hint of the error that a forward pass throws.
  std::string error() const {
    try {
      forward();
    } catch (const CustomModelError& wrong) {
      CHECK(wrong.exit_code() == ExitCode::failure);
      return std::string(wrong.what()) + " | " + wrong.hint();
    }
    return "none";
  }

  NetworkInput input{.source = {.ids = Ids::zeros({2, 0}), .lengths = {0, 0}},
                     .target = {.ids = Ids::zeros({2, 4}), .lengths = {4, 3}}};
  Replaceable* network = nullptr;
  std::unique_ptr<Network> checked;
};

TEST_CASE("checking a valid network does not change its results") {
  const Checked good;
  CHECK((*good.checked)(good.input, Mode::inference()).shape() == Shape{2, 4, 5});
  CHECK(&good.checked->unwrapped() == good.network);
  CHECK(good.checked->causal());
  const Tensor features = Tensor::ones({2, 4, 3});
  CHECK(good.checked->loss(features, Ids::zeros({2, 4}), {}).mean.item() == 1.0);
}

using NetworkChange = std::function<void(Replaceable&)>;

NetworkChange embeds(const Tensor& source, const Tensor& target) {
  return [=](Replaceable& network) {
    network.embed_with = [=](const NetworkInput&) {
      return TokenVectors{.source = source, .target = target};
    };
  };
}

/// Replaces a function with one that returns `y`.
NetworkChange returns(std::function<Tensor(const Tensor&)> Replaceable::*function,
                      const Tensor& y) {
  return [=](Replaceable& network) { network.*function = [=](const Tensor&) { return y; }; };
}

template <class Error>
NetworkChange embed_throws(Error error) {
  return [=](Replaceable& network) {
    network.embed_with = [=](const NetworkInput&) -> TokenVectors { throw Error(error); };
  };
}

TEST_CASE("results with a wrong shape or type are rejected, and exceptions name the function") {
  const auto ones = [](const Shape& shape, DType dtype = DType::float32) {
    return Tensor::ones(shape, dtype);
  };
  const auto logits = &Replaceable::logits_with, features = &Replaceable::features_with;
  const NetworkContract contract{.kind = "mine", .logits = 5};
  NetworkContract classes = contract, images = contract;
  classes.reads_source = classes.one_label_per_row = true;
  images.reads_images = true;
  const struct {
    NetworkContract contract;
    NetworkChange change;
    std::vector<std::string> words;  ///< parts of message and hint
  } cases[] = {
      {contract,
       returns(logits, ones({2, 4, 3})),
       {"logits() returned (2, 4, 3) of float32", "expected (2, 4, 5) of float32", "vocabulary",
        "correct logits()", "batches have target tokens"}},
      {contract,
       returns(logits, ones({2, 4, 5}, DType::float64)),
       {"logits() returned (2, 4, 5) of float64"}},
      {contract, returns(logits, {}), {"logits() returned an absent tensor"}},
      {contract,
       embeds({}, {}),
       {"embed() returned no vectors in .target", "(rows, tokens, width)"}},
      {contract,
       embeds({}, ones({2, 3, 3})),
       {"embed() returned (2, 3, 3) of float32 in .target", "(2, 4, width)"}},
      {contract,
       embeds(ones({2, 4, 3}), ones({2, 4, 3})),
       {"embed() returned source vectors", "target vectors only"}},
      {classes, [](Replaceable&) {}, {"embed() returned no vectors in .source"}},
      {images, embeds({}, {}), {"embed() returned no vectors in .source or .target"}},
      {contract,
       returns(features, ones({2, 4})),
       {"features() returned (2, 4) of float32", "expected (2, 4, width) of float32"}},
      {contract, returns(features, ones({2, 1, 3})), {"features() returned (2, 1, 3)"}},
      {contract, returns(features, ones({3, 4, 3})), {"features() returned (3, 4, 3)"}},
      {contract,
       returns(features, ones({2, 4, 3}, DType::float64)),
       {"features() returned (2, 4, 3) of float64", "expected (2, 4, width) of float32"}},
      {contract,
       embed_throws(std::out_of_range("map::at")),
       {"embed() threw: map::at", "correct embed() of the model, or a function that it calls"}},
      {contract, embed_throws(42), {"embed() threw an object that is not a std::exception"}},
  };
  for (const auto& each : cases) {
    const Checked wrong(each.contract);
    each.change(*wrong.network);
    const std::string error = wrong.error();
    CHECK(error.starts_with("custom model mine: "));
    for (const std::string& word : each.words) {
      CAPTURE(error);
      CAPTURE(word);
      CHECK(test::contains(error, word));
    }
  }
  CHECK(Checked(images).error() == "none");  // either kind of vectors
  const Checked of_float64;
  embeds({}, ones({2, 4, 3}, DType::float64))(*of_float64.network);
  CHECK(of_float64.error() == "none");
}

TEST_CASE("a custom network must return a scalar loss, and logits of the expected width") {
  const Ids labels = Ids::zeros({2, 4});
  const Tensor features = Tensor::ones({2, 4, 3});
  const Checked vector, wide;
  vector.network->loss_with = [](const Tensor& x) { return Loss{.mean = x}; };
  CHECK_THROWS_AS(vector.checked->loss(features, labels, {}), CustomModelError);
  wide.network->logits_with = [](const Tensor& x) { return x; };
  CHECK_THROWS_AS(wide.checked->loss(features, labels, {}), CustomModelError);
}

TEST_CASE("errors thrown by the library, not by the network's code, are rethrown unchanged") {
  const auto check = []<class Error>(const Error& error) {
    const Checked checked;
    embed_throws(error)(*checked.network);
    CHECK_THROWS_AS(checked.forward(), Error);
  };
  check(std::bad_alloc());
  check(NumericError("not finite"));
  check(AnomalyError("not finite"));
  check(kernels::Cancelled());
}

}  // namespace
}  // namespace tapestry
