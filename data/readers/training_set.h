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

class CorpusText;  // data/readers/corpus_text.h

/// Handling of lines of data files that cannot be used: lines without the expected fields,
/// pairs with one blank side, labels that are unknown, examples that are too long for the model.
enum class OnBadLine {
  stop,  ///< they are counted, and an error names the first of them
  skip   ///< they are left out, counted in the notes of the corpus
};

/// The error for an example of a line that has too many tokens for the model; nullopt for others.
///
/// part     "train", "validation" or "test"
/// lengths  of the example
/// files    of the corpus
/// line     the number of the line, from 1
using FindTooLong =
    std::function<std::optional<DataError>(std::string_view part, const ExampleLengths& lengths,
                                           const LineFiles& files, std::size_t line)>;

/// Collects the lines of one part of a corpus that cannot be used.
class BadLines {
 public:
  /// The number of lines that a message names; the others are counted.
  static constexpr std::size_t max_named = 5;
  /// Maximum bytes of all named lines; the first is named whatever its length.
  static constexpr std::size_t max_named_bytes = 800;

  /// No lines yet.
  ///
  /// part           "train", "validation" or "test"
  /// files          that the lines are in
  /// find_too_long  see TrainingSetOptions; may be empty
  BadLines(std::string part, OnBadLine action, LineFiles files = {},
           FindTooLong find_too_long = {});

  /// Adds a line; the message of the error begins with its place.
  void add(const DataError& error) { bad_.add(error); }

  /// With OnBadLine::stop, adds the line of an example for which find_too_long() returns an error:
  /// a line that can be used, but not by the model. It is reported only together with lines of
  /// add().
  void add_if_too_long(const ExampleLengths& example, std::size_t line);

  /// Calls read(), which handles a line; a DataError is caught and added.
  template <class Read>
  void attempt(Read&& read) try {
    read();
  } catch (const DataError& error) {
    add(error);
  }

  /// The number of lines that were added with add().
  std::size_t count() const { return bad_.count; }

  /// Ends the collection after `all` lines or examples. With OnBadLine::skip, adds a note to the
  /// corpus if count() is not 0.
  ///
  /// throws  DataError with OnBadLine::stop if count() is not 0. It counts all lines, also those
  ///         that are too long, and names the first of add(), then the first that are too long.
  void finish(std::size_t all, std::vector<std::string>& notes) const;

  /// throws  the same DataError if count() of `all` lines is not 0.
  void reject_any(std::size_t all) const;

  /// The error of a file without a line that can be used: `empty` if no line was skipped, else an
  /// error that names the first of them.
  DataError nothing_left(const std::string& name, const DataError& empty) const;

 private:
  struct Lines {
    void add(const DataError& error);

    std::size_t count = 0;
    std::vector<std::string> named{};  ///< the first messages
    std::string hint{};                ///< hint of the first line
  };

  std::string part_;
  OnBadLine action_;
  LineFiles files_;
  FindTooLong find_too_long_;
  Lines bad_, too_long_;
};

/// The bad lines of training files in the first of two passes. The first pass collects the texts
/// of the vocabularies. The second one encodes the lines, so that it can reject bad lines together
/// with lines that are too long.
class FirstPassBadLines {
 public:
  /// No bad lines yet; with OnBadLine::skip they are never rejected.
  explicit FirstPassBadLines(OnBadLine action) : action_(action), first_("train", action) {}

  /// Adds the bad lines of the next file, which has `all` lines.
  void add(const BadLines& bad, std::size_t all);

  /// Rejects the lines before the second pass. Call it before a slow step between the passes, and
  /// if a step fails, since the lines may be the reason.
  ///
  /// throws  with OnBadLine::stop the DataError of BadLines for the first file that has any
  void reject_any() const;

 private:
  OnBadLine action_;
  BadLines first_;       ///< lines of the first file that has any
  std::size_t all_ = 0;  ///< the number of its lines
};

/// Whether tokenized training examples are kept in a memory-mapped file instead of in memory.
enum class CacheUse {
  automatic,  ///< if the training text is large
  always,     ///< in any case
  never       ///< in no case
};

/// Options of training sets that are read from text.
struct TrainingSetOptions {
  CacheUse cache = CacheUse::automatic;  ///< whether examples are kept in a file
  /// Where the file `train.examples` is kept and found again; empty: the file is a temporary one
  /// (in $TMPDIR or /var/tmp), which is deleted at once. Must exist.
  std::filesystem::path cache_folder{};
  bool cache_is_read_only = false;  ///< a file that is not found is a temporary one
  /// Minimum size in bytes of a training text that is large. Examples in memory take two to
  /// three times the size of their text.
  std::uint64_t large_text = std::uint64_t{1} << 28;
  /// Passes over each training corpus per epoch, in the order of the files; empty: one each.
  std::vector<std::size_t> corpus_weights{};
  /// With OnBadLine::stop, an error about bad lines also counts the examples of the file, of any
  /// part, for which this returns an error. An error that is thrown before the
  /// vocabularies are made does not count them: because these cannot be made, or because subwords
  /// would have to be learned first, which is slow. A file without bad
  /// lines is not rejected. Empty: only bad lines are counted.
  FindTooLong find_too_long{};
};

/// Whether training text of this size is kept in a file.
bool is_cached(const TrainingSetOptions& options, std::uint64_t bytes);

/// Adds a training example; `line` is its first line in its text file, 0 for windows of a text.
using AddExample = std::function<void(Example example, std::size_t line)>;

/// Input of training examples.
struct TrainingSource {
  std::vector<CorpusText*> texts{};  ///< all text files
  std::vector<LineFiles> corpora{};  ///< files of each corpus; one or more
  std::string options{};             ///< all options on which the examples depend, as text
  bool cached = false;               ///< whether the examples are kept in a file
};

/// Sets source.cached by is_cached(); the texts may then be larger than the memory.
void decide_on_cache(TrainingSource& source, const TrainingSetOptions& options);

/// Fills in the training set of `corpus`, whose vocabularies are known: in memory, or in a file,
/// which is opened if it was made from the same text, vocabularies and options by this version of
/// the format, and is recreated otherwise, with a note if one of that name was there. Adds the
/// texts to corpus.files.
///
/// encode  encodes the examples of the corpus with this number and adds notes; called for each
///         corpus, unless the file can be used: the file then has the notes
/// throws  what `encode` throws; DataError if the numbers of weights and corpora differ;
///         OutputError if the file cannot be written.
void fill_training_set(const TrainingSetOptions& options, const TrainingSource& source,
                       Corpus& corpus,
                       const std::function<void(std::size_t number, const AddExample& add,
                                                std::vector<std::string>& notes)>& encode);

}  // namespace tapestry
