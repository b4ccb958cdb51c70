// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <vector>

/// Makes the content of .npy files.
namespace tapestry::test {

/// A .npy file of version 1.0 with the given header.
inline std::string npy(const std::string& header, const std::string& data) {
  const auto low = static_cast<char>(header.size() & 255U);
  const auto high = static_cast<char>(header.size() >> 8U);
  return std::string("\x93NUMPY\x01\x00", 8) + low + high + header + data;
}

/// The header that numpy.save() writes.
inline std::string header(const std::string& type, const std::string& shape,
                          bool fortran_order = false) {
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}", type,
                                 fortran_order ? "True" : "False", shape);
  text.resize((10 + text.size()) / 64 * 64 + 53, ' ');
  return text + '\n';
}

template <class T>
std::string to_bytes(const std::vector<T>& values, bool big_endian = false) {
  std::string bytes;
  for (const T value : values) {
    auto element = std::bit_cast<std::array<char, sizeof(T)>>(value);
    if (big_endian) std::ranges::reverse(element);
    bytes.append(element.data(), element.size());
  }
  return bytes;
}

template <class T>
std::string npy_file(const std::string& type, const std::string& shape,
                     const std::vector<T>& values) {
  return npy(header(type, shape), to_bytes(values, type.front() == '>'));
}

}  // namespace tapestry::test
