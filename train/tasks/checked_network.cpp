// SPDX-License-Identifier: BSD-3-Clause
#include "train/tasks/checked_network.h"

#include <atomic>
#include <type_traits>

#include "autograd/ops/shape_ops.h"
#include "autograd/shape.h"
#include "autograd/tape.h"

namespace tapestry {
namespace {

/// Describes the inputs in the batches of a kind, for hints.
std::string describe_inputs(const NetworkContract& contract) {
  if (contract.reads_images) {
    return "batches have images (input.images); the tokens of input.source are absent";
  }
  if (!contract.reads_source) {
    return "batches have target tokens (input.target); input.source and input.images are absent";
  }
  if (contract.one_label_per_row) {
    return "batches have source tokens (input.source); input.images is absent";
  }
  return "batches have source and target tokens (input.source, input.target); input.images is "
         "absent";
}

class CheckedNetwork : public Network {
 public:
  CheckedNetwork(std::unique_ptr<Network> network, NetworkContract contract)
      : network_(std::move(network)), contract_(std::move(contract)) {}

  TokenVectors embed(const NetworkInput& input, const Mode& mode) const override {
    TokenVectors vectors = call("embed", [&] { return network_->embed(input, mode); });
    if (contract_.reads_images) {
      if (!vectors.source.defined() && !vectors.target.defined()) {
        reject_absent("source or .target");
      }
      return vectors;
    }
    if (contract_.reads_source && contract_.one_label_per_row) {
      if (!vectors.source.defined()) reject_absent("source");
    } else if (!vectors.target.defined()) {
      reject_absent("target");
    }
    if (!contract_.reads_source && vectors.source.defined()) {
      reject("embed", "source vectors", "target vectors only");
    }
    require_tokens(vectors.source, input.source, "source");
    require_tokens(vectors.target, input.target, "target");
    return vectors;
  }

  Tensor features(const TokenVectors& vectors, const NetworkInput& input,
                  const Mode& mode) const override {
    const Tensor features =
        call("features", [&] { return network_->features(vectors, input, mode); });
    const Shape& labels = input.target.ids.shape();
    const DType dtype = (vectors.target.defined() ? vectors.target : vectors.source).dtype();
    const bool fits = features.defined() && features.dtype() == dtype && features.rank() == 3 &&
                      (labels.rank() != 2 ||
                       (features.shape()[0] == labels[0] && features.shape()[1] == labels[1]));
    if (!fits) {
      const std::string shape =
          labels.rank() == 2 ? fmt::format("({}, {}, width)", labels[0], labels[1]) : "three axes";
      reject("features", described(features),
             fmt::format("{} of {}, as embed() returned: rows, labels per row, any width", shape,
                         name(dtype)));
    }
    return features;
  }

  Tensor logits(const Tensor& features) const override {
    const Tensor logits = call("logits", [&] { return network_->logits(features); });
    const Shape expected = features.shape().with_last(contract_.logits);
    if (!logits.defined() || logits.shape() != expected || logits.dtype() != features.dtype()) {
      reject("logits", described(logits),
             fmt::format("{} of {}: rows, labels per row, {}", to_string(expected),
                         name(features.dtype()),
                         contract_.one_label_per_row ? "classes" : "vocabulary"));
    }
    return logits;
  }

  Loss loss(const Tensor& features, const Ids& labels,
            const CrossEntropyOptions& options) const override {
    // Checked separately, because loss() of the network may call its own logits().
    if (!checked_logits_.exchange(true)) {
      const NoGrad no_grad;
      logits(slice(slice(features, 0, 0, 1), 1, 0, 1));
    }
    Loss loss = call("loss", [&] { return network_->loss(features, labels, options); });
    if (!loss.mean.defined() || loss.mean.size() != 1) {
      reject("loss", "a mean that is " + described(loss.mean), "a scalar");
    }
    return loss;
  }

  bool causal() const override {
    return call("causal", [&] { return network_->causal(); });
  }

  const Network& unwrapped() const override { return network_->unwrapped(); }

 private:
  template <class F>
  std::invoke_result_t<F> call(std::string_view function, F&& f) const {
    return call_custom_code(contract_.kind, function, std::forward<F>(f),
                            describe_inputs(contract_));
  }

  static std::string described(const Tensor& x) {
    if (!x.defined()) return "an absent tensor";
    return fmt::format("{} of {}", to_string(x.shape()), name(x.dtype()));
  }

  [[noreturn]] void reject(std::string_view function, const std::string& found,
                           const std::string& expected) const {
    throw CustomModelError(
        fmt::format("custom model {}: {}() returned {}, expected {}", contract_.kind, function,
                    found, expected),
        fmt::format("correct {}() of the model: {}", function, describe_inputs(contract_)));
  }

  [[noreturn]] void reject_absent(const char* member) const {
    reject("embed", fmt::format("no vectors in .{}", member), "(rows, tokens, width)");
  }

  /// vectors  (rows, tokens, width) of the tokens, or absent
  void require_tokens(const Tensor& vectors, const TokenBatch& tokens, const char* member) const {
    if (!vectors.defined() || tokens.ids.shape().rank() != 2) return;
    const std::size_t rows = tokens.ids.shape()[0], length = tokens.ids.shape()[1];
    const Shape& found = vectors.shape();
    if (found.rank() == 3 && found[0] == rows && found[1] == length) return;
    reject("embed", fmt::format("{} in .{}", described(vectors), member),
           fmt::format("({}, {}, width): rows, tokens, any width", rows, length));
  }

  std::unique_ptr<Network> network_;
  NetworkContract contract_;
  mutable std::atomic<bool> checked_logits_ = false;
};

}  // namespace

std::unique_ptr<Network> checked_network(std::unique_ptr<Network> network,
                                         NetworkContract contract) {
  return std::make_unique<CheckedNetwork>(std::move(network), std::move(contract));
}

}  // namespace tapestry
