#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tapestry {

/// In what kind of work time was spent.
enum class Phase : std::uint8_t {
  forward,    ///< operations, while a tape records
  backward,   ///< operations, in Tape::backward
  inference,  ///< operations, while no tape records
  other       ///< anything else
};
const char* name(Phase phase);

/// What went into one name in one phase, without what other rows inside it took.
struct ProfileRow {
  std::string name;
  Phase phase;
  std::uint64_t calls;  ///< 0 for what is left over
  double seconds;
  double flops;  ///< of matrix products alone, two for each multiplication
  double bytes;  ///< see Profiler; 0 for what is no operation
};

/// Where the time of a Profiler's life went.
struct Profile {
  double seconds;                ///< on the clock
  std::vector<ProfileRow> rows;  ///< the longest first; their seconds add up to `seconds`
};

/// A table of lines of at most 100 characters, with the share of each row and of each phase.
std::string to_string(const Profile& profile);

}  // namespace tapestry
