#include "layers/encoder_decoder.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "autograd/error.h"
#include "autograd/ops/elementwise.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/parameters.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

constexpr NormPlacement placements[] = {NormPlacement::pre, NormPlacement::post};
constexpr double rounding = 1e-9;  // an epsilon of 1e-12 moves norms by less

/// A stack or one layer of it.
template <class Layer>
struct Made {
  template <class Options>
  Made(std::size_t d_model, const Options& options)
      : layer(Scope(parameters) / "decoder", d_model, options) {}

  Parameters parameters{DType::float64, 1};
  Layer layer;
};

DecoderOptions two_layers(NormPlacement placement, std::size_t num_heads, double epsilon,
                          double dropout) {
  const MultiHeadAttentionOptions attention{.num_heads = num_heads, .dropout = dropout};
  return {.num_layers = 2,
          .layer = {.self_attn = attention,
                    .cross_attn = attention,
                    .ff = {.d_ff = 3, .activation = Activation::gelu, .dropout = dropout},
                    .residual = {
                        .placement = placement, .norm = {.epsilon = epsilon}, .dropout = dropout}}};
}

/// For a d_model of 2.
DecoderOptions tiny(NormPlacement placement) { return two_layers(placement, 1, 1e-12, 0.0); }

/// For a d_model of 4.
DecoderOptions small(NormPlacement placement, double dropout = 0.0) {
  return two_layers(placement, 2, 1e-5, dropout);
}

/// Makes a layer of tiny sizes one that adds the means of what its attentions see, then (10, 30).
void attend_evenly(const Parameters& parameters, const std::string& layer) {
  for (const std::string attention : {".self_attn", ".cross_attn"}) {
    set_values(parameters, layer + attention + ".q_proj.weight", {0, 0, 0, 0});
    set_values(parameters, layer + attention + ".v_proj.weight", {1, 0, 0, 1});
    set_values(parameters, layer + attention + ".out_proj.weight", {1, 0, 0, 1});
  }
  set_values(parameters, layer + ".ff.linear2.weight", {0, 0, 0, 0, 0, 0});
  set_values(parameters, layer + ".ff.linear2.bias", {10, 30});
}

/// Its rows have the norms (-1, 1) and (1, -1).
Tensor two_rows() { return Tensor::from({1, 2, 2}, {1, 3, 9, 5}, DType::float64); }
Tensor two_encoded() { return Tensor::from({1, 2, 2}, {100, 200, 300, 600}, DType::float64); }

}  // namespace

TEST_CASE("a pre-norm decoder layer adds self-attention over norms, then the memory as it is") {
  const Made<DecoderLayer> made(2, tiny(NormPlacement::pre).layer);
  attend_evenly(made.parameters, "decoder");
  check_values(made.layer(two_rows(), two_encoded(), {}, Mode::inference()), {211, 433, 219, 435},
               rounding);
  const DecoderMasks masks{.self = AttentionMask::causal(), .cross = AttentionMask::padding({1})};
  check_values(made.layer(two_rows(), two_encoded(), masks, Mode::inference()),
               {110, 234, 119, 235}, rounding);
}

TEST_CASE("a post-norm decoder layer normalizes after each of its three additions") {
  const Made<DecoderLayer> made(2, tiny(NormPlacement::post).layer);
  attend_evenly(made.parameters, "decoder");
  set_values(made.parameters, "decoder.self_attn_residual.norm.weight", {1000, 0});
  set_values(made.parameters, "decoder.cross_attn_residual.norm.bias", {100, 0});
  set_values(made.parameters, "decoder.ff_residual.norm.weight", {2, 3});
  // (1, 3) + (5, 4) -> (-1000, 0); + (200, 400) -> (-1 + 100, 1); + (10, 30) -> (2, -3).
  // (9, 5) + (5, 4) -> (1000, 0); + (200, 400) -> (1 + 100, -1); + (10, 30) -> (2, -3).
  check_values(made.layer(two_rows(), two_encoded(), {}, Mode::inference()), {2, -3, 2, -3},
               rounding);
}

TEST_CASE("a decoder layer's parameters are named as documented") {
  const Made<DecoderLayer> made(2, tiny(NormPlacement::post).layer);
  std::vector<std::string> expected;
  for (const std::string attention : {"self_attn", "cross_attn"}) {
    for (const std::string projection : {"q_proj", "k_proj", "v_proj", "out_proj"}) {
      expected.push_back("decoder." + attention + "." + projection + ".weight (2, 2)");
      expected.push_back("decoder." + attention + "." + projection + ".bias (2)");
    }
  }
  expected.insert(expected.end(),
                  {"decoder.ff.linear1.weight (3, 2)", "decoder.ff.linear1.bias (3)",
                   "decoder.ff.linear2.weight (2, 3)", "decoder.ff.linear2.bias (2)"});
  for (const std::string sublayer : {"self_attn", "cross_attn", "ff"}) {
    expected.push_back("decoder." + sublayer + "_residual.norm.weight (2)");
    expected.push_back("decoder." + sublayer + "_residual.norm.bias (2)");
  }
  CHECK(listing(made.parameters) == expected);
}

