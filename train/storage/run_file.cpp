#include "train/storage/run_file.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <system_error>

#include "data/io/file.h"

namespace tapestry {
namespace {

FileKind text_kind(std::uint64_t max_bytes) {
  return {.expected = "a text file",
          .special_hint = "name the directory of a run",
          .too_large_hint = "delete the file if it is none of the run",
          .max_bytes = max_bytes};
}

bool is_missing(const std::filesystem::path& path) {
  std::error_code ignored;
  return !std::filesystem::exists(std::filesystem::symlink_status(path, ignored));
}

std::string last_bytes(const OpenFile& file, std::uint64_t most) {
  const std::uint64_t bytes = std::min(file.size(), most);
  std::string text(bytes, '\0');
  text.resize(file.read_at(file.size() - bytes, std::as_writable_bytes(std::span(text))));
  return text;
}

}  // namespace

std::optional<std::string> read_run_file(const std::filesystem::path& path) {
  if (is_missing(path)) return std::nullopt;
  return last_bytes(OpenFile(path, text_kind(largest_run_file)), largest_run_file);
}

std::optional<std::string> read_end_of_run_file(const std::filesystem::path& path,
                                                std::size_t most) {
  if (is_missing(path)) return std::nullopt;
  constexpr std::uint64_t any_size = std::numeric_limits<std::uint64_t>::max();
  return last_bytes(OpenFile(path, text_kind(any_size)), most);
}

}  // namespace tapestry
