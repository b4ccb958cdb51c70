// SPDX-License-Identifier: BSD-3-Clause
#include "data/io/durable_file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/io/error.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/temporary_folder.h"

namespace tapestry {
namespace {

using test::FaultyFileSystem;
using test::TemporaryFolder;
using Calls = std::vector<std::string>;

void write(const std::filesystem::path& path, std::string_view text,
           FileSystem& files = posix_file_system()) {
  write_file_durably(path, text, files);
}

std::string content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::size_t files_in(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

std::span<const std::byte> text_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// The name of the only other file in the folder of `path`.
std::string file_beside(const std::filesystem::path& path) {
  for (const auto& entry : std::filesystem::directory_iterator(path.parent_path())) {
    if (entry.path() != path) return entry.path().filename().string();
  }
  return "";
}

/// The message and the hint of the OutputError that `action` throws.
std::string output_error(const auto& action) {
  try {
    action();
  } catch (const OutputError& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "no OutputError";
}

/// Checks that writing "text" to `path` throws an error whose message or hint contains these words.
void check_failure(const std::filesystem::path& path, FileSystem& files,
                   const std::vector<std::string>& words) {
  const std::string error = output_error([&] { write(path, "text", files); });
  for (const std::string& word : words) {
    CAPTURE(error);
    CAPTURE(word);
    CHECK(error.find(word) != error.npos);
  }
}

/// A file system without free inodes.
struct NoInodes : FileSystem {
  int open(const char* path, int flags, mode_t mode) override {
    if ((flags & O_CREAT) == 0) return FileSystem::open(path, flags, mode);
    return errno = ENOSPC, -1;
  }
  std::optional<std::uint64_t> free_inodes(const char*) override { return 0; }
};

TEST_CASE("files can be written and replaced, and may be empty") {
  const TemporaryFolder folder;
  for (const char* text : {"first", "a longer second text", ""}) {
    write(folder / "x", text);
    CHECK(std::filesystem::exists(folder / "x"));
    CHECK(content(folder / "x") == text);
    CHECK(files_in(folder.path()) == 1);
  }
}

/// Writes pieces of these sizes, each with different bytes, and returns the system calls.
Calls write_pieces(const std::filesystem::path& path, const std::vector<std::size_t>& sizes) {
  std::size_t total = 0;
  for (const std::size_t size : sizes) total += size;
  std::string text(total, '\0');
  for (std::size_t i = 0; i < total; ++i) text[i] = static_cast<char>(i * 2'654'435'761U >> 24);
  std::vector<std::span<const std::byte>> pieces;
  auto rest = std::as_bytes(std::span(std::as_const(text)));
  for (const std::size_t size : sizes) {
    pieces.push_back(rest.first(size));
    rest = rest.subspan(size);
  }
  FaultyFileSystem files;
  write_file_durably(path, Pieces(pieces), files);
  CHECK((content(path) == text));
  return files.calls;
}

TEST_CASE("pieces of any size are written in order") {
  const TemporaryFolder folder;
  constexpr std::size_t chunk = 1 << 20;
  for (const auto& sizes :
       std::vector<std::vector<std::size_t>>{{},
                                             {0, 0},
                                             {3, 0, 5},
                                             {3, chunk, 5},
                                             {chunk - 3, 3, 1},
                                             {chunk - 3, 4, chunk - 1},
                                             {7, 3 * chunk + 1, 7, 7, 2 * chunk}}) {
    CAPTURE(sizes.size());
    write_pieces(folder / "x", sizes);
  }
  const Calls calls = write_pieces(folder / "x", std::vector<std::size_t>(3'000, 1'000));
  CHECK(std::ranges::count(calls, "write") == 3);
  CHECK(std::ranges::count(calls, "pread") == 3);
}

TEST_CASE("a file is flushed and verified before the rename, and its folder is flushed after it") {
  const TemporaryFolder folder;
  FaultyFileSystem files;
  write(folder / "x", "text", files);
  CHECK(files.calls == Calls{"open", "open", "fallocate", "write", "fsync", "pread", "close",
                             "rename", "fsync", "close"});
}

TEST_CASE("interrupted calls and short transfers are continued") {
  const TemporaryFolder folder;
  FaultyFileSystem files;
  files.interrupt_every_second_call = true;
  files.max_transfer_bytes = 3;
  write(folder / "x", "a text of some length", files);
  CHECK(content(folder / "x") == "a text of some length");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE(
    "if any call up to the rename fails, the old file is unchanged and no file is left over") {
  const TemporaryFolder folder;
  write(folder / "x", "old text");
  const Calls expected{"open",  "open",  "fallocate", "write", "write",
                       "fsync", "pread", "pread",     "close", "rename"};
  for (std::size_t number = 0; number < expected.size(); ++number) {
    CAPTURE(expected[number]);
    FaultyFileSystem files;
    files.failing_call = number;
    files.max_transfer_bytes = 5;  // if the second write fails, the file is incomplete
    const std::string error = output_error([&] { write(folder / "x", "new text", files); });
    REQUIRE(files.calls.at(number) == expected[number]);
    CHECK(error.find("Input/output error") != error.npos);
    CHECK(content(folder / "x") == "old text");
    CHECK(files_in(folder.path()) == 1);
  }
}

TEST_CASE("if flushing the folder fails, the error is reported and the new file remains") {
  const TemporaryFolder folder;
  write(folder / "x", "old");
  FaultyFileSystem files;
  files.failing_call = 8;
  check_failure(folder / "x", files, {"after the new file was put in place"});
  REQUIRE(files.calls.at(8) == "fsync");
  CHECK(content(folder / "x") == "text");
  // Some file systems cannot flush folders, or reserve space.
  files.calls.clear();
  files.error = EINVAL;
  CHECK_NOTHROW(write(folder / "x", "text", files));
  for (const int error : {EOPNOTSUPP, ENOSYS}) {
    FaultyFileSystem without;
    without.failing_name = "fallocate";
    without.error = error;
    write(folder / "x", std::to_string(error), without);
    CHECK(content(folder / "x") == std::to_string(error));
  }
}

TEST_CASE(
    "each error has a hint, and the error about a full disk states the needed and free bytes") {
  const TemporaryFolder folder;
  const std::string path = folder.path().string(), file = (folder / "x").string();
  struct {
    const char* call;
    int error;
    std::vector<std::string> words;
  } const failures[] = {
      {"fallocate",
       ENOSPC,
       {file + ": could not reserve space: No space left", "(4 bytes needed, 17 free)",
        "free space on the disk of " + path}},
      {"write", EDQUOT, {"(4 bytes needed, 17 free)", "free space on the disk of " + path}},
      {"write", EACCES, {"make " + path + " writable"}},
      {"write", EPERM, {"make " + path + " writable"}},
      {"write", EROFS, {"make " + path + " writable"}},
      {"write", ENOTDIR, {"create the folder " + path}},
      {"write", EEXIST, {"move the file with this name"}},
      {"write", EFBIG, {"(4 bytes needed, 17 free)", "ulimit -f"}},
      {"write", EIO, {"Input/output error", "check the disk"}},
      {"open", EMFILE, {"ulimit -n"}},
      {"rename", EPERM, {"could not rename the temporary file: Operation not permitted | make "}},
  };
  for (const auto& failure : failures) {
    CAPTURE(failure.error);
    FaultyFileSystem files;
    files.free_space = 17;
    files.failing_name = failure.call;
    files.error = failure.error;
    check_failure(folder / "x", files, failure.words);
    CHECK(files_in(folder.path()) == 0);
  }
  check_failure(folder / "none/x", posix_file_system(),
                {"could not open its folder: No such file or directory", "create the folder"});
  FaultyFileSystem files;
  files.failing_name = "open";
  files.error = EACCES;
  check_failure("/a\nb/x", files, {"/a\\nb/x: could not open its folder", "make /a\\nb writable"});
  struct Unknown : FileSystem {
    int fallocate(int, std::uint64_t) override { return errno = ENOSPC, -1; }
    int free_bytes(const char*, std::uint64_t&) override { return -1; }
  } unknown;
  check_failure(folder / "x", unknown, {"(4 bytes needed, unknown free)"});
}

TEST_CASE("a disk that loses bytes, or reports a wrong number of written bytes, is detected") {
  struct Forgetful : FileSystem {
    ssize_t pread(int, void*, std::size_t, std::uint64_t) override { return 0; }
  } forgetful;
  const TemporaryFolder folder;
  write(folder / "x", "old");
  FaultyFileSystem losing, claiming, idle;
  losing.lose_last_byte = true;
  claiming.excess_claimed = 100;
  idle.excess_claimed = -4;
  check_failure(folder / "x", losing, {"did not return the bytes that were written"});
  check_failure(folder / "x", forgetful, {"did not return the bytes", "from byte 0 of 4"});
  for (FaultyFileSystem* files : {&claiming, &idle}) {
    check_failure(folder / "x", *files, {"could not write: Input/output error"});
  }
  CHECK(content(folder / "x") == "old");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("if a file system has no free inodes, the error says so, even if there is free space") {
  NoInodes files;
  const TemporaryFolder folder;
  check_failure(folder / "x", files,
                {"No space left on device (no inode is left for another file)",
                 "delete files on the disk of " + folder.path().string()});
  CHECK(output_error([&] { write(folder / "x", "text", files); }).find("bytes needed") ==
        std::string::npos);
  CHECK(inode_hint("/a\nb") == "delete files on the disk of /a\\nb or write to another disk");
}

TEST_CASE("a write fails if there are too many temporary files") {
  struct Crowded : FileSystem {
    int attempts = 0;
    int open(const char* path, int flags, mode_t mode) override {
      if ((flags & O_EXCL) == 0) return FileSystem::open(path, flags, mode);
      ++attempts;
      return errno = EEXIST, -1;
    }
  } files;
  const TemporaryFolder folder;
  check_failure(folder / "x", files, {"could not create a temporary file: File exists"});
  CHECK(files.attempts == 100);
}

TEST_CASE("a new file deletes the temporary files that ended processes left for its target") {
  const TemporaryFolder folder;
  const auto leave = [&](const std::string& name) { std::ofstream(folder / name) << "half"; };
  const std::string own = ".x.tmp-" + std::to_string(::getpid()) + "-0";
  for (const std::string& name : {own, std::string(".x.tmp-1-7")}) leave(name);
  const std::vector<std::string> others{".y.tmp-1-0", ".x.tmp-1", "x.tmp-1-0", ".x.y.tmp-1-0"};
  for (const std::string& name : others) leave(name);
  {
    const TemporaryFile being_written(folder / "x");
    CHECK(files_in(folder.path()) == 1 + others.size());
    CHECK_FALSE(remove_abandoned(folder / own));
    write(folder / "x", "text");
    CHECK(content(folder / own).empty());
    CHECK(files_in(folder.path()) == 2 + others.size());
  }
  CHECK(content(folder / "x") == "text");
  for (const std::string& name : others) CHECK(content(folder / name) == "half");
  leave(own);
  CHECK(remove_abandoned(folder / own));
  CHECK_FALSE(std::filesystem::exists(folder / own));
}

TEST_CASE("remove_own_temporaries() deletes only the files that are being written") {
  const TemporaryFolder folder;
  write(folder / "x", "old");
  std::ofstream(folder / ".x.tmp-y-0");
  const TemporaryFile first(folder / "x"), second(folder / "y");
  TemporaryFile done(folder / "z");
  done.commit();
  CHECK(files_in(folder.path()) == 5);
  remove_own_temporaries();
  CHECK(files_in(folder.path()) == 3);
  CHECK(content(folder / "x") == "old");
}

TEST_CASE("commit() flushes a temporary file and renames it to its target") {
  const TemporaryFolder folder;
  write(folder / "x", "old");
  FaultyFileSystem files;
  {
    TemporaryFile file(folder / "x", files);
    CHECK(is_temporary_name(file_beside(folder / "x")));
    file.reserve();
    file.write(text_bytes("new "));
    file.write(text_bytes("text"));
    CHECK(content(folder / "x") == "old");
    file.commit();
    CHECK(content(folder / "x") == "new text");
  }
  CHECK(files.calls ==
        Calls{"open", "open", "write", "write", "fsync", "close", "rename", "fsync", "close"});
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("bytes written after verify() are flushed as well") {
  const TemporaryFolder folder;
  FaultyFileSystem files;
  {
    TemporaryFile file(folder / "x", files, 8);
    file.reserve();
    file.write(text_bytes("some"));
    const auto some = text_bytes("some");
    file.verify(Pieces(&some, 1));
    file.write(text_bytes("more"));
    file.commit();
  }
  CHECK(files.calls == Calls{"open", "open", "fallocate", "write", "fsync", "pread", "write",
                             "fsync", "close", "rename", "fsync", "close"});
  CHECK(content(folder / "x") == "somemore");
}

TEST_CASE("without commit(), the target is unchanged and the temporary file is deleted") {
  const TemporaryFolder folder;
  write(folder / "x", "old");
  {
    TemporaryFile file(folder / "x");
    file.write(text_bytes("new"));
    CHECK(files_in(folder.path()) == 2);
  }
  CHECK(content(folder / "x") == "old");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE(
    "errors about a temporary file state the bytes written, and their hints end with the given "
    "text") {
  const TemporaryFolder folder;
  FaultyFileSystem files;
  files.free_space = 17;
  TemporaryFile file(folder / "x", files, {}, ", or do without");
  file.write(text_bytes("some"));
  files.failing_name = "write";
  files.error = ENOSPC;
  const std::string error = output_error([&] { file.write(text_bytes("more")); });
  CHECK(error.find("(4 bytes written, 17 free)") != error.npos);
  CHECK(error.ends_with(" or write to another disk, or do without"));
  NoInodes full;
  CHECK(output_error([&] {
          TemporaryFile(folder / "y", full, {}, ", or do without");
        }).ends_with(" or write to another disk, or do without"));
}

TEST_CASE("is_temporary_name() recognizes names of temporary files") {
  CHECK(is_temporary_name(".step-00000001.h5.tmp-17-0"));
  CHECK(is_temporary_name(".x.tmp-1-99"));
  CHECK(is_temporary_name(".x.tmp-1-a.tmp-1-0"));
  for (const char* name :
       {".x.tmp-1-a", ".x.tmp-1-0-2", "..tmp-1-0", ".x.tmp-old-1", ".x.tmp-1-0~", "step.tmp-1-0",
        ".tmp-1-0", ".x.tmp-", ".x.tmp-1", ".x.tmp-1-", ".lock", ".x.tmp--1", ".x.tmp-a-0", ""}) {
    CAPTURE(name);
    CHECK_FALSE(is_temporary_name(name));
  }
}

TEST_CASE("folders are created with all missing parents, unless a file is in the way") {
  const TemporaryFolder folder;
  create_folder_durably(folder / "a/b/c");
  create_folder_durably(folder / "a/b/c");
  CHECK(std::filesystem::is_directory(folder / "a/b/c"));
  write(folder / "x", "");
  CHECK_THROWS_AS(create_folder_durably(folder / "x"), OutputError);
  CHECK_THROWS_AS(create_folder_durably(folder / "x/y"), OutputError);
}

TEST_CASE("a folder that another process has just created is accepted") {
  struct Late : FileSystem {
    int mkdir(const char* path, mode_t mode) override {
      FileSystem::mkdir(path, mode);
      return errno = EEXIST, -1;
    }
  } files;
  const TemporaryFolder folder;
  CHECK_NOTHROW(create_folder_durably(folder / "a", files));
  CHECK(std::filesystem::is_directory(folder / "a"));
}

TEST_CASE("a folder that cannot be inspected, created or flushed is reported") {
  const TemporaryFolder folder;
  const auto failing = [&](std::size_t call, const char* name, const char* words) {
    std::filesystem::remove(folder / "a");
    FaultyFileSystem files;
    files.failing_call = call;
    const std::string error = output_error([&] { create_folder_durably(folder / "a", files); });
    REQUIRE(files.calls.at(call) == name);
    CHECK(error.find(words) != error.npos);
  };
  failing(0, "open", "a: could not open the folder: Input/output");
  failing(3, "mkdir", "could not create the folder: Input/output");
  failing(4, "open", "could not flush its parent folder: Input/output");
  failing(5, "fsync", "could not flush its parent folder: Input/output");
}

TEST_CASE(
    "if this user cannot create a folder, the error names it and the folder to make writable") {
  const TemporaryFolder folder;
  const std::filesystem::path parent = folder / "parent";
  std::filesystem::create_directory(parent);
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
  std::filesystem::permissions(parent, std::filesystem::perms(0555));
  const bool is_root = ::geteuid() == 0;
  constexpr uid_t nobody = 65534;
  const auto error_about = [&](const std::filesystem::path& wanted) {
    if (is_root) REQUIRE(::setresuid(nobody, nobody, 0) == 0);
    const std::string text = output_error([&] { require_creatable_folder(wanted); });
    if (is_root) REQUIRE(::setresuid(0, 0, 0) == 0);
    return text;
  };
  const std::string hint = " | make " + parent.string() + " writable or write elsewhere";
  CHECK(error_about(parent / "new") ==
        (parent / "new").string() + ": could not create the folder: Permission denied" + hint);
  CHECK(error_about(parent / "new" / "run") ==
        (parent / "new").string() + ": could not create the folder: Permission denied" + hint);
  CHECK(error_about(parent) ==
        parent.string() + ": could not write to the folder: Permission denied" + hint);
}

TEST_CASE("deleting a file succeeds if it does not exist") {
  const TemporaryFolder folder;
  write(folder / "x", "text");
  remove_file(folder / "x");
  CHECK_FALSE(std::filesystem::exists(folder / "x"));
  CHECK_NOTHROW(remove_file(folder / "x"));
  CHECK_THROWS_AS(remove_file(folder.path()), OutputError);
}

}  // namespace
}  // namespace tapestry
