#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "tests/train/program.h"
#include "tests/train/refusal.h"
#include "train/storage/checkpoint_file.h"
#include "train/storage/checkpoint_table.h"

/// What the program says, word for word, to checkpoints that it cannot use, with exit code 4 and no
/// change to any file. HDF5 files full of tricks are in attack_files_test.cpp.
namespace tapestry {
namespace {

using test::check_refusal;
using test::TrainedWorkplace;

const std::string copy_again = "\nhint: copy the file again, or use an older checkpoint";
const std::string own_checkpoint = "\nhint: use a checkpoint that this program wrote";
const std::string same_program = "\nhint: use the config and the program that wrote the checkpoint";

ArrayEntry& entry_in(std::vector<ArrayEntry>& entries, const std::string& path) {
  const auto found = std::ranges::find(entries, path, &ArrayEntry::path);
  REQUIRE(found != entries.end());
  return *found;
}

/// A trained run beside a copy of its checkpoint, bad.h5, that a test makes worse.
struct BadCheckpoint : TrainedWorkplace {
  const std::string original = test::read_text(*this / checkpoint(12));

  Envelope envelope() const { return open_envelope(text_bytes(original), original.size(), ""); }

  std::vector<ArrayEntry> entries() const {
    const auto table = text_bytes(original).subspan(envelope_size, envelope().table_size);
    return decode_table(table, {envelope().hdf5_offset, original.size()}, "");
  }

  ArrayEntry entry(const std::string& path) const {
    auto all = entries();
    return entry_in(all, path);
  }

  static std::span<const std::byte> text_bytes(const std::string& text) {
    return std::as_bytes(std::span(text));
  }

  /// Checks what is said of a file with this content, whoever reads it.
  void check(const std::string& content, const std::string& message) const {
    write("bad.h5", content);
    check_file(message);
  }
  void check_file(const std::string& message) const {
    for (const char* command : {"evaluate", "translate", "inspect"}) {
      CAPTURE(command);
      check_refusal(*this, {command, "bad.h5"}, 4, "bad.h5: " + message);
    }
  }

  /// The same of the original with one byte flipped.
  void check_flip(std::size_t offset, const std::string& message) const {
    std::string content = original;
    content[offset] = static_cast<char>(content[offset] ^ 1);
    check(content, message);
  }

  /// The same of the original with an altered table of contents and digests that fit.
  void check_table(const std::function<void(std::vector<ArrayEntry>&)>& alter,
                   const std::string& message) const {
    std::vector<ArrayEntry> altered = entries();
    alter(altered);
    const auto table = encode_table(altered);
    REQUIRE(table.size() == envelope().table_size);
    std::string content = original;
    std::memcpy(content.data() + envelope_size, table.data(), table.size());
    seal(std::as_writable_bytes(std::span(content)), {}, table.size(), envelope().hdf5_offset);
    check(content, message);
  }

