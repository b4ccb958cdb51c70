// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/named_tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "autograd/error.h"

namespace tapestry {
namespace {

constexpr std::size_t max_shown = 5;

std::string_view without_last_dot(std::string_view path) {
  return path.size() > 1 && path.ends_with('.') ? path.substr(0, path.size() - 1) : path;
}

bool is_below(std::string_view path, std::string_view name) {
  return path.empty() ||
         (name.starts_with(path) && (name.size() == path.size() || name[path.size()] == '.'));
}

/// "a.b" for "a.b.c"; empty for "a".
std::string_view parent(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

/// The direct children of `path`: `encoder.layers` and `encoder.norm` for `encoder`.
std::vector<std::string_view> children(std::string_view path,
                                       std::span<const NamedTensor> tensors) {
  std::vector<std::string_view> all;
  for (const NamedTensor& each : tensors) {
    const std::string_view name = each.name;
    if (!is_below(path, name)) continue;
    const std::string_view child =
        name.substr(0, name.find('.', path.empty() ? 0 : path.size() + 1));
    if (std::ranges::find(all, child) == all.end()) all.push_back(child);
  }
  return all;
}

/// The existing names in place of the first part of the path that does not exist; the most similar
/// name comes first.
std::vector<std::string> closest_names(std::string_view path,
                                       std::span<const NamedTensor> tensors) {
  std::string_view existing = parent(path);
  while (children(existing, tensors).empty() && !existing.empty()) existing = parent(existing);
  std::vector<std::string_view> candidates = children(existing, tensors);
  const auto common_start = [&](std::string_view name) {
    return std::ranges::mismatch(name, path).in1 - name.begin();
  };
  std::ranges::stable_sort(candidates, std::ranges::greater{}, common_start);
  std::vector<std::string> quoted;
  for (const std::string_view name : candidates) quoted.push_back(fmt::format("`{}`", name));
  return quoted;
}

[[noreturn]] void throw_unknown(const char* operation, std::string_view path,
                                std::span<const NamedTensor> tensors) {
  std::vector<std::string> closest = closest_names(path, tensors);
  if (closest.empty()) {
    throw ValueError(fmt::format("{}: there are no parameters, expected `{}`", operation, path));
  }
  if (closest.size() > max_shown) {
    closest.resize(max_shown);
    closest.push_back("...");
  }
  throw ValueError(
      fmt::format("{}: no parameter is named `{}` or has a name below it, expected {}{}", operation,
                  path, closest.size() > 1 ? "one of " : "", fmt::join(closest, ", ")));
}

}  // namespace

std::vector<std::size_t> indices_below(const char* operation, std::string_view path,
                                       std::span<const NamedTensor> tensors) {
  const std::string_view plain = without_last_dot(path);
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (is_below(plain, tensors[i].name)) found.push_back(i);
  }
  if (found.empty()) throw_unknown(operation, plain, tensors);
  return found;
}

}  // namespace tapestry
