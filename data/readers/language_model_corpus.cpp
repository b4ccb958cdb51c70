// SPDX-License-Identifier: BSD-3-Clause
#include "data/readers/language_model_corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/corpus.h"
#include "data/io/error.h"
#include "data/io/text_file.h"
#include "data/io/utf8.h"
#include "data/readers/corpus_text.h"
#include "data/text/tokenizer.h"
#include "data/text/vocabulary.h"

namespace tapestry {

namespace fs = std::filesystem;

namespace {

using Ids = std::vector<std::int32_t>;

/// A corpus may consist of one line, like text8.
constexpr TextContent any_text{.expected = "text",
                               .hint = "name the file with the text",
                               .max_line_length = std::numeric_limits<std::size_t>::max()};

/// A part of a line that consists of whole tokens.
struct Piece {
  std::string_view text;
  bool ends_line;

  /// The size in bytes, including the line end.
  std::size_t bytes() const { return text.size() + (ends_line ? 1 : 0); }
};

/// The first position from `begin` where a text can be divided between two tokens: before white
/// space for words, before any character for characters. Returns the size of the text if there is
/// no such position.
std::size_t token_boundary(std::string_view text, std::size_t begin, TextUnit unit) {
  for (std::size_t i = begin; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool starts_character = (byte & 0xC0U) != 0x80U;
    if (unit == TextUnit::word ? byte == ' ' || byte == '\t' : starts_character) return i;
  }
  return text.size();
}

/// Calls f(piece) for the parts of a line. Long lines are divided, because tokens need many times
/// the memory of their text.
void for_each_piece(std::string_view line, TextUnit unit,
                    const std::function<void(const Piece&)>& f) {
  constexpr std::size_t bytes = 1 << 16;
  while (line.size() > bytes) {
    const std::size_t end = token_boundary(line, bytes, unit);
    if (end == line.size()) break;
    f({.text = line.substr(0, end), .ends_line = false});
    line.remove_prefix(end);
  }
  f({.text = line, .ends_line = true});
}

/// Calls f(piece) for the parts of all lines of a text.
void for_each_piece(CorpusText& text, TextUnit unit, const std::function<void(const Piece&)>& f) {
  text.for_each_line([&](const std::string& line, std::size_t) { for_each_piece(line, unit, f); });
}

/// The tokens of a piece, followed by newline_token if it ends a line.
Tokens tokenize(const Piece& piece, const Tokenizer& tokenizer) {
  Tokens tokens = split(tokenizer, piece.text);
  if (piece.ends_line) tokens.emplace_back(newline_token);
  return tokens;
}

/// Divides the ids of a text into windows, incrementally.
class Windows {
 public:
  Windows(std::size_t context, std::function<void(Example)> add)
      : context_(context), add_(std::move(add)) {}

  void push(const Ids& ids) {
    for (const std::int32_t id : ids) {
      window_.push_back(id);
      if (window_.size() == context_ + 1) emit();
    }
  }

  /// Adds the last window, which may be shorter. Returns the total number of windows.
  std::size_t finish() {
    if (window_.size() > 1) emit();
    window_.clear();
    return count_;
  }

 private:
  /// The next window begins with the last token of this one.
  void emit() {
    const std::int32_t last = window_.back();
    add_({.target = std::exchange(window_, {})});
    window_.push_back(last);
    ++count_;
  }

  std::size_t context_;
  std::function<void(Example)> add_;
  Ids window_;
  std::size_t count_ = 0;
};

[[noreturn]] void reject_short(const std::string& part, const std::string& name,
                               const char* hint = "name a file with more text") {
  throw DataError(
      fmt::format("{}: found fewer than 2 tokens for {}, expected at least 2", name, part), hint);
}

/// The sides of the boundary between training text and held-out text.
enum class Side { training, held_out };

/// Divides a text into training and held-out text. The lines that begin after the boundary are held
/// out. If the last line is so long that no line begins after the boundary, the last line is
/// divided at the first token that begins after the boundary.
class HoldOut {
 public:
  /// share  of the bytes to hold out, in [0, 1)
  HoldOut(CorpusText& text, double share, TextUnit unit) : unit_(unit) {
    if (share == 0.0) return;
    std::size_t bytes = 0, last_line = 0;
    text.for_each_line([&](const std::string& line, std::size_t) {
      last_line = bytes;
      bytes += line.size() + 1;
    });
    boundary_ = static_cast<std::size_t>(std::llround((1.0 - share) * static_cast<double>(bytes)));
    divides_line_ = last_line < boundary_;
  }

