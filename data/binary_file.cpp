#include "data/binary_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "data/error.h"
#include "data/open_file.h"
#include "data/xxh3.h"

namespace tapestry {

namespace {

constexpr OpenFileKind binary_kind{
    .expected = "a file",
    .to_a_file = "copy it to a file first: it is read more than once",
    .part_of_it = "train on a part of it"};

/// Reads into `bytes` until they are full or the file ends; returns how many there are.
std::size_t fill(const OpenFile& file, std::vector<std::byte>& bytes) {
  std::size_t count = 0;
  while (count < bytes.size()) {
    const ssize_t read = ::read(file.descriptor(), bytes.data() + count, bytes.size() - count);
    if (read == 0) break;
    if (read > 0) {
      count += static_cast<std::size_t>(read);
    } else if (errno != EINTR) {
      throw DataError(fmt::format("{}: cannot be read: {}", file.name(),
                                  std::generic_category().message(errno)),
                      unreadable_hint);
    }
  }
  return count;
}

}  // namespace

BinaryFile read_binary_file(const std::filesystem::path& path) {
  const OpenFile file(path, binary_kind);
  BinaryFile result{.bytes = std::vector<std::byte>(file.size()), .digest = 0};
  file.require_unchanged(fill(file, result.bytes));
  Xxh3 hash;
  hash.add(result.bytes.data(), result.bytes.size());
  result.digest = hash.value();
  return result;
}

}  // namespace tapestry
