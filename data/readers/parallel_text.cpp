#include "data/readers/parallel_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
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

/// The source and target file of one part of the corpus ("train", "validation", "test").
struct FilePair {
  std::string part;
  CorpusText source, target;

  LineFiles names() const { return {.source = source.name(), .target = target.name()}; }
  std::uint64_t bytes() const { return source.size_now() + target.size_now(); }
  void allow_any_size() {
    source.allow_any_size();
    target.allow_any_size();
  }
  void record(Corpus& corpus) const {
    source.record(corpus);
    target.record(corpus);
  }
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

/// Two lines that are not blank, and their number, from 1.
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

void check_not_empty(const FilePair& files, std::size_t pairs, const std::string& hint) {
  if (pairs != 0) return;
  throw DataError(fmt::format("{}: no sentence pair remains of {} and {}", files.part,
                              files.source.name(), files.target.name()),
                  hint);
}

/// Rejects files with different numbers of lines.
///
/// mismatch  number of the first line, from 1, without a counterpart: only one of the two lines is
///           blank, or only one file has the line
void check_line_counts(const FilePair& files, std::size_t source_lines, std::size_t target_lines,
                       std::size_t mismatch) {
  if (source_lines == target_lines) return;
  throw DataError(
      fmt::format("{}: {} lines, but {} has {}: line n of one must be the translation "
                  "of line n of the other, and line {} is not",
                  files.source.name(), source_lines, files.target.name(), target_lines, mismatch),
      "find the first line that does not match, there or before, or make the two files "
      "again from one source");
}

/// Calls f(pair, bad) for the pairs of two files without blank lines, and adds notes on
/// the others. May be called several times. f may add lines that are too long to `bad`.
///
/// first_pass  gets the bad lines in the first of two passes; null: they are rejected or skipped
void for_each_pair(FilePair& files, OnBadLine on_bad_line, FirstPassBadLines* first_pass,
                   std::vector<std::string>& notes,
                   const std::function<void(TextPair, BadLines&)>& f) {
  CorpusText::Lines sources = files.source.lines();
  CorpusText::Lines targets = files.target.lines();
  BadLines bad;
  std::size_t lines = 0, pairs = 0;
  std::optional<std::size_t> mismatch;
  while (true) {
    auto source = sources.next();
    auto target = targets.next();
    if (!source && !target) break;
    if (!source || !target) {
      const std::size_t both = lines;
      std::size_t longer = both + 1;
      while ((source ? sources : targets).next()) ++longer;
      check_line_counts(files, source ? longer : both, source ? both : longer,
                        mismatch.value_or(both + 1));
    }
    ++lines;
    const bool source_is_blank = is_blank(*source);
    const bool target_is_blank = is_blank(*target);
    if (source_is_blank != target_is_blank) {
      bad.add(half_blank(files, lines, source_is_blank));
      if (!mismatch) mismatch = lines;
    }
    if (source_is_blank || target_is_blank) continue;
    ++pairs;
    f({.source = *std::move(source), .target = *std::move(target), .line = lines}, bad);
  }
  if (first_pass != nullptr) {
    first_pass->add(bad, lines);
  } else {
    bad.finish(on_bad_line, files.part, lines, notes);
  }
  note_skipped(notes, files.part, lines, pairs + bad.count(), "both lines are blank");
  check_not_empty(files, pairs,
                  bad.count() == 0 ? "every line is blank: name the files with the sentences"
                                   : "no line of one file has a counterpart in the other");
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

void check_any_short(const FilePair& files, std::size_t kept, std::size_t max_tokens) {
  check_not_empty(
      files, kept,
      fmt::format("raise data.max_tokens ({}): every pair has a longer side", max_tokens));
}

/// The training set of parallel text: its vocabularies and then its examples, each in one pass over
/// the files.
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
    std::uint64_t bytes = 0;
    for (const FilePair& each : files_) bytes += each.bytes();
    cached_ = is_cached(training_, bytes);
    if (!cached_) return;
    for (FilePair& each : files_) each.allow_any_size();
  }

