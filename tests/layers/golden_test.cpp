// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "autograd/attention_trace.h"
#include "layers/basic_layers.h"
#include "layers/embedding.h"
#include "layers/encoder_decoder.h"
#include "layers/model.h"
#include "layers/multi_head_attention.h"
#include "layers/norm.h"
#include "layers/transformer.h"
#include "tests/support/golden.h"
#include "tests/support/parameters.h"

using namespace tapestry;
using namespace tapestry::test;

/// Compares results of the layers with PyTorch in both precisions. tests/golden/layers.py and
/// tests/golden/transformer.py wrote the expected values.
namespace {

/// A case with the parameters of its layer.
struct LayerCase {
  LayerCase(const std::string& file, const std::string& name, DType dtype)
      : golden(file, name, dtype), parameters(dtype, 1) {}

  Scope scope(const std::string& path) { return Scope(parameters) / path; }

  /// Checks the results of `forward` on the stored inputs and parameters.
  void check(const std::function<Tensor(Golden&)>& forward) {
    golden.load(parameters.list());
    golden.check([&] { return forward(golden); }, parameters.list());
  }

  Golden golden;
  Parameters parameters;
};

/// Calls `body` with a case in both precisions.
void in_both(const std::string& file, const std::string& name,
             const std::function<void(LayerCase&)>& body) {
  for (const DType dtype : dtypes) {
    CAPTURE(name);
    CAPTURE(dtype);
    LayerCase layer_case(file, name, dtype);
    body(layer_case);
  }
}

void check_layer_norm(const std::string& name, double epsilon) {
  in_both("layers.txt", name, [&](LayerCase& c) {
    const LayerNorm layer(c.scope("norm"), 5, epsilon);
    c.check([&](Golden& in) { return layer(in["x"]); });
  });
}

void check_embedding(const std::string& name, std::optional<std::int32_t> padding_id) {
  in_both("layers.txt", name, [&](LayerCase& c) {
    const Embedding layer(c.scope("embedding"), 7, 5,
                          {.padding_id = padding_id, .scale = std::sqrt(5.0)});
    c.check([&](Golden& in) { return layer(in.ids("ids")); });
  });
}

void check_positions(const std::string& name, std::size_t d_model, const PositionOptions& options) {
  in_both("layers.txt", name, [&](LayerCase& c) {
    const Positions layer(c.scope("positions"), d_model, options);
    c.check([&](Golden& in) { return layer(in["x"]); });
  });
}

void check_feed_forward(const std::string& name, Activation activation) {
  in_both("layers.txt", name, [&](LayerCase& c) {
    const FeedForward layer(c.scope("ff"), 5, {.d_ff = 7, .activation = activation});
    c.check([&](Golden& in) { return layer(in["x"], Mode::inference()); });
  });
}

AttentionMask mask_of(const Golden& in) {
  AttentionMask mask;
  if (in.has("input/lengths")) mask = mask & AttentionMask::padding(in.integers("lengths"));
  if (in.flag("causal")) mask = mask & AttentionMask::causal();
  return mask;
}

void check_attention(const std::string& name, const std::string& memory) {
  in_both("layers.txt", name, [&](LayerCase& c) {
    const MultiHeadAttention layer(c.scope("attn"), 4, {.num_heads = 2});
    const AttentionMask mask = mask_of(c.golden);
    c.check([&](Golden& in) { return layer(in["x"], in[memory], mask, Mode::inference()); });
    const AttentionRecorder recorder;
    layer(c.golden["x"], c.golden[memory], mask, Mode::inference());
    c.golden.check_equal("weights", recorder.records().at(0).weights);
  });
}

void check_encoder_layer(const std::string& name, const ResidualOptions& residual,
                         Activation activation) {
  in_both("transformer.txt", name, [&](LayerCase& c) {
    const EncoderLayer layer(c.scope("encoder"), 4,
                             {.self_attn = {.num_heads = 2},
                              .ff = {.d_ff = 6, .activation = activation},
                              .residual = residual});
    const auto mask = AttentionMask::padding(c.golden.integers("lengths"));
    c.check([&](Golden& in) { return layer(in["x"], mask, Mode::inference()); });
  });
}

void check_decoder_layer(const std::string& name, NormPlacement norm, Activation activation) {
  in_both("transformer.txt", name, [&](LayerCase& c) {
    const DecoderLayer layer(c.scope("decoder"), 4,
                             {.self_attn = {.num_heads = 2},
                              .cross_attn = {.num_heads = 2},
                              .ff = {.d_ff = 6, .activation = activation},
                              .residual = {.placement = norm}});
    const DecoderMasks masks{
        .self = AttentionMask::causal() & AttentionMask::padding(c.golden.integers("lengths")),
        .cross = AttentionMask::padding(c.golden.integers("memory_lengths"))};
    c.check([&](Golden& in) { return layer(in["x"], in["memory"], masks, Mode::inference()); });
  });
}

void check_transformer(const std::string& name, NormPlacement norm, Activation activation,
                       TiedEmbeddings tie) {
  in_both("transformer.txt", name, [&](LayerCase& c) {
    const TransformerOptions options{.d_model = 4,
                                     .num_heads = 2,
                                     .num_encoder_layers = 2,
                                     .num_decoder_layers = 2,
                                     .d_ff = 6,
                                     .dropout = 0.0,
                                     .norm = norm,
                                     .activation = activation,
                                     .tie_embeddings = tie};
    const std::size_t target_words = tie == TiedEmbeddings::all ? 7 : 6;
    const Transformer model(Scope(c.parameters), options, 7, target_words, 0);
    c.check([&](const Golden& in) {
      return model({.ids = in.ids("source"), .lengths = in.integers("source_lengths")},
                   {.ids = in.ids("target"), .lengths = in.integers("target_lengths")},
                   Mode::inference());
    });
  });
}

}  // namespace

