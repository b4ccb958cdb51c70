#include "data/text_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <string_view>
#include <system_error>

#include "data/error.h"
#include "data/utf8.h"

namespace tapestry {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void refuse_unreadable(const fs::path& path, const std::string& reason) {
  throw DataError(fmt::format("{}: cannot be read: {}", path.string(), reason),
                  "check the path and its permissions; a relative path starts at the folder of the "
                  "config file");
}

void check_regular_file(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (error) refuse_unreadable(path, error.message());
  if (fs::is_regular_file(status)) return;
  const bool is_folder = fs::is_directory(status);
  throw DataError(fmt::format("{}: found {}, expected a text file", path.string(),
                              is_folder ? "a folder" : "a pipe, socket or device"),
                  is_folder ? "name a file in this folder"
                            : "write the text to a file first: it is read more than once");
}

std::string read_bytes(const fs::path& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse_unreadable(path, std::generic_category().message(errno));
  std::string bytes;
  std::array<char, 65536> block;
  while (file.read(block.data(), block.size()) || file.gcount() > 0) {
    bytes.append(block.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (file.bad()) refuse_unreadable(path, std::generic_category().message(errno));
  return bytes;
}

std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view mark = "\xEF\xBB\xBF";
  if (text.starts_with(mark)) text.remove_prefix(mark.size());
  return text;
}

void check_line(const fs::path& path, std::size_t number, std::string_view line) {
  if (const std::size_t nul = line.find('\0'); nul != std::string_view::npos) {
    throw DataError(
        fmt::format("{}:{}: byte {} is NUL, expected text", path.string(), number, nul + 1),
        "is this a binary file, or UTF-16? Convert it to UTF-8, for example: iconv -f "
        "UTF-16 -t UTF-8");
  }
  if (const auto invalid = find_invalid_utf8(line)) {
    const unsigned byte = static_cast<unsigned char>(line[*invalid]);
    throw DataError(fmt::format("{}:{}: byte {} (0x{:02X}) is not UTF-8", path.string(), number,
                                *invalid + 1, byte),
                    "convert the file to UTF-8, for example: iconv -f ISO-8859-1 -t UTF-8");
  }
}

}  // namespace

std::vector<std::string> read_text_lines(const fs::path& path) {
  check_regular_file(path);
  const std::string bytes = read_bytes(path);
  std::string_view rest = without_byte_order_mark(bytes);
  std::vector<std::string> lines;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    check_line(path, lines.size() + 1, line);
    lines.emplace_back(line);
  }
  if (lines.empty()) {
    throw DataError(
        fmt::format("{}: found an empty file, expected one sentence a line", path.string()),
        "name the file with the sentences");
  }
  return lines;
}

}  // namespace tapestry