  /// Makes the vocabularies. Subwords are learned from all pairs, words come from the pairs that
  /// are kept.
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
    TrainingSource source{.texts = {}, .options = origin(), .corpora = {}};
    for (FilePair& files : files_) {
      source.texts.insert(source.texts.end(), {&files.source, &files.target});
      source.corpora.push_back(files.names());
    }
    const TokenizerPair tokenizers = make_tokenizers(corpus, words_);
    fill_training_set(
        training_, cached_, source, corpus,
        [&](std::size_t number, const AddExample& add, std::vector<std::string>& notes) {
          encode(files_[number], tokenizers, corpus, add, notes);
        });
    for (const FilePair& files : files_) files.record(corpus);
  }

 private:
  /// Calls f(pair) for all pairs, before the pass that encodes them.
  void for_each(const std::function<void(TextPair)>& f) {
    std::vector<std::string> unused;
    for (FilePair& files : files_) {
      for_each_pair(files, on_bad_line_, &first_pass_, unused,
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
    check_any_short(files_.front(), kept, options_.max_tokens);
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
    corpus.source_vocabulary = Vocabulary(make_subwords(
        std::move(sources), words_, SubwordSide::source, base_, source, corpus.notes));
    corpus.target_vocabulary = Vocabulary(make_subwords(
        std::move(targets), words_, SubwordSide::target, base_, target, corpus.notes));
  }

  void encode(FilePair& files, const TokenizerPair& tokenizers, const Corpus& corpus,
              const AddExample& add, std::vector<std::string>& notes) {
    const LineFiles names = files.names();
    std::size_t pairs = 0, kept = 0;
    for_each_pair(files, on_bad_line_, nullptr, notes, [&](const TextPair& pair, BadLines& bad) {
      ++pairs;
      Example example = encode_pair(pair, tokenizers, corpus);
      if (is_too_long(example.source.size(), example.target.size())) return;
      ++kept;
      add_if_too_long(example, files.part, names, pair.line, on_bad_line_, training_.find_too_long,
                      bad);
      add(std::move(example), pair.line);
    });
    note_skipped(notes, files.part, pairs, kept,
                 fmt::format("a side is longer than {} tokens", options_.max_tokens));
    check_any_short(files, kept, options_.max_tokens);
  }

  bool is_too_long(std::size_t source, std::size_t target) const {
    return options_.max_tokens != 0 && std::max(source, target) > options_.max_tokens;
  }

  /// The options on which the examples depend, apart from the vocabularies.
  std::string origin() const {
    return fmt::format("parallel_text lowercase={} max_tokens={} skip={}", words_.lowercase,
                       options_.max_tokens, on_bad_line_ == OnBadLine::skip);
  }

  std::vector<FilePair> files_;
  const ParallelTextOptions& options_;
  const WordOptions& words_;
  const fs::path& base_;
  OnBadLine on_bad_line_;
  FirstPassBadLines first_pass_;
  const TrainingSetOptions& training_;
  bool cached_ = false;
};

/// Loads a held-out part.
void load_part(FilePair files, const WordOptions& words, OnBadLine on_bad_line,
               const FindTooLong& find_too_long, Corpus& corpus, std::vector<Example>& examples,
               ExampleLines& lines) {
  const TokenizerPair tokenizers = make_tokenizers(corpus, words);
  const LineFiles names = files.names();
  lines = {
      .source_file = names.source, .target_file = names.target, .lines = {}, .target_texts = {}};
  for_each_pair(files, on_bad_line, nullptr, corpus.notes, [&](TextPair pair, BadLines& bad) {
    examples.push_back(encode_pair(pair, tokenizers, corpus));
    add_if_too_long(examples.back(), files.part, names, pair.line, on_bad_line, find_too_long, bad);
    lines.lines.push_back(pair.line);
    lines.target_texts.push_back(words.lowercase ? to_lowercase(pair.target)
                                                 : std::move(pair.target));
  });
  files.record(corpus);
}

}  // namespace

Corpus load_parallel_text(const ParallelTextOptions& options, const WordOptions& words,
                          const fs::path& base, const FixedVocabularies* fixed,
                          OnBadLine on_bad_line, const TrainingSetOptions& training) {
  Corpus corpus;
  if (fixed != nullptr) {
    corpus.source_vocabulary = fixed->source;
    corpus.target_vocabulary = fixed->target.value();
  }
  const auto left_out = [&](const auto& source, const auto& target) {
    return fixed != nullptr && source.empty() && target.empty();
  };
  if (!left_out(options.train_source, options.train_target)) {
    TrainingPairs pairs(training_files(options, base), options, words, base, on_bad_line, training);
    if (fixed == nullptr) pairs.make_vocabularies(corpus);
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
