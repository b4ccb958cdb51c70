// SPDX-License-Identifier: BSD-3-Clause
#include "layers/norm.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "autograd/error.h"
#include "autograd/tape.h"
#include "layers/basic_layers.h"
#include "layers/encoder_decoder.h"
#include "layers/parameters.h"
#include "tests/support/errors.h"
#include "tests/support/gradients.h"
#include "tests/support/parameters.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

constexpr Normalization normalizations[] = {Normalization::layer_norm, Normalization::rms_norm,
                                            Normalization::batch_norm};

EncoderOptions encoder_with(Normalization kind, NormPlacement placement = NormPlacement::pre) {
  return {.num_layers = 2,
          .layer = {.self_attn = {.num_heads = 2, .dropout = 0.2},
                    .ff = {.d_ff = 6, .dropout = 0.2},
                    .residual = {.placement = placement,
                                 .norm = {.kind = kind, .epsilon = 0.25},
                                 .dropout = 0.2}}};
}

}  // namespace

TEST_CASE("Norm has the kind and epsilon of its options") {
  const Tensor x = random_leaf({3, 4}, 1);
  const Mode training = Mode::training(RandomStream(1));
  Parameters parameters(DType::float64, 1);
  const Scope root(parameters);
  const auto norm = [&](const char* name, Normalization kind) {
    return values_of(Norm(root / name, 4, {.kind = kind, .epsilon = 0.25})(x, {}, training));
  };
  CHECK(norm("a", Normalization::layer_norm) == values_of(LayerNorm(root / "b", 4, 0.25)(x)));
  CHECK(norm("c", Normalization::rms_norm) == values_of(RmsNorm(root / "d", 4, 0.25)(x)));
  CHECK(norm("e", Normalization::batch_norm) ==
        values_of(BatchNorm(root / "f", 4, 0.25)(x, {}, training)));
  check_error<ValueError>("norm:|unknown normalization",
                          [&] { norm("g", static_cast<Normalization>(9)); });
}

TEST_CASE("by default, a norm is a layer norm with epsilon 1e-5, the default of PyTorch") {
  const Tensor x = Tensor::from({1, 2}, {1e-3, 3e-3}, DType::float64);
  Parameters parameters(DType::float64, 1);
  const double root = std::sqrt(1e-6 + 1e-5);
  check_values(Norm(Scope(parameters), 2)(x, {}, Mode::inference()), {-1e-3 / root, 1e-3 / root});
}

TEST_CASE("all norms of an encoder are of the same kind") {
  for (const Normalization normalization : normalizations) {
    Parameters parameters(DType::float64, 1);
    const Encoder encoder(Scope(parameters) / "encoder", 4, encoder_with(normalization));
    const bool rms = normalization == Normalization::rms_norm;
    for (const std::string norm : {"layers.0.self_attn_residual.norm", "layers.0.ff_residual.norm",
                                   "layers.1.ff_residual.norm", "norm"}) {
      CHECK(parameters.find("encoder." + norm + ".weight") != nullptr);
      CHECK((parameters.find("encoder." + norm + ".bias") == nullptr) == rms);
    }
    const std::size_t norms = 2 * 2 + 1;
    CHECK(parameters.buffers().size() ==
          (normalization == Normalization::batch_norm ? 2 * norms : 0));
  }
}

TEST_CASE("a norm starts with a weight of ones and, unless it is an rms norm, a bias of zeros") {
  for (const Normalization kind : normalizations) {
    Parameters parameters(DType::float32, 1);
    const Norm norm(Scope(parameters) / "norm", 3, {.kind = kind});
    check_values(parameter(parameters, "norm.weight"), {1, 1, 1});
    CHECK(parameters.list().size() == (kind == Normalization::rms_norm ? 1 : 2));
    if (kind != Normalization::rms_norm)
      check_values(parameter(parameters, "norm.bias"), {0, 0, 0});
  }
}

