#pragma once

#include <cstdint>
#include <vector>
#include <xtensor/xtensor.hpp>

#include "autograd/ids.h"

namespace tapestry {

/// Token sequences padded to their longest: row r holds lengths[r] tokens, then padding.
struct TokenBatch {
  Ids ids;                            ///< (rows, length)
  std::vector<std::int32_t> lengths;  ///< (rows), each <= length
};

}  // namespace tapestry
