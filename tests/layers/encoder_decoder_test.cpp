// SPDX-License-Identifier: BSD-3-Clause
#include "layers/encoder_decoder.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "autograd/error.h"
#include "autograd/ops/elementwise.h"
#include "autograd/tape.h"
#include "tests/support/errors.h"
#include "tests/support/gradients.h"
#include "tests/support/parameters.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

/// Tests encoder and decoder stacks with the same cases.
namespace {

constexpr double rounding = 1e-9;  // an epsilon of 1e-12 changes norms by less

DecoderLayerOptions layer_options(NormPlacement placement, std::size_t num_heads, double epsilon,
                                  double dropout) {
  const MultiHeadAttentionOptions attention{.num_heads = num_heads, .dropout = dropout};
  return {.self_attn = attention,
          .cross_attn = attention,
          .ff = {.d_ff = 3, .activation = Activation::gelu, .dropout = dropout},
          .residual = {.placement = placement, .norm = {.epsilon = epsilon}, .dropout = dropout}};
}
/// Options for a d_model of 2.
DecoderLayerOptions tiny(NormPlacement placement) { return layer_options(placement, 1, 1e-12, 0); }
/// Options for a d_model of 4.
DecoderLayerOptions small_layer(NormPlacement placement, double dropout = 0.0) {
  return layer_options(placement, 2, 1e-5, dropout);
}

/// Traits of the encoder for tests of both stacks.
struct OfEncoder {
  using Layer = EncoderLayer;
  using Stack = Encoder;
  static constexpr bool is_decoder = false;
  static constexpr std::size_t parameters_per_layer = 16;

  static EncoderLayerOptions layer(const DecoderLayerOptions& o) {
    return {.self_attn = o.self_attn, .ff = o.ff, .residual = o.residual};
  }
  static EncoderOptions stack(const DecoderLayerOptions& o, std::size_t num_layers = 2) {
    return {.num_layers = num_layers, .layer = layer(o)};
  }
  static Tensor run(const auto& layer, const Tensor& x, const Tensor&, const DecoderMasks& masks,
                    const Mode& mode) {
    return layer(x, masks.self, mode);
  }
};
struct OfDecoder {
  using Layer = DecoderLayer;
  using Stack = Decoder;
  static constexpr bool is_decoder = true;
  static constexpr std::size_t parameters_per_layer = 26;

  static DecoderLayerOptions layer(const DecoderLayerOptions& o) { return o; }
  static DecoderOptions stack(const DecoderLayerOptions& o, std::size_t num_layers = 2) {
    return {.num_layers = num_layers, .layer = o};
  }
  static Tensor run(const auto& layer, const Tensor& x, const Tensor& memory,
                    const DecoderMasks& masks, const Mode& mode) {
    return layer(x, memory, masks, mode);
  }
};

/// A stack, or a single layer of a stack.
template <class Layer>
struct MadeStack {
  template <class Options>
  MadeStack(std::size_t d_model, const Options& options)
      : layer(Scope(parameters) / "stack", d_model, options) {}

  Parameters parameters{DType::float64, 1};
  Layer layer;
};

/// The attention blocks of a layer.
template <class Of>
std::vector<std::string> attentions() {
  if (Of::is_decoder) return {".self_attn", ".cross_attn"};
  return {".self_attn"};
}

/// Two rows. A norm maps them to (-1, 1) and (1, -1).
Tensor two_rows() { return Tensor::from({1, 2, 2}, {1, 3, 9, 5}, DType::float64); }
Tensor two_encoded() { return Tensor::from({1, 2, 2}, {100, 200, 300, 600}, DType::float64); }

/// `row` six times.
std::vector<double> six(const std::vector<double>& row) {
  std::vector<double> all;
  for (int i = 0; i < 6; ++i) all.insert(all.end(), row.begin(), row.end());
  return all;
}

}  // namespace

