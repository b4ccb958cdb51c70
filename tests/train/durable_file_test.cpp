#include "train/durable_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/train/faulty_file_system.h"
#include "tests/train/temporary_folder.h"
#include "train/error.h"

namespace tapestry {
namespace {

using test::FaultyFileSystem;
using test::TemporaryFolder;
using Calls = std::vector<std::string>;

void write(const std::filesystem::path& path, std::string_view text,
           FileSystem& files = posix_file_system()) {
  write_file_durably(path, std::as_bytes(std::span(text)), files);
}

std::string content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::size_t files_in(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

std::string output_error(const auto& action) {
  try {
    action();
  } catch (const OutputError& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "no OutputError";
}

TEST_CASE("a file is written, replaced and may be empty") {
  const TemporaryFolder folder;
  for (const char* text : {"first", "a longer second text", ""}) {
    write(folder / "x", text);
    CHECK(std::filesystem::exists(folder / "x"));
    CHECK(content(folder / "x") == text);
    CHECK(files_in(folder.path()) == 1);
  }
}

TEST_CASE("a file is flushed and proven before its name, and the folder flushed after") {
  const TemporaryFolder folder;
  FaultyFileSystem files;
  write(folder / "x", "text", files);
  CHECK(files.calls == Calls{"open", "open", "fallocate", "write", "fsync", "pread", "close",
                             "rename", "fsync", "close"});
}

TEST_CASE("interrupted calls and short transfers are carried on") {
  const TemporaryFolder folder;
  FaultyFileSystem files;
  files.interrupt_every_second_call = true;
  files.longest_transfer = 3;
  write(folder / "x", "a text of some length", files);
  CHECK(content(folder / "x") == "a text of some length");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("whichever call up to the rename fails, the old file stays and nothing is left over") {
  const TemporaryFolder folder;
  write(folder / "x", "old text");
  const Calls expected{"open",  "open",  "fallocate", "write", "write",
                       "fsync", "pread", "pread",     "close", "rename"};
  for (std::size_t number = 0; number < expected.size(); ++number) {
    CAPTURE(expected[number]);
    FaultyFileSystem files;
    files.failing_call = number;
    files.longest_transfer = 5;  // a second write that fails leaves a torn file
    const std::string error = output_error([&] { write(folder / "x", "new text", files); });
    REQUIRE(files.calls.at(number) == expected[number]);
    CHECK(error.find("Input/output error") != error.npos);
    CHECK(content(folder / "x") == "old text");
    CHECK(files_in(folder.path()) == 1);
  }
}

TEST_CASE("a folder that could not be flushed is reported with the new file in place") {
  const TemporaryFolder folder;
  write(folder / "x", "old");
  FaultyFileSystem files;
  files.failing_call = 8;
  const std::string error = output_error([&] { write(folder / "x", "new", files); });
  REQUIRE(files.calls.at(8) == "fsync");
  CHECK(error.find("after the new file was put in place") != error.npos);
  CHECK(content(folder / "x") == "new");
}

TEST_CASE("a full disk is reported with the bytes needed and free") {
  const TemporaryFolder folder;
  FaultyFileSystem files;
  files.failing_name = "fallocate";
  files.error = ENOSPC;
  files.free_space = 17;
  CHECK(output_error([&] { write(folder / "x", "text", files); }) ==
        (folder / "x").string() +
            ": could not reserve space: No space left on device (4 bytes needed, 17 free) | free "
            "space on the disk of " +
            folder.path().string() + " or write to another one");
}

TEST_CASE("a file system that cannot reserve space is written to all the same") {
  const TemporaryFolder folder;
  FaultyFileSystem files;
  files.failing_name = "fallocate";
  files.error = EOPNOTSUPP;
  write(folder / "x", "text", files);
  CHECK(content(folder / "x") == "text");
}

TEST_CASE("a disk that loses bytes and reports success is found out") {
  const TemporaryFolder folder;
  write(folder / "x", "old");
  FaultyFileSystem files;
  files.lose_last_byte = true;
  const std::string error = output_error([&] { write(folder / "x", "new", files); });
  CHECK(error.find("gave back other bytes") != error.npos);
  CHECK(content(folder / "x") == "old");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("a disk that reports more bytes written than it was given is not believed") {
  const TemporaryFolder folder;
  write(folder / "x", "old");
  FaultyFileSystem files;
  files.excess_claimed = 100;
  const std::string error = output_error([&] { write(folder / "x", "new", files); });
  CHECK(error.find("could not write: Input/output error") != error.npos);
  CHECK(content(folder / "x") == "old");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("a temporary file left by a crashed process with the same number is no obstacle") {
  const TemporaryFolder folder;
  const std::string stray = ".x.tmp-" + std::to_string(::getpid()) + "-0";
  std::ofstream(folder / stray) << "half";
  write(folder / "x", "text");
  CHECK(content(folder / "x") == "text");
  CHECK(content(folder / stray) == "half");
}

TEST_CASE("a missing folder is reported") {
  const TemporaryFolder folder;
  const std::string error = output_error([&] { write(folder / "none/x", "text"); });
  CHECK(error.find("could not open its folder: No such file or directory") != error.npos);
  CHECK(error.find("create the folder") != error.npos);
}

TEST_CASE("names of temporary files are told from others") {
  CHECK(is_temporary_name(".step-00000001.h5.tmp-17-0"));
  for (const char* name : {"step.tmp-1-0", ".tmp-1-0", ".x.tmp-", ".x.tmp-1", ".x.tmp-1-", ".lock",
                           ".x.tmp--1", ".x.tmp-a-0", ""}) {
    CAPTURE(name);
    CHECK_FALSE(is_temporary_name(name));
  }
}

TEST_CASE("folders are created with all that is missing above them") {
  const TemporaryFolder folder;
  create_folder_durably(folder / "a/b/c");
  create_folder_durably(folder / "a/b/c");
  CHECK(std::filesystem::is_directory(folder / "a/b/c"));
}

TEST_CASE("a folder cannot be created where a file is") {
  const TemporaryFolder folder;
  write(folder / "x", "");
  CHECK_THROWS_AS(create_folder_durably(folder / "x"), OutputError);
  CHECK_THROWS_AS(create_folder_durably(folder / "x/y"), OutputError);
}

TEST_CASE("a folder that cannot be looked at is neither missing nor there") {
  const TemporaryFolder folder;
  FaultyFileSystem files;
  files.failing_name = "open";
  files.error = EMFILE;
  const std::string error = output_error([&] { create_folder_durably(folder / "a", files); });
  CHECK(error.find("a: could not look at the folder: Too many open files") != error.npos);
  CHECK(files_in(folder.path()) == 0);
}

TEST_CASE("a file is deleted, and one that is gone already is fine") {
  const TemporaryFolder folder;
  write(folder / "x", "text");
  remove_file(folder / "x");
  CHECK_FALSE(std::filesystem::exists(folder / "x"));
  CHECK_NOTHROW(remove_file(folder / "x"));
  CHECK_THROWS_AS(remove_file(folder.path()), OutputError);
}

TEST_CASE("a file is read in whole, up to the largest size that is allowed") {
  const TemporaryFolder folder;
  write(folder / "x", "text");
  FaultyFileSystem files;
  files.longest_transfer = 3;
  files.interrupt_every_second_call = true;
  CHECK(read_file(folder / "x", 4, files).size() == 4);
  CHECK(read_file(folder / "x", 4)[3] == std::byte{'t'});
  CHECK_THROWS_WITH_AS(read_file(folder / "x", 3),
                       ((folder / "x").string() + ": found 4 bytes, expected at most 3").c_str(),
                       InputError);
}

TEST_CASE("what is not a regular file is refused without waiting") {
  const TemporaryFolder folder;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_AS(read_file(folder / "pipe", 10), InputError);
  CHECK_THROWS_AS(read_file(folder.path(), 10), InputError);
  CHECK_THROWS_AS(read_file("/dev/zero", 10), InputError);
  CHECK_THROWS_AS(read_file(folder / "none", 10), InputError);
}

TEST_CASE("a read that fails or ends early is reported") {
  const TemporaryFolder folder;
  write(folder / "x", "text");
  FaultyFileSystem files;
  files.failing_name = "pread";
  CHECK_THROWS_AS(read_file(folder / "x", 10, files), InputError);
  InputFile file(folder / "x");
  std::vector<std::byte> bytes(5);
  CHECK_THROWS_AS(file.read_at(0, bytes), InputError);
}

}  // namespace
}  // namespace tapestry
