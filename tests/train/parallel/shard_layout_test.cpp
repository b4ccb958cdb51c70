#include "train/parallel/shard_layout.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "autograd/kernels/parallel.h"

namespace tapestry {
namespace {

constexpr std::size_t piece = kernels::elements_per_piece;

/// Parameters of less than one piece, of some pieces and a rest, and of two axes.
Parameters some_parameters() {
  Parameters parameters(DType::float32, 1);
  parameters.create("small", {3}, zeros_initializer());
  parameters.create("long", {40 * piece + 700}, zeros_initializer());
  parameters.create("medium", {piece + 11}, zeros_initializer());
  parameters.create("head.weight", {2, 11 * piece + 5}, zeros_initializer());
  parameters.create("head.bias", {7}, zeros_initializer());
  return parameters;
}

TEST_CASE("buckets are whole parameters, from the last one on, of at least the size") {
  const Parameters parameters = some_parameters();
  const auto firsts = [&](std::size_t processes, std::size_t bytes) {
    const ShardLayout layout(parameters, processes, bytes);
    std::vector<std::size_t> found;
    for (const auto& bucket : layout.buckets()) found.push_back(bucket.first);
    return found;
  };
  CHECK(firsts(1, 1) == std::vector<std::size_t>{3, 2, 0});  // the first one has less than a piece
  CHECK(firsts(2, 22 * piece * sizeof(float)) == std::vector<std::size_t>{3, 0});
  CHECK(firsts(2, 23 * piece * sizeof(float)) == std::vector<std::size_t>{2, 0});
  CHECK(firsts(2, 1'000'000'000) == std::vector<std::size_t>{0});
  CHECK(firsts(23, 1) == std::vector<std::size_t>{2, 0});  // a piece for each process
}

TEST_CASE("each element of each parameter is in one shard, and pieces are not divided") {
  const Parameters parameters = some_parameters();
  for (const std::size_t bytes : {1, 2'000'000}) {
    for (std::size_t processes = 1; processes <= 70; ++processes) {
      const ShardLayout layout(parameters, processes, bytes);
      std::vector<std::size_t> next(parameters.list().size(), 0);
      for (std::size_t rank = 0; rank < processes; ++rank) {
        const auto ranges = layout.element_ranges(rank);
        for (std::size_t i = 0; i < ranges.size(); ++i) {
          if (ranges[i].size() == 0) continue;
          CHECK(ranges[i].begin == next[i]);
          CHECK(ranges[i].begin % piece == 0);
          next[i] = ranges[i].end;
        }
      }
      for (std::size_t i = 0; i < next.size(); ++i) {
        CHECK(next[i] == parameters.list()[i].tensor.size());
      }
    }
  }
}

TEST_CASE("shards differ in size by at most one piece, for every size of buckets") {
  Parameters parameters(DType::float32, 1);
  for (std::size_t layer = 0; layer < 20; ++layer) {
    const std::string path = "layers." + std::to_string(layer);
    parameters.create(path + ".weight", {7 * piece + 1000 * layer}, zeros_initializer());
    parameters.create(path + ".bias", {100 + layer}, zeros_initializer());
  }
  for (const std::size_t bytes : {std::size_t{1}, 10 * piece, 100 * piece, 1000 * piece}) {
    for (const std::size_t processes : {2, 3, 5, 8, 13, 64}) {
      const ShardLayout layout(parameters, processes, bytes);
      for (std::size_t rank = 0; rank < processes; ++rank) {
        double size = 0.0;
        for (const ElementRange& range : layout.element_ranges(rank)) {
          size += static_cast<double>(range.size());
        }
        const auto equal =
            static_cast<double>(parameters.num_values()) / static_cast<double>(processes);
        CHECK(std::abs(size - equal) <= piece);
      }
    }
  }
}

TEST_CASE("the part of a process in a bucket is its values with the gaps between parameters") {
  Parameters parameters(DType::float32, 1);
  parameters.create("a", {3}, zeros_initializer());
  parameters.create("b", {piece + 5}, zeros_initializer());
  const ShardLayout layout(parameters, 2, 1);
  REQUIRE(layout.buckets().size() == 1);
  CHECK(layout.part(0, 0).begin == 0);
  CHECK(layout.part(0, 0).end == 64 + piece * sizeof(float));
  CHECK(layout.part(0, 1).begin == layout.part(0, 0).end);
  CHECK(layout.part(0, 1).size() == 5 * sizeof(float));
}

}  // namespace
}  // namespace tapestry
