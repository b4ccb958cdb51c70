#pragma once

#include <cstdint>
#include <memory>

#include "data/corpus.h"
#include "data/text/vocabulary.h"
#include "layers/make_network.h"
#include "layers/parameters.h"
#include "layers/transformer_options.h"
#include "train/config/config.h"

namespace tapestry {

/// What the words and classes of the data make of a model's sizes.
NetworkSizes network_sizes(const Config& config, const Vocabulary& source,
                           const Vocabulary& target);

/// The same of a corpus.
NetworkSizes network_sizes(const Config& config, const Corpus& corpus);

/// Values of a model.
struct ValueCount {
  std::uint64_t parameters = 0;  ///< trainable ones
  std::uint64_t constants = 0;   ///< in fixed tables

  friend bool operator==(const ValueCount&, const ValueCount&) = default;
};

/// The values that a model would have, without making it.
ValueCount count_values(const TransformerOptions& options, const NetworkSizes& sizes);

/// Copies values of equal shape, converted to the element type of `to`.
void copy_values(const Tensor& from, Tensor to);

/// A network together with its parameters, gathered for the optimiser. Initial values are keyed by
/// `seed`.
struct Model {
  Model(const TransformerOptions& options, const NetworkSizes& sizes, DType dtype,
        std::uint64_t seed);

  /// The network as the kind that it is. throws std::bad_cast if it is another.
  template <class Kind>
  const Kind& as() const {
    return dynamic_cast<const Kind&>(*network);
  }

  Parameters parameters;
  std::unique_ptr<Network> network;
};

}  // namespace tapestry
