#pragma once

#include <cstdint>
#include <xtensor/xtensor_forward.hpp>

namespace tapestry {

/// Token ids of a batch, (rows, length), padded at the end of each row.
using Ids = xt::xtensor<std::int32_t, 2>;

}  // namespace tapestry
