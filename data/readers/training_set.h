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
#include "data/readers/bad_lines.h"

namespace tapestry {

class CorpusText;  // data/readers/corpus_text.h

/// Whether tokenized training examples are kept in a memory-mapped file instead of in memory.
enum class CacheUse {
  automatic,  ///< if the training text is large
  always,     ///< in any case
  never       ///< in no case
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
  /// lines is not refused. Empty: bad lines alone are counted.
  FindTooLong find_too_long{};
};

/// Whether training text of this size is kept in a file.
bool is_cached(const TrainingSetOptions& options, std::uint64_t bytes);

/// Adds a training example; `line` is its first line in its text file, 0 for windows of a text.
using AddExample = std::function<void(Example example, std::size_t line)>;

/// What training examples are made from.
struct TrainingSource {
  std::vector<CorpusText*> texts;    ///< all text files
  std::string options;               ///< all options on which the examples depend, as text
  std::vector<LineFiles> corpora{};  ///< of each corpus; one or more
};

/// With OnBadLine::stop, adds the line of an example to `bad` if find_too_long() returns an error
/// for it.
///
/// find_too_long  see TrainingSetOptions; may be empty
void add_if_too_long(const ExampleLengths& example, std::string_view part, const LineFiles& files,
                     std::size_t line, OnBadLine on_bad_line, const FindTooLong& find_too_long,
                     BadLines& bad);

/// Fills in the training set of `corpus`, whose vocabularies are known: in memory, or in a file,
/// which is opened if it was made from the same text, vocabularies and options by this version of
/// the format, and is recreated otherwise, with a note if one of that name was there.
///
/// cached  is_cached()
/// encode  encodes the examples of the corpus with this number and adds notes; called for each
///         corpus, unless the file can be used: the file then has the notes
/// throws  what `encode` throws; DataError if the numbers of weights and corpora differ;
///         OutputError if the file cannot be written.
void fill_training_set(const TrainingSetOptions& options, bool cached, const TrainingSource& source,
                       Corpus& corpus,
                       const std::function<void(std::size_t number, const AddExample& add,
                                                std::vector<std::string>& notes)>& encode);

}  // namespace tapestry
