// SPDX-License-Identifier: BSD-3-Clause
#include "data/text/subwords.h"

#include <fmt/format.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <new>
#include <optional>
#include <set>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include "data/io/error.h"
#include "data/io/utf8.h"

namespace tapestry {
namespace {

const std::string unknown_token = "<unk>";

/// The word of a vocabulary that represents a piece, see SubwordModel.
std::string token_name(const std::string& piece) {
  if (is_special_symbol(piece)) return "<U+003C>" + piece.substr(1);
  std::string name;
  for (const char c : piece) {
    const bool space = std::string_view(" \t\n\v\f\r").find(c) != std::string_view::npos;
    name += space ? fmt::format("<U+{:04X}>", static_cast<unsigned>(c)) : std::string(1, c);
  }
  return name;
}

/// Throws DataError if a call of SentencePiece has failed. This happens only with an inconsistent
/// model, for example if its normalization loses characters.
void require(const sentencepiece::util::Status& status) {
  if (status.ok()) return;
  throw DataError(fmt::format("subword model: SentencePiece cannot use this model: {}",
                              escaped(status.ToString())),
                  "use a different .model file: this file is damaged");
}

constexpr std::size_t no_token = static_cast<std::size_t>(-1);

}  // namespace

SubwordModel::SubwordModel(std::string serialized, const std::string& name)
    : serialized_(std::move(serialized)),
      model_(parse_sentencepiece_model(serialized_, name)),
      token_of_piece_(model_.pieces.size(), no_token),
      sentencepiece_(std::make_unique<sentencepiece::SentencePieceProcessor>()) {
  const auto status = sentencepiece_->LoadFromSerializedProto(serialized_);
  if (!status.ok()) {
    throw DataError(
        fmt::format("{}: SentencePiece cannot load the model: {}", name, escaped(status.message())),
        "name a .model file that SentencePiece wrote, of type unigram or bpe");
  }
  for (std::size_t i = 0; i < model_.pieces.size(); ++i) {
    if (!model_.pieces[i].is_token()) continue;
    token_of_piece_[i] = tokens_.size();
    tokens_.push_back(token_name(model_.pieces[i].text));
    piece_of_token_.try_emplace(tokens_.back(), static_cast<int>(i));
  }
}

SubwordModel::~SubwordModel() = default;

Tokens SubwordModel::split(std::string_view text) const {
  std::vector<int> pieces;
  require(sentencepiece_->Encode(text, &pieces));
  Tokens tokens;
  tokens.reserve(pieces.size());
  for (const int piece : pieces) {
    const std::size_t token = token_of_piece_.at(static_cast<std::size_t>(piece));
    tokens.push_back(token == no_token ? unknown_token : tokens_[token]);
  }
  return tokens;
}

std::string SubwordModel::join(const Tokens& tokens) const {
  std::vector<int> pieces;
  pieces.reserve(tokens.size());
  for (const std::string& token : tokens) {
    const auto found = piece_of_token_.find(token);
    pieces.push_back(found == piece_of_token_.end() ? sentencepiece_->unk_id() : found->second);
  }
  std::string text;
  require(sentencepiece_->Decode(pieces, &text));
  return text;
}

// ---- Training

VocabularyTooLarge::VocabularyTooLarge(std::size_t size, std::size_t max_size,
                                       const std::string& place)
    : DataError(
          fmt::format("data.vocabulary_size: found {}, expected at most {}, since {} has no "
                      "more subwords",
                      size, max_size, place),
          fmt::format("set data.vocabulary_size to {} or less, or train on more text", max_size)),
      max_size_(max_size) {}

namespace {

class Sentences : public sentencepiece::SentenceIterator {
 public:
  explicit Sentences(std::span<const std::string> sentences) : sentences_(sentences) {}

