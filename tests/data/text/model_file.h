// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

/// Makes the content of SentencePiece model files.
namespace tapestry::test {

inline std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 128; value >>= 7U) bytes += static_cast<char>((value & 127U) | 128U);
  return bytes + static_cast<char>(value);
}

/// A protocol buffer field with a string or a message.
inline std::string field(std::uint64_t number, std::string_view content) {
  return varint(number << 3U | 2U) + varint(content.size()) + std::string(content);
}

/// A piece with a SentencePieceModel::Type.
inline std::string piece(std::string_view text, char type = 1, float score = 0) {
  auto bits = std::bit_cast<std::uint32_t>(score);
  std::string bytes = "\x15";
  for (int i = 0; i < 4; ++i, bits >>= 8U) bytes += static_cast<char>(bits & 0xFFU);
  return field(1, field(1, text) + bytes + "\x18" + type);
}

/// A model with these pieces; kind is 1 (unigram), 2 (BPE), 3 (words) or 4 (characters).
///
/// prefix  whether the model adds a space before the text
inline std::string model_of(const std::string& pieces, char kind = 1, bool prefix = true) {
  return pieces + field(2, std::string("\x18") + kind) +
         field(3, std::string("\x18") + (prefix ? '\1' : '\0'));
}

}  // namespace tapestry::test
