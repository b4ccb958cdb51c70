#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "data/batch.h"

namespace tapestry {

/// The sentences with these rows of `batch`, in this order, padded no further than to their
/// longest.
Batch rows_of(const Batch& batch, std::span<const std::size_t> rows);

/// The rows from `begin` up to `end`, which is left out.
Batch rows_of(const Batch& batch, std::size_t begin, std::size_t end);

/// The same sentences with more columns of padding.
Batch widened(const Batch& batch, std::size_t source_columns, std::size_t target_columns);

}  // namespace tapestry
