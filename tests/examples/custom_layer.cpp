// SPDX-License-Identifier: BSD-3-Clause
// Adds a model with a custom layer and a custom operation to the program: `model.kind: word_bag`, a
// classifier of texts that ignores the order of words. A config file for it (see
// train/tutorial/README.md):
//
//     data: {task: labelled_text, train_text: train.txt, validation_text: validation.txt}
//     model: {kind: word_bag, d_model: 32, d_ff: 64}
#include <tapestry.h>
#include <tapestry/program.h>

#include "swish.h"

using namespace tapestry;

namespace {

/// A feed-forward block with a residual connection:
///
///     y = x + W2 swish(W1 x + b1, slope) + b2
///
/// Parameters: `up.weight` (d_ff, d_model), `up.bias`, `slope` (1), `down.weight` (d_model, d_ff),
/// `down.bias`. The slope begins as 1 and is learned.
class SwishBlock {
 public:
  SwishBlock(const Scope& scope, std::size_t d_model, std::size_t d_ff)
      : path_(&scope.path()),
        up_(scope / "up", d_model, d_ff),
        slope_(scope.parameter("slope", {1}, ones_initializer())),
        down_(scope / "down", d_ff, d_model) {}

  /// x (..., d_model) -> (..., d_model)
  Tensor operator()(const Tensor& x) const {
    const LayerPath here(*path_);  // the name of the layer in errors, reports and gradcheck
    return x + down_(example::swish(up_(x), slope_));
  }

 private:
  const std::string* path_;
  Linear up_;
  Tensor slope_;
  Linear down_;
};

/// Predicts the class from the mean of the token vectors, after a SwishBlock.
class WordBag : public Network {
 public:
  WordBag(const Scope& scope, const Config& config, const NetworkSizes& sizes)
      : embedding_(scope / "embedding", sizes.source, config.model.d_model),
        dropout_(scope / "dropout", config.model.dropout),
        block_(scope / "block", config.model.d_model, config.model.d_ff),
        output_(scope / "output", config.model.d_model, sizes.target) {}

  TokenVectors embed(const NetworkInput& input, const Mode& mode) const override {
    return {.source = dropout_(embedding_(input.source.ids), mode)};
  }
  /// (rows, tokens, d_model) -> (rows, 1, d_model); the mean is over tokens, not over padding.
  Tensor features(const TokenVectors& vectors, const NetworkInput& input,
                  const Mode&) const override {
    return pool(PoolingKind::mean, block_(vectors.source), input.source.lengths);
  }
  Tensor logits(const Tensor& features) const override { return output_(features); }
  bool causal() const override { return false; }

 private:
  Embedding embedding_;
  Dropout dropout_;
  SwishBlock block_;
  Linear output_;
};

}  // namespace

int main(int argc, char** argv) {
  const CustomModelOptions model{
      .kind = "word_bag",
      .like = "classifier",
      .model_keys = {{"model.d_model", "model.d_ff", "model.dropout"}},
      .make_network = [](const Scope& scope, const Config& config, const NetworkSizes& sizes) {
        return std::make_unique<WordBag>(scope, config, sizes);
      }};
  return run_program(argc, argv, {.models = {model}});
}