  /// What is said of a checkpoint that has another array of this path, or none.
  void check_array(const std::string& path, const StoredArray* array,
                   const std::string& message) const {
    Snapshot altered;
    for (const auto& [each, stored] : read_checkpoint(*this / checkpoint(12))) {
      if (each != path) altered.put(each, stored);
    }
    if (array != nullptr) altered.put(path, *array);
    write_checkpoint(*this / "bad.h5", altered);
    for (const char* command : {"evaluate", "translate"}) {
      CAPTURE(command);
      check_refusal(*this, {command, "bad.h5"}, 4, "bad.h5: " + message);
    }
  }
};

StoredArray floats(const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {ElementType::float32, {values.size()}, {bytes.begin(), bytes.end()}};
}

TEST_CASE("a checkpoint that is truncated at any byte is refused with both sizes") {
  const BadCheckpoint bad;
  const std::string begin =
      "\nhint: give a file that `tapestry train` wrote, such as "
      "step-00001000.h5";
  bad.check("", "not a Tapestry checkpoint: found an empty file, expected 'TAPESTRY'" + begin);
  bad.check("TAPES",
            "not a Tapestry checkpoint: found a file that begins with the bytes 54 41 50 45 53, "
            "expected 'TAPESTRY'" +
                begin);
  bad.check(bad.original.substr(0, 511),
            "the checkpoint is truncated: found 511 bytes, expected more than 512" + copy_again);
  for (const std::size_t size : {std::size_t{512}, std::size_t{4096}, bad.original.size() - 1}) {
    bad.check(bad.original.substr(0, size),
              fmt::format("the checkpoint is truncated: found {} bytes, expected {}", size,
                          bad.original.size()) +
                  copy_again);
  }
  bad.check(bad.original + '\0', fmt::format("the checkpoint is too long: found {} bytes, expected "
                                             "{}",
                                             bad.original.size() + 1, bad.original.size()) +
                                     copy_again);
}

TEST_CASE("a flipped bit is detected, and its part of the file is named") {
  const BadCheckpoint bad;
  const std::string damaged = "the checkpoint is damaged: found other bytes than were written in ";
  bad.check_flip(envelope_size, damaged + "its table of contents" + copy_again);
  bad.check_flip(bad.envelope().hdf5_offset, damaged + "its headers" + copy_again);
  bad.check_flip(bad.entry("parameters/output.bias").offset + 1,
                 damaged + "parameters/output.bias" + copy_again);
  bad.check_flip(0,
                 "not a Tapestry checkpoint: found a file that begins with the bytes 55 41 50 45 "
                 "53 54 52 59, expected 'TAPESTRY'\nhint: give a file that `tapestry train` "
                 "wrote, such as step-00001000.h5");
}

TEST_CASE("a flipped bit in the envelope is detected by its checksum") {
  const BadCheckpoint bad;
  std::string content = bad.original;
  content[20] = static_cast<char>(content[20] ^ 1);
  bad.write("bad.h5", content);
  const test::Outcome refused = bad.run({"inspect", "bad.h5"});
  CHECK(refused.code == 4);
  CHECK(
      refused.err.starts_with("tapestry: error: bad.h5: the envelope is damaged: found checksum "));
}

TEST_CASE("a table of contents with absurd sizes is refused before memory is allocated") {
  const BadCheckpoint bad;
  const std::uint64_t first = bad.envelope().hdf5_offset, last = bad.original.size();
  const std::string path = bad.entries().front().path;
  const std::string expected =
      fmt::format(", expected all between {} and {}", first, last) + own_checkpoint;
  for (const std::uint64_t size : {std::uint64_t{1} << 60, ~std::uint64_t{0}}) {
    bad.check_table([&](auto& entries) { entries[0].size = size; },
                    fmt::format("table of contents: found {} with {} bytes at {}", path, size,
                                bad.entries()[0].offset) +
                        expected);
  }
  bad.check_table(
      [&](auto& entries) { entries[0].offset = 0; },
      fmt::format("table of contents: found {} with {} bytes at 0", path, bad.entries()[0].size) +
          expected);
}

TEST_CASE("a checkpoint with arrays that share bytes is refused by the program") {
  const BadCheckpoint bad;
  bad.check_table(
      [](auto& entries) {
        entry_in(entries, "config").offset = entry_in(entries, "data/fingerprint").offset + 1;
      },
      "table of contents: found data/fingerprint and config sharing bytes, expected bytes of their "
      "own" +
          own_checkpoint);
}

TEST_CASE("an array whose bytes do not fit its shape is refused") {
  const BadCheckpoint bad;
  const ArrayEntry config = bad.entry("config");
  bad.check_table([](auto& entries) { ++entry_in(entries, "config").shape[0]; },
                  fmt::format("table of contents: snapshot: config: {} bytes found, which is not "
                              "uint8 ({})",
                              config.size, config.size + 1) +
                      own_checkpoint);
}

TEST_CASE("a checkpoint larger than memory is not read") {
  const BadCheckpoint bad;
  const std::uint64_t memory = default_max_checkpoint_size();
  std::filesystem::copy_file(bad / bad.checkpoint(12), bad / "bad.h5");
  std::filesystem::resize_file(bad / "bad.h5", memory + 1);  // takes no space on the disk
  for (const char* command : {"evaluate", "translate", "inspect"}) {
    const test::Outcome refused = bad.run({command, "bad.h5"});
    CHECK(refused.code == 4);
    CHECK(refused.err ==
          fmt::format("tapestry: error: bad.h5: found {} bytes, expected at most {}\nhint: use a "
                      "machine with more memory\n",
                      memory + 1, memory));
  }
}

TEST_CASE("an array that is missing, superfluous or of another type is refused") {
  const BadCheckpoint bad;
  const StoredArray five = floats({1, 2, 3, 4, 5});
  bad.check_array("parameters/output.bias", nullptr,
                  "parameters/output.bias: found nothing, expected an array" + same_program);
  bad.check_array(
      "parameters/extra", &five,
      "parameters/extra: found an array that does not belong to the model of the checkpoint's "
      "config\nhint: use the version of the program that wrote the checkpoint");
  bad.check_array("parameters/output.bias", &five,
                  "parameters/output.bias: found float32 (5), expected float32 (9)" + same_program);
  const StoredArray whole{ElementType::int64, {9}, std::vector<std::byte>(72)};
  bad.check_array("parameters/output.bias", &whole,
                  "parameters/output.bias: found int64 (9), expected float32 (9)" + same_program);
}

TEST_CASE("a checkpoint with a number that is not finite is refused") {
  const BadCheckpoint bad;
  StoredArray array = floats({0, 0, 0, 0, 0, 0, 0, 0, std::numeric_limits<float>::infinity()});
  bad.check_array("parameters/output.bias", &array,
                  "parameters/output.bias: found inf, expected finite numbers\n"
                  "hint: use an earlier checkpoint of the run");
}

TEST_CASE("a pipe in place of a checkpoint is refused without blocking") {
  const TrainedWorkplace work;
  REQUIRE(::mkfifo((work / "bad.h5").c_str(), 0600) == 0);
  for (const char* command : {"evaluate", "translate", "inspect"}) {
    check_refusal(work, {command, "bad.h5"}, 4,
                  "bad.h5: found a pipe, socket or device, expected a checkpoint\n"
                  "hint: name a checkpoint file or a run directory");
  }
}

}  // namespace
}  // namespace tapestry
