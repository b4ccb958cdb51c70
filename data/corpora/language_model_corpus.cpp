#include "data/corpora/language_model_corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "data/io/error.h"
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

Text read(const char* key, const std::string& file, const std::filesystem::path& base,
          Corpus& corpus) {
  const std::filesystem::path path = base / file;
  return {.name = escaped(path.native()), .lines = read_corpus_lines(key, path, corpus)};
}

/// The tokens of a line, followed by newline_token.
Tokens tokenize_line(const std::string& line, const Tokenizer& tokenizer) {
  Tokens tokens = split(tokenizer, line);
  tokens.emplace_back(newline_token);
  return tokens;
}

Vocabulary make_vocabulary(std::span<const std::string> lines, const Tokenizer& tokenizer,
                           const WordOptions& words) {
  WordCounter counter;
  for (const std::string& line : lines) counter.add(tokenize_line(line, tokenizer));
  return frequent_words(counter, words);
}

Ids encode(std::span<const std::string> lines, const Tokenizer& tokenizer,
           const Vocabulary& vocabulary) {
  Ids ids;
  for (const std::string& line : lines) {
    const Ids of_line = vocabulary.encode(tokenize_line(line, tokenizer));
    ids.insert(ids.end(), of_line.begin(), of_line.end());
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

/// Index of the first held-out line: the lines from there on have `share` of all bytes.
std::size_t first_held_out(const std::vector<std::string>& lines, double share) {
  std::size_t bytes = 0;
  for (const std::string& line : lines) bytes += line.size() + 1;
  const auto kept =
      static_cast<std::size_t>(std::llround((1.0 - share) * static_cast<double>(bytes)));
  std::size_t before = 0, line = 0;
  while (line < lines.size() && before < kept) before += lines[line++].size() + 1;
  return line;
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
  const auto all = std::span(text.lines);
  const std::size_t end =
      has_own ? all.size() : first_held_out(text.lines, windows.validation_share);
  if (has_training && end == 0) refuse_short("training", text.name);
  const Vocabulary vocabulary =
      fixed != nullptr ? fixed->source : make_vocabulary(all.first(end), tokenizer, words);
  corpus.source_vocabulary = corpus.target_vocabulary = vocabulary;

  const auto cut = [&](std::span<const std::string> lines) {
    return cut_windows(encode(lines, tokenizer, vocabulary), windows.context);
  };
  corpus.train = cut(all.first(end));
  if (has_training && corpus.train.empty()) refuse_short("training", text.name);
  const auto load = [&](const char* key, const std::string& file, const std::string& part) {
    const Text own = read(key, file, base, corpus);
    auto examples = cut(own.lines);
    if (examples.empty()) refuse_short(part, own.name);
    return examples;
  };
  if (has_own) {
    corpus.validation = load("data.validation_text", files.validation_text, "validation");
  } else if (has_training) {
    corpus.validation = cut(all.subspan(end));
    if (corpus.validation.empty() && windows.validation_share > 0.0) {
      refuse_short(
          "validation", text.name,
          "name a file with more lines, or raise data.validation_share; 0 holds nothing out");
    }
  }
  if (!files.test_text.empty()) {
    corpus.test = load("data.test_text", files.test_text, "testing");
  }
  return corpus;
}

}  // namespace tapestry
