#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/io/file.h"

namespace tapestry {

/// The byte order mark of UTF-8.
inline constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

/// A Unicode encoding that is not UTF-8.
struct OtherEncoding {
  std::string_view mark;    ///< its byte order mark
  std::string_view name;    ///< for messages: "little-endian UTF-16"
  std::string_view family;  ///< its name for iconv, which reads the byte order from the mark
};

/// The encoding whose byte order mark a text starts with, or null.
const OtherEncoding* detect_other_encoding(std::string_view text);

/// Longest line of a text in bytes: more than any model reads at once, and little memory.
inline constexpr std::size_t longest_line = std::size_t{1} << 20;

/// Reads a UTF-8 text line by line, in memory that does not grow with the text. A line ends with
/// "\n" or "\r\n"; the last line may end without either. A byte order mark at the front is skipped.
///
/// Refuses what programs read in different ways: a carriage return alone, which ends a line for
/// some of them, and a byte order mark in the middle, which is invisible and splits words.
class LineReader {
 public:
  /// `name` stands for the text in messages, `hint` is the advice if it cannot be read. The
  /// descriptor stays the caller's.
  LineReader(int descriptor, std::string name, std::string hint);

  /// The next line without its end, or nothing at the end of the text.
  ///
  /// throws  DataError with the name and the reason if the text cannot be read; with the numbers of
  ///         line and byte, both from 1, if the text is UTF-16 or UTF-32, or if the line is longer
  ///         than longest_line, is not UTF-8, or contains NUL, a carriage return alone or a byte
  ///         order mark.
  std::optional<std::string> next();

  /// Number of the line that next() returned or refused last, from 1.
  std::size_t line_number() const { return line_number_; }

  /// Size and digest of the bytes read so far; after the last line, of the whole text.
  std::uint64_t bytes_read() const { return bytes_read_; }
  std::uint64_t digest() const { return hash_.value(); }

 private:
  /// Whether a line feed follows the bytes of a line in the buffer.
  enum class Ended { yes, no, unknown };

  bool read_more();
  std::string_view checked(std::string_view line, Ended ended) const;
  void refuse_other_encoding(std::string_view text) const;
  void refuse_byte(std::string_view line, std::size_t position, std::string_view problem,
                   std::string_view hint) const;

  int descriptor_;
  std::string name_, hint_;
  std::string buffer_;     ///< the blocks read that still hold parts of lines to come
  std::size_t begin_ = 0;  ///< of the next line in the buffer
  std::size_t line_number_ = 0;
  std::uint64_t bytes_read_ = 0;
  Xxh3 hash_;
};

/// The lines of a text file, with its size and digest.
struct TextFile {
  std::vector<std::string> lines;  ///< without their line ends, never empty
  std::uint64_t bytes;             ///< of the file
  std::uint64_t digest;            ///< XXH3 (64 bits) of all bytes of the file
};

/// Reads a UTF-8 text file as LineReader does, once.
///
/// throws  DataError as LineReader and OpenFile do; if the file is empty or changes while it is
///         read.
TextFile read_text_file(const std::filesystem::path& path);

}  // namespace tapestry
