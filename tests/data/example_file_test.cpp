// SPDX-License-Identifier: BSD-3-Clause
#include "data/example_file.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <xxhash.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "data/io/file.h"
#include "tests/data/rejection.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/temporary_folder.h"

namespace tapestry {
namespace {

using test::contains;
using test::FaultyFileSystem;
using test::rejection;
using test::TemporaryFolder;

using ExampleList = std::vector<Example>;
using Notes = std::vector<std::string>;

constexpr std::uint64_t origin = 0x0123456789ABCDEF;

const ExampleList some{{.source = {4, 5}, .target = {6}},
                       {.source = {}, .target = {7, 8, 9}},
                       {.source = {4}, .target = {}}};

void write(const std::filesystem::path& path, const ExampleList& examples, std::size_t ids = 10,
           FileSystem& files = posix_file_system()) {
  ExampleFileWriter writer(path, ids, files);
  for (std::size_t i = 0; i < examples.size(); ++i) writer.add(examples[i], 10 * i);
  writer.finish(origin, {1, examples.size() - 1}, {"first note", "second"});
}

ExampleList all_of(const ExampleFile& file) {
  ExampleList examples(file.size());
  for (std::size_t i = 0; i < file.size(); ++i) file.read(i, examples[i]);
  return examples;
}

std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> names_in(const TemporaryFolder& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

/// Returns the bytes with a correct digest, as an attacker could write them.
std::string with_digest(std::string bytes) {
  const std::size_t hashed = bytes.size() - sizeof(std::uint64_t);
  const std::uint64_t digest = XXH3_64bits(bytes.data(), hashed);
  std::memcpy(bytes.data() + hashed, &digest, sizeof digest);
  return bytes;
}

TEST_CASE("examples, lines, parts and notes are read as they were written") {
  const TemporaryFolder folder;
  for (const std::size_t ids : {10, 65536, 65537, 70000}) {
    CAPTURE(ids);
    ExampleList examples = some;
    examples[1].target.push_back(static_cast<std::int32_t>(ids) - 1);
    write(folder / "x", examples, ids);
    const ExampleFile file(folder / "x", origin, ids);
    CHECK(all_of(file) == examples);
    for (std::size_t i = 0; i < examples.size(); ++i) {
      CHECK(file.line(i) == 10 * i);
      CHECK(file.lengths(i).source == examples[i].source.size());
      CHECK(file.lengths(i).target == examples[i].target.size());
      CHECK(file.lengths(i).pixels == 0);
    }
    CHECK(file.parts() == std::vector<std::uint64_t>{1, 2});
    CHECK(file.notes() == Notes{"first note", "second"});
    CHECK(file.bytes() == std::filesystem::file_size(folder / "x"));
  }
  CHECK(names_in(folder) == std::vector<std::string>{"x"});
  // Ids take two bytes each if the vocabulary is small enough.
  const auto size = [&](std::size_t ids) {
    write(folder / "x", ExampleList(1000, some[0]), ids);
    return std::filesystem::file_size(folder / "x");
  };
  CHECK(size(65537) - size(65536) == 2 * 3 * 1000);
  // A file may be deleted while it is mapped.
  write(folder / "x", some);
  const ExampleFile file(folder / "x", origin, 10);
  std::filesystem::remove(folder / "x");
  CHECK(all_of(file) == some);
}

TEST_CASE("content larger than the buffer is written correctly") {
  const TemporaryFolder folder;
  ExampleList examples;
  for (std::int32_t i = 0; i < 3000; ++i) {
    examples.push_back({.source = std::vector<std::int32_t>(static_cast<std::size_t>(i) % 500, i),
                        .target = {3000 - i}});
  }
  FaultyFileSystem files;
  files.max_transfer_bytes = 100'001;
  files.interrupt_every_second_call = true;
  write(folder / "x", examples, 3001, files);
  const ExampleFile file(folder / "x", origin, 3001, files);
  CHECK(all_of(file) == examples);
  ExampleList in_order;
  file.for_each([&](const Example& example) { in_order.push_back(example); });
  CHECK(in_order == examples);
  CHECK(all_of(file) == examples);
}

TEST_CASE(
    "a file of many blocks is read in order, and an unknown id is found at block boundaries") {
  const TemporaryFolder folder;
  constexpr std::int32_t ids = 70'000;
  constexpr std::size_t per_example = 1000;
  const auto write_some = [&](std::size_t count, std::size_t max_id_at) {
    ExampleFileWriter writer(folder / "x", ids);
    Example example{.source = {}, .target = std::vector<std::int32_t>(per_example)};
    for (std::size_t i = 0, token = 0; i < count; ++i) {
      for (std::int32_t& id : example.target) {
        id = token == max_id_at ? ids - 1 : static_cast<std::int32_t>(token * 31 % (ids - 1));
        ++token;
      }
      writer.add(example, i + 1);
    }
    writer.finish(origin, {count}, {});
  };
  constexpr std::size_t block = (std::size_t{1} << 20) / sizeof(std::int32_t);  // tokens per block
  for (const std::size_t at :
       {std::size_t{0}, block - 1, block, 2 * block - 1, std::size_t{599'999}}) {
    CAPTURE(at);
    write_some(600, at);
    CHECK_NOTHROW(ExampleFile(folder / "x", origin, ids));
    CHECK_THROWS_AS(ExampleFile(folder / "x", origin, ids - 1), UnusableExampleFile);
  }
  write_some(5000, 0);  // 20 MB: enough for pages to be released
  const ExampleFile file(folder / "x", origin, ids);
  std::size_t token = 0, others = 0;
  file.for_each([&](const Example& example) {
    for (const std::int32_t id : example.target) {
      const auto expected =
          token == 0 ? ids - 1 : static_cast<std::int32_t>(token * 31 % (ids - 1));
      others += id == expected ? 0 : 1;
      ++token;
    }
  });
  CHECK(token == 5000 * per_example);
  CHECK(others == 0);
}

TEST_CASE("an example file is rejected if any bit is changed or any number of bytes is cut off") {
  const TemporaryFolder folder;
  write(folder / "x", some);
  const std::string good = read_bytes(folder / "x");
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[i] = static_cast<char>(static_cast<unsigned char>(bad[i]) ^ (1U << bit));
      folder.write("bad", bad);
      CAPTURE(i);
      CHECK_THROWS_AS(ExampleFile(folder / "bad", origin, 10), UnusableExampleFile);
    }
    folder.write("bad", good.substr(0, i));
    CHECK_THROWS_AS(ExampleFile(folder / "bad", origin, 10), UnusableExampleFile);
    folder.write("bad", good.substr(0, i) + '\0' + good.substr(i));
    CHECK_THROWS_AS(ExampleFile(folder / "bad", origin, 10), UnusableExampleFile);
  }
}

TEST_CASE("the content of an example file is checked even if its digest is correct") {
  const TemporaryFolder folder;
  write(folder / "x", some);
  const std::string good = read_bytes(folder / "x");
  std::size_t accepted = 0;
  for (std::size_t i = 0; i < good.size() - 8; ++i) {
    for (const char value : {'\0', '\1', '\x7F', '\xFF'}) {
      std::string forged = good;
      forged[i] = value;
      folder.write("forged", with_digest(forged));
      try {
        const ExampleFile file(folder / "forged", origin, 10);
        for (const Example& example : all_of(file)) {
          for (const std::int32_t id : example.source) CHECK(id < 10);
          for (const std::int32_t id : example.target) CHECK(id < 10);
        }
        ++accepted;
      } catch (const UnusableExampleFile&) {
      }
    }
  }
  CHECK(accepted > 0);  // for example a different valid id
}

TEST_CASE(
    "an example file is rejected unless its parts contain all examples and begin where line "
    "numbers restart") {
  const TemporaryFolder folder;
  ExampleFileWriter writer(folder / "x", 10);
  for (const std::size_t line : {1, 2, 3, 1, 2}) writer.add({.source = {4}, .target = {5}}, line);
  writer.finish(origin, {3, 2}, {});
  const std::string good = read_bytes(folder / "x");
  const std::size_t parts = good.size() - 7 * sizeof(std::uint64_t) - 2 * sizeof(std::uint64_t);
  const auto forge = [&](std::uint64_t first, std::uint64_t second) {
    std::string forged = good;
    std::memcpy(forged.data() + parts, &first, sizeof first);
    std::memcpy(forged.data() + parts + sizeof first, &second, sizeof second);
    folder.write("forged", with_digest(forged));
    return ExampleFile(folder / "forged", origin, 10).parts();
  };
  CHECK(forge(3, 2) == std::vector<std::uint64_t>{3, 2});
  constexpr std::uint64_t max = ~std::uint64_t{0};
  for (const auto& [first, second] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{
           {max, 6}, {6, max}, {max - 2, 8}, {5, 0}, {0, 5}, {2, 3}, {4, 1}, {3, 1}, {3, 3}}) {
    CAPTURE(first);
    CHECK_THROWS_AS(forge(first, second), UnusableExampleFile);
  }
}

TEST_CASE("the error about an example file states the reason") {
  const TemporaryFolder folder;
  write(folder / "x", some);
  const std::string good = read_bytes(folder / "x");
  std::string version = good, damaged = good, unknown = good;
  version[8] = 2;
  damaged[16] = 5;
  unknown[16] = 10;
  const auto open = [&](const std::string& bytes) {
    folder.write("x", bytes);
    ExampleFile(folder / "x", origin, 10);
  };
  const std::string name = (folder / "x").string() + ": ";
  test::check_rejected(
      {{"", {name + "is too short"}},
       {std::string(200, 'x'), {name + "is not an example file"}},
       {good.substr(0, good.size() - 1), {"is damaged or was cut off"}},
       {version, {"found format 2 and byte order 01020304, expected 1 and 01020304"}},
       {damaged, {"is damaged: its digest differs"}},
       {with_digest(unknown), {"found ids outside the vocabulary"}}},
      open);
  folder.write("x", good);
  CHECK(contains(rejection([&] { ExampleFile(folder / "x", origin + 1, 10); }),
                 "was made from different"));
  std::filesystem::remove(folder / "x");
  CHECK_THROWS_AS(ExampleFile(folder / "x", origin, 10), UnopenedFile);
  std::filesystem::create_directory(folder / "x");
  CHECK_THROWS_AS(ExampleFile(folder / "x", origin, 10), UnopenedFile);
}

TEST_CASE(
    "if any system call fails, an existing example file is unchanged and no file is left over") {
  const TemporaryFolder folder;
  write(folder / "x", {{.source = {4}, .target = {}}, {.source = {5}, .target = {}}});
  const std::string before = read_bytes(folder / "x");
  FaultyFileSystem counted;
  write(folder / "x", some, 10, counted);
  const std::string after = read_bytes(folder / "x");
  for (const int error : {ENOSPC, EIO, EMFILE, EACCES}) {
    for (std::size_t i = 0; i < counted.calls.size(); ++i) {
      CAPTURE(counted.calls[i]);
      std::ofstream(folder / "x", std::ios::binary) << before;
      FaultyFileSystem files;
      files.failing_call = i;
      files.error = error;
      std::string message;
      try {
        write(folder / "x", some, 10, files);
      } catch (const OutputError& failure) {
        message = failure.what();
        CHECK(contains(failure.hint(), "data.cache=never"));
      }
      const bool renamed = read_bytes(folder / "x") == after;
      CHECK((renamed || read_bytes(folder / "x") == before));
      // After the rename, only flushing the folder can fail.
      CHECK((renamed || !message.empty()));
      CHECK((message.empty() || message.starts_with((folder / "x").string() + ": could not ")));
      if (error == ENOSPC && !message.empty() && !renamed) {
        CHECK(contains(message, "4096 free"));
      }
      CHECK(names_in(folder) == std::vector<std::string>{"x"});
    }
  }
}

TEST_CASE("data that an example file cannot hold are rejected, and an unfinished file is deleted") {
  const TemporaryFolder folder;
  {
    ExampleFileWriter writer(folder / "x", 10);
    constexpr std::size_t last_line = 4'294'967'295;
    CHECK_NOTHROW(writer.add(some[0], last_line));
    test::check_rejected(
        {{"", {"line 4294967296", "at most 4294967295", "divide the training file"}}},
        [&](const std::string&) { writer.add(some[0], last_line + 1); });
    CHECK_THROWS_AS(writer.add({.source = {10}, .target = {}}, 1), std::invalid_argument);
    CHECK_THROWS_AS(writer.add({.source = {}, .target = {-1}}, 1), std::invalid_argument);
    CHECK_THROWS_AS(writer.finish(origin, {2}, {}), std::invalid_argument);
    CHECK(names_in(folder).size() == 1);
    CHECK(names_in(folder)[0].starts_with(".x.tmp-"));
  }
  CHECK(names_in(folder).empty());
}

}  // namespace
}  // namespace tapestry