TEST_CASE(
    "a norm rejects inputs of a different width and an epsilon of 0, and the error names the "
    "norm") {
  for (const Normalization kind : normalizations) {
    Parameters parameters(DType::float32, 1);
    const Scope scope = Scope(parameters) / "ff_residual";
    const Norm norm(scope / "norm", 4, {.kind = kind});
    for (const Mode& mode : {Mode::training(RandomStream(1)), Mode::inference()}) {
      check_error<ShapeError>("ff_residual.norm: |_norm|(4)|(3)|(2, 3)", [&] {
        norm(Tensor::zeros({2, 3}, DType::float32), {}, mode);
      });
    }
    const Norm flat(scope / "flat", 4, {.kind = kind, .epsilon = 0.0});
    check_error<ValueError>("ff_residual.flat: |_norm", [&] {
      flat(Tensor::zeros({2, 4}, DType::float32), {}, Mode::inference());
    });
  }
}

namespace {

/// The mode of a training loop that commits running averages itself.
const Mode deferring = Mode::training(RandomStream(1)).with_deferred_averages();

struct MadeBatchNorm {
  explicit MadeBatchNorm(std::size_t n, DType dtype = DType::float64, double epsilon = 1e-5)
      : parameters(dtype, 1), layer(Scope(parameters) / "norm", n, epsilon) {}

  std::vector<double> running_mean() const { return values_of(parameters.buffers()[0].tensor); }
  std::vector<double> running_var() const { return values_of(parameters.buffers()[1].tensor); }

  Parameters parameters;
  BatchNorm layer;
};

/// A forward pass in training that the tape records.
Tensor train(const MadeBatchNorm& made, const Tensor& x) {
  Tape tape;
  return made.layer(x, {}, deferring);
}

}  // namespace

TEST_CASE("a batch norm without padding accepts any leading axes, even in a Sequential") {
  const Tensor x = random_normal({3, 4, 2}, RandomStream(1), DType::float64);
  MadeBatchNorm made(2, DType::float64, 4.0);
  for (const Mode& mode : {Mode::training(RandomStream(1)), Mode::inference()}) {
    const Tensor y = made.layer(x, mode);
    CHECK(y.to_vector() == made.layer(x, {}, mode).to_vector());
    CHECK(Sequential{made.layer}(x, mode).to_vector() == y.to_vector());
  }
}

TEST_CASE("batch norm excludes padding from the moments and sets it to 0 in training") {
  constexpr std::int32_t lengths[] = {3, 1};
  const Tensor x = random_leaf({2, 3, 2}, 1);
  const auto values = values_of(x);
  const Tensor together = Tensor::from({4, 2}, std::span(values).first(8), DType::float64);
  Tensor spoilt = x.detach().to(DType::float64);
  std::ranges::fill(spoilt.mutable_values<double>().subspan(8), NAN);
  MadeBatchNorm padded(2), packed(2);
  Tape tape;
  auto expected = values_of(packed.layer(together, {}, deferring));
  expected.resize(12, 0.0);
  CHECK(values_of(padded.layer(spoilt, lengths, deferring)) == expected);
  padded.parameters.commit_buffers();
  packed.parameters.commit_buffers();
  CHECK(padded.running_mean() == packed.running_mean());
  CHECK(padded.running_var() == packed.running_var());
}

TEST_CASE("the running moments of a batch norm start as mean 0 and variance 1") {
  const MadeBatchNorm made(3);
  REQUIRE(made.parameters.buffers().size() == 2);
  CHECK(made.parameters.buffers()[0].name == "norm.running_mean");
  CHECK(made.parameters.buffers()[1].name == "norm.running_var");
  CHECK(made.running_mean() == std::vector<double>{0, 0, 0});
  CHECK(made.running_var() == std::vector<double>{1, 1, 1});
}

