#include "data/corpora/parallel_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "data/corpus.h"
#include "data/io/error.h"
#include "data/io/utf8.h"
#include "data/text/tokenizer.h"
#include "data/text/vocabulary.h"

namespace tapestry {

namespace fs = std::filesystem;

namespace {

/// The source and target file of one part of the corpus ("train", "validation", "test").
struct FilePair {
  std::string part;
  fs::path source;
  fs::path target;

  std::string source_key() const { return fmt::format("data.{}_source", part); }
  std::string target_key() const { return fmt::format("data.{}_target", part); }
  std::string source_name() const { return escaped(source.native()); }
  std::string target_name() const { return escaped(target.native()); }
};

/// The lines of a file pair.
struct TextPairs {
  std::vector<std::string> source;
  std::vector<std::string> target;
  std::vector<std::size_t> numbers{};  ///< of the lines, from 1; empty if all lines are here
};

void add_pair(TextPairs& pairs, std::string source, std::string target, std::size_t number) {
  pairs.source.push_back(std::move(source));
  pairs.target.push_back(std::move(target));
  pairs.numbers.push_back(number);
}

FilePair file_pair(const std::string& part, const std::string& source, const std::string& target,
                   const fs::path& base) {
  if (source.empty() || target.empty()) {
    throw DataError(
        fmt::format("data.{}_{}: found no file name", part, source.empty() ? "source" : "target"),
        fmt::format("set both data.{0}_source and data.{0}_target", part));
  }
  return {part, base / source, base / target};
}

/// The number of the first line, from 1, without a counterpart: only one of the two lines is blank,
/// or only one file has the line.
std::size_t first_mismatch(const TextPairs& lines) {
  const std::size_t both = std::min(lines.source.size(), lines.target.size());
  for (std::size_t i = 0; i < both; ++i) {
    if (is_blank(lines.source[i]) != is_blank(lines.target[i])) return i + 1;
  }
  return both + 1;
}

void check_line_counts(const FilePair& files, const TextPairs& lines) {
  if (lines.source.size() == lines.target.size()) return;
  throw DataError(fmt::format("{}: {} lines, but {} has {}: line n of one must be the translation "
                              "of line n of the other, and line {} is not",
                              files.source_name(), lines.source.size(), files.target_name(),
                              lines.target.size(), first_mismatch(lines)),
                  "find the first line that does not match, there or before, or make the two files "
                  "again from one source");
}

DataError half_blank(const FilePair& files, std::size_t line, bool source_is_blank) {
  std::string blank = files.source_name();
  std::string other = files.target_name();
  if (!source_is_blank) std::swap(blank, other);
  return DataError(
      fmt::format("{0}:{2}: the line is blank, but {1}:{2} is not", blank, other, line),
      "fill in the line, or delete it from both files");
}

TextPairs without_blank_pairs(const FilePair& files, TextPairs lines, BadLines& bad) {
  TextPairs kept;
  for (std::size_t i = 0; i < lines.source.size(); ++i) {
    const bool source_is_blank = is_blank(lines.source[i]);
    const bool target_is_blank = is_blank(lines.target[i]);
    if (source_is_blank != target_is_blank) bad.add(half_blank(files, i + 1, source_is_blank));
    if (source_is_blank || target_is_blank) continue;
    add_pair(kept, std::move(lines.source[i]), std::move(lines.target[i]), i + 1);
  }
  return kept;
}

void note_skipped(Corpus& corpus, const std::string& part, std::size_t before, std::size_t after,
                  const std::string& reason) {
  if (before == after) return;
  corpus.notes.push_back(
      fmt::format("{}: {} of {} pairs skipped: {}", part, before - after, before, reason));
}

void check_not_empty(const FilePair& files, const TextPairs& pairs, const std::string& hint) {
  if (!pairs.source.empty()) return;
  throw DataError(fmt::format("{}: no sentence pair remains of {} and {}", files.part,
                              files.source_name(), files.target_name()),
                  hint);
}

TextPairs read_pairs(const FilePair& files, OnBadLine on_bad_line, Corpus& corpus) {
  TextPairs lines;
  lines.source = read_corpus_lines(files.source_key(), files.source, corpus);
  lines.target = read_corpus_lines(files.target_key(), files.target, corpus);
  check_line_counts(files, lines);
  const std::size_t lines_read = lines.source.size();
  BadLines bad;
  TextPairs pairs = without_blank_pairs(files, std::move(lines), bad);
  bad.finish(on_bad_line, files.part, lines_read, corpus);
  note_skipped(corpus, files.part, lines_read, pairs.source.size() + bad.count(),
               "both lines are blank");
  check_not_empty(files, pairs,
                  bad.count() == 0 ? "every line is blank: name the files with the sentences"
                                   : "no line of one file has a counterpart in the other");
  return pairs;
}

TextPairs without_long_pairs(const TextPairs& pairs, const WordTokenizer& tokenizer,
                             std::size_t max_tokens) {
  TextPairs kept;
  for (std::size_t i = 0; i < pairs.source.size(); ++i) {
    const std::size_t longer =
        std::max(tokenizer.split(pairs.source[i]).size(), tokenizer.split(pairs.target[i]).size());
    if (longer > max_tokens) continue;
    add_pair(kept, pairs.source[i], pairs.target[i], pairs.numbers[i]);
  }
  return kept;
}

TextPairs read_training_pairs(const FilePair& files, const ParallelTextOptions& options,
                              const WordTokenizer& tokenizer, OnBadLine on_bad_line,
                              Corpus& corpus) {
  TextPairs pairs = read_pairs(files, on_bad_line, corpus);
  if (options.max_tokens == 0) return pairs;
  TextPairs kept = without_long_pairs(pairs, tokenizer, options.max_tokens);
  note_skipped(corpus, files.part, pairs.source.size(), kept.source.size(),
               fmt::format("a side is longer than {} tokens", options.max_tokens));
  check_not_empty(
      files, kept,
      fmt::format("raise data.max_tokens ({}): every pair has a longer side", options.max_tokens));
  return kept;
}

void count_words(WordCounter& counter, const std::vector<std::string>& sentences,
                 const WordTokenizer& tokenizer) {
  for (const std::string& sentence : sentences) counter.add(tokenizer.split(sentence));
}

void build_vocabularies(const TextPairs& training, bool shared, const WordOptions& words,
                        const WordTokenizer& tokenizer, Corpus& corpus) {
  WordCounter source, target;
  count_words(source, training.source, tokenizer);
  count_words(shared ? source : target, training.target, tokenizer);
  corpus.source_vocabulary = frequent_words(source, words);
  corpus.target_vocabulary = shared ? corpus.source_vocabulary : frequent_words(target, words);
}

std::vector<Example> encode_pairs(const TextPairs& pairs, const WordTokenizer& tokenizer,
                                  const Corpus& corpus) {
  std::vector<Example> encoded;
  encoded.reserve(pairs.source.size());
  for (std::size_t i = 0; i < pairs.source.size(); ++i) {
    encoded.push_back({corpus.source_vocabulary.encode(tokenizer.split(pairs.source[i])),
                       corpus.target_vocabulary.encode(tokenizer.split(pairs.target[i]))});
  }
  return encoded;
}

ExampleLines lines_of(const FilePair& files, const TextPairs& pairs) {
  return {.source_file = files.source_name(),
          .target_file = files.target_name(),
          .lines = pairs.numbers};
}

}  // namespace

Corpus load_parallel_text(const ParallelTextOptions& options, const WordOptions& words,
                          const fs::path& base, const FixedVocabularies* fixed,
                          OnBadLine on_bad_line) {
  const WordTokenizer tokenizer(words.lowercase);
  Corpus corpus;
  const auto left_out = [&](const std::string& source, const std::string& target) {
    return fixed != nullptr && source.empty() && target.empty();
  };
  TextPairs training;
  if (!left_out(options.train_source, options.train_target)) {
    const FilePair files = file_pair("train", options.train_source, options.train_target, base);
    training = read_training_pairs(files, options, tokenizer, on_bad_line, corpus);
    corpus.train_lines = lines_of(files, training);
  }
  if (fixed != nullptr) {
    corpus.source_vocabulary = fixed->source;
    corpus.target_vocabulary = fixed->target.value();
  } else {
    build_vocabularies(training, options.shared_vocabulary, words, tokenizer, corpus);
  }
  corpus.train = encode_pairs(training, tokenizer, corpus);

  const auto load_part = [&](const FilePair& part, std::vector<Example>& examples,
                             ExampleLines& lines) {
    const TextPairs pairs = read_pairs(part, on_bad_line, corpus);
    examples = encode_pairs(pairs, tokenizer, corpus);
    lines = lines_of(part, pairs);
  };
  if (!left_out(options.validation_source, options.validation_target)) {
    load_part(file_pair("validation", options.validation_source, options.validation_target, base),
              corpus.validation, corpus.validation_lines);
  }
  if (!options.test_source.empty() || !options.test_target.empty()) {
    load_part(file_pair("test", options.test_source, options.test_target, base), corpus.test,
              corpus.test_lines);
  }
  return corpus;
}

}  // namespace tapestry
