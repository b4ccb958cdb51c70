#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "autograd/tensor.h"
#include "layers/model.h"
#include "layers/parameters.h"
#include "tests/support/model_kind.h"

namespace tapestry::test {

/// The whole forward computation of a model of any kind, written a second time: composed from
/// elementary operations as the documentation of the options says, without a layer of the library.
/// A tape records it, so that its gradients can be compared as well.
class Reference {
 public:
  /// Reads the parameters and buffers of a model by their names. `training` decides which moments a
  /// batch norm takes; nothing is dropped.
  Reference(const Parameters& parameters, const KindOptions& options, bool training)
      : parameters_(parameters), o_(options), training_(training) {}

  /// (rows, labels a row, scores).
  Tensor logits(const NetworkInput& input);

  struct Moments {
    std::vector<double> mean, unbiased_variance;
  };
  /// What each batch norm has seen in training, by its path.
  const std::map<std::string, Moments>& moments() const { return moments_; }

 private:
  using Lengths = std::vector<std::int32_t>;
  using Sublayer = std::function<Tensor(const Tensor&)>;
  /// Which keys a query may attend to.
  struct Mask {
    Lengths keys;  ///< tokens of each row; all if empty
    bool causal = false;
  };

  Tensor parameter(const std::string& name) const;
  Tensor linear_map(const std::string& path, const Tensor& x) const;
  Tensor embedded(const std::string& path, const Ids& ids, const std::string& positions) const;
  Tensor with_positions(const Tensor& x, const std::string& path) const;
  Tensor patches(const Tensor& images) const;
  Tensor norm(const std::string& path, const Tensor& x, const Lengths& lengths);
  Tensor batch_norm(const std::string& path, const Tensor& x, const Lengths& lengths);
  Tensor activation(const Tensor& x) const;
  Tensor feed_forward(const std::string& path, const Tensor& x) const;
  Tensor heads(const Tensor& x, std::size_t d) const;
  Tensor rotated(const Tensor& x) const;
  Tensor scores(const std::string& path, Tensor q, Tensor k, bool self) const;
  Tensor allowed(const Mask& mask, std::size_t rows, std::size_t n_q, std::size_t n_k,
                 bool self) const;
  Tensor attention(const std::string& path, const Tensor& queries, const Tensor& keys,
                   const Mask& mask, bool self) const;
  Tensor residual(const std::string& path, const Tensor& x, const Lengths& lengths,
                  const Sublayer& f);
  /// A stack of layers; with memory it is attended to after self-attention.
  Tensor stack(const std::string& path, std::size_t layers, Tensor x, const Mask& mask,
               const Tensor& memory = {}, const Lengths& memory_lengths = {});
  Tensor pooled(const Tensor& x, const Lengths& lengths) const;
  Tensor token_scores(const Tensor& x, const std::string& embedding) const;

  const Parameters& parameters_;
  KindOptions o_;
  bool training_;
  std::map<std::string, Moments> moments_;
};

}  // namespace tapestry::test