TEST_CASE_TEMPLATE("the parameters of a layer are named as documented", Of, OfEncoder, OfDecoder) {
  const MadeStack<typename Of::Layer> made(2, Of::layer(tiny(NormPlacement::post)));
  std::vector<std::string> expected, norms;
  for (const std::string& attention : attentions<Of>()) {
    for (const std::string projection : {"q_proj", "k_proj", "v_proj", "out_proj"}) {
      expected.push_back("stack" + attention + "." + projection + ".weight (2, 2)");
      expected.push_back("stack" + attention + "." + projection + ".bias (2)");
    }
    norms.push_back("stack" + attention + "_residual.norm");
  }
  norms.push_back("stack.ff_residual.norm");
  expected.insert(expected.end(), {"stack.ff.linear1.weight (3, 2)", "stack.ff.linear1.bias (3)",
                                   "stack.ff.linear2.weight (2, 3)", "stack.ff.linear2.bias (2)"});
  for (const std::string& norm : norms) {
    expected.push_back(norm + ".weight (2)");
    expected.push_back(norm + ".bias (2)");
  }
  CHECK(listing(made.parameters) == expected);
}

constexpr std::pair<AttentionScore, Activation> scores_and_activations[] = {
    {AttentionScore::scaled_dot_product, Activation::relu},
    {AttentionScore::scaled_dot_product, Activation::gelu},
    {AttentionScore::dot_product, Activation::gelu_tanh},
    {AttentionScore::dot_product, Activation::silu},
    {AttentionScore::additive, Activation::swiglu},
    {AttentionScore::bilinear, Activation::geglu}};

TEST_CASE_TEMPLATE("each part of a layer has a separate dropout rate", Of, OfEncoder, OfDecoder) {
  const Tensor x = random_leaf({2, 3, 4}, 1);
  for (const auto& [score, function] : scores_and_activations) {
    DecoderLayerOptions options = small_layer(NormPlacement::pre);
    options.self_attn.score = options.cross_attn.score = score;
    options.ff.activation = function;
    // The values that the layer adds to x if some of its parts drop all elements.
    const auto added = [&](double attention, double activation, double residual) {
      options.self_attn.dropout = options.cross_attn.dropout = attention;
      options.ff.dropout = activation;
      options.residual.dropout = residual;
      const MadeStack<typename Of::Layer> made(4, Of::layer(options));
      set_values(made.parameters, "stack.self_attn.out_proj.bias", {1, 0, 0, 0});
      if (Of::is_decoder) {
        set_values(made.parameters, "stack.cross_attn.out_proj.bias", {0, 1, 0, 0});
      }
      set_values(made.parameters, "stack.ff.linear2.bias", {0, 0, 0, 2});
      return values_of(Of::run(made.layer, x, x, {}, Mode::training(RandomStream(1))) - x);
    };
    // Only biases added after dropout remain.
    const double cross = Of::is_decoder ? 1 : 0;
    check_values(Tensor::from(added(1, 1, 0), DType::float64), six({1, cross, 0, 2}));
    check_values(Tensor::from(added(0, 0, 1), DType::float64), six({0, 0, 0, 0}));
    for (const auto& [attention, activation] : {std::pair(1.0, 0.0), std::pair(0.0, 1.0)}) {
      CHECK(added(attention, activation, 0) != added(1, 1, 0));
      CHECK(added(attention, activation, 0) != added(0, 0, 0));
    }
  }
}

TEST_CASE_TEMPLATE("a stack ends with a norm only if it is pre-norm", Of, OfEncoder, OfDecoder) {
  for (const NormPlacement placement : {NormPlacement::pre, NormPlacement::post}) {
    const bool pre = placement == NormPlacement::pre;
    const MadeStack<typename Of::Stack> made(2, Of::stack(tiny(placement)));
    CHECK(made.parameters.find("stack.layers.1.ff.linear1.weight") != nullptr);
    CHECK(made.parameters.list().size() == 2 * Of::parameters_per_layer + (pre ? 2 : 0));
    CHECK((made.parameters.find("stack.norm.weight") != nullptr) == pre);
    const MadeStack<typename Of::Stack> none(2, Of::stack(tiny(placement), 0));
    check_values(Of::run(none.layer, two_rows(), two_encoded(), {}, Mode::inference()),
                 pre ? std::vector<double>{-1, 1, 1, -1} : values_of(two_rows()), rounding);
  }
}

