// SPDX-License-Identifier: BSD-3-Clause
#include "data/readers/parallel_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/corpus.h"
#include "data/io/error.h"
#include "data/io/utf8.h"
#include "data/readers/corpus_text.h"
#include "data/text/tokenizer.h"
#include "data/text/vocabulary.h"

namespace tapestry {

namespace fs = std::filesystem;

namespace {

/// The source file and the target file of one part of the corpus ("train", "validation" or "test").
struct FilePair {
  std::string part;
  CorpusText source, target;

  LineFiles names() const { return {.source = source.name(), .target = target.name()}; }
};

FilePair file_pair(const std::string& part, const std::string& source, const std::string& target,
                   const fs::path& base, std::size_t number = 0) {
  if (source.empty() || target.empty()) {
    throw DataError(
        fmt::format("data.{}_{}: found no file name", part, source.empty() ? "source" : "target"),
        fmt::format("set both data.{0}_source and data.{0}_target", part));
  }
  return {.part = part,
          .source = {list_file_key(fmt::format("data.{}_source", part), number), base / source},
          .target = {list_file_key(fmt::format("data.{}_target", part), number), base / target}};
}

std::vector<FilePair> training_files(const ParallelTextOptions& options, const fs::path& base) {
  const auto& sources = options.train_source.names();
  const auto& targets = options.train_target.names();
  if (sources.size() <= 1 && targets.size() <= 1) {
    const auto only = [](const auto& names) { return names.empty() ? "" : names.front(); };
    return {file_pair("train", only(sources), only(targets), base)};
  }
  if (sources.size() != targets.size()) {
    throw DataError(
        fmt::format("data.train_target: found {} files, expected {}, one for each of train_source",
                    targets.size(), sources.size()),
        "name a target file for each source file");
  }
  std::vector<FilePair> files;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    files.push_back(file_pair("train", sources[i], targets[i], base, i));
  }
  return files;
}

/// A pair of lines that are not blank, and their line number, from 1.
struct TextPair {
  std::string source, target;
  std::size_t line;
};

DataError half_blank(const FilePair& files, std::size_t line, bool source_is_blank) {
  std::string blank = files.source.name();
  std::string other = files.target.name();
  if (!source_is_blank) std::swap(blank, other);
  return DataError(
      fmt::format("{0}:{2}: the line is blank, but {1}:{2} is not", blank, other, line),
      "fill in the line, or delete it from both files");
}

void note_skipped(std::vector<std::string>& notes, const std::string& part, std::size_t before,
                  std::size_t after, const std::string& reason) {
  if (before == after) return;
  notes.push_back(
      fmt::format("{}: {} of {} pairs skipped: {}", part, before - after, before, reason));
}

void require_pairs(const FilePair& files, std::size_t pairs, const std::string& hint) {
  if (pairs != 0) return;
  throw DataError(fmt::format("{}: no sentence pair remains of {} and {}", files.part,
                              files.source.name(), files.target.name()),
                  hint);
}

/// Reads the pairs of two files line by line.
class PairReader {
 public:
  explicit PairReader(FilePair& files)
      : files_(files), sources_(files.source.lines()), targets_(files.target.lines()) {}

  /// Returns the next pair without blank lines; nullopt at the end. Adds pairs with one blank line
  /// to `bad`.
  ///
  /// throws  DataError like CorpusText, and if the files have different numbers of lines
  std::optional<TextPair> next(BadLines& bad) {
    while (true) {
      auto source = sources_.next(), target = targets_.next();
      if (!source && !target) return std::nullopt;
      if (!source || !target) reject_longer(source ? sources_ : targets_, source.has_value());
      ++lines_;
      const bool source_is_blank = is_blank(*source), target_is_blank = is_blank(*target);
      if (source_is_blank != target_is_blank) {
        bad.add(half_blank(files_, lines_, source_is_blank));
        if (!mismatch_) mismatch_ = lines_;
      } else if (!source_is_blank) {
        return TextPair{.source = *std::move(source), .target = *std::move(target), .line = lines_};
      }
    }
  }

  /// The number of pairs that have been read, including pairs of blank lines.
  std::size_t lines() const { return lines_; }

 private:
  /// Throws an error that names the first line without a counterpart: a line that is blank in one
  /// file only, or missing in one file.
  [[noreturn]] void reject_longer(CorpusText::Lines& longer, bool source_is_longer) const {
    std::size_t all = lines_ + 1;
    while (longer.next()) ++all;
    throw DataError(
        fmt::format("{}: found {} lines, but {} has {}: line n of one file must be the "
                    "translation of line n of the other, and line {} is not",
                    files_.source.name(), source_is_longer ? all : lines_, files_.target.name(),
                    source_is_longer ? lines_ : all, mismatch_.value_or(lines_ + 1)),
        "find the first line that does not match, at or before this line, or create both "
        "files again from the same source");
  }

