// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/corpus.h"
#include "data/examples.h"
#include "data/io/error.h"

namespace tapestry {

class CorpusText;  // defined in data/readers/corpus_text.h

/// How to handle bad lines of data files: lines without the expected fields, pairs with one blank
/// side, unknown labels, and examples that are too long for the model.
enum class OnBadLine {
  stop,  ///< throws an error that counts the bad lines and shows the first few
  skip   ///< skips bad lines and counts them in the notes of the corpus
};

/// Returns an error if the example of a line has too many tokens for the model, otherwise nullopt.
///
/// part     "train", "validation" or "test"
/// lengths  lengths of the example
/// files    files of the corpus
/// line     number of the line in the files, from 1
using FindTooLong =
    std::function<std::optional<DataError>(std::string_view part, const ExampleLengths& lengths,
                                           const LineFiles& files, std::size_t line)>;

/// Collects the unusable lines of one part of a corpus.
class BadLines {
 public:
  /// Maximum number of lines that a message names; other lines are only counted.
  static constexpr std::size_t max_named = 5;
  /// Maximum bytes of all named lines. The first line is always named.
  static constexpr std::size_t max_named_bytes = 800;

  /// An empty collection.
  ///
  /// part           "train", "validation" or "test"
  /// files          files of the lines
  /// find_too_long  see TrainingSetOptions; may be empty
  BadLines(std::string part, OnBadLine action, LineFiles files = {},
           FindTooLong find_too_long = {});

  /// Adds a line. The message of the error must begin with the place of the line.
  void add(const DataError& error) { bad_.add(error); }

  /// With OnBadLine::stop, adds the line of an example if find_too_long() returns an error for it.
  /// Such lines are valid but too long for the model. They are reported only if lines were also
  /// added with add().
  void add_if_too_long(const ExampleLengths& example, std::size_t line);

  /// Calls read(), which handles a line. Catches a DataError and adds it as a bad line.
  template <class Read>
  void attempt(Read&& read) try {
    read();
  } catch (const DataError& error) {
    add(error);
  }

  /// The number of lines that were added with add().
  std::size_t count() const { return bad_.count; }

  /// Ends the collection after `total` lines or examples. With OnBadLine::skip, adds a note to
  /// `notes` if count() is not 0.
  ///
  /// left    number of examples without bad lines
  /// throws  DataError with OnBadLine::stop if count() is not 0. The message counts all added
  ///         lines. It names the first lines of add(), then the first lines that are too long.
  void finish(std::size_t total, std::size_t left, std::vector<std::string>& notes) const;

  /// throws  the DataError of finish() if count() is not 0.
  void reject_any(std::size_t total, std::size_t left) const;

  /// The error for a file without usable lines: `empty` if no line was skipped, otherwise an error
  /// that names the first skipped line.
  DataError nothing_left(const std::string& name, const DataError& empty) const;

 private:
  struct Lines {
    void add(const DataError& error);

    std::size_t count = 0;
    std::vector<std::string> named{};  ///< messages of the first lines
    std::string hint{};                ///< hint of the first line
  };

  std::string part_;
  OnBadLine action_;
  LineFiles files_;
  FindTooLong find_too_long_;
  Lines bad_, too_long_;
};

/// Bad lines of training files in the first of two passes. The first pass makes the vocabularies.
/// The second pass encodes the lines, so only the second pass can report bad lines together with
/// lines that are too long.
class FirstPassBadLines {
 public:
  /// An empty collection. With OnBadLine::skip, its lines are never rejected.
  explicit FirstPassBadLines(OnBadLine action) : action_(action), first_("train", action) {}

  /// Adds the bad lines of the next file, which has `total` lines and `left` examples without bad
  /// lines.
  void add(const BadLines& bad, std::size_t total, std::size_t left);

  /// Rejects the lines before the second pass. Call this function before a slow step between the
  /// passes, and after a step fails, because bad lines may be the reason.
  ///
  /// throws  with OnBadLine::stop, the DataError of BadLines for the first file with bad lines
  void reject_any() const;

 private:
  OnBadLine action_;
  BadLines first_;         ///< lines of the first file that has bad lines
  std::size_t total_ = 0;  ///< number of lines of this file
  std::size_t left_ = 0;   ///< number of examples of this file without bad lines
};

/// Whether tokenized training examples are kept in a memory-mapped file instead of in memory.
enum class CacheUse {
  automatic,  ///< in a file if the training text is large
  always,     ///< in a file, for text of any size
  never       ///< in memory
};

/// Options of training sets that are read from text.
struct TrainingSetOptions {
  CacheUse cache = CacheUse::automatic;  ///< whether examples are kept in a file
  /// Existing folder for the file `train.examples`, which later runs reuse. If empty, a temporary
  /// file in $TMPDIR or /var/tmp is used, which is deleted immediately.
  std::filesystem::path cache_folder{};
  /// Whether to use a temporary file if `train.examples` is missing.
  bool cache_is_read_only = false;
  /// Minimum size in bytes of a large training text. Examples in memory take two to three times the
  /// size of their text.
  std::uint64_t large_text = std::uint64_t{1} << 28;
  /// Passes over each training corpus per epoch, in the order of the files. If empty, an epoch is
  /// one pass over each corpus.
  std::vector<std::size_t> corpus_weights{};
  /// With OnBadLine::stop, an error about bad lines of a file also counts the examples of this file
  /// for which this function returns an error. Errors that are thrown before the vocabularies exist
  /// do not count these examples. Such errors occur if a vocabulary cannot be made, and before
  /// subwords are learned, which is slow. Files without bad lines are not rejected. If empty, only
  /// bad lines are counted. The hint of each error must also apply to the examples before it.
  FindTooLong find_too_long{};
};

/// Whether the examples of a training text of this size are kept in a file.
bool is_cached(const TrainingSetOptions& options, std::uint64_t bytes);

/// Adds a training example; `line` is the number of its first line in the text file, or 0 for
/// windows of a text.
using AddExample = std::function<void(Example example, std::size_t line)>;

/// Input of training examples.
struct TrainingSource {
  std::vector<CorpusText*> texts{};  ///< all text files of the training set
  std::vector<LineFiles> corpora{};  ///< files of each corpus; at least one corpus
  std::string options{};             ///< all options that affect the examples, as text
  bool cached = false;               ///< whether examples are kept in a file
};

/// Sets source.cached to is_cached(). Cached texts may be larger than memory.
void decide_on_cache(TrainingSource& source, const TrainingSetOptions& options);

/// Fills in the training set of `corpus`, whose vocabularies must be set, in memory or in a file.
/// An existing file is reused if it has the current format and was made from the same text,
/// vocabularies and options. Otherwise it is recreated, with a note. Adds the texts to
/// corpus.files.
///
/// encode  encodes the examples of corpus `number` and adds notes; called for each
///         corpus, unless an existing file is reused, which also contains the notes
/// throws  any exception of `encode`; DataError if the numbers of weights and corpora differ;
///         OutputError if the file cannot be written.
void fill_training_set(const TrainingSetOptions& options, const TrainingSource& source,
                       Corpus& corpus,
                       const std::function<void(std::size_t number, const AddExample& add,
                                                std::vector<std::string>& notes)>& encode);

}  // namespace tapestry
