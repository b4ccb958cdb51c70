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
      : layer(Scope(parameters) / "encoder", d_model, options) {}

  Parameters parameters{DType::float64, 1};
  Layer layer;
};

EncoderOptions two_layers(NormPlacement placement, std::size_t num_heads, double epsilon,
                          double dropout) {
  const MultiHeadAttentionOptions attention{.num_heads = num_heads, .dropout = dropout};
  return {.num_layers = 2,
          .layer = {.self_attn = attention,
                    .ff = {.d_ff = 3, .activation = Activation::gelu, .dropout = dropout},
                    .residual = {
                        .placement = placement, .norm = {.epsilon = epsilon}, .dropout = dropout}}};
}

/// For a d_model of 2.
EncoderOptions tiny(NormPlacement placement) { return two_layers(placement, 1, 1e-12, 0.0); }

/// For a d_model of 4.
EncoderOptions small(NormPlacement placement, double dropout = 0.0) {
  return two_layers(placement, 2, 1e-5, dropout);
}

/// Makes a layer of tiny sizes one that adds the mean of what it may attend to, then (10, 30).
void attend_evenly(const Parameters& parameters, const std::string& layer) {
  set_values(parameters, layer + ".self_attn.q_proj.weight", {0, 0, 0, 0});
  set_values(parameters, layer + ".self_attn.v_proj.weight", {1, 0, 0, 1});
  set_values(parameters, layer + ".self_attn.out_proj.weight", {1, 0, 0, 1});
  set_values(parameters, layer + ".ff.linear2.weight", {0, 0, 0, 0, 0, 0});
  set_values(parameters, layer + ".ff.linear2.bias", {10, 30});
}

}  // namespace

TEST_CASE("a pre-norm encoder layer adds attention over norms, then the feed-forward block") {
  const Made<EncoderLayer> made(2, tiny(NormPlacement::pre).layer);
  attend_evenly(made.parameters, "encoder");
  const Tensor x = Tensor::from({1, 2, 2}, {1, 3, 9, 5}, DType::float64);  // norms (-1, 1), (1, -1)
  check_values(made.layer(x, {}, Mode::inference()), {11, 33, 19, 35}, rounding);
  check_values(made.layer(x, AttentionMask::padding({1}), Mode::inference()), {10, 34, 18, 36},
               rounding);
}

TEST_CASE("a post-norm encoder layer normalizes after each addition") {
  const Made<EncoderLayer> made(2, tiny(NormPlacement::post).layer);
  attend_evenly(made.parameters, "encoder");
  set_values(made.parameters, "encoder.self_attn_residual.norm.bias", {100, 0});
  set_values(made.parameters, "encoder.ff_residual.norm.weight", {2, 3});
  const Tensor x = Tensor::from({1, 2, 2}, {1, 3, 9, 5}, DType::float64);
  // (1, 3) + (5, 4) -> (-1 + 100, 1) or (1 + 100, -1); + (10, 30) -> (2, -3).
  check_values(made.layer(x, {}, Mode::inference()), {2, -3, 2, -3}, rounding);
}

TEST_CASE("an encoder layer's parameters are named as documented") {
  const Made<EncoderLayer> made(2, tiny(NormPlacement::post).layer);
  CHECK(listing(made.parameters) ==
        std::vector<std::string>{
            "encoder.self_attn.q_proj.weight (2, 2)", "encoder.self_attn.q_proj.bias (2)",
            "encoder.self_attn.k_proj.weight (2, 2)", "encoder.self_attn.k_proj.bias (2)",
            "encoder.self_attn.v_proj.weight (2, 2)", "encoder.self_attn.v_proj.bias (2)",
            "encoder.self_attn.out_proj.weight (2, 2)", "encoder.self_attn.out_proj.bias (2)",
            "encoder.ff.linear1.weight (3, 2)", "encoder.ff.linear1.bias (3)",
            "encoder.ff.linear2.weight (2, 3)", "encoder.ff.linear2.bias (2)",
            "encoder.self_attn_residual.norm.weight (2)",
            "encoder.self_attn_residual.norm.bias (2)", "encoder.ff_residual.norm.weight (2)",
            "encoder.ff_residual.norm.bias (2)"});
}

