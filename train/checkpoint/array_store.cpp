#include "train/checkpoint/array_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "data/io/utf8.h"
#include "train/base/error.h"

namespace tapestry {
namespace {

std::string describe(ElementType type, const ArrayShape& shape) {
  return fmt::format("{} {}", element_type_name(type), to_string(shape));
}

void require_well_formed(std::string_view path) {
  std::size_t depth = 0;
  for (std::size_t start = 0; start <= path.size(); ++depth) {
    const std::size_t end = std::min(path.find('/', start), path.size());
    if (!is_path_component(path.substr(start, end - start))) {
      throw std::invalid_argument(fmt::format(
          "array store: path '{}': found '{}' between slashes, expected 1 to 255 printable ASCII "
          "characters without blanks",
          excerpt(path), excerpt(path.substr(start, end - start))));
    }
    start = end + 1;
  }
  if (depth > max_path_depth) {
    throw std::invalid_argument(
        fmt::format("array store: path '{}' has {} components, at most {} fit", excerpt(path),
                    depth, max_path_depth));
  }
}

void require_consistent(const std::string& path, const StoredArray& array) {
  if (array.shape.size() > max_stored_rank) {
    throw std::invalid_argument(fmt::format("array store: {}: {} axes found, at most {} fit", path,
                                            array.shape.size(), max_stored_rank));
  }
  if (byte_count(array.shape, element_size(array.type)) != array.bytes.size()) {
    throw std::invalid_argument(fmt::format("array store: {}: {} bytes found, which is not {}",
                                            path, array.bytes.size(),
                                            describe(array.type, array.shape)));
  }
}

void require_no_array_above(const ArrayStore::Arrays& arrays, const std::string& path) {
  for (auto slash = path.find('/'); slash != path.npos; slash = path.find('/', slash + 1)) {
    if (arrays.contains(std::string_view(path).substr(0, slash))) {
      throw std::invalid_argument(
          fmt::format("array store: {}: {} is an array already", path, path.substr(0, slash)));
    }
  }
}

}  // namespace

std::string_view element_type_name(ElementType type) {
  switch (type) {
    case ElementType::float32:
      return "float32";
    case ElementType::float64:
      return "float64";
    case ElementType::int32:
      return "int32";
    case ElementType::int64:
      return "int64";
    case ElementType::uint64:
      return "uint64";
    case ElementType::uint8:
      return "uint8";
  }
  throw std::invalid_argument("element_type_name: not an element type");
}

std::size_t element_size(ElementType type) {
  switch (type) {
    case ElementType::float32:
    case ElementType::int32:
      return 4;
    case ElementType::float64:
    case ElementType::int64:
    case ElementType::uint64:
      return 8;
    case ElementType::uint8:
      return 1;
  }
  throw std::invalid_argument("element_size: not an element type");
}

bool is_path_component(std::string_view text) {
  const auto printable = [](char c) { return c > ' ' && c < '\x7f' && c != '/'; };
  return !text.empty() && text.size() <= 255 && text != "." && text != ".." &&
         std::ranges::all_of(text, printable);
}

void ArrayStore::put(std::string path, StoredArray array) {
  require_well_formed(path);
  require_consistent(path, array);
  require_no_conflict(path);
  arrays_.emplace(std::move(path), std::move(array));
}

std::span<std::byte> ArrayStore::mutable_bytes(std::string_view path) {
  at(path);  // throws if there is none
  return arrays_.find(path)->second.bytes;
}

void ArrayStore::put_text(std::string path, std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  put(std::move(path),
      StoredArray{ElementType::uint8, {text.size()}, {bytes.begin(), bytes.end()}});
}

const StoredArray& ArrayStore::at(std::string_view path) const {
  const auto found = arrays_.find(path);
  if (found == arrays_.end()) mismatch(path, "nothing", "an array");
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

const StoredArray& ArrayStore::typed(std::string_view path, ElementType expected) const {
  const StoredArray& array = at(path);
  if (array.type != expected) {
    mismatch(path, describe(array.type, array.shape), element_type_name(expected));
  }
  return array;
}

const StoredArray& ArrayStore::shaped(std::string_view path, ElementType type,
                                      const ArrayShape& expected) const {
  const StoredArray& array = at(path);
  if (array.type != type || array.shape != expected) {
    mismatch(path, describe(array.type, array.shape), describe(type, expected));
  }
  return array;
}

void ArrayStore::require_no_conflict(const std::string& path) const {
  const auto next = arrays_.lower_bound(path);
  if (next != arrays_.end() && next->first == path) {
    throw std::invalid_argument(fmt::format("array store: {}: already there", path));
  }
  require_no_array_above(arrays_, path);
  // Paths that begin with `path` follow it: usually there are none.
  if (next == arrays_.end() || !next->first.starts_with(path)) return;
  const std::string folder = path + '/';
  const auto inside = arrays_.lower_bound(folder);
  if (inside != arrays_.end() && inside->first.starts_with(folder)) {
    throw std::invalid_argument(
        fmt::format("array store: {}: is a group already, holding {}", path, inside->first));
  }
}

void ArrayStore::mismatch(std::string_view path, std::string_view found,
                          std::string_view expected) const {
  throw CheckpointError(
      fmt::format("{}: {}: found {}, expected {}", origin_, path, found, expected),
      "use the config and the program that wrote the checkpoint");
}

}  // namespace tapestry
