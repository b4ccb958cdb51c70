#include "data/text/subwords.h"

#include <fmt/format.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <charconv>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include "data/io/error.h"
#include "data/io/utf8.h"
#include "data/text/sentencepiece_model.h"

namespace tapestry {
namespace {

const std::string unknown_token = "<unk>";

/// A piece as a word of a vocabulary, see SubwordModel.
std::string token_name(const std::string& piece) {
  if (is_special_symbol(piece)) return "<U+003C>" + piece.substr(1);
  std::string name;
  for (const char c : piece) {
    const bool space = std::string_view(" \t\n\v\f\r").find(c) != std::string_view::npos;
    name += space ? fmt::format("<U+{:04X}>", static_cast<unsigned>(c)) : std::string(1, c);
  }
  return name;
}

bool is_token(SentencePieceModel::Type type) {
  using enum SentencePieceModel::Type;
  return type == normal || type == user_defined || type == byte;
}

}  // namespace

class SubwordModel::Processor {
 public:
  Processor(std::string serialized, const std::string& name)
      : serialized_(std::move(serialized)),
        model_(parse_sentencepiece_model(serialized_, name)),
        token_of_piece_(model_.pieces.size(), none) {
    load(name);
    for (std::size_t i = 0; i < model_.pieces.size(); ++i) {
      if (!is_token(model_.pieces[i].type)) continue;
      token_of_piece_[i] = tokens_.size();
      tokens_.push_back(token_name(model_.pieces[i].text));
      piece_of_token_.try_emplace(tokens_.back(), static_cast<int>(i));
    }
  }

  const std::string& serialized() const { return serialized_; }
  const Tokens& tokens() const { return tokens_; }
  const SentencePieceModel& pieces() const { return model_; }

  Tokens split(std::string_view text) const {
    std::vector<int> pieces;
    require(sentencepiece_.Encode(text, &pieces));
    Tokens tokens;
    tokens.reserve(pieces.size());
    for (const int piece : pieces) {
      const std::size_t token = token_of_piece_.at(static_cast<std::size_t>(piece));
      tokens.push_back(token == none ? unknown_token : tokens_[token]);
    }
    return tokens;
  }

  std::string join(const Tokens& tokens) const {
    std::vector<int> pieces;
    pieces.reserve(tokens.size());
    for (const std::string& token : tokens) {
      const auto found = piece_of_token_.find(token);
      pieces.push_back(found == piece_of_token_.end() ? sentencepiece_.unk_id() : found->second);
    }
    std::string text;
    require(sentencepiece_.Decode(pieces, &text));
    return text;
  }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  void load(const std::string& name) {
    const auto status = sentencepiece_.LoadFromSerializedProto(serialized_);
    if (status.ok()) return;
    throw DataError(
        fmt::format("{}: SentencePiece cannot load it: {}", name, escaped(status.message())),
        "name a .model file that SentencePiece wrote, of type unigram or bpe");
  }

  /// The functions fail only for models that are contradictory in themselves, such as those whose
  /// normalization loses characters.
  static void require(const sentencepiece::util::Status& status) {
    if (status.ok()) return;
    throw DataError(
        fmt::format("subword model: SentencePiece cannot use it: {}", escaped(status.ToString())),
        "use another .model file: this one is damaged");
  }

  std::string serialized_;
  SentencePieceModel model_;
  std::vector<std::size_t> token_of_piece_;  ///< by id of SentencePiece; none for its symbols
  Tokens tokens_;
  std::unordered_map<std::string, int> piece_of_token_;
  sentencepiece::SentencePieceProcessor sentencepiece_;
};

SubwordModel::SubwordModel(std::string serialized, const std::string& name)
    : processor_(std::make_unique<const Processor>(std::move(serialized), name)) {}
SubwordModel::~SubwordModel() = default;

const std::string& SubwordModel::serialized() const { return processor_->serialized(); }
const Tokens& SubwordModel::tokens() const { return processor_->tokens(); }
const SentencePieceModel& SubwordModel::pieces() const { return processor_->pieces(); }
Tokens SubwordModel::split(std::string_view text) const { return processor_->split(text); }
std::string SubwordModel::join(const Tokens& tokens) const { return processor_->join(tokens); }

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

const char* rule_name(TextNormalization normalization) {
  switch (normalization) {
    case TextNormalization::nmt_nfkc:
      return "nmt_nfkc";
    case TextNormalization::nfkc:
      return "nfkc";
    case TextNormalization::nmt_nfkc_cf:
      return "nmt_nfkc_cf";
    case TextNormalization::nfkc_cf:
      return "nfkc_cf";
    case TextNormalization::identity:
      return "identity";
  }
  throw std::logic_error("subwords: unknown normalization");
}

/// The number after `words` in a message; nullopt if it does not have them.
std::optional<std::size_t> number_after(std::string_view message, std::string_view words) {
  const std::size_t found = message.find(words);
  if (found == std::string_view::npos) return std::nullopt;
  message.remove_prefix(found + words.size());
  std::size_t number = 0;
  const auto [rest, error] =
      std::from_chars(message.data(), message.data() + message.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

[[noreturn]] void refuse_training(std::string_view message, const SubwordOptions& options,
                                  const std::string& place) {
  const std::size_t size = options.vocabulary_size;
  if (message.find("Vocabulary size too high") != std::string_view::npos) {
    const auto most = number_after(message, "a value <= ");
    throw DataError(fmt::format("data.vocabulary_size: found {}, expected at most {}, since {} has "
                                "no more subwords",
                                size, most.value_or(0), place),
                    fmt::format("set data.vocabulary_size to {} or less, or train on more text",
                                most.value_or(0)));
  }
  if (message.find("smaller than required_chars") != std::string_view::npos) {
    const auto least = number_after(message, fmt::format("{} vs ", size));
    throw DataError(
        fmt::format("data.vocabulary_size: found {}, expected at least {}: the special symbols{} "
                    "and the characters of {}",
                    size, least.value_or(0), options.byte_fallback ? ", the 256 bytes" : "", place),
        fmt::format("set data.vocabulary_size to more than {}, or lower data.character_coverage",
                    least.value_or(0)));
  }
  if (message.find("sentences_.empty()") != std::string_view::npos) {
    throw DataError(fmt::format("{}: found no text for subwords, expected sentences", place),
                    "name a file with text");
  }
  throw DataError(
      fmt::format("{}: SentencePiece cannot learn subwords: {}", place, escaped(message)),
      "choose other data.subwords or another data.vocabulary_size");
}

/// Makes SentencePiece count characters in 64 bits.
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
  // One thread: SentencePiece adds probabilities thread by thread, in float32.
  const std::unordered_map<std::string, std::string> settings = {
      {"model_type", options.kind == SubwordKind::bpe ? "bpe" : "unigram"},
      {"vocab_size", number(options.vocabulary_size)},
      {"character_coverage", number(options.character_coverage)},
      {"byte_fallback", number(options.byte_fallback)},
      {"normalization_rule_name", rule_name(options.normalization)},
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
  const auto status = sentencepiece::SentencePieceTrainer::Train(settings, &input, &serialized);
  if (!status.ok()) refuse_training(status.message(), options, place);
  return std::make_shared<const SubwordModel>(std::move(serialized), place);
}

}  // namespace tapestry
