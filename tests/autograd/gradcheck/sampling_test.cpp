#include "autograd/gradcheck/objectives.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <vector>

using namespace tapestry;
using gradcheck_detail::coordinates_to_check;

namespace {

using Coordinates = std::vector<std::size_t>;

Coordinates chosen(const std::vector<double>& gradient, std::size_t most) {
  const std::span<const double> gradients[] = {gradient};
  return coordinates_to_check(gradient.size(), most, gradients, RandomStream(1));
}

bool contains(const Coordinates& list, std::size_t i) {
  return std::ranges::find(list, i) != list.end();
}

}  // namespace

TEST_CASE("all coordinates of a tensor that is small enough are checked") {
  CHECK(chosen({3, 1, 2}, 3) == Coordinates{0, 1, 2});
  CHECK(chosen({}, 3).empty());
}

TEST_CASE("gradcheck samples the largest gradients of a large tensor, of either sign, NaN first") {
  std::vector<double> gradient(100, 1.0);
  gradient[17] = -7.0;
  gradient[80] = 6.0;
  const Coordinates some = chosen(gradient, 8);
  CHECK(some.size() == 8);
  CHECK(contains(some, 17));
  CHECK(contains(some, 80));
  gradient[33] = std::numeric_limits<double>::quiet_NaN();
  CHECK(contains(chosen(gradient, 4), 33));
}

TEST_CASE("of a large tensor gradcheck samples exact zeros") {
  std::vector<double> gradient(1000, 1.0);
  gradient[900] = 0.0;
  CHECK(contains(chosen(gradient, 4), 900));
}

TEST_CASE("the sample of coordinates has no repeats, is sorted, and depends on the stream") {
  const std::vector<double> gradient(500, 1.0);
  const std::span<const double> gradients[] = {gradient, {}};
  const auto with = [&](std::uint64_t seed) {
    return coordinates_to_check(500, 16, gradients, RandomStream(seed));
  };
  const Coordinates some = with(1);
  CHECK(some.size() == 16);
  CHECK(std::ranges::is_sorted(some));
  CHECK(std::ranges::adjacent_find(some) == some.end());
  CHECK(some == with(1));
  CHECK(some != with(2));
  CHECK(coordinates_to_check(500, 0, gradients, RandomStream(1)).empty());
}