TEST_CASE("immediate updates of the running moments equal commit_buffers() after a step") {
  MadeBatchNorm made(3), deferring(3);
  for (const std::uint64_t seed : {1, 2}) {
    const Tensor x = random_leaf({4, 3}, seed);
    {
      Tape tape;
      made.layer(x, {}, Mode::training());
    }
    train(deferring, x);
  }
  CHECK(made.running_mean() != std::vector<double>(3, 0.0));
  CHECK(deferring.running_mean() == std::vector<double>(3, 0.0));
  deferring.parameters.commit_buffers();
  CHECK(made.running_mean() == deferring.running_mean());
  CHECK(made.running_var() == deferring.running_var());
}

TEST_CASE("a skipped step does not change the running moments") {
  MadeBatchNorm skipping(3), plain(3);
  const Tensor first = random_leaf({4, 3}, 1), second = random_leaf({4, 3}, 2);
  train(skipping, second);
  skipping.parameters.zero_grad();  // the next step begins
  for (MadeBatchNorm* made : {&skipping, &plain}) {
    train(*made, first);
    made->parameters.commit_buffers();
  }
  CHECK(skipping.running_mean() == plain.running_mean());
  CHECK(skipping.running_var() == plain.running_var());
}

TEST_CASE("the batches of a step update the running moments in order") {
  MadeBatchNorm together(3), apart(3);
  const Tensor first = random_leaf({4, 3}, 1), second = random_leaf({4, 3}, 2);
  train(together, first);
  train(together, second);
  together.parameters.commit_buffers();
  for (const Tensor& x : {first, second}) {
    train(apart, x);
    apart.parameters.commit_buffers();
  }
  CHECK(together.running_mean() == apart.running_mean());
  CHECK(together.running_var() == apart.running_var());
}

TEST_CASE("inference, and training without a tape, do not update the running moments") {
  MadeBatchNorm made(3);
  const Tensor x = random_leaf({4, 3}, 1);
  made.layer(x, {}, deferring);
  {
    Tape tape;
    made.layer(x, {}, Mode::inference());
  }
  made.parameters.commit_buffers();
  CHECK(made.running_mean() == std::vector<double>{0, 0, 0});
  CHECK(made.running_var() == std::vector<double>{1, 1, 1});
}

TEST_CASE("batch norm rejects a single vector (no unbiased variance) and 0 vectors (no moments)") {
  MadeBatchNorm made(2);
  check_values(train(made, Tensor::from({1, 1, 2}, {5, -3}, DType::float64)), {0, 0});
  CHECK(train(made, Tensor::zeros({0, 3, 2}, DType::float64)).shape() == Shape{0, 3, 2});
  made.parameters.commit_buffers();
  check_values(made.parameters.buffers()[0].tensor, {0.5, -0.3});
  CHECK(made.running_var() == std::vector<double>{1, 1});
}

namespace {

Tensor pair(double a, double b, DType dtype = DType::float64) {
  return Tensor::from({2}, {a, b}, dtype);
}

}  // namespace

TEST_CASE("commit() applies the updates of a RunningAverage in the order of the calls") {
  for (const DType dtype : dtypes) {
    const RunningAverage average(pair(8, 16, dtype));
    average.update(pair(4, 0, dtype), 0.5, 0.25);
    average.update(pair(10, 20, dtype), 0.5);
    check_values(average.value(), {8, 16});
    average.commit();
    check_values(average.value(), {7.5, 14});  // (8 / 2 + 4 / 4) / 2 + 10 / 2, ...
    average.commit();
    check_values(average.value(), {7.5, 14});
  }
}

TEST_CASE("discard() drops pending updates of a RunningAverage") {
  const RunningAverage average(pair(1, 2));
  average.update(pair(5, 5), 0.5, 0.5);
  CHECK(average.pending_updates().size() == 1);
  average.discard();
  CHECK(average.pending_updates().empty());
  average.update(pair(3, 4), 0.0, 1.0);
  average.commit();
  check_values(average.value(), {3, 4});
}

