// SPDX-License-Identifier: BSD-3-Clause
#include "data/readers/training_set.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <system_error>
#include <utility>

#include "data/example_file.h"
#include "data/io/error.h"
#include "data/io/file.h"
#include "data/readers/corpus_text.h"
#include "data/text/subwords.h"

namespace tapestry {
namespace {

namespace fs = std::filesystem;

using Encode = std::function<void(std::size_t, const AddExample&, std::vector<std::string>&)>;

constexpr const char* file_name = "train.examples";

/// A hash of the input from which examples are made, see ExampleFile.
std::uint64_t compute_origin(const TrainingSource& source, const Corpus& corpus) {
  Xxh3 hash;
  const auto add_text = [&hash](std::string_view text) {
    const std::uint64_t length = text.size();
    hash.add(&length, sizeof length);
    hash.add(text.data(), text.size());
  };
  add_text(source.options);
  for (CorpusText* text : source.texts) {
    const FileDigest& digest = text->digest();
    hash.add(&digest.bytes, sizeof digest.bytes);
    hash.add(&digest.digest, sizeof digest.digest);
  }
  for (const Vocabulary* words : {&corpus.source_vocabulary, &corpus.target_vocabulary}) {
    add_text(words->to_text());
    add_text(words->subwords() ? words->subwords()->serialized() : "");
  }
  return hash.value();
}

/// Opens the file of the training examples, or creates it.
class CachedExamples {
 public:
  CachedExamples(const TrainingSetOptions& options, std::uint64_t origin, const Corpus& corpus,
                 std::size_t corpora)
      : temporary_(options.cache_folder.empty() || options.cache_is_read_only),
        new_path_(temporary_ ? temporary_path() : options.cache_folder / file_name),
        existing_path_(options.cache_folder.empty() ? fs::path()
                                                    : options.cache_folder / file_name),
        origin_(origin),
        corpora_(corpora),
        ids_(std::max(corpus.source_vocabulary.size(), corpus.target_vocabulary.size())) {}
  CachedExamples(const CachedExamples&) = delete;
  CachedExamples& operator=(const CachedExamples&) = delete;
  ~CachedExamples() {
    std::error_code ignored;
    if (temporary_) fs::remove(new_path_, ignored);
  }

  /// The existing file, or null if it is missing. If it cannot be used, returns null and adds a
  /// note.
  std::shared_ptr<const ExampleFile> find(std::vector<std::string>& notes) const {
    if (existing_path_.empty()) return nullptr;
    const auto recreated = [&notes](const DataError& error) {
      notes.push_back(fmt::format("warning: {}; it is recreated", error.what()));
      return nullptr;
    };
    try {
      auto file = open(existing_path_);
      if (file->parts().size() == corpora_) return file;
      throw UnusableExampleFile(
          fmt::format("{}: found examples of {} corpora, expected {}", existing_path_.string(),
                      file->parts().size(), corpora_),
          "");
    } catch (const UnusableExampleFile& error) {
      return recreated(error);
    } catch (const UnopenedFile& error) {
      std::error_code ignored;
      if (fs::exists(fs::symlink_status(existing_path_, ignored))) return recreated(error);
      return nullptr;
    }
  }

  /// Makes the file of the examples that encode() adds.
  ///
  /// counts  number of examples of each corpus; filled in by encode()
  std::shared_ptr<const ExampleFile> make(
      const std::function<void(const AddExample&, std::vector<std::string>& notes)>& encode,
      const std::vector<std::uint64_t>& counts) const {
    ExampleFileWriter writer(new_path_, ids_);
    std::vector<std::string> notes;
    encode([&](const Example& example, std::size_t line) { writer.add(example, line); }, notes);
    writer.finish(origin_, counts, notes);
    return open(new_path_);
  }

 private:
  static fs::path temporary_path() {
    const char* folder = std::getenv("TMPDIR");
    static int number = 0;
    return fs::path(folder != nullptr && *folder != '\0' ? folder : "/var/tmp") /
           fmt::format("tapestry-{}-{}.examples", ::getpid(), number++);
  }

  std::shared_ptr<const ExampleFile> open(const fs::path& path) const {
    return std::make_shared<const ExampleFile>(path, origin_, ids_);
  }

  bool temporary_;
  fs::path new_path_;       ///< path of a new file
  fs::path existing_path_;  ///< path of an existing file, or empty
  std::uint64_t origin_;
  std::size_t corpora_;
  std::size_t ids_;
};

std::vector<WeightedExamples> weighted(const std::vector<std::uint64_t>& counts,
                                       const std::vector<std::size_t>& weights) {
  std::vector<WeightedExamples> parts;
  if (counts.size() == 1 && (weights.empty() || weights.front() == 1)) return parts;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    parts.push_back({.count = counts[i], .weight = weights.empty() ? 1 : weights[i]});
  }
  return parts;
}

void require_weights(const std::vector<std::size_t>& weights, std::size_t corpora) {
  if (weights.empty() || weights.size() == corpora) return;
  throw DataError(fmt::format("data.corpus_weights: found {} weights, expected {}, one for each "
                              "training corpus",
                              weights.size(), corpora),
                  "write one weight for each file");
}

}  // namespace

