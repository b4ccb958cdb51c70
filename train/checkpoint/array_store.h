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

/// "float32", "int64", ...
std::string_view element_type_name(ElementType type);

/// Bytes of one element.
std::size_t element_size(ElementType type);

/// The element type of a C++ type; does not compile for a type that cannot be stored.
template <typename T>
inline constexpr ElementType element_type_of = [] {
  if constexpr (std::is_same_v<T, float>) return ElementType::float32;
  if constexpr (std::is_same_v<T, double>) return ElementType::float64;
  if constexpr (std::is_same_v<T, std::int32_t>) return ElementType::int32;
  if constexpr (std::is_same_v<T, std::int64_t>) return ElementType::int64;
  if constexpr (std::is_same_v<T, std::uint64_t>) return ElementType::uint64;
  if constexpr (std::is_same_v<T, std::uint8_t>) return ElementType::uint8;
}();

/// The maximum number of axes of a stored array.
inline constexpr std::size_t max_stored_rank = 8;

/// The maximum number of components of a path: "parameters/decoder.weight" has two. Limits paths to
/// less than 4096 characters.
inline constexpr std::size_t max_path_depth = 16;

/// Whether a text is a valid path component: 1 to 255 printable ASCII characters without blanks and
/// slashes, and neither "." nor "..".
bool is_path_component(std::string_view text);

/// One stored array: the elements as bytes, in row-major order and little-endian.
struct StoredArray {
  ElementType type = ElementType::uint8;
  ArrayShape shape;
  std::vector<std::byte> bytes;

  bool operator==(const StoredArray&) const = default;
};

/// The arrays of a checkpoint: a map from path to array, in byte order of the paths.
///
/// A path is "a" or "a/b/c"; the part before a slash is a group and cannot also be an array. put
/// functions throw std::invalid_argument for a path that is malformed, in use or in conflict with a
/// group, and for bytes that do not match the shape. get functions throw CheckpointError, naming
/// the origin and the path, for an array that is missing or has another type or shape.
class ArrayStore {
 public:
  using Arrays = std::map<std::string, StoredArray, std::less<>>;

  ArrayStore() = default;

  /// `origin` is the source of the arrays, usually a file name; used only in errors.
  explicit ArrayStore(std::string origin) : origin_(std::move(origin)) {}

  const std::string& origin() const { return origin_; }

  /// Moves the array into the store.
  void put(std::string path, StoredArray array);

  template <typename T>
  void put(std::string path, std::span<const T> values, ArrayShape shape);
  template <typename T>
  void put_scalar(std::string path, T value);

  /// Stores the bytes of a text (config, vocabulary, ...) as uint8 of shape (bytes).
  void put_text(std::string path, std::string_view text);

  bool contains(std::string_view path) const { return arrays_.contains(path); }

  /// The array with that path, of any type and shape.
  const StoredArray& at(std::string_view path) const;

  /// The bytes of the array with that path, for changing its elements.
  std::span<std::byte> mutable_bytes(std::string_view path);

  /// The elements of an array of type T. The span is valid as long as the store.
  template <typename T>
  std::span<const T> get(std::string_view path) const;

  /// The same for an array that must have the given shape.
  template <typename T>
  std::span<const T> get(std::string_view path, const ArrayShape& expected) const;

  template <typename T>
  T get_scalar(std::string_view path) const;
  std::string get_text(std::string_view path) const;

  /// Arrays in byte order of their paths, as pairs (path, array).
  Arrays::const_iterator begin() const { return arrays_.begin(); }
  Arrays::const_iterator end() const { return arrays_.end(); }
  std::size_t size() const { return arrays_.size(); }

  /// Total bytes of all arrays.
  std::uint64_t byte_size() const;

  /// Compares paths and arrays; the origin is ignored.
  friend bool operator==(const ArrayStore& a, const ArrayStore& b) {
    return a.arrays_ == b.arrays_;
  }

 private:
  const StoredArray& typed(std::string_view path, ElementType expected) const;
  const StoredArray& shaped(std::string_view path, ElementType type,
                            const ArrayShape& expected) const;
  void require_no_conflict(const std::string& path) const;
  [[noreturn]] void mismatch(std::string_view path, std::string_view found,
                             std::string_view expected) const;

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
  const auto& bytes = typed(path, element_type_of<T>).bytes;
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

template <typename T>
std::span<const T> ArrayStore::get(std::string_view path, const ArrayShape& expected) const {
  const auto& bytes = shaped(path, element_type_of<T>, expected).bytes;
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

template <typename T>
T ArrayStore::get_scalar(std::string_view path) const {
  return get<T>(path, {}).front();
}

}  // namespace tapestry
