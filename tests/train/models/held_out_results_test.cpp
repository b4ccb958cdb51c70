#include "train/models/held_out_results.h"

#include <doctest/doctest.h>

#include <vector>

namespace tapestry {
namespace {

/// The examples that worst_and_spread() chooses from losses of 0, 1, ..., n - 1.
std::vector<std::size_t> chosen(std::size_t n, std::size_t count) {
  std::vector<ExampleLoss> losses;
  for (std::size_t i = 0; i < n; ++i) {
    losses.push_back({.example = i, .sum = static_cast<double>(i), .labels = 1});
  }
  std::vector<std::size_t> examples;
  for (const ExampleLoss& loss : worst_and_spread(losses, count)) examples.push_back(loss.example);
  return examples;
}

TEST_CASE("half of the examples to show are the worst, the others are spread over the rest") {
  CHECK(chosen(100, 6) == std::vector<std::size_t>{99, 98, 97, 96, 64, 32});
  CHECK(chosen(100, 5) == std::vector<std::size_t>{99, 98, 97, 96, 48});
  CHECK(chosen(4, 20) == std::vector<std::size_t>{3, 2, 1, 0});
  CHECK(chosen(4, 1) == std::vector<std::size_t>{3});
  CHECK(chosen(4, 0).empty());
  CHECK(chosen(0, 3).empty());
}

}  // namespace
}  // namespace tapestry
