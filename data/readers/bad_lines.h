#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "data/io/error.h"

namespace tapestry {

/// What happens to lines of data files that cannot be used: lines without the expected fields,
/// pairs with one blank side, labels that are unknown, examples that are too long for the model.
enum class OnBadLine {
  stop,  ///< they are counted, and an error names the first of them
  skip   ///< they are left out, counted in the notes of the corpus
};

/// Collects the lines of one part of a corpus that cannot be used.
class BadLines {
 public:
  /// The number of lines that a message names; the others are counted.
  static constexpr std::size_t most_named = 5;
  /// The bytes of all named lines together; the first one is named whatever its length.
  static constexpr std::size_t most_bytes = 800;

  /// Adds a line; the message of the error begins with its place.
  void add(const DataError& error) { bad_.add(error); }

  /// Adds a line that can be used, but not by the model, since it has too many tokens. It is
  /// reported only together with lines of add().
  void add_too_long(const DataError& error) { too_long_.add(error); }

  /// Calls read(), which handles a line; a DataError is caught and added.
  template <class Read>
  void attempt(Read&& read) try {
    read();
  } catch (const DataError& error) {
    add(error);
  }

  /// The number of lines that were added with add().
  std::size_t count() const { return bad_.count; }

  /// Ends the collection of a part ("train", "validation" or "test") with `all` lines or examples.
  /// With OnBadLine::skip, adds a note to those of the corpus if count() is not 0.
  ///
  /// throws  DataError with OnBadLine::stop if count() is not 0. It counts all lines, also those
  ///         that are too long, and names the first of add(), then the first of add_too_long().
  void finish(OnBadLine action, const std::string& part, std::size_t all,
              std::vector<std::string>& notes) const;

  /// throws  the same DataError if count() of `all` lines is not 0.
  void refuse_any(std::size_t all) const;

  /// The error of a file without a line that can be used: `empty` if no line was skipped, else an
  /// error that names the first of them.
  DataError nothing_left(const std::string& name, const DataError& empty) const;

 private:
  struct Lines {
    void add(const DataError& error);

    std::size_t count = 0;
    std::vector<std::string> named{};  ///< the first messages
    std::string hint{};                ///< of the first line
  };

  Lines bad_, too_long_;
};

/// The bad lines of training files in the first of two passes. The first pass collects the texts
/// of the vocabularies. The second one encodes the lines, so that it can refuse bad lines together
/// with those that are too long.
class FirstPassBadLines {
 public:
  /// No bad lines yet; with OnBadLine::skip they are never refused.
  explicit FirstPassBadLines(OnBadLine action) : action_(action) {}

  /// Adds the bad lines of the next file, which has `all` lines.
  void add(const BadLines& bad, std::size_t all);

  /// Refuses the lines before the second pass. To be called before a slow step between the passes,
  /// and if a step fails, since the lines may be the reason.
  ///
  /// throws  with OnBadLine::stop the DataError of BadLines for the first file that has any
  void refuse_any() const;

 private:
  OnBadLine action_;
  BadLines first_;       ///< of the first file that has any
  std::size_t all_ = 0;  ///< the number of its lines
};

}  // namespace tapestry