TEST_CASE("each part of an encoder layer drops by its own rate") {
  const Tensor x = random_leaf({2, 3, 4}, 1);
  // What the layer adds to x where all elements of some parts are dropped.
  const auto added = [&](double attention, double activation, double residual) {
    EncoderLayerOptions layer = small(NormPlacement::pre).layer;
    layer.self_attn.dropout = attention;
    layer.ff.dropout = activation;
    layer.residual.dropout = residual;
    const Made<EncoderLayer> made(4, layer);
    set_values(made.parameters, "encoder.self_attn.out_proj.bias", {1, 0, 0, 0});
    set_values(made.parameters, "encoder.ff.linear2.bias", {0, 0, 0, 2});
    const Mode mode = Mode::training(RandomStream(1));
    return sub(made.layer(x, {}, mode), x);
  };
  const auto rows = [](const std::vector<double>& row) {
    std::vector<double> all;
    for (int i = 0; i < 6; ++i) all.insert(all.end(), row.begin(), row.end());
    return all;
  };
  // Only the biases behind what is dropped are left.
  check_values(added(1, 1, 0), rows({1, 0, 0, 2}));
  check_values(added(0, 0, 1), rows({0, 0, 0, 0}));
  for (const auto& [attention, activation] : {std::pair(1.0, 0.0), std::pair(0.0, 1.0)}) {
    CHECK(values_of(added(attention, activation, 0)) != values_of(added(1, 1, 0)));
    CHECK(values_of(added(attention, activation, 0)) != values_of(added(0, 0, 0)));
  }
}

TEST_CASE("an encoder stacks its layers and ends with a norm only where norms come first") {
  for (const NormPlacement placement : placements) {
    const Made<Encoder> made(2, tiny(placement));
    CHECK(made.parameters.find("encoder.layers.0.ff.linear1.weight") != nullptr);
    CHECK(made.parameters.find("encoder.layers.1.ff.linear1.weight") != nullptr);
    CHECK(made.parameters.find("encoder.layers.2.ff.linear1.weight") == nullptr);
    const std::size_t norms = placement == NormPlacement::pre ? 2 : 0;
    CHECK(made.parameters.list().size() == 2 * 16 + norms);
    CHECK((made.parameters.find("encoder.norm.weight") != nullptr) == (norms == 2));
  }
}

TEST_CASE("two pre-norm layers add up and the norm comes last") {
  const Made<Encoder> made(2, tiny(NormPlacement::pre));
  attend_evenly(made.parameters, "encoder.layers.0");
  attend_evenly(made.parameters, "encoder.layers.1");
  set_values(made.parameters, "encoder.norm.weight", {5, 7});
  const Tensor x = Tensor::from({1, 2, 2}, {1, 3, 50, 5}, DType::float64);
  // (1, 3) -> (11, 33) -> (21, 63) + (0, 0) and (50, 5) -> (60, 35) -> (70, 65).
  check_values(made.layer(x, {}, Mode::inference()), {-5, 7, 5, -7}, rounding);
}

TEST_CASE("by default an encoder has six pre-norm layers of width 4 d_model inside") {
  const Made<Encoder> made(8, EncoderOptions());
  CHECK(made.parameters.find("encoder.layers.5.ff.linear1.weight") != nullptr);
  CHECK(made.parameters.find("encoder.layers.6.ff.linear1.weight") == nullptr);
  CHECK(parameter(made.parameters, "encoder.layers.0.ff.linear1.weight").shape() == Shape{32, 8});
  CHECK(made.parameters.find("encoder.norm.weight") != nullptr);
}

TEST_CASE("an encoder with no layers is its norm, or nothing at all") {
  for (const NormPlacement placement : placements) {
    EncoderOptions none = tiny(placement);
    none.num_layers = 0;
    const Made<Encoder> made(2, none);
    const Tensor x = Tensor::from({1, 1, 2}, {1, 5}, DType::float64);
    const bool pre = placement == NormPlacement::pre;
    check_values(made.layer(x, {}, Mode::inference()),
                 pre ? std::vector<double>{-1, 1} : std::vector<double>{1, 5}, rounding);
  }
}

TEST_CASE("dropout of an encoder follows the stream, and inference drops nothing") {
  const Made<Encoder> made(4, small(NormPlacement::pre, 0.5));
  const Made<Encoder> same(4, small(NormPlacement::pre, 0.0));
  const Tensor x = random_leaf({2, 3, 4}, 1);
  CHECK(values_of(made.layer(x, {}, Mode::inference())) ==
        values_of(same.layer(x, {}, Mode::inference())));
  CHECK(values_of(made.layer(x, {}, Mode::training(RandomStream(1)))) !=
        values_of(made.layer(x, {}, Mode::inference())));
  CHECK(values_of(made.layer(x, {}, Mode::training(RandomStream(1)))) ==
        values_of(made.layer(x, {}, Mode::training(RandomStream(1)))));
}

