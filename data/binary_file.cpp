#include "data/binary_file.h"

#include <span>

#include "data/open_file.h"
#include "data/read_some.h"
#include "data/xxh3.h"

namespace tapestry {

namespace {

constexpr OpenFileKind binary_kind{
    .expected = "a file",
    .to_a_file = "copy it to a file first: it is read more than once",
    .part_of_it = "train on a part of it"};

/// Reads into `bytes` until they are full or the file ends; returns how many there are.
std::size_t fill(const OpenFile& file, std::span<std::byte> bytes) {
  std::size_t count = 0, read = 0;
  do {
    read = read_some(file.descriptor(), bytes.subspan(count), file.name(), unreadable_hint);
    count += read;
  } while (read > 0);
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
