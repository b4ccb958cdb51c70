#pragma once

#include <memory>

#include "layers/model.h"

namespace tapestry {

/// The network's own incremental decoder (Network::start_decoding), or else one that computes the
/// whole sequences for each token. The network must outlive it.
///
/// sources  for networks that read source tokens
std::unique_ptr<IncrementalDecoder> make_decoder(const Network& network, const TokenBatch& sources);

}  // namespace tapestry
