// SPDX-License-Identifier: BSD-3-Clause
#include "data/io/file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/data/rejection.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/temporary_folder.h"

namespace tapestry {
namespace {

using test::FaultyFileSystem;
using test::TemporaryFolder;

constexpr FileKind note{.expected = "a note",
                        .special_hint = "write it down",
                        .too_large_hint = "write less",
                        .unreadable_hint = "look for it",
                        .max_bytes = 4};

/// "message | hint" of the FileError, or "none".
std::string rejected(const auto& action) {
  try {
    action();
  } catch (const FileError& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "none";
}

TEST_CASE("a file of up to the maximum size is read, in any number of system calls") {
  const TemporaryFolder folder;
  const auto path = folder.write("x", "text");
  FaultyFileSystem files;
  files.max_transfer_bytes = 3;
  files.interrupt_every_second_call = true;
  const OpenFile file(path, note, files);
  CHECK(file.size() == 4);
  std::vector<std::byte> bytes(4);
  file.read_all_at(0, bytes);
  CHECK(bytes[3] == std::byte{'t'});
  CHECK(bytes[0] == std::byte{'t'});
  bytes.resize(6);
  CHECK(file.read_at(1, bytes) == 3);
  CHECK(bytes[0] == std::byte{'e'});
}

TEST_CASE("if no more files can be opened, the hint names the limit instead of the path") {
  const TemporaryFolder folder;
  const auto path = folder.write("x", "text");
  FaultyFileSystem files;
  files.failing_call = 0;
  for (const int error : {EMFILE, ENFILE, EACCES}) {
    files.calls.clear();
    files.error = error;
    const std::string hint =
        error == EACCES ? "look for it" : "raise the limit on open files (ulimit -n)";
    CHECK(rejected([&] { OpenFile(path, note, files); }).ends_with(" | " + hint));
  }
}

TEST_CASE("a file larger than the maximum size is rejected before it is read") {
  const TemporaryFolder folder;
  const auto path = folder.write("x", "texts");
  FaultyFileSystem files;
  CHECK(rejected([&] { OpenFile(path, note, files); }) ==
        std::string(path) + ": found 5 bytes, expected at most 4 | write less");
  CHECK(files.calls == std::vector<std::string>{"open", "fstat", "close"});
}

TEST_CASE("OpenFile rejects pipes, devices and folders without blocking") {
  const TemporaryFolder folder;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  const std::string special = ": found a pipe, socket or device, expected a note | write it down";
  const auto rejection_of = [](const std::filesystem::path& path) {
    return rejected([&] { OpenFile(path, note); });
  };
  CHECK(rejection_of(folder / "pipe") == (folder / "pipe").string() + special);
  CHECK(rejection_of("/dev/zero") == "/dev/zero" + special);
  CHECK(rejection_of(folder.path()) ==
        folder.path().string() + ": found a folder, expected a note | name a file in this folder");
  CHECK(rejection_of(folder / "none") ==
        (folder / "none").string() + ": cannot be read: No such file or directory | look for it");
}

TEST_CASE("a failed system call and a file that ends early are reported") {
  const TemporaryFolder folder;
  const auto path = folder.write("x", "text");
  FaultyFileSystem files;
  std::vector<std::byte> bytes(4);
  for (const std::string call : {"open", "fstat", "pread"}) {
    files.failing_name = call;
    CHECK(rejected([&] { OpenFile(path, note, files).read_all_at(0, bytes); }) ==
          std::string(path) + ": cannot be read: Input/output error | look for it");
  }
  CHECK(rejected([&] { OpenFile(path, note).read_all_at(3, bytes); }) ==
        std::string(path) +
            ": the file ends at byte 4, expected 3 more bytes | do not change the file while it is "
            "read");
}

TEST_CASE("a file that has changed since it was opened is rejected") {
  const TemporaryFolder folder;
  const auto path = folder.write("x", "text");
  const OpenFile file(path, note);
  CHECK(rejected([&] { file.require_unchanged(4); }) == "none");
  const std::string changed = std::string(path) +
                              ": changed while it was read | wait until the file is complete, then "
                              "try again";
  CHECK(rejected([&] { file.require_unchanged(3); }) == changed);
  folder.write("x", "tex");
  CHECK(rejected([&] { file.require_unchanged(4); }) == changed);
}

// ---- FileSystem

TEST_CASE("free_bytes() returns the free space of a disk, and fails for a missing path") {
  const TemporaryFolder folder;
  std::uint64_t bytes = 0;
  REQUIRE(posix_file_system().free_bytes(folder.path().c_str(), bytes) == 0);
  const std::uint64_t available = std::filesystem::space(folder.path()).available;
  CHECK(bytes > available / 2);
  CHECK(bytes / 2 < available);
  CHECK(posix_file_system().free_bytes((folder / "none").c_str(), bytes) == -1);
}

TEST_CASE("free_inodes() returns the number of free inodes, and nullopt for a missing path") {
  const TemporaryFolder folder;
  struct statvfs status {};
  REQUIRE(::statvfs(folder.path().c_str(), &status) == 0);
  const auto free = posix_file_system().free_inodes(folder.path().c_str());
  REQUIRE(free.has_value() == (status.f_files > 0));
  if (free) {  // other programs create and delete files at the same time
    CHECK(*free > status.f_favail / 2);
    CHECK(*free / 2 <= status.f_favail);
  }
  errno = 0;
  CHECK_FALSE(posix_file_system().free_inodes((folder / "none").c_str()).has_value());
  CHECK(errno == ENOENT);
}

TEST_CASE("list() returns all names in a folder except . and ..") {
  const TemporaryFolder folder;
  std::ofstream(folder / ".hidden") << "text";
  std::vector<std::string> names;
  REQUIRE(posix_file_system().list(folder.path().c_str(), names) == 0);
  CHECK(names == std::vector<std::string>{".hidden"});
  CHECK(posix_file_system().list((folder / "none").c_str(), names) == -1);
  CHECK(errno == ENOENT);
}

}  // namespace
}  // namespace tapestry
