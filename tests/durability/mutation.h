#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace tapestry::test {

using Bytes = std::vector<std::byte>;
using Random = std::mt19937_64;

/// Damages a checkpoint in one to three ways: bits flipped, bytes and whole numbers set, cut,
/// extended, ranges swapped, pages zeroed, ranges copied from elsewhere in the file or from
/// `other`. The user block is hit more often than its size would have it.
/// Returns what was done.
std::string mutate(Bytes& file, std::span<const std::byte> other, Random& random);

}  // namespace tapestry::test