TEST_CASE("each part of a decoder layer drops by its own rate") {
  const Tensor x = random_leaf({2, 3, 4}, 1);
  // What the layer adds to x where all elements of some parts are dropped.
  const auto added = [&](double attention, double activation, double residual) {
    DecoderLayerOptions layer = small(NormPlacement::pre).layer;
    layer.self_attn.dropout = layer.cross_attn.dropout = attention;
    layer.ff.dropout = activation;
    layer.residual.dropout = residual;
    const Made<DecoderLayer> made(4, layer);
    set_values(made.parameters, "decoder.self_attn.out_proj.bias", {1, 0, 0, 0});
    set_values(made.parameters, "decoder.cross_attn.out_proj.bias", {0, 1, 0, 0});
    set_values(made.parameters, "decoder.ff.linear2.bias", {0, 0, 0, 2});
    const Mode mode = Mode::training(RandomStream(1));
    return sub(made.layer(x, x, {}, mode), x);
  };
  const auto rows = [](const std::vector<double>& row) {
    std::vector<double> all;
    for (int i = 0; i < 6; ++i) all.insert(all.end(), row.begin(), row.end());
    return all;
  };
  // Only the biases behind what is dropped are left.
  check_values(added(1, 1, 0), rows({1, 1, 0, 2}));
  check_values(added(0, 0, 1), rows({0, 0, 0, 0}));
  for (const auto& [attention, activation] : {std::pair(1.0, 0.0), std::pair(0.0, 1.0)}) {
    CHECK(values_of(added(attention, activation, 0)) != values_of(added(1, 1, 0)));
    CHECK(values_of(added(attention, activation, 0)) != values_of(added(0, 0, 0)));
  }
}

TEST_CASE("a decoder stacks its layers and ends with a norm only where norms come first") {
  for (const NormPlacement placement : placements) {
    const Made<Decoder> made(2, tiny(placement));
    CHECK(made.parameters.find("decoder.layers.0.cross_attn.q_proj.weight") != nullptr);
    CHECK(made.parameters.find("decoder.layers.1.cross_attn.q_proj.weight") != nullptr);
    const std::size_t norms = placement == NormPlacement::pre ? 2 : 0;
    CHECK(made.parameters.list().size() == 2 * 26 + norms);
    CHECK((made.parameters.find("decoder.norm.weight") != nullptr) == (norms == 2));
  }
}

TEST_CASE("two pre-norm decoder layers each add the memory and the norm comes last") {
  const Made<Decoder> made(2, tiny(NormPlacement::pre));
  attend_evenly(made.parameters, "decoder.layers.0");
  attend_evenly(made.parameters, "decoder.layers.1");
  set_values(made.parameters, "decoder.norm.weight", {5, 7});
  const Tensor opposed = Tensor::from({1, 2, 2}, {1, 3, 900, 5}, DType::float64);
  // (1, 3) -> (211, 433) -> (421, 863) and (900, 5) -> (1110, 435) -> (1320, 865).
  check_values(made.layer(opposed, two_encoded(), {}, Mode::inference()), {-5, 7, 5, -7}, rounding);
}

TEST_CASE("by default a decoder has six pre-norm layers of width 4 d_model inside") {
  const Made<Decoder> made(8, DecoderOptions());
  CHECK(made.parameters.find("decoder.layers.5.ff.linear1.weight") != nullptr);
  CHECK(made.parameters.find("decoder.layers.6.ff.linear1.weight") == nullptr);
  CHECK(parameter(made.parameters, "decoder.layers.0.ff.linear1.weight").shape() == Shape{32, 8});
  CHECK(made.parameters.find("decoder.norm.weight") != nullptr);
}

TEST_CASE("a decoder with no layers is its norm, or nothing at all") {
  for (const NormPlacement placement : placements) {
    DecoderOptions none = tiny(placement);
    none.num_layers = 0;
    const Made<Decoder> made(2, none);
    const bool pre = placement == NormPlacement::pre;
    check_values(made.layer(two_rows(), two_encoded(), {}, Mode::inference()),
                 pre ? std::vector<double>{-1, 1, 1, -1} : values_of(two_rows()), rounding);
  }
}

