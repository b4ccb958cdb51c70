#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "data/batch.h"

/// Batches made from the rows of another batch.
namespace tapestry {

/// The rows with these indices, in this order, padded to the longest of them.
Batch select_rows(const Batch& batch, std::span<const std::size_t> rows);

/// Rows `begin` to `end`, exclusive.
Batch select_rows(const Batch& batch, std::size_t begin, std::size_t end);

/// The same rows with more columns of padding.
Batch add_padding(const Batch& batch, std::size_t source_columns, std::size_t target_columns);

}  // namespace tapestry