TEST_CASE("a linear layer matches PyTorch's output and gradients") {
  in_both("layers.txt", "linear", [](LayerCase& c) {
    const Linear layer(c.scope("linear"), 5, 3);
    c.check([&](Golden& in) { return layer(in["x"]); });
  });
}

TEST_CASE("layer normalization matches PyTorch's output and gradients") {
  check_layer_norm("layer_norm/default", 1e-5);
  check_layer_norm("layer_norm/epsilon", 0.25);
}

TEST_CASE("rms normalization matches PyTorch's output and gradients") {
  in_both("layers.txt", "rms_norm", [](LayerCase& c) {
    const RmsNorm layer(c.scope("norm"), 5);
    c.check([&](Golden& in) { return layer(in["x"]); });
  });
}

TEST_CASE("batch normalization and its running moments match PyTorch in two training steps") {
  in_both("layers.txt", "batch_norm/training", [](LayerCase& c) {
    const BatchNorm layer(c.scope("norm"), 5);
    c.check([&](Golden& in) {
      layer(in["earlier"], {}, Mode::training(RandomStream(1)));
      return layer(in["x"], {}, Mode::training(RandomStream(1)));
    });
    c.parameters.commit_buffers();
    c.golden.check_equal("running_mean", c.parameters.buffers()[0].tensor);
    c.golden.check_equal("running_var", c.parameters.buffers()[1].tensor);
  });
}

TEST_CASE("batch normalization with running moments matches PyTorch's output and gradients") {
  in_both("layers.txt", "batch_norm/inference", [](LayerCase& c) {
    const BatchNorm layer(c.scope("norm"), 5);
    set_values(c.parameters.buffers()[0].tensor, values_of(c.golden["running_mean"]));
    set_values(c.parameters.buffers()[1].tensor, values_of(c.golden["running_var"]));
    c.check([&](Golden& in) { return layer(in["x"], {}, Mode::inference()); });
  });
}

TEST_CASE(
    "an embedding matches PyTorch's output and gradients, even for repeated and padding ids") {
  check_embedding("embedding/all_ids", std::nullopt);
  check_embedding("embedding/padding", 0);
}

TEST_CASE("the sinusoidal table follows the formula of the paper") {
  in_both("layers.txt", "positions/table", [](LayerCase& c) {
    c.golden.check_equal("output", sinusoidal_positions(20, 6, c.parameters.dtype()));
  });
}

TEST_CASE("sinusoidal and learned positions match PyTorch's output and gradients") {
  check_positions("positions/sinusoidal", 6, {PositionKind::sinusoidal, 5});
  check_positions("positions/learned", 4, {PositionKind::learned, 5});
}

TEST_CASE("a feed-forward block matches PyTorch's output and gradients with every activation") {
  check_feed_forward("feed_forward/relu", Activation::relu);
  check_feed_forward("feed_forward/gelu", Activation::gelu);
  check_feed_forward("feed_forward/gelu_tanh", Activation::gelu_tanh);
  check_feed_forward("feed_forward/silu", Activation::silu);
  check_feed_forward("feed_forward/swiglu", Activation::swiglu);
  check_feed_forward("feed_forward/geglu", Activation::geglu);
}

TEST_CASE("self-attention matches PyTorch's output, weights and gradients with every mask") {
  check_attention("attention/self_unmasked", "x");
  check_attention("attention/self_padding", "x");
  check_attention("attention/self_causal", "x");
  check_attention("attention/self_padding_causal", "x");
}

TEST_CASE("cross-attention matches PyTorch's output, weights and gradients") {
  check_attention("attention/cross_unmasked", "memory");
  check_attention("attention/cross_padding", "memory");
}

TEST_CASE("an encoder layer matches PyTorch's output and gradients") {
  check_encoder_layer("encoder_layer/pre", {.placement = NormPlacement::pre}, Activation::gelu);
  check_encoder_layer("encoder_layer/post", {.placement = NormPlacement::post}, Activation::relu);
  check_encoder_layer("encoder_layer/pre_rms_norm",
                      {.placement = NormPlacement::pre, .norm = {.kind = Normalization::rms_norm}},
                      Activation::silu);
}

TEST_CASE("a decoder layer matches PyTorch's output and gradients") {
  check_decoder_layer("decoder_layer/pre", NormPlacement::pre, Activation::gelu_tanh);
  check_decoder_layer("decoder_layer/post", NormPlacement::post, Activation::relu);
}

TEST_CASE("a Transformer matches PyTorch's logits and gradients, even for tied and padding rows") {
  using enum NormPlacement;
  check_transformer("transformer/pre_tied_target", pre, Activation::gelu, TiedEmbeddings::target);
  check_transformer("transformer/pre_tied_all", pre, Activation::relu, TiedEmbeddings::all);
  check_transformer("transformer/post_untied", post, Activation::relu, TiedEmbeddings::none);
}
