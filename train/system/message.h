// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tapestry {

/// Serializes numbers and texts for a message between processes of one program, in the byte order
/// of the machine.
class MessageWriter {
 public:
  /// Appends a number.
  template <class T>
  requires std::is_arithmetic_v<T>
  void put(T value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T)); }
  /// Appends the length of a text or of bytes, then its content.
  void put(std::string_view text) {
    put(text.size());
    bytes_.append(text);
  }

  /// Appends the number of elements, then the elements.
  template <class T>
  requires std::is_arithmetic_v<T>
  void put(std::span<const T> numbers) {
    put(numbers.size());
    bytes_.append(reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes());
  }

  /// Moves out the bytes written so far.
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Reads the values written by a MessageWriter, in the same order.
class MessageReader {
 public:
  /// The message must outlive the reader.
  explicit MessageReader(std::string_view bytes) : bytes_(bytes) {}

  /// Reads the next number.
  template <class T>
  T get() {
    T value{};
    std::memcpy(&value, next(sizeof(T)).data(), sizeof(T));
    return value;
  }
  /// Reads the next text; returns a view into the message.
  std::string_view get_text() { return next(get<std::size_t>()); }

  /// Reads the next list of numbers.
  template <class T>
  std::vector<T> get_numbers() {
    const auto count = get<std::size_t>();
    const std::string_view bytes = next(count * sizeof(T));
    std::vector<T> numbers(count);
    std::ranges::copy(bytes, reinterpret_cast<char*>(numbers.data()));
    return numbers;
  }

  /// Whether the whole message has been read.
  bool at_end() const { return bytes_.empty(); }

 private:
  std::string_view next(std::size_t size) {
    if (size > bytes_.size()) throw std::logic_error("the message is shorter than expected");
    const std::string_view found = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return found;
  }

  std::string_view bytes_;
};

}  // namespace tapestry
