#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "tests/durability/simulated_disk.h"

namespace tapestry::test {

/// How many of the states that a power failure can leave are looked at.
struct FailureSampling {
  std::size_t random_blocks = 8;       ///< random choices of the blocks of a file that survive
  std::size_t max_name_states = 1024;  ///< beyond this, random choices of the names that survive
  std::uint64_t seed = 1;
};

/// Calls `visit` with what a disk may hold if the power fails after these changes, and with words
/// for what became of those that were not flushed. Of those
///
///   names  each may be lost or not, whatever became of the others: a rename without the new name
///          that came before it, a deletion before a rename;
///   data   all is kept or dropped; it is torn at a block of 512 or 4,096 bytes, with the file
///          ending there or going on with what was there before; one block is lost; only the blocks
///          from one on are kept; or random ones are.
///
/// All files that have data at stake meet the same fate. The first state is that nothing is lost.
void for_each_power_failure(
    std::span<const DiskChange> changes, const FailureSampling& sampling,
    const std::function<void(const DiskContent& left, const std::string& what)>& visit);

}  // namespace tapestry::test
