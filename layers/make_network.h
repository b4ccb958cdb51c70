#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "layers/embedding.h"
#include "layers/network.h"
#include "layers/parameters.h"
#include "layers/transformer_options.h"

namespace tapestry {

/// What the data make of a network's sizes.
struct NetworkSizes {
  std::size_t source = 0;  ///< entries of the vocabulary that is read
  std::size_t target = 0;  ///< entries of the vocabulary, or classes, that scores are for
  ImageShape image{};
};

/// The network of `options.kind`; its parameters are made in `scope` and must outlive it.
///
/// padding_id  fills up short sequences; its embedding gets no gradient
std::unique_ptr<Network> make_network(const Scope& scope, const TransformerOptions& options,
                                      const NetworkSizes& sizes, std::int32_t padding_id);

}  // namespace tapestry
