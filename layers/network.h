#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>
#include <xtensor/xtensor.hpp>

#include "autograd/ids.h"
#include "autograd/ops/losses.h"
#include "autograd/tensor.h"
#include "layers/mode.h"

namespace tapestry {

/// Token sequences padded to their longest: row r holds lengths[r] tokens, then padding.
struct TokenBatch {
  Ids ids;                            ///< (rows, length)
  std::vector<std::int32_t> lengths;  ///< (rows), each <= length
};

/// What a network reads of a batch. A kind of network uses what it is made for and leaves the rest
/// alone.
struct NetworkInput {
  TokenBatch source{};  ///< sentences to read as a whole
  TokenBatch target{};  ///< the tokens whose labels are predicted, one label a token
  Tensor images{};      ///< (rows, height * width * channels)
};

/// The vectors that the stacks of a network read, (rows, tokens, d_model) each; null where it has
/// no such side.
struct TokenVectors {
  Tensor source{}, target{};
};

/// A whole model, from a batch to the scores of its labels, in the steps that training, decoding,
/// gradient checks and `tapestry check` need to look between. The mode says whether it trains or
/// infers.
///
/// What a config chooses at run time is virtual; see make_network().
class Network {
 public:
  virtual ~Network() = default;

  /// Token vectors with positions, after dropout.
  virtual TokenVectors embed(const NetworkInput& input,
                             const Mode& mode = Mode::inference()) const = 0;

  /// What the scores are made from, (rows, labels a row, d_model). Of the tokens in `input` the
  /// lengths alone count.
  virtual Tensor features(const TokenVectors& vectors, const NetworkInput& input,
                          const Mode& mode = Mode::inference()) const = 0;

  /// Scores from features (..., d_model): (..., vocabulary or classes).
  virtual Tensor logits(const Tensor& features) const = 0;

  /// cross_entropy() of those scores, as far as possible without making them all at once: what
  /// training minimises. features (rows, length, d_model), labels (rows, length) -> a scalar.
  virtual Loss loss(const Tensor& features, const Ids& labels,
                    const CrossEntropyOptions& options) const = 0;

  /// Whether the scores at a position depend on no target token behind it.
  virtual bool causal() const = 0;

  /// All of it: (rows, labels a row, vocabulary or classes).
  Tensor operator()(const NetworkInput& input, const Mode& mode = Mode::inference()) const {
    return logits(features(embed(input, mode), input, mode));
  }
};

}  // namespace tapestry