TEST_CASE("padding of targets enters no batch norm of a decoder, whatever the source's lengths") {
  for (const NormPlacement placement : placements) {
    DecoderOptions options = small(placement);
    options.layer.residual.norm.kind = Normalization::batch_norm;
    const auto run = [&](double behind) {
      Made<Decoder> made(4, options);
      perturb(made.parameters);
      Tensor input = random_leaf({2, 3, 4}, 1).copied(DType::float64);
      for (std::size_t i = 20; i < 24; ++i) input.mutable_values<double>()[i] = behind;
      const Tensor encoded = random_leaf({2, 3, 4}, 2);
      const DecoderMasks masks{.self = AttentionMask::causal() & AttentionMask::padding({3, 2}),
                               .cross = AttentionMask::padding({3, 3})};
      Tape tape;
      auto all = values_of(made.layer(input, encoded, masks, Mode::training(RandomStream(3))));
      all.resize(20);  // those of tokens
      made.parameters.commit_buffers();
      for (const NamedTensor& buffer : made.parameters.buffers()) {
        for (const double value : values_of(buffer.tensor)) all.push_back(value);
      }
      return all;
    };
    CHECK(run(0.5) == run(-7.0));
  }
}

TEST_CASE("stochastic depth drops the second of two decoder layers twice as often as the first") {
  DecoderOptions options = small(NormPlacement::pre);
  options.layer.residual.stochastic_depth = 0.8;
  const Made<Decoder> made(4, options);
  for (const std::string layer : {"0", "1"}) {
    const std::string path = "decoder.layers." + layer;
    for (const std::string attention : {".self_attn", ".cross_attn"}) {
      set_values(parameter(made.parameters, path + attention + ".out_proj.weight"),
                 std::vector<double>(16, 0.0));
    }
    set_values(parameter(made.parameters, path + ".ff.linear2.weight"),
               std::vector<double>(12, 0.0));
  }
  set_values(made.parameters, "decoder.layers.0.ff.linear2.bias", {1, 0, 0, 0});
  set_values(made.parameters, "decoder.layers.1.ff.linear2.bias", {0, 1, 0, 0});
  constexpr std::size_t rows = 2000;
  const Tensor zeros = Tensor::zeros({rows, 1, 4}, DType::float64);
  const auto y = values_of(made.layer(zeros, zeros, {}, Mode::training(RandomStream(3))));
  std::size_t first = 0, second = 0;  // rows with the bias of each, beside features without
  for (std::size_t row = 0; row < rows; ++row) {
    first += y[4 * row] > y[4 * row + 2];
    second += y[4 * row + 1] > y[4 * row + 2];
  }
  // 1 - 0.4 and 1 - 0.8, with a standard deviation of 0.011.
  CHECK(std::abs(static_cast<double>(first) / rows - 0.6) < 0.05);
  CHECK(std::abs(static_cast<double>(second) / rows - 0.2) < 0.05);
}

TEST_CASE("the gradients of a decoder agree with differences, with dropout too") {
  for (const NormPlacement placement : placements) {
    for (const double rate : {0.0, 0.3}) {
      const Made<Decoder> made(4, small(placement, rate));
      perturb(made.parameters);
      const Tensor input = random_leaf({2, 3, 4}, 1);
      const Tensor encoded = random_leaf({2, 2, 4}, 2);
      const DecoderMasks masks{.self = AttentionMask::causal() & AttentionMask::padding({3, 2}),
                               .cross = AttentionMask::padding({1, 2})};
      check_gradients(
          [&] { return made.layer(input, encoded, masks, Mode::training(RandomStream(3))); },
          made.parameters, {input, encoded}, {.max_coordinates = 12});
    }
  }
}

TEST_CASE("a decoder refuses inputs that do not fit and names the layer inside") {
  const auto zeros = [](const Shape& shape) { return Tensor::zeros(shape, DType::float64); };
  const Made<Decoder> made(4, small(NormPlacement::post));
  CHECK_THROWS_WITH_AS(made.layer(zeros({1, 2, 3}), zeros({1, 2, 4}), {}, Mode::inference()),
                       "decoder.layers.0.self_attn.q_proj: linear: x has shape (1, 2, 3), expected "
                       "last axis 4 (weight is (4, 4))",
                       ShapeError);
  CHECK_THROWS_WITH_AS(
      made.layer(zeros({1, 2, 4}), zeros({1, 2, 3}), {}, Mode::inference()),
      "decoder.layers.0.cross_attn.k_proj: linear: x has shape (1, 2, 3), expected "
      "last axis 4 (weight is (4, 4))",
      ShapeError);
  CHECK_THROWS_WITH_AS(made.layer(zeros({2, 2, 4}), zeros({1, 2, 4}), {}, Mode::inference()),
                       "decoder.layers.0.cross_attn: scaled_dot_product_attention: q has shape (2, "
                       "2, 4) and k (1, 2, 4), expected equal first and last axes",
                       ShapeError);
}