TEST_CASE_TEMPLATE("by default, a stack has six pre-norm layers with a d_ff of 4 d_model", Of,
                   OfEncoder, OfDecoder) {
  const MadeStack<typename Of::Stack> made(8, decltype(Of::stack(tiny(NormPlacement::pre)))());
  CHECK(made.parameters.find("stack.layers.5.ff.linear1.weight") != nullptr);
  CHECK(made.parameters.find("stack.layers.6.ff.linear1.weight") == nullptr);
  CHECK(parameter(made.parameters, "stack.layers.0.ff.linear1.weight").shape() == Shape{32, 8});
  CHECK(made.parameters.find("stack.norm.weight") != nullptr);
}

TEST_CASE_TEMPLATE("stochastic depth drops the second of two layers twice as often as the first",
                   Of, OfEncoder, OfDecoder) {
  DecoderLayerOptions options = small_layer(NormPlacement::pre);
  options.residual.stochastic_depth = 0.8;
  const MadeStack<typename Of::Stack> made(4, Of::stack(options));
  for (const std::string path : {"stack.layers.0", "stack.layers.1"}) {
    for (const std::string& attention : attentions<Of>()) {
      set_values(parameter(made.parameters, path + attention + ".out_proj.weight"),
                 std::vector<double>(16, 0.0));
    }
    set_values(parameter(made.parameters, path + ".ff.linear2.weight"),
               std::vector<double>(12, 0.0));
  }
  set_values(made.parameters, "stack.layers.0.ff.linear2.bias", {1, 0, 0, 0});
  set_values(made.parameters, "stack.layers.1.ff.linear2.bias", {0, 1, 0, 0});
  constexpr std::size_t rows = 2000;
  const Tensor zeros = Tensor::zeros({rows, 1, 4}, DType::float64);
  const auto y = values_of(Of::run(made.layer, zeros, zeros, {}, Mode::training(RandomStream(3))));
  std::size_t first = 0, second = 0;  // numbers of rows with the layers' biases
  for (std::size_t row = 0; row < rows; ++row) {
    first += y[4 * row] > y[4 * row + 2];
    second += y[4 * row + 1] > y[4 * row + 2];
  }
  // The expected shares are 1 - 0.4 and 1 - 0.8, with a standard deviation of 0.011.
  CHECK(std::abs(static_cast<double>(first) / rows - 0.6) < 0.05);
  CHECK(std::abs(static_cast<double>(second) / rows - 0.2) < 0.05);
}

TEST_CASE_TEMPLATE("padding does not affect batch norms of a stack", Of, OfEncoder, OfDecoder) {
  for (const NormPlacement placement : {NormPlacement::pre, NormPlacement::post}) {
    DecoderLayerOptions options = small_layer(placement);
    options.residual.norm.kind = Normalization::batch_norm;
    const auto run = [&](double behind) {
      MadeStack<typename Of::Stack> made(4, Of::stack(options));
      perturb(made.parameters);
      Tensor x = random_leaf({2, 3, 4}, 1).detach().to(DType::float64);
      for (std::size_t i = 20; i < 24; ++i) x.mutable_values<double>()[i] = behind;
      const DecoderMasks masks{.self = AttentionMask::padding({3, 2}),
                               .cross = AttentionMask::padding({3, 3})};
      Tape tape;
      auto all = values_of(Of::run(made.layer, x, random_leaf({2, 3, 4}, 2), masks,
                                   Mode::training(RandomStream(3))));
      all.resize(20);  // only the values of tokens
      made.parameters.commit_buffers();
      for (const NamedTensor& buffer : made.parameters.buffers()) {
        for (const double value : values_of(buffer.tensor)) all.push_back(value);
      }
      return all;
    };
    CHECK(run(0.5) == run(-7.0));
  }
}

