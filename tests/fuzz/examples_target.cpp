// SPDX-License-Identifier: BSD-3-Clause
#include <xxhash.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "data/example_file.h"
#include "data/io/error.h"
#include "tests/fuzz/fuzz.h"

namespace tapestry::fuzz {
namespace {

/// Reads an example file. Expects the origin that the file contains, so that no file is rejected
/// because of its origin.
void read_all(const std::string& bytes) {
  constexpr std::size_t ids = 100, digest = sizeof(std::uint64_t);
  std::uint64_t origin = 0;
  if (bytes.size() >= 2 * digest) {
    std::memcpy(&origin, bytes.data() + bytes.size() - 2 * digest, sizeof origin);
  }
  const ExampleFile file(write_input(bytes), origin, ids);
  Example example;
  std::size_t count = 0;
  for (std::size_t i = 0; i < file.size(); ++i) {
    file.read(i, example);
    const ExampleLengths lengths = file.lengths(i);
    require(lengths.source == example.source.size(), "lengths() is the length of the source");
    require(lengths.target == example.target.size(), "lengths() is the length of the target");
    for (const auto* side : {&example.source, &example.target}) {
      for (const std::int32_t id : *side) {
        require(id >= 0 && static_cast<std::size_t>(id) < ids, "all ids are known");
      }
    }
  }
  file.for_each([&](const Example&) { ++count; });
  require(count == file.size(), "every example is read once");
}

}  // namespace

/// Input: an example file. It is read unchanged, then with a correct digest.
void feed_examples(std::string_view input) {
  std::string bytes(input);
  try {
    read_all(bytes);
  } catch (const DataError& error) {
    require_presentable(error.what());
    require_presentable(error.hint());
  }
  if (bytes.size() < sizeof(std::uint64_t)) return;
  const std::size_t hashed = bytes.size() - sizeof(std::uint64_t);
  const std::uint64_t digest = XXH3_64bits(bytes.data(), hashed);
  std::memcpy(bytes.data() + hashed, &digest, sizeof digest);
  read_all(bytes);
}

}  // namespace tapestry::fuzz