  /// Calls f(piece) for the pieces on one side of the boundary.
  void for_each_piece(CorpusText& text, Side side,
                      const std::function<void(const Piece&)>& f) const {
    std::size_t before = 0;
    bool ended_line = true, held_out = false;
    tapestry::for_each_piece(text, unit_, [&](const Piece& piece) {
      if (divides_line_) {
        const auto part = part_of(piece, *boundary_ > before ? *boundary_ - before : 0, side);
        if (part) f(*part);
      } else {
        held_out = held_out || (boundary_ && before >= *boundary_ && ended_line);
        if (held_out == (side == Side::held_out)) f(piece);
      }
      before += piece.bytes();
      ended_line = piece.ends_line;
    });
  }

 private:
  /// The part of a piece on one side of the boundary, which is `boundary` bytes after the start of
  /// the piece.
  std::optional<Piece> part_of(const Piece& piece, std::size_t boundary, Side side) const {
    const std::size_t cut = boundary == 0 ? 0 : token_boundary(piece.text, boundary, unit_);
    const bool whole = cut == piece.text.size();
    if (side == Side::training ? cut == 0 : whole) return std::nullopt;
    if (side == Side::held_out) return Piece{piece.text.substr(cut), piece.ends_line};
    return Piece{piece.text.substr(0, cut), whole && piece.ends_line};
  }

  TextUnit unit_;
  std::optional<std::size_t> boundary_;  ///< offset in bytes; nullopt if nothing is held out
  bool divides_line_ = false;
};

/// The training texts. The first pass makes the vocabulary, the second pass makes the windows.
class TrainingTexts {
 public:
  TrainingTexts(const FileList& files, double share, TextUnit unit, const fs::path& base,
                const TrainingSetOptions& training)
      : texts_(list_texts("data.train_text", files, base, any_text)), training_(training) {
    for (CorpusText& text : texts_) source_.texts.push_back(&text);
    source_.corpora.resize(texts_.size());
    decide_on_cache(source_, training);
    for (CorpusText& text : texts_) hold_outs_.emplace_back(text, share, unit);
  }

  const std::string& name() const { return texts_.front().name(); }

  Vocabulary make_vocabulary(const WindowOptions& windows, const WordOptions& words,
                             const fs::path& base, std::vector<std::string>& notes) {
    const auto for_each = [this](const std::function<void(const Piece&)>& f) {
      for (std::size_t i = 0; i < texts_.size(); ++i) {
        std::size_t pieces = 0;
        hold_outs_[i].for_each_piece(texts_[i], Side::training, [&](const Piece& piece) {
          ++pieces;
          f(piece);
        });
        if (pieces == 0) reject_short("training", texts_[i].name());
      }
    };
    if (words.subwords.kind != SubwordKind::none) {
      TextSample sentences;
      const bool learns = words.subwords.kind != SubwordKind::file;
      if (learns) for_each([&](const Piece& piece) { sentences.add(std::string(piece.text)); });
      return Vocabulary(
          make_subwords(std::move(sentences), words, SubwordSide::source, base, name(), notes),
          {std::string(newline_token)});
    }
    const Tokenizer tokenizer = window_tokenizer(windows, words, Vocabulary());
    WordCounter counter;
    for_each([&](const Piece& piece) { counter.add(tokenize(piece, tokenizer)); });
    return frequent_words(counter, words);
  }

