// SPDX-License-Identifier: BSD-3-Clause
#include "train/checkpoint/array_store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <set>
#include <stdexcept>

#include "data/io/utf8.h"
#include "train/base/error.h"

namespace tapestry {
namespace {

std::string describe(ElementType type, const ArrayShape& shape) {
  return fmt::format("{} {}", element_type_name(type), to_string(shape));
}

[[noreturn]] void mismatch(const ArrayStore& arrays, std::string_view path, std::string_view found,
                           std::string_view expected) {
  throw CheckpointError(
      fmt::format("{}: {}: found {}, expected {}", arrays.origin(), path, found, expected),
      "use the config and the program that wrote the checkpoint");
}

bool is_path_component(std::string_view text) {
  const auto printable = [](char c) { return c > ' ' && c < '\x7f'; };
  return !text.empty() && text != "." && text != ".." && std::ranges::all_of(text, printable);
}

void require_well_formed(std::string_view path) {
  for (std::size_t start = 0; start <= path.size();) {
    const std::size_t end = std::min(path.find('/', start), path.size());
    if (!is_path_component(path.substr(start, end - start))) {
      throw std::invalid_argument(fmt::format(
          "array store: path '{}': found '{}' between slashes, expected printable ASCII characters "
          "without blanks",
          excerpt(path), excerpt(path.substr(start, end - start))));
    }
    start = end + 1;
  }
}

// ---- Comparison.

bool has_same_bits(const auto& x, const auto& y) { return std::memcmp(&x, &y, sizeof x) == 0; }

/// Formats the index of an element of a row-major array as " at [3, 17]"; "" for a scalar.
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
  double max_difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (has_same_bits(a[i], b[i])) continue;
    if (count++ == 0) first = i;
    if constexpr (std::is_floating_point_v<T>) {
      const double x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
      const bool finite = std::isfinite(x) && std::isfinite(y);
      if (finite) max_difference = std::max(max_difference, std::abs(x - y));
      if (!finite) ++not_finite;
    }
  }
  if (count == 0) return "";
  std::string text = fmt::format("{} of {} elements differ, the first{}: {} and {}", count,
                                 a.size(), describe_index(first, shape), a[first], b[first]);
  if constexpr (std::is_floating_point_v<T>) {
    if (not_finite < count) text += fmt::format(", by at most {:.3g}", max_difference);
    if (not_finite > 0) {
      text += fmt::format(", {} of them with a non-finite value", not_finite);
    }
  }
  return text;
}

/// Describes how two arrays differ; empty if they are equal.
std::string compare(const StoredArray& a, const StoredArray& b) {
  if (a.type != b.type) {
    return fmt::format("{} and {}", element_type_name(a.type), element_type_name(b.type));
  }
  if (a.shape != b.shape) {
    return fmt::format("shapes {} and {}", to_string(a.shape), to_string(b.shape));
  }
  return visit_elements(a, [&]<class T>(std::span<const T> elements) {
    return compare_elements(elements, elements_of<T>(b), a.shape);
  });
}

/// The rank of the array's group in the order of compare_arrays() results.
std::size_t group_order(std::string_view path) {
  constexpr std::array<std::string_view, 4> groups = {"parameters/", "average/", "buffers/",
                                                      "optimizer/"};
  const auto group =
      std::ranges::find_if(groups, [&](std::string_view name) { return path.starts_with(name); });
  return static_cast<std::size_t>(group - groups.begin());
}

bool is_text(const StoredArray& array) { return array.type == ElementType::uint8; }

}  // namespace

std::string_view element_type_name(ElementType type) {
  constexpr std::array<std::string_view, 6> names = {"float32", "float64", "int32",
                                                     "int64",   "uint64",  "uint8"};
  return names.at(static_cast<std::size_t>(type));
}

std::size_t element_size(ElementType type) {
  constexpr std::array<std::size_t, 6> sizes = {4, 8, 4, 8, 8, 1};
  return sizes.at(static_cast<std::size_t>(type));
}

void ArrayStore::put(std::string path, StoredArray array) {
  require_well_formed(path);
  if (byte_count(array.shape, element_size(array.type)) != array.bytes.size()) {
    throw std::invalid_argument(fmt::format("array store: {}: found {} bytes, expected {}", path,
                                            array.bytes.size(), describe(array.type, array.shape)));
  }
  const auto [entry, is_new] = arrays_.try_emplace(std::move(path), std::move(array));
  if (!is_new) {
    throw std::invalid_argument(fmt::format("array store: {}: already exists", entry->first));
  }
}

std::span<std::byte> ArrayStore::mutable_bytes(std::string_view path) {
  at(path);  // throws if the array is missing
  return arrays_.find(path)->second.bytes;
}

void ArrayStore::put_text(std::string path, std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  put(std::move(path),
      StoredArray{ElementType::uint8, {text.size()}, {bytes.begin(), bytes.end()}});
}

const StoredArray& ArrayStore::at(std::string_view path) const {
  const auto found = arrays_.find(path);
  if (found == arrays_.end()) mismatch(*this, path, "nothing", "an array");
  return found->second;
}

std::string ArrayStore::get_text(std::string_view path) const {
  const auto bytes = get<std::uint8_t>(path);
  return {bytes.begin(), bytes.end()};
}

std::uint64_t ArrayStore::byte_size() const {
  std::uint64_t total = 0;
  for (const auto& [path, array] : arrays_) total += array.bytes.size();
  return total;
}

const StoredArray& ArrayStore::checked(std::string_view path, ElementType type,
                                       const ArrayShape* shape) const {
  const StoredArray& array = at(path);
  if (array.type == type && (shape == nullptr || array.shape == *shape)) return array;
  mismatch(*this, path, describe(array.type, array.shape),
           shape == nullptr ? element_type_name(type) : describe(type, *shape));
}

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
                                           : compare(a.at(path), b.at(path));
    if (!what.empty()) differences.push_back({path, std::move(what)});
  }
  std::ranges::stable_sort(differences, {},
                           [](const ArrayDifference& each) { return group_order(each.path); });
  return differences;
}

}  // namespace tapestry
