#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "data/xxh3.h"

namespace tapestry {

/// Longest line of a text in bytes: far more than any model reads at once, and little memory.
inline constexpr std::size_t longest_line = std::size_t{1} << 20;

/// Reads a UTF-8 text line by line, in memory that does not grow with the text. "\n" ends a line
/// and so does "\r\n"; the last line may lack it. A byte order mark at the front is skipped.
///
/// What other programs would read in another way is refused rather than guessed at: a carriage
/// return alone, which ends lines for some, and a byte order mark in the middle, which is invisible
/// and makes two words of one.
class LineReader {
 public:
  /// `name` stands for the text in messages, `hint` is the advice if it cannot be read. The
  /// descriptor stays the caller's.
  LineReader(int descriptor, std::string name, std::string hint);

  /// The next line without its end, or nothing at the end of the text.
  ///
  /// throws  DataError with the name and the reason if the text cannot be read; with line and byte
  ///         in it, both counted from 1, if the text is UTF-16 or UTF-32, or the line is longer
  ///         than longest_line or holds a byte that is NUL, not UTF-8, a carriage return alone or
  ///         of a byte order mark.
  std::optional<std::string> next();

  /// Number of the line that next() gave or refused last, from 1.
  std::size_t line_number() const { return line_number_; }

  /// Of what has been read, which after the last line is the whole text.
  std::uint64_t bytes_read() const { return bytes_read_; }
  std::uint64_t digest() const { return hash_.value(); }

 private:
  /// Whether a line feed follows what is there of a line.
  enum class Ended { yes, no, unknown };

  bool read_more();
  std::string_view checked(std::string_view line, Ended ended) const;
  void refuse_other_encoding(std::string_view text) const;
  void refuse_byte(std::string_view line, std::size_t position, std::string_view problem,
                   std::string_view hint) const;

  int descriptor_;
  std::string name_, hint_;
  std::string buffer_;     ///< the block read last, and what it goes on with
  std::size_t begin_ = 0;  ///< of the next line in the buffer
  std::size_t line_number_ = 0;
  std::uint64_t bytes_read_ = 0;
  Xxh3 hash_;
};

}  // namespace tapestry
