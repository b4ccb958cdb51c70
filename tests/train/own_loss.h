// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "autograd/ops/elementwise.h"
#include "layers/model.h"

/// Networks with a custom loss instead of cross entropy.
namespace tapestry::test {

/// Computes a custom loss with the methods of the wrapped network.
using OwnLoss = std::function<Loss(const Network& network, const Tensor& features,
                                   const Ids& labels, const CrossEntropyOptions& options)>;

/// A network that overrides Network::loss().
class NetworkWithLoss : public Network {
 public:
  NetworkWithLoss(std::unique_ptr<Network> network, OwnLoss loss)
      : network_(std::move(network)), loss_(std::move(loss)) {}

  TokenVectors embed(const NetworkInput& input, const Mode& mode) const override {
    return network_->embed(input, mode);
  }
  Tensor features(const TokenVectors& vectors, const NetworkInput& input,
                  const Mode& mode) const override {
    return network_->features(vectors, input, mode);
  }
  Tensor logits(const Tensor& features) const override { return network_->logits(features); }
  Loss loss(const Tensor& features, const Ids& labels,
            const CrossEntropyOptions& options) const override {
    return loss_(*network_, features, labels, options);
  }
  bool causal() const override { return network_->causal(); }

 private:
  std::unique_ptr<Network> network_;
  OwnLoss loss_;
};

/// Wraps each network that `make` creates, so that it uses this loss.
inline MakeNetwork with_loss(MakeNetwork make, OwnLoss loss) {
  return [make = std::move(make), loss = std::move(loss)](const Scope& scope) {
    return std::make_unique<NetworkWithLoss>(make(scope), loss);
  };
}

/// Cross entropy times 7.
inline Loss loss_times_7(const Network& network, const Tensor& features, const Ids& labels,
                         const CrossEntropyOptions& options) {
  Loss loss = network.loss(features, labels, options);
  loss.mean = scale(loss.mean, 7.0);
  return loss;
}

}  // namespace tapestry::test
