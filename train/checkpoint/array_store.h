// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "data/io/array_shape.h"

namespace tapestry {

static_assert(std::endian::native == std::endian::little,
              "stored arrays are little-endian and are used in place");

enum class ElementType : std::uint8_t { float32, float64, int32, int64, uint64, uint8 };

/// The name of an element type, such as "float32" or "int64".
std::string_view element_type_name(ElementType type);

/// The size of an element in bytes.
std::size_t element_size(ElementType type);

/// The element type of a C++ type. Does not compile for types that cannot be stored.
template <typename T>
inline constexpr ElementType element_type_of = [] {
  if constexpr (std::is_same_v<T, float>) return ElementType::float32;
  if constexpr (std::is_same_v<T, double>) return ElementType::float64;
  if constexpr (std::is_same_v<T, std::int32_t>) return ElementType::int32;
  if constexpr (std::is_same_v<T, std::int64_t>) return ElementType::int64;
  if constexpr (std::is_same_v<T, std::uint64_t>) return ElementType::uint64;
  if constexpr (std::is_same_v<T, std::uint8_t>) return ElementType::uint8;
}();

/// A stored array: its elements in row-major order, as little-endian bytes.
struct StoredArray {
  ElementType type = ElementType::uint8;
  ArrayShape shape;
  std::vector<std::byte> bytes;

  bool operator==(const StoredArray&) const = default;
};

/// The elements of an array of type T.
template <typename T>
std::span<const T> elements_of(const StoredArray& array) {
  return {reinterpret_cast<const T*>(array.bytes.data()), array.bytes.size() / sizeof(T)};
}

/// Calls f with a span of the elements, typed as the array's element type, and returns its result.
template <typename F>
auto visit_elements(const StoredArray& array, F&& f) {
  switch (array.type) {
    case ElementType::float32:
      return f(elements_of<float>(array));
    case ElementType::float64:
      return f(elements_of<double>(array));
    case ElementType::int32:
      return f(elements_of<std::int32_t>(array));
    case ElementType::int64:
      return f(elements_of<std::int64_t>(array));
    case ElementType::uint64:
      return f(elements_of<std::uint64_t>(array));
    case ElementType::uint8:
      break;
  }
  return f(elements_of<std::uint8_t>(array));
}

/// The arrays of a checkpoint: a map from path to array, sorted by path in byte order.
///
/// A path, such as "a" or "a/b/c", consists of printable ASCII characters without blanks; the parts
/// before slashes are groups of the HDF5 file. The put functions throw std::invalid_argument for a
/// path that is malformed or in use, and for bytes that do not match the shape. The get functions
/// and at() throw CheckpointError, whose message includes origin and path, for an array that is
/// missing or has a different type or shape.
class ArrayStore {
 public:
  using Arrays = std::map<std::string, StoredArray, std::less<>>;

  ArrayStore() = default;

  /// origin  source of the arrays in error messages, usually a file name
  explicit ArrayStore(std::string origin) : origin_(std::move(origin)) {}

  const std::string& origin() const { return origin_; }

  /// Moves the array into the store.
  void put(std::string path, StoredArray array);

  template <typename T>
  void put(std::string path, std::span<const T> values, ArrayShape shape);
  template <typename T>
  void put_scalar(std::string path, T value);

  /// Stores a text (config, vocabulary, ...) as a uint8 array of shape (number of bytes).
  void put_text(std::string path, std::string_view text);

  bool contains(std::string_view path) const { return arrays_.contains(path); }

  /// The array at a path, of any type and shape.
  const StoredArray& at(std::string_view path) const;

  /// The writable bytes of the array at a path.
  std::span<std::byte> mutable_bytes(std::string_view path);

  /// The elements of the array at a path, which must have type T. The span is valid for the
  /// lifetime of the store.
  template <typename T>
  std::span<const T> get(std::string_view path) const;

  /// Like the function above, but also requires the shape `expected`.
  template <typename T>
  std::span<const T> get(std::string_view path, const ArrayShape& expected) const;

  template <typename T>
  T get_scalar(std::string_view path) const;
  std::string get_text(std::string_view path) const;

  /// Arrays in byte order of their paths, as pairs (path, array).
  Arrays::const_iterator begin() const { return arrays_.begin(); }
  Arrays::const_iterator end() const { return arrays_.end(); }
  std::size_t size() const { return arrays_.size(); }

  /// The total size of all arrays in bytes.
  std::uint64_t byte_size() const;

  /// Whether paths and arrays are equal; ignores the origin.
  friend bool operator==(const ArrayStore& a, const ArrayStore& b) {
    return a.arrays_ == b.arrays_;
  }

 private:
  /// shape  required shape; null accepts any shape
  const StoredArray& checked(std::string_view path, ElementType type,
                             const ArrayShape* shape = nullptr) const;

  std::string origin_ = "arrays";
  Arrays arrays_;
};

template <typename T>
void ArrayStore::put(std::string path, std::span<const T> values, ArrayShape shape) {
  const auto bytes = std::as_bytes(values);
  put(std::move(path),
      StoredArray{element_type_of<T>, std::move(shape), {bytes.begin(), bytes.end()}});
}

template <typename T>
void ArrayStore::put_scalar(std::string path, T value) {
  put(std::move(path), std::span<const T>(&value, 1), {});
}

template <typename T>
std::span<const T> ArrayStore::get(std::string_view path) const {
  return elements_of<T>(checked(path, element_type_of<T>));
}

template <typename T>
std::span<const T> ArrayStore::get(std::string_view path, const ArrayShape& expected) const {
  return elements_of<T>(checked(path, element_type_of<T>, &expected));
}

template <typename T>
T ArrayStore::get_scalar(std::string_view path) const {
  return get<T>(path, {}).front();
}

/// An array that differs between two checkpoints.
struct ArrayDifference {
  std::string path;  ///< `parameters/encoder.norm.weight`
  /// `only in the first`, `only in the second`, or how types, shapes or elements differ.
  std::string what;
};

/// The arrays that exist only in `a` or only in `b`, or that differ in type, shape or any bit of an
/// element. Lists parameters, averages, buffers and optimizer state in this order, then all other
/// arrays, each group sorted by path. Omits texts, such as the config and the version of the
/// program.
///
/// If elements differ, ArrayDifference::what states how many differ, and the index and values of
/// the first differing element. For floating-point arrays it also states the maximum difference
/// over finite elements and the number of elements with a non-finite value.
std::vector<ArrayDifference> compare_arrays(const ArrayStore& a, const ArrayStore& b);

}  // namespace tapestry