TEST_CASE("stochastic depth drops the second of two encoder layers twice as often as the first") {
  EncoderOptions options = small(NormPlacement::pre);
  options.layer.residual.stochastic_depth = 0.8;
  const Made<Encoder> made(4, options);
  for (const std::string layer : {"0", "1"}) {
    const std::string path = "encoder.layers." + layer;
    set_values(parameter(made.parameters, path + ".self_attn.out_proj.weight"),
               std::vector<double>(16, 0.0));
    set_values(parameter(made.parameters, path + ".ff.linear2.weight"),
               std::vector<double>(12, 0.0));
  }
  set_values(made.parameters, "encoder.layers.0.ff.linear2.bias", {1, 0, 0, 0});
  set_values(made.parameters, "encoder.layers.1.ff.linear2.bias", {0, 1, 0, 0});
  constexpr std::size_t rows = 2000;
  const auto y = values_of(made.layer(Tensor::zeros({rows, 1, 4}, DType::float64), AttentionMask(),
                                      Mode::training(RandomStream(3))));
  std::size_t first = 0, second = 0;  // rows with the bias of each, beside features without
  for (std::size_t row = 0; row < rows; ++row) {
    first += y[4 * row] > y[4 * row + 2];
    second += y[4 * row + 1] > y[4 * row + 2];
  }
  // 1 - 0.4 and 1 - 0.8, with a standard deviation of 0.011.
  CHECK(std::abs(static_cast<double>(first) / rows - 0.6) < 0.05);
  CHECK(std::abs(static_cast<double>(second) / rows - 0.2) < 0.05);
}

TEST_CASE("padding enters no batch norm of an encoder") {
  for (const NormPlacement placement : placements) {
    EncoderOptions options = small(placement);
    options.layer.residual.norm.kind = Normalization::batch_norm;
    const auto run = [&](double behind) {
      Made<Encoder> made(4, options);
      perturb(made.parameters);
      Tensor x = random_leaf({2, 3, 4}, 1).copied(DType::float64);
      for (std::size_t i = 20; i < 24; ++i) x.mutable_values<double>()[i] = behind;
      Tape tape;
      auto all =
          values_of(made.layer(x, AttentionMask::padding({3, 2}), Mode::training(RandomStream(3))));
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

TEST_CASE("the gradients of an encoder agree with differences, with dropout too") {
  for (const NormPlacement placement : placements) {
    for (const double rate : {0.0, 0.3}) {
      const Made<Encoder> made(4, small(placement, rate));
      perturb(made.parameters);
      const Tensor x = random_leaf({2, 3, 4}, 1);
      const AttentionMask mask = AttentionMask::padding({3, 2});
      check_gradients([&] { return made.layer(x, mask, Mode::training(RandomStream(3))); },
                      made.parameters, {x}, {.max_coordinates = 12});
    }
  }
}

TEST_CASE("an encoder refuses inputs that do not fit and names the layer inside") {
  const auto zeros = [](const Shape& shape) { return Tensor::zeros(shape, DType::float64); };
  const Made<Encoder> pre(4, small(NormPlacement::pre));
  const Made<Encoder> post(4, small(NormPlacement::post));
  CHECK_THROWS_WITH_AS(
      pre.layer(zeros({1, 2, 3}), {}, Mode::inference()),
      "encoder.layers.0.self_attn_residual.norm: layer_norm: weight has shape (4), "
      "expected (3) (x is (1, 2, 3))",
      ShapeError);
  CHECK_THROWS_WITH_AS(post.layer(zeros({1, 2, 3}), {}, Mode::inference()),
                       "encoder.layers.0.self_attn.q_proj: linear: x has shape (1, 2, 3), expected "
                       "last axis 4 (weight is (4, 4))",
                       ShapeError);
  CHECK_THROWS_WITH_AS(
      post.layer(zeros({2, 2, 4}), AttentionMask::padding({1, 1, 1}), Mode::inference()),
      "encoder.layers.0.self_attn: scaled_dot_product_attention: the padding mask "
      "has 3 lengths, expected 2 (the batch size)",
      ShapeError);
}