  /// Fills in the training set and, if `holds_out`, the validation set.
  ///
  /// options  all options that the windows depend on, except the vocabulary
  void encode(const std::string& options, std::size_t context, const Tokenizer& tokenizer,
              bool holds_out, Corpus& corpus) {
    const auto cut = [&](std::size_t i, Side side, std::function<void(Example)> add) {
      Windows windows(context, std::move(add));
      hold_outs_[i].for_each_piece(texts_[i], side, [&](const Piece& piece) {
        windows.push(corpus.source_vocabulary.encode(tokenize(piece, tokenizer)));
      });
      return windows.finish();
    };
    source_.options = options;
    fill_training_set(training_, source_, corpus,
                      [&](std::size_t i, const AddExample& add, std::vector<std::string>&) {
                        const std::size_t windows = cut(
                            i, Side::training, [&](Example window) { add(std::move(window), 0); });
                        if (windows == 0) reject_short("training", texts_[i].name());
                      });
    for (std::size_t i = 0; holds_out && i < texts_.size(); ++i) {
      cut(i, Side::held_out,
          [&](Example window) { corpus.validation.push_back(std::move(window)); });
    }
  }

 private:
  std::vector<CorpusText> texts_;
  std::vector<HoldOut> hold_outs_;  ///< one for each text
  TrainingSource source_;
  const TrainingSetOptions& training_;
};

}  // namespace

Tokenizer window_tokenizer(const WindowOptions& windows, const WordOptions& words,
                           const Vocabulary& vocabulary) {
  if (vocabulary.subwords()) return sentence_tokenizer(vocabulary, words);
  if (windows.unit == TextUnit::word) return WordTokenizer(words.lowercase);
  return CharacterTokenizer(words.lowercase);
}

Corpus load_language_model_corpus(const TextFiles& files, const WindowOptions& windows,
                                  const WordOptions& words, const fs::path& base,
                                  const FixedVocabularies* fixed,
                                  const TrainingSetOptions& training) {
  const bool subwords = words.subwords.kind != SubwordKind::none;
  // Texts are divided only between units.
  const TextUnit unit = subwords ? TextUnit::word : windows.unit;
  Corpus corpus;
  const bool has_training = fixed == nullptr || !files.train_text.empty();
  const bool has_validation_file = !files.validation_text.empty();
  const double share = has_validation_file ? 0.0 : windows.validation_share;
  std::optional<TrainingTexts> texts;
  if (has_training) texts.emplace(files.train_text, share, unit, base, training);
  corpus.source_vocabulary =
      fixed != nullptr ? fixed->source : texts->make_vocabulary(windows, words, base, corpus.notes);
  corpus.target_vocabulary = corpus.source_vocabulary;
  const Tokenizer tokenizer = window_tokenizer(windows, words, corpus.source_vocabulary);
  if (has_training) {
    const std::string options =
        fmt::format("text lowercase={} unit={} context={} share={}", words.lowercase,
                    static_cast<int>(unit), windows.context, share);
    texts->encode(options, windows.context, tokenizer, share > 0.0, corpus);
  }
  const auto load = [&](const char* key, const std::string& file, const std::string& part) {
    CorpusText text(key, base / file, any_text);
    std::vector<Example> examples;
    Windows divided(windows.context,
                    [&](Example window) { examples.push_back(std::move(window)); });
    for_each_piece(text, unit, [&](const Piece& piece) {
      divided.push(corpus.source_vocabulary.encode(tokenize(piece, tokenizer)));
    });
    if (divided.finish() == 0) reject_short(part, text.name());
    text.record(corpus);
    return examples;
  };
  if (has_validation_file) {
    corpus.validation = load("data.validation_text", files.validation_text, "validation");
  } else if (has_training && corpus.validation.empty() && share > 0.0) {
    reject_short("validation", texts->name(),
                 "name a file with more text, or raise data.validation_share; 0 holds nothing out");
  }
  if (!files.test_text.empty()) {
    corpus.test = load("data.test_text", files.test_text, "testing");
  }
  return corpus;
}

}  // namespace tapestry
