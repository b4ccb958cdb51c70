#include "layers/norm.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/error.h"
#include "autograd/tape.h"
#include "layers/encoder_decoder.h"
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
  CHECK_THROWS_WITH_AS(norm("g", static_cast<Normalization>(9)), "norm: unknown normalization",
                       ValueError);
}

TEST_CASE("a norm is by default a layer norm with the epsilon of PyTorch, 1e-5") {
  const Tensor x = Tensor::from({1, 2}, {1e-3, 3e-3}, DType::float64);
  Parameters parameters(DType::float64, 1);
  const double root = std::sqrt(1e-6 + 1e-5);
  check_values(Norm(Scope(parameters), 2)(x, {}, Mode::inference()), {-1e-3 / root, 1e-3 / root});
}

TEST_CASE("an encoder has the same kind of norm everywhere") {
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

TEST_CASE("the gradients of an encoder agree with differences under every norm") {
  for (const Normalization normalization : normalizations) {
    for (const NormPlacement placement : {NormPlacement::pre, NormPlacement::post}) {
      Parameters parameters(DType::float64, 1);
      const Encoder encoder(Scope(parameters) / "encoder", 4,
                            encoder_with(normalization, placement));
      perturb(parameters);
      std::vector<NamedTensor> tensors = parameters.list();
      const Tensor x = random_leaf({2, 3, 4}, 1);
      tensors.push_back({"x", x});
      const auto run = [&] {
        return encoder(x, AttentionMask::causal(), Mode::training(RandomStream(3)));
      };
      const GradcheckReport report = gradcheck(run, tensors, {.max_coordinates = 6});
      CHECK(report.worst_relative_error() < 1e-6);
    }
  }
}

TEST_CASE("an encoder of batch norms is causal in inference, and mixes all positions in training") {
  Parameters parameters(DType::float64, 1);
  const Encoder encoder(Scope(parameters) / "encoder", 4, encoder_with(Normalization::batch_norm));
  const Tensor x = random_leaf({1, 3, 4}, 1);
  Tensor other = x.copied(DType::float64);
  other.mutable_values<double>()[11] += 1;
  const auto first_of = [&](const Tensor& in, const Mode& mode) {
    auto values = values_of(encoder(in, AttentionMask::causal(), mode));
    values.resize(4);
    return values;
  };
  CHECK(first_of(x, Mode::inference()) == first_of(other, Mode::inference()));
  CHECK(first_of(x, Mode::training(RandomStream(1))) !=
        first_of(other, Mode::training(RandomStream(1))));
}