  FilePair& files_;
  CorpusText::Lines sources_, targets_;
  std::size_t lines_ = 0;
  std::optional<std::size_t> mismatch_;  ///< the first line that is blank on one side only
};

/// Calls f(pair, bad) for the pairs of lines of two files that are not blank, and adds notes on the
/// other pairs. May be called several times. f may add lines that are too long to `bad`.
///
/// first_pass  receives the bad lines of the first pass; if null, they are rejected or skipped
void for_each_pair(FilePair& files, BadLines bad, FirstPassBadLines* first_pass,
                   std::vector<std::string>& notes,
                   const std::function<void(TextPair, BadLines&)>& f) {
  PairReader reader(files);
  std::size_t pairs = 0;
  while (auto pair = reader.next(bad)) {
    ++pairs;
    f(*std::move(pair), bad);
  }
  if (first_pass != nullptr) {
    first_pass->add(bad, reader.lines(), pairs);
  } else {
    bad.finish(reader.lines(), pairs, notes);
  }
  note_skipped(notes, files.part, reader.lines(), pairs + bad.count(), "both lines are blank");
  require_pairs(files, pairs,
                bad.count() == 0
                    ? "every line is blank: name the files with the sentences"
                    : "name files that match: every line of one is blank in the other");
}

/// The tokenizers of both sides.
struct TokenizerPair {
  Tokenizer source, target;
};

TokenizerPair make_tokenizers(const Corpus& corpus, const WordOptions& words) {
  return {.source = sentence_tokenizer(corpus.source_vocabulary, words),
          .target = sentence_tokenizer(corpus.target_vocabulary, words)};
}

Example encode_pair(const TextPair& pair, const TokenizerPair& tokenizers, const Corpus& corpus) {
  return {corpus.source_vocabulary.encode(split(tokenizers.source, pair.source)),
          corpus.target_vocabulary.encode(split(tokenizers.target, pair.target))};
}

void require_short_pairs(const FilePair& files, std::size_t kept, std::size_t max_tokens) {
  require_pairs(
      files, kept,
      fmt::format("raise data.max_tokens ({}): every pair has a longer side", max_tokens));
}

/// The training set of parallel text. The first pass over the files makes the vocabularies, the
/// second pass encodes the examples.
class TrainingPairs {
 public:
  TrainingPairs(std::vector<FilePair> files, const ParallelTextOptions& options,
                const WordOptions& words, const fs::path& base, OnBadLine on_bad_line,
                const TrainingSetOptions& training)
      : files_(std::move(files)),
        options_(options),
        words_(words),
        base_(base),
        on_bad_line_(on_bad_line),
        first_pass_(on_bad_line),
        training_(training) {
    for (FilePair& each : files_) {
      source_.texts.insert(source_.texts.end(), {&each.source, &each.target});
      source_.corpora.push_back(each.names());
    }
    decide_on_cache(source_, training);
  }

  /// Makes the vocabularies. Subwords are learned from all pairs, words only from pairs that are
  /// not too long.
  void make_vocabularies(Corpus& corpus) try {
    if (words_.subwords.kind == SubwordKind::none) return collect_words(corpus);
    if (words_.subwords.kind == SubwordKind::file) return learn_subwords({}, {}, corpus);
    TextSample sources, targets;
    for_each([&](TextPair pair) {
      sources.add(std::move(pair.source));
      (options_.shared_vocabulary ? sources : targets).add(std::move(pair.target));
    });
    first_pass_.reject_any();
    learn_subwords(std::move(sources), std::move(targets), corpus);
  } catch (const DataError&) {
    first_pass_.reject_any();
    throw;
  }

  void encode(Corpus& corpus) {
    source_.options =
        fmt::format("parallel_text lowercase={} max_tokens={} skip={}", words_.lowercase,
                    options_.max_tokens, on_bad_line_ == OnBadLine::skip);
    const TokenizerPair tokenizers = make_tokenizers(corpus, words_);
    fill_training_set(
        training_, source_, corpus,
        [&](std::size_t number, const AddExample& add, std::vector<std::string>& notes) {
          encode(files_[number], tokenizers, corpus, add, notes);
        });
  }

 private:
  /// Calls f(pair) for all pairs in the first pass, before they are encoded.
  void for_each(const std::function<void(TextPair)>& f) {
    std::vector<std::string> unused;
    for (FilePair& files : files_) {
      for_each_pair(files, {files.part, on_bad_line_}, &first_pass_, unused,
                    [&](TextPair pair, BadLines&) { f(std::move(pair)); });
    }
  }

  void collect_words(Corpus& corpus) {
    const WordTokenizer tokenizer(words_.lowercase);
    WordCounter source, target;
    std::size_t kept = 0;
    for_each([&](const TextPair& pair) {
      const Tokens sources = tokenizer.split(pair.source);
      const Tokens targets = tokenizer.split(pair.target);
      if (is_too_long(sources.size(), targets.size())) return;
      source.add(sources);
      (options_.shared_vocabulary ? source : target).add(targets);
      ++kept;
    });
    require_short_pairs(files_.front(), kept, options_.max_tokens);
    corpus.source_vocabulary = frequent_words(source, words_);
    corpus.target_vocabulary =
        options_.shared_vocabulary ? corpus.source_vocabulary : frequent_words(target, words_);
  }

