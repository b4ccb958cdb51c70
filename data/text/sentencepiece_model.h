#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tapestry {

/// The parts of a SentencePiece model file that Tapestry relies on. The file is a protocol buffer,
/// a `ModelProto` of sentencepiece_model.proto.
struct SentencePieceModel {
  /// SentencePiece::Type of the proto.
  enum class Type : std::uint8_t {
    normal = 1,
    unknown = 2,
    control = 3,
    user_defined = 4,
    unused = 5,
    byte = 6
  };

  /// An entry of the vocabulary of SentencePiece.
  struct Piece {
    std::string text;  ///< with U+2581 for a space
    float score = 0;   ///< unigram: log probability; bpe: higher scores are merged first
    Type type = Type::normal;
  };

  std::vector<Piece> pieces{};  ///< in the order of the ids of SentencePiece
  bool bpe = false;             ///< byte-pair encoding, otherwise a unigram language model
};

/// Parses the content of a .model file, and checks what SentencePiece itself takes on trust, so
/// that a damaged file cannot crash it: pieces are UTF-8 without NUL, scores are finite, and the
/// double-array trie of the normalization stays within its bounds.
///
/// name    of the file, for messages
/// throws  DataError if the content is not a unigram or BPE model of SentencePiece.
SentencePieceModel parse_sentencepiece_model(std::string_view content, const std::string& name);

}  // namespace tapestry
