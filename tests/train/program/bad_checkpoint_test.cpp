#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "tests/train/program.h"
#include "tests/train/refusal.h"
#include "train/checkpoint/checkpoint_file.h"

/// What the program says, word for word, to checkpoints that it cannot use, with exit code 4 and no
/// change to any file.
namespace tapestry {
namespace {

using test::check_refusal;
using test::TrainedWorkplace;

const std::string copy_again = "\nhint: copy the file again, or use an older checkpoint";
const std::string same_program = "\nhint: use the config and the program that wrote the checkpoint";

/// A trained run beside a copy of its checkpoint, bad.h5, that a test makes worse.
struct BadCheckpoint : TrainedWorkplace {
  const std::string original = test::read_text(*this / checkpoint(12));

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

  /// What is said of a checkpoint that has another array of this path, or none.
  void check_array(const std::string& path, const StoredArray* array,
                   const std::string& message) const {
    ArrayStore altered;
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

TEST_CASE("a flipped bit anywhere is detected before HDF5 reads the file") {
  const BadCheckpoint bad;
  const std::string damaged = "the checkpoint is damaged: found other bytes than were written";
  for (const std::size_t offset :
       {std::size_t{512}, bad.original.size() / 2, bad.original.size() - 1}) {
    bad.check_flip(offset, damaged + copy_again);
  }
  bad.check_flip(0,
                 "not a Tapestry checkpoint: found a file that begins with the bytes 55 41 50 45 "
                 "53 54 52 59, expected 'TAPESTRY'\nhint: give a file that `tapestry train` "
                 "wrote, such as step-00001000.h5");
  std::string content = bad.original;
  content[20] = static_cast<char>(content[20] ^ 1);
  bad.write("bad.h5", content);
  const test::Outcome refused = bad.run({"inspect", "bad.h5"});
  CHECK(refused.code == 4);
  CHECK(refused.err.starts_with("tapestry: error: bad.h5: the user block is damaged: "));
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
