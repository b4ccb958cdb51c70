// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/io/error.h"
#include "data/io/file.h"

namespace tapestry {

/// The byte order mark of UTF-8.
inline constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

/// A Unicode encoding that is not UTF-8.
struct OtherEncoding {
  std::string_view mark;    ///< byte order mark
  std::string_view name;    ///< name in messages: "little-endian UTF-16"
  std::string_view family;  ///< name for iconv, which detects the byte order by the mark
};

/// The encoding whose byte order mark is at the start of a text; null if there is no mark.
const OtherEncoding* detect_other_encoding(std::string_view text);

/// A format that is not text, such as gzip.
struct BinaryFormat {
  std::string_view magic;  ///< first bytes of a file
  std::string_view name;   ///< name in messages: "a gzip file"
  std::string_view hint;   ///< how to use its content
};

/// The format whose magic bytes are at the start of a file; null for text and other formats.
const BinaryFormat* detect_binary_format(std::string_view bytes);

/// Maximum length of a line in bytes, which is longer than any model input.
inline constexpr std::size_t max_text_line_length = std::size_t{1} << 20;

/// Maximum size in bytes of a text with TextContent::any_size.
inline constexpr std::uint64_t max_text_bytes = std::uint64_t{1} << 40;

/// Thrown if a line is longer than max_text_line_length.
class OverlongLine : public DataError {
 public:
  using DataError::DataError;
};

/// Reads a UTF-8 text line by line with bounded memory. A line ends with "\n" or "\r\n"; the last
/// line may end without either. A byte order mark at the start is skipped.
///
/// Rejects text that programs interpret differently: a carriage return without a line feed, which
/// some programs read as a line end, and a byte order mark in the middle, which is invisible and
/// splits words.
class LineReader {
 public:
  /// `name` is the name of the text in messages; `hint` is the hint of the error if it cannot be
  /// read. Does not close the descriptor. Rejects lines of more than `max_line_length` bytes.
  LineReader(int descriptor, std::string name, std::string hint,
             std::size_t max_line_length = max_text_line_length);

  /// The next line without its line end; nullopt at the end of the text.
  ///
  /// throws  DataError with the name and the reason if the text cannot be read; with line and byte
  ///         numbers, both from 1, if the text is UTF-16 or UTF-32, or if the line is not UTF-8,
  ///         or contains NUL, a carriage return without a line feed or a byte order mark;
  ///         OverlongLine if it is too long.
  std::optional<std::string> next();

  /// Whether next() would return without waiting for the program that writes the text: a complete
  /// line, or the end of the text, has been read or can be read now.
  ///
  /// throws  DataError if the text cannot be read.
  bool line_is_ready();

  /// After OverlongLine: skips the rest of the line, so that next() returns the line after it.
  void skip_line();

  /// Number of the last line that next() returned or rejected, from 1.
  std::size_t line_number() const { return line_number_; }

  /// Size and digest of the bytes read so far; after the last line, of the whole text.
  std::uint64_t bytes_read() const { return bytes_read_; }
  std::uint64_t digest() const { return hash_.value(); }

 private:
  /// Whether the buffered bytes of a line are followed by a line feed.
  enum class Ended { yes, no, unknown };

  bool has_complete_line() const;
  bool read_more();
  std::string_view checked(std::string_view line, Ended ended) const;
  void reject_other_formats(std::string_view text) const;
  /// Rejects the byte at `position` unless `position` is npos.
  void reject_if_found(std::string_view line, std::size_t position, std::string_view problem,
                       std::string_view hint) const;

  int descriptor_;
  std::string name_, hint_;
  std::size_t max_line_length_;  ///< in bytes
  std::string buffer_;           ///< bytes that have been read and not yet returned
  std::size_t begin_ = 0;        ///< start of the next line in the buffer
  bool ended_ = false;           ///< whether the end of the text has been read
  std::size_t line_number_ = 0;
  std::uint64_t bytes_read_ = 0;
  Xxh3 hash_;
};

/// The lines of a text file, with its size and digest.
struct TextFile {
  std::vector<std::string> lines;  ///< at least one line; without line ends
  std::uint64_t bytes;             ///< size of the file
  std::uint64_t digest;            ///< XXH3 (64 bits) of the file
};

/// Expected content of a text file.
struct TextContent {
  const char* file = "a text file";                              ///< for messages about folders
  const char* expected = "one sentence per line";                ///< text for messages
  const char* hint = "name the file with the sentences";         ///< hint if the file is empty
  std::size_t max_line_length = tapestry::max_text_line_length;  ///< in bytes
  bool any_size = false;  ///< the limit is max_text_bytes instead of the memory of this machine
};

/// The messages and limits for opening a text file with this content.
FileKind file_kind(const TextContent& content);

/// Reads the lines of a UTF-8 text file one by one, in bounded memory.
class TextFileReader {
 public:
  /// throws  DataError like OpenFile.
  explicit TextFileReader(const std::filesystem::path& path, const TextContent& content = {});

  /// The next line; nullopt at the end.
  ///
  /// throws  DataError like LineReader; at the end, also if the file is empty or has changed.
  std::optional<std::string> next();

  /// Number of the last line that next() returned or rejected, from 1.
  std::size_t line_number() const { return reader_.line_number(); }
  /// Size and digest of the file. Call it after the last line.
  std::uint64_t bytes() const { return reader_.bytes_read(); }
  std::uint64_t digest() const { return reader_.digest(); }

 private:
  TextContent content_;
  OpenFile file_;
  LineReader reader_;
  bool has_lines_ = false;
};

/// Reads all lines of a UTF-8 text file.
///
/// throws  DataError like TextFileReader.
TextFile read_text_file(const std::filesystem::path& path, const TextContent& content = {});

}  // namespace tapestry