  bool done() const override { return next_ == sentences_.size(); }
  void Next() override { ++next_; }
  const std::string& value() const override { return sentences_[next_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  std::span<const std::string> sentences_;
  std::size_t next_ = 0;
};

/// The names of the normalizations in SentencePiece, in the order of TextNormalization.
constexpr std::array<const char*, 5> normalization_names = {"nmt_nfkc", "nfkc", "nmt_nfkc_cf",
                                                            "nfkc_cf", "identity"};

/// The number after `words` in a message; nullopt if the message does not contain `words`.
std::optional<std::size_t> number_after(std::string_view message, std::string_view words) {
  const std::size_t found = message.find(words);
  if (found == std::string_view::npos) return std::nullopt;
  message.remove_prefix(found + words.size());
  std::size_t number = 0;
  const auto [rest, error] =
      std::from_chars(message.data(), message.data() + message.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

[[noreturn]] void reject_training(std::string_view message, const SubwordOptions& options,
                                  const std::string& place) {
  const std::size_t size = options.vocabulary_size;
  if (message.find("Vocabulary size too high") != std::string_view::npos) {
    const auto max_size = number_after(message, "a value <= ");
    throw VocabularyTooLarge(size, max_size.value_or(0), place);
  }
  if (message.find("smaller than required_chars") != std::string_view::npos) {
    const auto min_size = number_after(message, fmt::format("{} vs ", size));
    throw DataError(
        fmt::format("data.vocabulary_size: found {}, expected at least {}: the special symbols{} "
                    "and the characters of {}",
                    size, min_size.value_or(0), options.byte_fallback ? ", the 256 bytes" : "",
                    place),
        fmt::format("set data.vocabulary_size to {} or more, or lower data.character_coverage",
                    min_size.value_or(0)));
  }
  if (message.find("sentences_.empty()") != std::string_view::npos) {
    throw DataError(fmt::format("{}: found no text for subwords, expected sentences", place),
                    "name a file with text");
  }
  throw DataError(
      fmt::format("{}: SentencePiece cannot learn subwords: {}", place, escaped(message)),
      "choose another value of data.subwords or data.vocabulary_size");
}

/// Whether SentencePiece must count characters in 64 bits.
bool is_extremely_large(std::span<const std::string> sentences) {
  constexpr std::size_t large = std::size_t{1} << 30;
  std::size_t bytes = 0;
  for (const std::string& sentence : sentences) bytes += sentence.size();
  return bytes >= large;
}

}  // namespace

std::shared_ptr<const SubwordModel> train_subwords(std::span<const std::string> sentences,
                                                   const SubwordOptions& options,
                                                   const std::string& place) {
  const auto number = [](auto value) { return fmt::format("{}", value); };
  // Use one thread: SentencePiece adds the float32 sums of its threads, so the result would depend
  // on the number of threads.
  const std::unordered_map<std::string, std::string> settings = {
      {"model_type", options.kind == SubwordKind::bpe ? "bpe" : "unigram"},
      {"vocab_size", number(options.vocabulary_size)},
      {"character_coverage", number(options.character_coverage)},
      {"byte_fallback", number(options.byte_fallback)},
      {"normalization_rule_name",
       normalization_names.at(static_cast<std::size_t>(options.normalization))},
      {"pad_id", number(pad_id)},
      {"unk_id", number(unk_id)},
      {"bos_id", number(bos_id)},
      {"eos_id", number(eos_id)},
      {"pad_piece", "<pad>"},
      {"unk_piece", unknown_token},
      {"bos_piece", "<bos>"},
      {"eos_piece", "<eos>"},
      {"max_sentence_length", number(1U << 30U)},
      {"train_extremely_large_corpus", number(is_extremely_large(sentences))},
      {"num_threads", "1"},
      {"minloglevel", "3"}};
  Sentences input(sentences);
  std::string serialized;
  // SentencePiece would call exit(-1) if it runs out of memory. The new-handler calls
  // std::terminate() first, which reports this if the program has called
  // set_out_of_memory_exit_code().
  const std::new_handler before = std::set_new_handler(std::terminate);
  const auto status = sentencepiece::SentencePieceTrainer::Train(settings, &input, &serialized);
  std::set_new_handler(before);
  if (!status.ok()) reject_training(status.message(), options, place);
  return std::make_shared<const SubwordModel>(std::move(serialized), place);
}

// ---- The file format

namespace {

constexpr std::size_t max_pieces = 1'000'000;
/// SentencePiece makes one recursive call for each byte of a piece, with about 80 bytes of stack.
constexpr std::size_t max_piece_bytes = 4096;

/// Thrown if the content is not a model. The caller adds the name of the file.
struct Malformed {
  std::string found;
};

/// A field of a protocol buffer message.
struct ProtoField {
  std::uint32_t number = 0;
  std::uint64_t value = 0;     ///< value of a varint or a fixed32
  std::string_view content{};  ///< content of a string or message
  std::uint32_t wire_type = 0;
};

constexpr std::uint32_t varint = 0, fixed64 = 1, delimited = 2, fixed32 = 5;

/// Reads the fields of a message one by one (protobuf.dev/programming-guides/encoding).
class ProtoReader {
 public:
  explicit ProtoReader(std::string_view message) : rest_(message) {}

  std::optional<ProtoField> next() {
    if (rest_.empty()) return std::nullopt;
    const std::uint64_t tag = read_varint();
    if (tag >> 3U == 0 || tag >> 3U >= 1U << 29U) throw Malformed{"a field with a wrong number"};
    ProtoField field{.number = static_cast<std::uint32_t>(tag >> 3U),
                     .wire_type = static_cast<std::uint32_t>(tag & 7U)};
    switch (field.wire_type) {
      case varint:
        field.value = read_varint();
        break;
      case delimited:
        field.content = read_bytes(read_varint());
        break;
      case fixed32:
        field.value = little_endian(read_bytes(4));
        break;
      case fixed64:
        field.value = little_endian(read_bytes(8));
        break;
      default:
        throw Malformed{"a field of an unknown type"};
    }
    return field;
  }

 private:
  std::uint64_t read_varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(read_bytes(1).front());
      value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
      if (byte < 0x80U) return value;
    }
    throw Malformed{"a number of more than 64 bits"};
  }

  std::string_view read_bytes(std::uint64_t count) {
    if (count > rest_.size()) throw Malformed{"the end of the data within a field"};
    const std::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return bytes;
  }

  static std::uint64_t little_endian(std::string_view bytes) {
    std::uint64_t value = 0;
    for (std::size_t i = bytes.size(); i-- > 0;) {
      value = value << 8U | static_cast<unsigned char>(bytes[i]);
    }
    return value;
  }

  std::string_view rest_;
};

void require_type(const ProtoField& field, std::uint32_t wire_type) {
  if (field.wire_type != wire_type) {
    throw Malformed{fmt::format("field {} of type {}, expected type {}", field.number,
                                field.wire_type, wire_type)};
  }
}

SentencePieceModel::Piece parse_piece(std::string_view message) {
  SentencePieceModel::Piece piece;
  ProtoReader reader(message);
  while (const auto field = reader.next()) {
    if (field->number == 1) {
      require_type(*field, delimited);
      piece.text = field->content;
    } else if (field->number == 2) {
      require_type(*field, fixed32);
      piece.score = std::bit_cast<float>(static_cast<std::uint32_t>(field->value));
    } else if (field->number == 3) {
      require_type(*field, varint);
      if (field->value < 1 || field->value > 6) {
        throw Malformed{fmt::format("a piece of type {}, expected 1 to 6", field->value)};
      }
      piece.type = static_cast<SentencePieceModel::Type>(field->value);
    }
  }
  const std::string& text = piece.text;
  if (text.empty()) throw Malformed{"an empty piece"};
  if (text.size() > max_piece_bytes) {
    throw Malformed{
        fmt::format("a piece of {} bytes, expected at most {} (the maximum length of a "
                    "piece)",
                    text.size(), max_piece_bytes)};
  }
  if (find_invalid_utf8(text)) throw Malformed{"a piece that is not UTF-8"};
  if (text.find('\0') != std::string::npos) throw Malformed{"a piece that contains NUL"};
  if (!std::isfinite(piece.score)) {
    throw Malformed{
        fmt::format("the score {} of the piece \"{}\"", piece.score, excerpt(piece.text))};
  }
  return piece;
}

/// The trie of a precompiled normalization: a double array of 32-bit units, in the format of the
/// library Darts-clone.
class NormalizationTrie {
 public:
  explicit NormalizationTrie(std::string_view units) : units_(units) {}

  std::size_t size() const { return units_.size() / 4; }

  /// Calls leaf(value) for each string of the trie.
  ///
  /// throws  Malformed if a look-up could leave the array.
  void check(const std::function<void(std::uint32_t)>& leaf) const {
    if (size() == 0) throw Malformed{"an empty normalization"};
    std::vector<bool> seen(size());
    std::vector<std::size_t> nodes{0};
    seen[0] = true;
    while (!nodes.empty()) {
      const std::size_t node = nodes.back();
      nodes.pop_back();
      const std::size_t children = node ^ offset(unit(node));
      if ((children | 0xFFU) >= size()) throw Malformed{"a damaged normalization"};
      if (has_leaf(unit(node))) leaf(unit(children) & 0x7FFFFFFFU);
      for (std::size_t byte = 0; byte < 256; ++byte) {
        const std::size_t child = children ^ byte;
        if (label(unit(child)) != byte || seen[child]) continue;
        seen[child] = true;
        nodes.push_back(child);
      }
    }
  }

 private:
  std::uint32_t unit(std::size_t index) const {
    std::uint32_t value = 0;
    for (std::size_t i = 4; i-- > 0;) {
      value = value << 8U | static_cast<unsigned char>(units_[4 * index + i]);
    }
    return value;
  }
  static bool has_leaf(std::uint32_t unit) { return (unit >> 8U & 1U) == 1; }
  static std::uint32_t label(std::uint32_t unit) { return unit & (1U << 31U | 0xFFU); }
  static std::size_t offset(std::uint32_t unit) {
    return static_cast<std::size_t>(unit >> 10U) << ((unit & 1U << 9U) >> 6U);
  }

  std::string_view units_;
};

/// Checks a precompiled_charsmap: the size of the trie in bytes, the trie, and the replacements
/// that its values point to, which are texts that end with NUL.
void check_normalization(std::string_view map) {
  if (map.empty()) return;
  std::uint32_t bytes = 0;
  if (map.size() < sizeof bytes) throw Malformed{"a normalization that is cut off"};
  for (std::size_t i = sizeof bytes; i-- > 0;) {
    bytes = bytes << 8U | static_cast<unsigned char>(map[i]);
  }
  map.remove_prefix(sizeof bytes);
  if (bytes % 4 != 0 || bytes >= map.size()) throw Malformed{"a normalization that is cut off"};
  const std::string_view replacements = map.substr(bytes);
  if (replacements.back() != '\0' || find_invalid_utf8(replacements)) {
    throw Malformed{"a damaged normalization"};
  }
  NormalizationTrie(map.substr(0, bytes)).check([&](std::uint32_t position) {
    if (position >= replacements.size()) throw Malformed{"a damaged normalization"};
  });
}

void check_normalizer(std::string_view message) {
  ProtoReader reader(message);
  std::size_t maps = 0;
  while (const auto field = reader.next()) {
    if (field->number != 2) continue;
    require_type(*field, delimited);
    if (++maps > 1) throw Malformed{"two normalizations"};
    check_normalization(field->content);
  }
}

/// Whether the model uses byte-pair encoding.
bool parse_trainer(std::string_view message) {
  constexpr std::uint64_t unigram = 1, bpe = 2, word = 3;
  std::uint64_t kind = unigram;
  ProtoReader reader(message);
  while (const auto field = reader.next()) {
    if (field->number != 3) continue;
    require_type(*field, varint);
    kind = field->value;
  }
  if (kind == unigram || kind == bpe) return kind == bpe;
  throw Malformed{kind == word ? "a model of words, expected unigram or bpe"
                               : "a model of characters, expected unigram or bpe"};
}

SentencePieceModel parse(std::string_view content) {
  SentencePieceModel model;
  std::set<std::uint32_t> seen;
  ProtoReader reader(content);
  while (const auto field = reader.next()) {
    if (field->number >= 1 && field->number <= 5) require_type(*field, delimited);
    if (field->number != 1 && !seen.insert(field->number).second) {
      throw Malformed{fmt::format("field {} twice", field->number)};
    }
    if (field->number == 1) {
      if (model.pieces.size() == max_pieces) throw Malformed{"more than a million pieces"};
      model.pieces.push_back(parse_piece(field->content));
    } else if (field->number == 2) {
      model.bpe = parse_trainer(field->content);
    } else if (field->number == 3 || field->number == 5) {
      check_normalizer(field->content);
    }
  }
  if (model.pieces.empty()) throw Malformed{"no pieces"};
  return model;
}

}  // namespace

SentencePieceModel parse_sentencepiece_model(std::string_view content, const std::string& name) {
  try {
    return parse(content);
  } catch (const Malformed& reason) {
    throw DataError(fmt::format("{}: is not a SentencePiece model: found {}", name, reason.found),
                    "name a .model file that SentencePiece wrote, of type unigram or bpe");
  }
}

}  // namespace tapestry
