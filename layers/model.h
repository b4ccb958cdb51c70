// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "autograd/ids.h"
#include "autograd/ops/losses.h"
#include "autograd/tensor.h"
#include "layers/basic_layers.h"
#include "layers/parameters.h"

namespace tapestry {

/// Padded token sequences: row r has lengths[r] tokens, then padding.
struct TokenBatch {
  Ids ids;                            ///< (rows, length)
  std::vector<std::int32_t> lengths;  ///< (rows), each <= length
};

/// The inputs of a network; each kind of network reads some of them.
struct NetworkInput {
  TokenBatch source{};  ///< tokens that the encoder reads
  TokenBatch target{};  ///< tokens; the network predicts a label at each position
  Tensor images{};      ///< (rows, height * width * channels)
};

/// The inputs of the stacks of a network, (rows, tokens, d_model) each; absent if the network does
/// not have the stack.
struct TokenVectors {
  Tensor source{};  ///< the input of the encoder
  Tensor target{};  ///< the input of the decoder, or of the only stack of a model of target tokens
};

/// Decodes sequences of target tokens step by step. It caches the results of a causal network, so
/// that each token is computed once. Network::start_decoding() creates it. Several threads may use
/// separate decoders of one network at the same time.
class IncrementalDecoder {
 public:
  virtual ~IncrementalDecoder() = default;

  /// Appends tokens (rows, n), n >= 1, to the sequences and returns the logits of the next token of
  /// each sequence, (rows, vocabulary): the same values as in a forward pass of the whole
  /// sequences. The first call determines the number of sequences, which is r times the number of
  /// sources. Sequences r * i, r * i + 1, ... belong to source i.
  ///
  /// throws  ShapeError if the number of rows differs from the first call, or if the sequences
  ///         exceed the positions of the network
  virtual Tensor extend(const Ids& tokens) = 0;

  /// Replaces sequences and sources: the new source i is the old source sources[i], and the new
  /// sequence i is a copy of the old sequence rows[i]. As in extend(), each source has the same
  /// number of sequences.
  ///
  /// throws  ValueError if a row or source does not exist.
  virtual void select(std::span<const std::size_t> rows, std::span<const std::size_t> sources) = 0;
};

/// The interface of a complete model. A forward pass has three steps: embed, features, and logits
/// or loss. Trainer, evaluation, gradient check and `tapestry check` use their intermediate
/// results.
///
/// Several threads may call the functions at the same time, for example in decoding. The functions
/// must not change the object without a lock, not even a `mutable` cache.
class Network {
 public:
  virtual ~Network() = default;

  /// Token vectors with positions, after dropout.
  virtual TokenVectors embed(const NetworkInput& input, const Mode& mode) const = 0;

  /// The input of the head, (rows, labels per row, d_model). Reads only the lengths of the tokens
  /// in `input`.
  virtual Tensor features(const TokenVectors& vectors, const NetworkInput& input,
                          const Mode& mode) const = 0;

  /// features (..., d_model) -> logits (..., vocabulary or classes).
  virtual Tensor logits(const Tensor& features) const = 0;

  /// The training loss: cross_entropy() of the logits, if possible without storing all of them at
  /// once. features (rows, length, d_model), labels (rows, length) -> a scalar.
  ///
  /// An override must skip labels with options.ignored_id and, unless it is 0, divide by
  /// options.normalizer, so that the losses of accumulated batches add up. Its `nll_sum` gives the
  /// training perplexity. Trainer, gradient check and the commands `check` and `explain` call this
  /// function. Evaluation does not: validation losses and perplexities are the cross entropy of
  /// logits().
  virtual Loss loss(const Tensor& features, const Ids& labels,
                    const CrossEntropyOptions& options) const {
    return cross_entropy(logits(features), labels, options);
  }

  /// Whether the logits at a position are independent of all later target tokens: true for models
  /// that generate their target from left to right, such as language_model and seq2seq; false for
  /// masked_language_model, tagger, classifier and vision_transformer. The command `check` verifies
  /// this. There is no default: with false, `check` would accept a language model that reads the
  /// tokens that it has to predict.
  virtual bool causal() const = 0;

  /// The whole forward pass: logits (rows, labels per row, vocabulary or classes).
  Tensor operator()(const NetworkInput& input, const Mode& mode) const {
    return logits(features(embed(input, mode), input, mode));
  }

  /// Starts decoding targets for each source, in inference; a network without sources ignores them.
  /// Returns null if the network has no incremental decoder: the caller must then compute the whole
  /// sequences for each token.
  virtual std::unique_ptr<IncrementalDecoder> start_decoding(const TokenBatch&) const {
    return nullptr;
  }

  /// This network. A wrapper, for example a network that checks results, returns the wrapped
  /// network.
  virtual const Network& unwrapped() const { return *this; }
};

/// Creates a network whose parameters belong to a scope, which must outlive it.
using MakeNetwork = std::function<std::unique_ptr<Network>(const Scope&)>;

/// A network with its parameters, gathered into flat buffers for the optimizer. Initial values are
/// keyed by `seed`.
struct Model {
  /// Creates the network in a new list of parameters of this element type, and gathers the
  /// parameters.
  Model(const MakeNetwork& make_network, DType dtype, std::uint64_t seed);
  /// Creates the network with all parameters 0, for values that will be loaded.
  Model(const MakeNetwork& make_network, DType dtype);

  /// The network as its class `Kind`.
  ///
  /// throws  std::logic_error if it has a different class.
  template <class Kind>
  const Kind& as() const {
    if (const auto* found = dynamic_cast<const Kind*>(&network->unwrapped())) return *found;
    throw std::logic_error("Model::as: the network has a different class");
  }

  Parameters parameters;             ///< all parameters of the network
  std::unique_ptr<Network> network;  ///< never null
};

/// The number of values of a model.
struct ValueCount {
  std::uint64_t parameters = 0;  ///< trainable values
  std::uint64_t constants = 0;   ///< values in fixed tables

  friend bool operator==(const ValueCount&, const ValueCount&) = default;
};

/// Counts the values of a model without allocating them.
ValueCount count_values(const MakeNetwork& make_network);

/// Copies values between tensors of the same size, converted to the element type of `to`. No tape
/// records the copy.
void copy_values(const Tensor& from, Tensor to);

}  // namespace tapestry
