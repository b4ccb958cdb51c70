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
  write_file_durably(path, std::as_bytes(std::span(text)), files);
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

/// The name of the other file in the folder of a file.
std::string file_beside(const std::filesystem::path& path) {
  for (const auto& entry : std::filesystem::directory_iterator(path.parent_path())) {
    if (entry.path() != path) return entry.path().filename().string();
  }
  return "";
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

/// Writes pieces of these sizes, all of other bytes, and returns the calls of the file system.
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

TEST_CASE("a file of pieces has them in order, whatever their sizes") {
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
}

TEST_CASE("small pieces are written and read back together") {
  const TemporaryFolder folder;
  const Calls calls = write_pieces(folder / "x", std::vector<std::size_t>(3'000, 1'000));
  CHECK(std::ranges::count(calls, "write") == 3);
  CHECK(std::ranges::count(calls, "pread") == 3);
}

TEST_CASE("a file is flushed and verified before it is renamed, and the folder flushed after") {
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
  files.longest_transfer = 3;
  write(folder / "x", "a text of some length", files);
  CHECK(content(folder / "x") == "a text of some length");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("whichever call up to the rename fails, the old file is unchanged and no file is left") {
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

TEST_CASE("a failure other than lack of space is reported without the bytes needed") {
  const TemporaryFolder folder;
  FaultyFileSystem files;
  files.failing_name = "rename";
  files.error = EPERM;
  CHECK(output_error([&] { write(folder / "x", "text", files); }) ==
        (folder / "x").string() +
            ": could not rename the temporary file: Operation not permitted | make " +
            folder.path().string() + " writable or write elsewhere");
}

TEST_CASE("a line feed in the path of an error is escaped") {
  FaultyFileSystem files;
  files.failing_name = "open";
  files.error = EACCES;
  CHECK(output_error([&] { write("/a\nb/x", "text", files); }) ==
        "/a\\nb/x: could not open its folder: Permission denied | make /a\\nb writable or write "
        "elsewhere");
}

TEST_CASE("each failure has a hint") {
  const TemporaryFolder folder;
  const std::string path = folder.path().string();
  const std::vector<std::pair<int, std::string>> hints = {
      {EDQUOT, "free space on the disk of " + path + " or write to another one"},
      {EACCES, "make " + path + " writable or write elsewhere"},
      {EPERM, "make " + path + " writable or write elsewhere"},
      {EROFS, "make " + path + " writable or write elsewhere"},
      {ENOTDIR, "create the folder " + path},
      {EEXIST, "move the file of that name away or write elsewhere"},
      {EFBIG, "raise the limit on file sizes (ulimit -f)"},
      {EIO, "check the disk"}};
  for (const auto& expected : hints) {
    CAPTURE(expected.second);
    FaultyFileSystem files;
    files.failing_name = "write";
    files.error = expected.first;
    CHECK(output_error([&] {
            write(folder / "x", "text", files);
          }).ends_with(" | " + expected.second));
  }
}

TEST_CASE("a file system that cannot reserve space is supported") {
  const TemporaryFolder folder;
  for (const int error : {EOPNOTSUPP, ENOSYS}) {
    FaultyFileSystem files;
    files.failing_name = "fallocate";
    files.error = error;
    write(folder / "x", std::to_string(error), files);
    CHECK(content(folder / "x") == std::to_string(error));
  }
}

TEST_CASE("a file system that cannot flush folders is supported") {
  const TemporaryFolder folder;
  FaultyFileSystem files;
  files.failing_call = 8;
  files.error = EINVAL;
  CHECK_NOTHROW(write(folder / "x", "text", files));
  REQUIRE(files.calls.at(8) == "fsync");
}

TEST_CASE("a disk that loses bytes and reports success is detected") {
  const TemporaryFolder folder;
  write(folder / "x", "old");
  FaultyFileSystem files;
  files.lose_last_byte = true;
  const std::string error = output_error([&] { write(folder / "x", "new", files); });
  CHECK(error.find("gave back other bytes") != error.npos);
  CHECK(content(folder / "x") == "old");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("a disk that reports more bytes than it was given is an error") {
  const TemporaryFolder folder;
  write(folder / "x", "old");
  FaultyFileSystem files;
  files.excess_claimed = 100;
  const std::string error = output_error([&] { write(folder / "x", "new", files); });
  CHECK(error.find("could not write: Input/output error") != error.npos);
  CHECK(content(folder / "x") == "old");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("a disk that writes 0 bytes without an error is an error") {
  const TemporaryFolder folder;
  FaultyFileSystem files;
  files.excess_claimed = -4;
  const std::string error = output_error([&] { write(folder / "x", "text", files); });
  CHECK(error.find("could not write: Input/output error") != error.npos);
  CHECK(files_in(folder.path()) == 0);
}

TEST_CASE("a file that is shorter when it is read back is an error") {
  struct Forgetful : FileSystem {
    ssize_t pread(int, void*, std::size_t, std::uint64_t) override { return 0; }
  } files;
  const TemporaryFolder folder;
  const std::string error = output_error([&] { write(folder / "x", "text", files); });
  CHECK(error.find("gave back other bytes than were written, from byte 0 on of 4") != error.npos);
  CHECK(files_in(folder.path()) == 0);
}

TEST_CASE("an unknown number of free bytes is reported as unknown") {
  struct Unknown : FileSystem {
    int fallocate(int, std::uint64_t) override { return errno = ENOSPC, -1; }
    int free_bytes(const char*, std::uint64_t&) override { return -1; }
  } files;
  const TemporaryFolder folder;
  const std::string error = output_error([&] { write(folder / "x", "text", files); });
  CHECK(error.find("(4 bytes needed, unknown free)") != error.npos);
}

TEST_CASE("a file system without free inodes is reported as such, whatever space is free") {
  struct Full : FileSystem {
    int open(const char* path, int flags, mode_t mode) override {
      if ((flags & O_CREAT) == 0) return FileSystem::open(path, flags, mode);
      return errno = ENOSPC, -1;
    }
    std::optional<std::uint64_t> free_inodes(const char*) override { return 0; }
  } files;
  const TemporaryFolder folder;
  const std::string error = output_error([&] { write(folder / "x", "text", files); });
  CHECK(error.find(": No space left on device (no inode is left for another file)") != error.npos);
  CHECK(error.find("bytes needed") == error.npos);
}

TEST_CASE("a file is not written if all temporary names are taken") {
  struct Crowded : FileSystem {
    int attempts = 0;
    int open(const char* path, int flags, mode_t mode) override {
      if ((flags & O_EXCL) == 0) return FileSystem::open(path, flags, mode);
      ++attempts;
      return errno = EEXIST, -1;
    }
  } files;
  const TemporaryFolder folder;
  const std::string error = output_error([&] { write(folder / "x", "text", files); });
  CHECK(error.find("could not create a temporary file: File exists") != error.npos);
  CHECK(files.attempts == 100);
}

TEST_CASE("a temporary file left by a crashed process of the same number is no error") {
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

TEST_CASE("a temporary file becomes its target when it is committed, and is flushed before") {
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

TEST_CASE("what is written after a temporary file was verified is flushed as well") {
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

TEST_CASE("a temporary file that is not committed leaves the target unchanged and is deleted") {
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

TEST_CASE("a full disk is reported with the bytes written if the size is not known") {
  const TemporaryFolder folder;
  FaultyFileSystem files;
  files.free_space = 17;
  TemporaryFile file(folder / "x", files, {}, ", or do without");
  file.write(text_bytes("some"));
  files.failing_name = "write";
  files.error = ENOSPC;
  CHECK(output_error([&] { file.write(text_bytes("more")); }) ==
        (folder / "x").string() +
            ": could not write: No space left on device (4 bytes written, 17 free) | free space "
            "on the disk of " +
            folder.path().string() + " or write to another one, or do without");
}

TEST_CASE("every hint of a temporary file has what its user adds") {
  struct Full : FileSystem {
    int open(const char* path, int flags, mode_t mode) override {
      if ((flags & O_CREAT) == 0) return FileSystem::open(path, flags, mode);
      return errno = ENOSPC, -1;
    }
    std::optional<std::uint64_t> free_inodes(const char*) override { return 0; }
  } full;
  const TemporaryFolder folder;
  const auto create = [&](const std::filesystem::path& path, FileSystem& files) {
    return output_error([&] { TemporaryFile(path, files, {}, ", or do without"); });
  };
  CHECK(create(folder / "x", full)
            .ends_with(" | delete files on the disk of " + folder.path().string() +
                       " or write to another one, or do without"));
  CHECK(create(folder / "none/x", posix_file_system())
            .ends_with(" | create the folder " + (folder / "none").string() + ", or do without"));
}

TEST_CASE("the hint for a disk without free inodes names the folder, escaped") {
  CHECK(inode_hint("/a\nb") == "delete files on the disk of /a\\nb or write to another one");
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

TEST_CASE("folders are created with all missing parents") {
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

TEST_CASE("a folder that cannot be accessed is reported neither as missing nor as existing") {
  const TemporaryFolder folder;
  FaultyFileSystem files;
  files.failing_name = "open";
  files.error = EMFILE;
  const std::string error = output_error([&] { create_folder_durably(folder / "a", files); });
  CHECK(error.find("a: could not look at the folder: Too many open files") != error.npos);
  CHECK(files_in(folder.path()) == 0);
}

TEST_CASE("a folder that another process has just created is used like a new one") {
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

TEST_CASE("a folder that cannot be created, or not be flushed, is reported") {
  const TemporaryFolder folder;
  const auto failing = [&](std::size_t call, const char* name) {
    std::filesystem::remove(folder / "a");
    FaultyFileSystem files;
    files.failing_call = call;
    const std::string error = output_error([&] { create_folder_durably(folder / "a", files); });
    REQUIRE(files.calls.at(call) == name);
    return error;
  };
  CHECK(failing(3, "mkdir").find("could not create the folder: Input/output") != std::string::npos);
  for (const auto& error : {failing(4, "open"), failing(5, "fsync")}) {
    CHECK(error.find("could not flush the folder above it: Input/output") != error.npos);
  }
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
