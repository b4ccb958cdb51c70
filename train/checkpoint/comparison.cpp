#include "train/checkpoint/comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <type_traits>

namespace tapestry {
namespace {

bool has_same_bits(const auto& x, const auto& y) { return std::memcmp(&x, &y, sizeof x) == 0; }

/// "[3, 17]", the index of an element of a row-major array; "" in an array without axes.
std::string describe_index(std::size_t element, const ArrayShape& shape) {
  if (shape.empty()) return "";
  std::vector<std::size_t> index(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    index[axis] = element % shape[axis];
    element /= shape[axis];
  }
  return fmt::format(" at [{}]", fmt::join(index, ", "));
}

template <class T>
std::string compare_elements(std::span<const T> a, std::span<const T> b, const ArrayShape& shape) {
  std::size_t count = 0, first = 0, not_finite = 0;
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (has_same_bits(a[i], b[i])) continue;
    if (count++ == 0) first = i;
    if constexpr (std::is_floating_point_v<T>) {
      const double x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
      const bool finite = std::isfinite(x) && std::isfinite(y);
      if (finite) largest = std::max(largest, std::abs(x - y));
      if (!finite) ++not_finite;
    }
  }
  if (count == 0) return "";
  std::string text = fmt::format("{} of {} elements differ, the first{}: {} and {}", count,
                                 a.size(), describe_index(first, shape), a[first], b[first]);
  if constexpr (std::is_floating_point_v<T>) {
    if (not_finite < count) text += fmt::format(", by at most {:.3g}", largest);
    if (not_finite > 0) {
      text += fmt::format(", {} of them with a value that is not finite", not_finite);
    }
  }
  return text;
}

/// How two arrays differ; empty if they do not.
std::string compare(const ArrayStore& a, const ArrayStore& b, const std::string& path) {
  const StoredArray &x = a.at(path), &y = b.at(path);
  if (x.type != y.type) {
    return fmt::format("{} and {}", element_type_name(x.type), element_type_name(y.type));
  }
  if (x.shape != y.shape) {
    return fmt::format("shapes {} and {}", to_string(x.shape), to_string(y.shape));
  }
  switch (x.type) {
    case ElementType::float32:
      return compare_elements(a.get<float>(path), b.get<float>(path), x.shape);
    case ElementType::float64:
      return compare_elements(a.get<double>(path), b.get<double>(path), x.shape);
    case ElementType::int32:
      return compare_elements(a.get<std::int32_t>(path), b.get<std::int32_t>(path), x.shape);
    case ElementType::int64:
      return compare_elements(a.get<std::int64_t>(path), b.get<std::int64_t>(path), x.shape);
    case ElementType::uint64:
      return compare_elements(a.get<std::uint64_t>(path), b.get<std::uint64_t>(path), x.shape);
    case ElementType::uint8:
      break;
  }
  return "";
}

/// Arrays of one group come before those of the next.
std::size_t group_order(std::string_view path) {
  constexpr std::array<std::string_view, 4> groups = {"parameters/", "average/", "buffers/",
                                                      "optimizer/"};
  const auto group =
      std::ranges::find_if(groups, [&](std::string_view name) { return path.starts_with(name); });
  return static_cast<std::size_t>(group - groups.begin());
}

bool is_text(const StoredArray& array) { return array.type == ElementType::uint8; }

}  // namespace

std::vector<ArrayDifference> compare_arrays(const ArrayStore& a, const ArrayStore& b) {
  std::set<std::string> paths;
  for (const ArrayStore* arrays : {&a, &b}) {
    for (const auto& [path, array] : *arrays) {
      if (!is_text(array)) paths.insert(path);
    }
  }
  std::vector<ArrayDifference> differences;
  for (const std::string& path : paths) {
    std::string what = !a.contains(path)   ? "only in the second"
                       : !b.contains(path) ? "only in the first"
                                           : compare(a, b, path);
    if (!what.empty()) differences.push_back({path, std::move(what)});
  }
  std::ranges::stable_sort(differences, {},
                           [](const ArrayDifference& each) { return group_order(each.path); });
  return differences;
}

}  // namespace tapestry