TEST_CASE(
    "an encoder with batch norms is causal in inference and mixes all positions in training") {
  DecoderLayerOptions options = small_layer(NormPlacement::pre);
  options.residual.norm.kind = Normalization::batch_norm;
  const MadeStack<Encoder> made(4, OfEncoder::stack(options));
  const Tensor x = random_leaf({1, 3, 4}, 1);
  Tensor other = x.detach().to(DType::float64);
  other.mutable_values<double>()[11] += 1;
  const auto first_of = [&](const Tensor& in, const Mode& mode) {
    auto values = values_of(made.layer(in, AttentionMask::causal(), mode));
    values.resize(4);
    return values;
  };
  CHECK(first_of(x, Mode::inference()) == first_of(other, Mode::inference()));
  CHECK(first_of(x, Mode::training(RandomStream(1))) !=
        first_of(other, Mode::training(RandomStream(1))));
}

TEST_CASE_TEMPLATE(
    "with dropout and batch norms, a stack's gradients agree with finite differences", Of,
    OfEncoder, OfDecoder) {
  for (const NormPlacement placement : {NormPlacement::pre, NormPlacement::post}) {
    for (const Normalization norm : {Normalization::layer_norm, Normalization::batch_norm}) {
      DecoderLayerOptions options = small_layer(placement, 0.3);
      options.residual.norm.kind = norm;
      options.residual.norm.epsilon = 0.25;
      const MadeStack<typename Of::Stack> made(4, Of::stack(options));
      perturb(made.parameters);
      const Tensor x = random_leaf({2, 3, 4}, 1), memory = random_leaf({2, 2, 4}, 2);
      const DecoderMasks masks{.self = AttentionMask::padding({3, 2}),
                               .cross = AttentionMask::padding({1, 2})};
      std::vector<NamedTensor> tensors = made.parameters.list();
      tensors.push_back({"x", x});
      if (Of::is_decoder) tensors.push_back({"memory", memory});
      const auto run = [&] {
        return Of::run(made.layer, x, memory, masks, Mode::training(RandomStream(3)));
      };
      CHECK(gradcheck(run, tensors, {.max_coordinates = 6}).worst_relative_error() < 1e-6);
    }
  }
}

TEST_CASE("stacks reject inputs of the wrong shape, and the error names the inner layer") {
  const auto of = [](const Shape& shape) { return Tensor::zeros(shape, DType::float64); };
  const MadeStack<Encoder> pre(4, OfEncoder::stack(small_layer(NormPlacement::pre)));
  const MadeStack<Encoder> post(4, OfEncoder::stack(small_layer(NormPlacement::post)));
  const MadeStack<Decoder> decoder(4, OfDecoder::stack(small_layer(NormPlacement::post)));
  const Mode mode = Mode::inference();
  const std::string first = "stack.layers.0.";
  check_error<ShapeError>(first + "self_attn_residual.norm: layer_norm|(4)|(1, 2, 3)", [&] {
    pre.layer(of({1, 2, 3}), {}, mode);
  });
  check_error<ShapeError>(first + "self_attn.q_proj: linear|(1, 2, 3)|last axis 4", [&] {
    post.layer(of({1, 2, 3}), {}, mode);
  });
  check_error<ShapeError>(first + "self_attn: scaled_dot_product|3 lengths|2", [&] {
    post.layer(of({2, 2, 4}), AttentionMask::padding({1, 1, 1}), mode);
  });
  check_error<ShapeError>(first + "self_attn.q_proj: linear|(1, 2, 3)", [&] {
    decoder.layer(of({1, 2, 3}), of({1, 2, 4}), {}, mode);
  });
  check_error<ShapeError>(first + "cross_attn.k_proj: linear|(1, 2, 3)", [&] {
    decoder.layer(of({1, 2, 4}), of({1, 2, 3}), {}, mode);
  });
  check_error<ShapeError>(first + "cross_attn: scaled|(2, 2, 4)|(1, 2, 4)", [&] {
    decoder.layer(of({2, 2, 4}), of({1, 2, 4}), {}, mode);
  });
}
