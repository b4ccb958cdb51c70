#include "data/corpora/language_model_corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/corpus.h"
#include "data/io/error.h"
#include "data/io/text_file.h"
#include "data/io/utf8.h"
#include "data/text/tokenizer.h"
#include "data/text/vocabulary.h"

namespace tapestry {

namespace {

using Ids = std::vector<std::int32_t>;

/// The lines of a file and its name for messages.
struct Text {
  std::string name;
  std::vector<std::string> lines;
};

/// A corpus may be one line, as text8 is.
constexpr TextContent content{.expected = "text",
                              .hint = "name the file with the text",
                              .longest_line = std::numeric_limits<std::size_t>::max()};

Text read(const char* key, const std::string& file, const std::filesystem::path& base,
          Corpus& corpus) {
  const std::filesystem::path path = base / file;
  return {.name = escaped(path.native()), .lines = read_corpus_lines(key, path, corpus, content)};
}

/// A part of a line that consists of whole tokens.
struct Piece {
  std::string_view text;
  bool ends_line;

  /// With its line end.
  std::size_t bytes() const { return text.size() + (ends_line ? 1 : 0); }
};

/// The first position of a text, from `begin`, at which it can be divided between two tokens: for
/// words before white space, for characters before a character. The size of the text if there is
/// none.
std::size_t token_border(std::string_view text, std::size_t begin, TextUnit unit) {
  for (std::size_t i = begin; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool starts_character = (byte & 0xC0U) != 0x80U;
    if (unit == TextUnit::word ? byte == ' ' || byte == '\t' : starts_character) return i;
  }
  return text.size();
}

/// The lines of a text, long ones in pieces, since tokens take many times the memory of their text.
std::vector<Piece> pieces_of(std::span<const std::string> lines, TextUnit unit) {
  constexpr std::size_t bytes = 1 << 16;
  std::vector<Piece> pieces;
  for (std::string_view line : lines) {
    while (line.size() > bytes) {
      const std::size_t end = token_border(line, bytes, unit);
      if (end == line.size()) break;
      pieces.push_back({.text = line.substr(0, end), .ends_line = false});
      line.remove_prefix(end);
    }
    pieces.push_back({.text = line, .ends_line = true});
  }
  return pieces;
}

/// The tokens of a piece, followed by newline_token if it ends a line.
Tokens tokenize(const Piece& piece, const Tokenizer& tokenizer) {
  Tokens tokens = split(tokenizer, piece.text);
  if (piece.ends_line) tokens.emplace_back(newline_token);
  return tokens;
}

Vocabulary make_vocabulary(std::span<const Piece> pieces, const Tokenizer& tokenizer,
                           const WordOptions& words) {
  WordCounter counter;
  for (const Piece& piece : pieces) counter.add(tokenize(piece, tokenizer));
  return frequent_words(counter, words);
}

Ids encode(std::span<const Piece> pieces, const Tokenizer& tokenizer,
           const Vocabulary& vocabulary) {
  Ids ids;
  for (const Piece& piece : pieces) {
    const Ids of_piece = vocabulary.encode(tokenize(piece, tokenizer));
    ids.insert(ids.end(), of_piece.begin(), of_piece.end());
  }
  return ids;
}

std::vector<Example> cut_windows(std::span<const std::int32_t> ids, std::size_t context) {
  std::vector<Example> cut;
  for (std::size_t begin = 0; begin + 1 < ids.size(); begin += context) {
    const auto window = ids.subspan(begin, std::min(context + 1, ids.size() - begin));
    cut.push_back({.target = {window.begin(), window.end()}});
  }
  return cut;
}

[[noreturn]] void refuse_short(const std::string& part, const std::string& name,
                               const char* hint = "name a file with more text") {
  throw DataError(fmt::format("{}: found fewer than 2 tokens for {}, expected something to predict",
                              name, part),
                  hint);
}

/// A text divided into training and held-out pieces.
struct DividedText {
  std::vector<Piece> training, held_out;
};

/// Number of bytes to train on if `share` of all bytes are held out.
std::size_t bytes_to_train_on(std::span<const Piece> pieces, double share) {
  std::size_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.bytes();
  return static_cast<std::size_t>(std::llround((1.0 - share) * static_cast<double>(bytes)));
}

/// Holds out the last lines, those that begin after the border. If there is none, because the last
/// line is long, the line is divided at the first token that begins after the border.
DividedText hold_out(const std::vector<Piece>& pieces, double share, TextUnit unit) {
  const std::size_t border = bytes_to_train_on(pieces, share);
  std::size_t before = 0;
  bool ended_line = true;
  DividedText divided;
  for (const Piece& piece : pieces) {
    const bool held_out = before >= border && ended_line;
    (held_out || !divided.held_out.empty() ? divided.held_out : divided.training).push_back(piece);
    before += piece.bytes();
    ended_line = piece.ends_line;
  }
  if (!divided.held_out.empty() || share == 0.0) return divided;

  divided.training.clear();
  before = 0;
  for (const Piece& piece : pieces) {
    const std::size_t begin = border > before ? border - before : 0;
    const std::size_t cut = begin == 0 ? 0 : token_border(piece.text, begin, unit);
    if (cut > 0) {
      const bool whole = cut == piece.text.size();
      divided.training.push_back(
          {.text = piece.text.substr(0, cut), .ends_line = whole && piece.ends_line});
    }
    if (cut < piece.text.size()) {
      divided.held_out.push_back({.text = piece.text.substr(cut), .ends_line = piece.ends_line});
    }
    before += piece.bytes();
  }
  return divided;
}

}  // namespace

Tokenizer window_tokenizer(const WindowOptions& windows, const WordOptions& words) {
  if (windows.unit == TextUnit::word) return WordTokenizer(words.lowercase);
  return CharacterTokenizer(words.lowercase);
}

Corpus load_language_model_corpus(const TextFiles& files, const WindowOptions& windows,
                                  const WordOptions& words, const std::filesystem::path& base,
                                  const FixedVocabularies* fixed) {
  const Tokenizer tokenizer = window_tokenizer(windows, words);
  Corpus corpus;
  const bool has_training = fixed == nullptr || !files.train_text.empty();
  Text text;
  if (has_training) text = read("data.train_text", files.train_text, base, corpus);
  const bool has_own = !files.validation_text.empty();
  const DividedText divided = hold_out(pieces_of(text.lines, windows.unit),
                                       has_own ? 0.0 : windows.validation_share, windows.unit);
  if (has_training && divided.training.empty()) refuse_short("training", text.name);
  const Vocabulary vocabulary =
      fixed != nullptr ? fixed->source : make_vocabulary(divided.training, tokenizer, words);
  corpus.source_vocabulary = corpus.target_vocabulary = vocabulary;

  const auto cut = [&](std::span<const Piece> pieces) {
    return cut_windows(encode(pieces, tokenizer, vocabulary), windows.context);
  };
  corpus.train = cut(divided.training);
  if (has_training && corpus.train.empty()) refuse_short("training", text.name);
  const auto load = [&](const char* key, const std::string& file, const std::string& part) {
    const Text own = read(key, file, base, corpus);
    auto examples = cut(pieces_of(own.lines, windows.unit));
    if (examples.empty()) refuse_short(part, own.name);
    return examples;
  };
  if (has_own) {
    corpus.validation = load("data.validation_text", files.validation_text, "validation");
  } else if (has_training) {
    corpus.validation = cut(divided.held_out);
    if (corpus.validation.empty() && windows.validation_share > 0.0) {
      refuse_short(
          "validation", text.name,
          "name a file with more text, or raise data.validation_share; 0 holds nothing out");
    }
  }
  if (!files.test_text.empty()) {
    corpus.test = load("data.test_text", files.test_text, "testing");
  }
  return corpus;
}

}  // namespace tapestry
