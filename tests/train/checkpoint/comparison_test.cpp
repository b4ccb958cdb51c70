#include "train/checkpoint/comparison.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace tapestry {
namespace {

/// How two arrays of one checkpoint each differ.
std::string difference(const std::vector<double>& x, const std::vector<double>& y) {
  ArrayStore a, b;
  a.put("parameters/w", std::span<const double>(x), {x.size()});
  b.put("parameters/w", std::span<const double>(y), {y.size()});
  const auto differences = compare_arrays(a, b);
  return differences.empty() ? "" : differences.front().what;
}

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double inf = std::numeric_limits<double>::infinity();

TEST_CASE("the largest difference is of finite elements, and others are counted") {
  CHECK(difference({1, nan}, {1, nan}).empty());
  CHECK(difference({1, 2, 3}, {1, 2.5, 2}) ==
        "2 of 3 elements differ, the first at [1]: 2 and 2.5, by at most 1");
  CHECK(difference({1, 2}, {nan, 2}) ==
        "1 of 2 elements differ, the first at [0]: 1 and nan, 1 of them with a value that is not "
        "finite");
  CHECK(difference({1, 2, inf}, {nan, 2.25, 0}) ==
        "3 of 3 elements differ, the first at [0]: 1 and nan, by at most 0.25, 2 of them with a "
        "value that is not finite");
}

}  // namespace
}  // namespace tapestry