TEST_CASE("copies of a RunningAverage share one value, which can be assigned") {
  Tensor value = pair(1, 2);
  const RunningAverage average(value);
  const RunningAverage copy = average;
  copy.update(pair(3, 3), 1.0, 1.0);
  value.mutable_values<double>()[0] = 10;
  average.commit();
  check_values(value, {13, 5});
}

TEST_CASE("update() rejects values of a different shape or element type") {
  const RunningAverage average(pair(1, 2));
  check_error<ShapeError>("running average:|(3)|(2)",
                          [&] { average.update(Tensor::zeros({3}, DType::float64), 0.5, 0.5); });
  check_error<DTypeError>("running average:|float64|float32",
                          [&] { average.update(Tensor::zeros({2}, DType::float32), 0.5, 0.5); });
  CHECK(average.pending_updates().empty());
}

TEST_CASE("buffers are listed separately from parameters, in order and without gradients") {
  Parameters parameters(DType::float32, 1);
  const Scope scope = Scope(parameters) / "norm";
  scope.buffer("running_var", {3}, ones_initializer());
  scope.parameter("weight", {3}, ones_initializer());
  const RunningAverage mean = scope.buffer("running_mean", {3}, zeros_initializer());
  CHECK(parameters.list().size() == 1);
  CHECK(parameters.num_values() == 3);
  CHECK(parameters.find("norm.running_mean") == nullptr);
  REQUIRE(parameters.buffers().size() == 2);
  CHECK(parameters.buffers()[0].name == "norm.running_var");
  CHECK(parameters.buffers()[1].name == "norm.running_mean");
  CHECK(parameters.buffers()[1].tensor.dtype() == DType::float32);
  CHECK_FALSE(parameters.buffers()[1].tensor.requires_grad());
  check_values(parameters.buffers()[0].tensor, {1, 1, 1});
  CHECK(parameters.buffers()[1].tensor.values<float>().data() ==
        mean.value().values<float>().data());
}

TEST_CASE(
    "Parameters commit or discard the updates of all buffers, and zero_grad() discards them") {
  Parameters parameters(DType::float64, 1);
  const RunningAverage a = parameters.create_buffer("a", {2}, zeros_initializer());
  const RunningAverage b = parameters.create_buffer("b", {2}, zeros_initializer());
  const auto update = [&] {
    a.update(pair(1, 2), 1.0, 1.0);
    b.update(pair(3, 4), 1.0, 1.0);
  };
  update();
  parameters.commit_buffers();
  update();
  parameters.discard_pending();
  parameters.commit_buffers();
  update();
  parameters.zero_grad();
  parameters.commit_buffers();
  check_values(a.value(), {1, 2});
  check_values(b.value(), {3, 4});
}

TEST_CASE("gather() does not move buffers") {
  Parameters parameters(DType::float64, 1);
  const RunningAverage average = parameters.create_buffer("mean", {2}, ones_initializer());
  parameters.create("weight", {2}, ones_initializer());
  parameters.gather();
  average.update(pair(3, 5), 0.0, 1.0);
  parameters.commit_buffers();
  check_values(parameters.buffers()[0].tensor, {3, 5});
}

TEST_CASE("parameters and buffers share one namespace, and gather() prevents new names") {
  Parameters parameters(DType::float64, 1);
  parameters.create_buffer("mean", {1}, zeros_initializer());
  parameters.create("weight", {1}, zeros_initializer());
  const auto buffer = [&](const char* name) {
    parameters.create_buffer(name, {1}, zeros_initializer());
  };
  check_error<ValueError>("parameters:|`mean`", [&] { buffer("mean"); });
  check_error<ValueError>("parameters:|`weight`", [&] { buffer("weight"); });
  check_error<ValueError>("parameters:|`mean`",
                          [&] { parameters.create("mean", {1}, zeros_initializer()); });
  parameters.gather();
  check_error<ValueError>("parameters:|`late`|`gather`", [&] { buffer("late"); });
}
