#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "train/recording/weight_statistics.h"

namespace tapestry {

/// The weights of a model for its report: of each block and each of its parameters the shape and
/// the distribution.
nlohmann::ordered_json weights_json(const std::vector<BlockWeights>& weights);

}  // namespace tapestry
