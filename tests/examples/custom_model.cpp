// SPDX-License-Identifier: BSD-3-Clause
// Adds a custom model to the program: `model.kind: window_mlp`, a language model that reads the
// last `model.read_tokens` tokens through a perceptron. It has a custom config key and supports the
// commands of other kinds: train, --resume, evaluate, gradcheck, check. A config file for it:
//
//     data: {task: toy_sentences}
//     model: {kind: window_mlp, read_tokens: 3, d_model: 16, d_ff: 32}
//     train: {steps: 2000, batch_size: 16}
#include <tapestry.h>
#include <tapestry/program.h>

using namespace tapestry;

namespace {

class WindowMlp : public Network {
 public:
  WindowMlp(const Scope& scope, const Config& config, std::size_t vocabulary)
      : read_tokens_(config.custom_value<std::size_t>("model.read_tokens")),
        embedding_(scope / "embedding", vocabulary, config.model.d_model),
        hidden_(scope / "hidden", read_tokens_ * config.model.d_model, config.model.d_ff),
        output_(scope / "output", config.model.d_ff, vocabulary),
        dropout_(scope / "dropout", config.model.dropout) {}

  TokenVectors embed(const NetworkInput& input, const Mode& mode) const override {
    return {.target = dropout_(embedding_(input.target.ids), mode)};
  }

  /// x (rows, n, d_model) -> (rows, n, d_ff): at each position the last read_tokens vectors.
  Tensor features(const TokenVectors& vectors, const NetworkInput&, const Mode&) const override {
    const Tensor& x = vectors.target;
    const std::size_t rows = x.shape()[0], n = x.shape()[1], d_model = x.shape()[2];
    std::vector<Tensor> shifted{x};
    for (std::size_t k = 1; k < read_tokens_; ++k) {
      const std::size_t padding = std::min(k, n);
      const Tensor zeros = Tensor::zeros({rows, padding, d_model}, x.dtype());
      shifted.push_back(concat({zeros, slice(x, 1, 0, n - padding)}, 1));
    }
    return activation(hidden_(concat(shifted, 2)));
  }

  Tensor logits(const Tensor& features) const override { return output_(features); }
  bool causal() const override { return true; }

 private:
#ifdef WRONG_GRADIENT
  /// tanh(x) with the gradient of the identity.
  struct WrongTanh {
    static constexpr const char* name = "wrong_tanh";
    Tensor forward(const Tensor& x) { return tapestry::tanh(x.detach()); }
    void backward(const Tensor& dy, Gradient dx) const { dx.add(dy); }
  };
  static Tensor activation(const Tensor& x) { return apply(WrongTanh{}, x); }
#else
  static Tensor activation(const Tensor& x) { return tapestry::tanh(x); }
#endif

  std::size_t read_tokens_;
  Embedding embedding_;
  Linear hidden_, output_;
  Dropout dropout_;
};

}  // namespace

int main(int argc, char** argv) {
  const CustomModelOptions model{
      .kind = "window_mlp",
      .like = "language_model",
      .custom_keys = {CustomKey("model.read_tokens", 4, between(1, 64),
                                "tokens that the perceptron reads")},
      .model_keys = {{"model.d_model", "model.d_ff", "model.dropout"}},
      .make_network = [](const Scope& scope, const Config& config, const NetworkSizes& sizes) {
        return std::make_unique<WindowMlp>(scope, config, sizes.target);
      }};
  return run_program(argc, argv, {.models = {model}});
}
