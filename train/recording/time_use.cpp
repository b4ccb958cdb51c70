#include "train/recording/time_use.h"

#include <numeric>
#include <vector>

namespace tapestry {

void TimeUse::add(const Batch& batch) {
  const auto count = [&](std::size_t length, const std::vector<std::size_t>& lengths) {
    const std::uint64_t positions = std::uint64_t{batch.rows} * length;
    positions_ += positions;
    padding_ += positions - std::accumulate(lengths.begin(), lengths.end(), std::uint64_t{0});
  };
  if (batch.source_length > 0) count(batch.source_length, batch.source_lengths);
  if (target_positions(batch.target_length) > 0) count(batch.target_length, batch.target_lengths);
}

double TimeUse::seconds(TimePart part) const {
  return std::chrono::duration<double>(times_[static_cast<std::size_t>(part)]).count();
}

}  // namespace tapestry