bool is_cached(const TrainingSetOptions& options, std::uint64_t bytes) {
  if (options.cache == CacheUse::automatic) return bytes >= options.large_text;
  return options.cache == CacheUse::always;
}

void decide_on_cache(TrainingSource& source, const TrainingSetOptions& options) {
  std::uint64_t bytes = 0;
  for (const CorpusText* text : source.texts) bytes += text->size_now();
  source.cached = is_cached(options, bytes);
  if (!source.cached) return;
  for (CorpusText* text : source.texts) text->allow_any_size();
}

void fill_training_set(const TrainingSetOptions& options, const TrainingSource& source,
                       Corpus& corpus, const Encode& encode) {
  const std::size_t corpora = source.corpora.size();
  require_weights(options.corpus_weights, corpora);
  std::vector<std::uint64_t> counts;
  const auto encode_all = [&](const AddExample& add, std::vector<std::string>& notes) {
    for (std::size_t number = 0; number < corpora; ++number) {
      counts.push_back(0);
      encode(
          number,
          [&](Example example, std::size_t line) {
            add(std::move(example), line);
            ++counts.back();
          },
          notes);
    }
  };
  if (source.cached) {
    const CachedExamples cache(options, compute_origin(source, corpus), corpus, corpora);
    corpus.train_file = cache.find(corpus.notes);
    if (!corpus.train_file) corpus.train_file = cache.make(encode_all, counts);
    counts = corpus.train_file->parts();
    corpus.notes.insert(corpus.notes.end(), corpus.train_file->notes().begin(),
                        corpus.train_file->notes().end());
  } else {
    encode_all(
        [&](Example example, std::size_t line) {
          corpus.train.push_back(std::move(example));
          if (line != 0) corpus.train_lines.lines.push_back(line);
        },
        corpus.notes);
  }
  const LineFiles& first = source.corpora.front();
  const bool of_lines = !first.source.empty();
  if (of_lines) {
    corpus.train_lines.source_file = first.source;
    corpus.train_lines.target_file = first.target;
  }
  corpus.train_weights = weighted(counts, options.corpus_weights);
  if (corpora > 1 && of_lines) corpus.train_line_files = source.corpora;
  for (const CorpusText* text : source.texts) text->record(corpus);
}

namespace {

/// Appends a message unless the limits of BadLines are reached.
void append(const std::string& message, std::vector<std::string>& named) {
  if (named.size() == BadLines::max_named) return;
  std::size_t bytes = message.size();
  for (const std::string& each : named) bytes += each.size();
  if (named.empty() || bytes <= BadLines::max_named_bytes) named.push_back(message);
}

}  // namespace

void BadLines::Lines::add(const DataError& error) {
  if (count++ == 0) hint = error.hint();
  append(error.what(), named);
}

BadLines::BadLines(std::string part, OnBadLine action, LineFiles files, FindTooLong find_too_long)
    : part_(std::move(part)),
      action_(action),
      files_(std::move(files)),
      find_too_long_(std::move(find_too_long)) {}

void BadLines::add_if_too_long(const ExampleLengths& example, std::size_t line) {
  if (action_ == OnBadLine::skip || !find_too_long_) return;
  const auto error = find_too_long_(part_, example, files_, line);
  if (!error) return;
  too_long_.add(*error);
  // The last hint also applies to the examples before it, see TrainingSetOptions::find_too_long.
  too_long_.hint = error->hint();
}

void BadLines::finish(std::size_t total, std::size_t left, std::vector<std::string>& notes) const {
  if (action_ == OnBadLine::stop) reject_any(total, left);
  if (bad_.count == 0) return;
  notes.push_back(fmt::format("{}: {} of {} skipped as unusable, for example {}", part_, bad_.count,
                              total, bad_.named.front()));
}

void BadLines::reject_any(std::size_t total, std::size_t left) const {
  if (bad_.count == 0) return;
  const std::size_t added = bad_.count + too_long_.count;
  if (added == 1) throw DataError(bad_.named.front(), bad_.hint);
  std::vector<std::string> named = bad_.named;
  for (const std::string& each : too_long_.named) append(each, named);
  std::string message = fmt::format("{}", fmt::join(named, "\n"));
  if (added > named.size()) message += fmt::format("\nand {} more", added - named.size());
  message += fmt::format("\n{} of {} cannot be used", added, total);
  std::string hint = bad_.hint;
  if (too_long_.count > 0) {
    message += fmt::format(", {} of them with too many tokens", too_long_.count);
    hint += "\n  " + too_long_.hint;
  }
  if (left > too_long_.count) hint += "\n  or leave out these lines with data.on_bad_line=skip";
  throw DataError(message, hint);
}

DataError BadLines::nothing_left(const std::string& name, const DataError& empty) const {
  if (bad_.count == 0) return empty;
  return DataError(fmt::format("{}: no line can be used, for example {}", name, bad_.named.front()),
                   "correct these lines or name another file");
}

void FirstPassBadLines::add(const BadLines& bad, std::size_t total, std::size_t left) {
  if (first_.count() != 0) return;
  first_ = bad;
  total_ = total;
  left_ = left;
}

void FirstPassBadLines::reject_any() const {
  if (action_ == OnBadLine::stop) first_.reject_any(total_, left_);
}

}  // namespace tapestry
