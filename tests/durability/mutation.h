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
/// `other`. Envelope and table of contents are hit more often than their size would have it.
/// Returns what was done.
std::string mutate(Bytes& file, std::span<const std::byte> other, Random& random);

/// Makes a damaged checkpoint look whole: the digest of the payload and the checksum of the
/// envelope are renewed; sometimes, too, the digests of the arrays in the table, or the file size
/// that the envelope tells. Files too short for an envelope stay as they are.
void repair(Bytes& file, Random& random);

}  // namespace tapestry::test
