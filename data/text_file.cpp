#include "data/text_file.h"

#include <fmt/format.h>

#include <utility>

#include "data/error.h"
#include "data/line_reader.h"
#include "data/open_file.h"

namespace tapestry {

namespace {

constexpr OpenFileKind text_kind{
    .expected = "a text file",
    .to_a_file = "write the text to a file first: it is read more than once",
    .part_of_it = "train on a part of the text, such as its first lines: head -n 1000000"};

/// Stops after `bytes`: a file that grows faster than it is read has no end.
std::vector<std::string> read_lines(LineReader& reader, std::uint64_t bytes) {
  std::vector<std::string> lines;
  while (reader.bytes_read() <= bytes) {
    auto line = reader.next();
    if (!line) break;
    lines.push_back(*std::move(line));
  }
  return lines;
}

}  // namespace

TextFile read_text_file(const std::filesystem::path& path) {
  const OpenFile file(path, text_kind);
  LineReader reader(file.descriptor(), file.name(), unreadable_hint);
  TextFile text;
  text.lines = read_lines(reader, file.size());
  text.bytes = reader.bytes_read();
  text.digest = reader.digest();
  file.require_unchanged(text.bytes);
  if (text.lines.empty()) {
    throw DataError(
        fmt::format("{}: found an empty file, expected one sentence a line", file.name()),
        "name the file with the sentences");
  }
  return text;
}

}  // namespace tapestry
