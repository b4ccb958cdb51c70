// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/gradcheck/coordinates.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <set>

namespace tapestry::gradcheck_detail {
namespace {

using Coordinates = std::vector<std::size_t>;

/// Inserts the first `count` coordinates of the list that are not in `chosen`.
void insert_first(const Coordinates& list, std::size_t count, std::set<std::size_t>& chosen) {
  for (const std::size_t i : list) {
    if (count == 0) return;
    if (chosen.insert(i).second) --count;
  }
}

Coordinates in_random_order(std::size_t size, const RandomStream& random) {
  Coordinates order(size);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = 0; i < size; ++i) {
    const double u = random.uniform(i);
    std::swap(order[i], order[i + static_cast<std::size_t>(u * static_cast<double>(size - i))]);
  }
  return order;
}

Coordinates largest(std::span<const double> gradient, std::size_t count) {
  Coordinates order(gradient.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  count = std::min(count, order.size());
  const auto size_at = [&](std::size_t i) {
    return std::isnan(gradient[i]) ? std::numeric_limits<double>::infinity()
                                   : std::abs(gradient[i]);
  };
  std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(count),
                            std::ranges::greater{}, size_at);
  order.resize(count);
  return order;
}

}  // namespace

Coordinates coordinates_to_check(std::size_t size, std::size_t max_count,
                                 std::span<const std::span<const double>> gradients,
                                 const RandomStream& random) {
  Coordinates order = in_random_order(size, random);
  std::set<std::size_t> chosen;
  if (size <= max_count) {
    chosen.insert(order.begin(), order.end());
  } else {
    const std::size_t share = std::max<std::size_t>(max_count / (4 * gradients.size()), 1);
    const auto room = [&] { return std::min(share, max_count - chosen.size()); };
    for (const auto& gradient : gradients) {
      insert_first(largest(gradient, max_count), room(), chosen);
      Coordinates zeros;
      std::ranges::copy_if(order, std::back_inserter(zeros),
                           [&](std::size_t i) { return gradient.empty() || gradient[i] == 0.0; });
      insert_first(zeros, room(), chosen);
    }
    insert_first(order, max_count - chosen.size(), chosen);
  }
  return {chosen.begin(), chosen.end()};
}

}  // namespace tapestry::gradcheck_detail
