#include "autograd/gradcheck/sampling.h"

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

/// Adds the first `count` of the list that are not chosen yet.
void choose(const Coordinates& list, std::size_t count, std::set<std::size_t>& chosen) {
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

std::vector<double> signed_weights(std::size_t n, const RandomStream& random) {
  std::vector<double> weights(n);
  for (std::size_t i = 0; i < n; ++i) {
    const double u = 2.0 * random.uniform(i) - 1.0;
    weights[i] = std::copysign(0.5 + std::abs(u), u);
  }
  return weights;
}

Coordinates coordinates_to_check(std::size_t size, std::size_t most,
                                 std::span<const std::span<const double>> gradients,
                                 const RandomStream& random) {
  Coordinates order = in_random_order(size, random);
  std::set<std::size_t> chosen;
  if (size <= most) {
    chosen.insert(order.begin(), order.end());
  } else {
    const std::size_t share = std::max<std::size_t>(most / (4 * gradients.size()), 1);
    const auto room = [&] { return std::min(share, most - chosen.size()); };
    for (const auto& gradient : gradients) {
      choose(largest(gradient, most), room(), chosen);
      Coordinates zeros;
      std::ranges::copy_if(order, std::back_inserter(zeros),
                           [&](std::size_t i) { return gradient.empty() || gradient[i] == 0.0; });
      choose(zeros, room(), chosen);
    }
    choose(order, most - chosen.size(), chosen);
  }
  return {chosen.begin(), chosen.end()};
}

}  // namespace tapestry::gradcheck_detail