  void learn_subwords(TextSample sources, TextSample targets, Corpus& corpus) {
    const auto [source, target] = files_.front().names();
    if (options_.shared_vocabulary) {
      corpus.source_vocabulary = corpus.target_vocabulary =
          Vocabulary(make_subwords(std::move(sources), words_, SubwordSide::source, base_,
                                   fmt::format("{} with {}", source, target), corpus.notes));
      return;
    }
    const auto learn_target = [&, &place = target] {
      corpus.target_vocabulary = Vocabulary(make_subwords(
          std::move(targets), words_, SubwordSide::target, base_, place, corpus.notes));
    };
    try {
      corpus.source_vocabulary = Vocabulary(make_subwords(
          std::move(sources), words_, SubwordSide::source, base_, source, corpus.notes));
    } catch (const VocabularyTooLarge& error) {
      throw_smaller_maximum(error, learn_target);
    }
    learn_target();
  }

  /// Throws the error of the target vocabulary if its maximum size is smaller than the source
  /// vocabulary's, so that the maximum in the hint is right for both.
  template <class F>
  [[noreturn]] static void throw_smaller_maximum(const VocabularyTooLarge& source,
                                                 const F& learn_target) {
    try {
      learn_target();
    } catch (const VocabularyTooLarge& target) {
      if (target.max_size() < source.max_size()) throw;
    }
    throw VocabularyTooLarge(source);
  }

  void encode(FilePair& files, const TokenizerPair& tokenizers, const Corpus& corpus,
              const AddExample& add, std::vector<std::string>& notes) {
    const BadLines no_bad_lines(files.part, on_bad_line_, files.names(), training_.find_too_long);
    std::size_t pairs = 0, kept = 0;
    for_each_pair(files, no_bad_lines, nullptr, notes, [&](const TextPair& pair, BadLines& bad) {
      ++pairs;
      Example example = encode_pair(pair, tokenizers, corpus);
      if (is_too_long(example.source.size(), example.target.size())) return;
      ++kept;
      bad.add_if_too_long(example, pair.line);
      add(std::move(example), pair.line);
    });
    note_skipped(notes, files.part, pairs, kept,
                 fmt::format("a side is longer than {} tokens", options_.max_tokens));
    require_short_pairs(files, kept, options_.max_tokens);
  }

  bool is_too_long(std::size_t source, std::size_t target) const {
    return options_.max_tokens != 0 && std::max(source, target) > options_.max_tokens;
  }

  std::vector<FilePair> files_;
  TrainingSource source_;
  const ParallelTextOptions& options_;
  const WordOptions& words_;
  const fs::path& base_;
  OnBadLine on_bad_line_;
  FirstPassBadLines first_pass_;
  const TrainingSetOptions& training_;
};

/// Loads a held-out part.
void load_part(FilePair files, const WordOptions& words, OnBadLine on_bad_line,
               const FindTooLong& find_too_long, Corpus& corpus, std::vector<Example>& examples,
               ExampleLines& lines) {
  const TokenizerPair tokenizers = make_tokenizers(corpus, words);
  lines = {.source_file = files.source.name(),
           .target_file = files.target.name(),
           .lines = {},
           .target_texts = {}};
  const BadLines no_bad_lines(files.part, on_bad_line, files.names(), find_too_long);
  for_each_pair(files, no_bad_lines, nullptr, corpus.notes, [&](TextPair pair, BadLines& bad) {
    examples.push_back(encode_pair(pair, tokenizers, corpus));
    bad.add_if_too_long(examples.back(), pair.line);
    lines.lines.push_back(pair.line);
    lines.target_texts.push_back(std::move(pair.target));
  });
  files.source.record(corpus);
  files.target.record(corpus);
}

}  // namespace

Corpus load_parallel_text(const ParallelTextOptions& options, const WordOptions& words,
                          const fs::path& base, const FixedVocabularies* fixed,
                          OnBadLine on_bad_line, const TrainingSetOptions& training) {
  Corpus corpus;
  const bool has_targets = fixed != nullptr && fixed->target;
  if (fixed != nullptr) corpus.source_vocabulary = fixed->source;
  if (has_targets) corpus.target_vocabulary = *fixed->target;
  const auto left_out = [&](const auto& source, const auto& target) {
    return fixed != nullptr && source.empty() && target.empty();
  };
  if (!left_out(options.train_source, options.train_target)) {
    TrainingPairs pairs(training_files(options, base), options, words, base, on_bad_line, training);
    if (!has_targets) pairs.make_vocabularies(corpus);
    if (fixed != nullptr) corpus.source_vocabulary = fixed->source;
    pairs.encode(corpus);
  }
  if (!left_out(options.validation_source, options.validation_target)) {
    load_part(file_pair("validation", options.validation_source, options.validation_target, base),
              words, on_bad_line, training.find_too_long, corpus, corpus.validation,
              corpus.validation_lines);
  }
  if (!options.test_source.empty() || !options.test_target.empty()) {
    load_part(file_pair("test", options.test_source, options.test_target, base), words, on_bad_line,
              training.find_too_long, corpus, corpus.test, corpus.test_lines);
  }
  return corpus;
}

}  // namespace tapestry
