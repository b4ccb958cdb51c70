#include "data/io/text_file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <fstream>

#include "tests/data/refusal.h"
#include "tests/support/meanwhile.h"
#include "tests/support/temporary_folder.h"

using namespace tapestry;
using namespace std::string_view_literals;
using tapestry::test::contains;
using tapestry::test::Meanwhile;
using tapestry::test::refusal;
using tapestry::test::TemporaryFolder;
using Lines = std::vector<std::string>;

namespace {

Lines read_lines(std::string_view text) {
  const TemporaryFolder folder;
  return read_text_file(folder.write("text", text)).lines;
}

std::string message_for(std::string_view text) {
  return refusal([&] { read_lines(text); });
}

/// The refusal of a file that another thread changes, which may not get its turn at once.
std::string refusal_in_time(const std::filesystem::path& path) {
  for (int attempt = 0; attempt < 1000; ++attempt) {
    try {
      read_text_file(path);
    } catch (const DataError& error) {
      return error.what();
    }
  }
  return "none";
}

}  // namespace

TEST_CASE("lines end with a line feed, the last one with or without it") {
  CHECK(read_lines("one\ntwo\n") == Lines{"one", "two"});
  CHECK(read_lines("one\ntwo") == Lines{"one", "two"});
  CHECK(read_lines("one") == Lines{"one"});
}

TEST_CASE("blank lines are lines") {
  CHECK(read_lines("\n") == Lines{""});
  CHECK(read_lines("a\n\n b\n\n") == Lines{"a", "", " b", ""});
}

TEST_CASE("a carriage return before the line feed is dropped") {
  CHECK(read_lines("one\r\ntwo\r\n") == Lines{"one", "two"});
}

TEST_CASE("a carriage return anywhere else is refused with file, line and byte") {
  CHECK(contains(message_for("one\rtwo\n"),
                 "/text:1: byte 4 (0x0D) is a carriage return without a line feed after it"));
  CHECK(contains(message_for("one\r\r\n"), "/text:1: byte 4 (0x0D) is a carriage return"));
  CHECK(contains(message_for("one\ntwo\r"), "/text:2: byte 4 (0x0D) is a carriage return"));
}

TEST_CASE("no other character ends a line") {
  CHECK(read_lines("a\u2028b\u0085c\vd\fe\n").size() == 1);
}

TEST_CASE("a byte order mark at the front is skipped") {
  CHECK(read_lines("\xEF\xBB\xBFone\ntwo\n") == Lines{"one", "two"});
}

TEST_CASE("a byte order mark in the middle is refused with file, line and byte") {
  CHECK(contains(message_for("one\n\xEF\xBB\xBFtwo\n"),
                 "/text:2: byte 1 (0xEF) is the start of a byte order mark, which belongs at the "
                 "front of a file"));
  CHECK(contains(message_for("\xEF\xBB\xBFone\xEF\xBB\xBF\n"), "/text:1: byte 7 (0xEF)"));
}

TEST_CASE("a file larger than the read buffer is read whole") {
  std::string text;
  for (int i = 0; i < 20000; ++i) text += "line " + std::to_string(i) + "\n";
  const Lines lines = read_lines(text);
  CHECK(lines.size() == 20000);
  CHECK(lines[19999] == "line 19999");
}

TEST_CASE("an empty file is refused") {
  CHECK(contains(message_for(""), "/text: found an empty file, expected one sentence a line"));
  CHECK(contains(message_for("\xEF\xBB\xBF"), "found an empty file"));
}

TEST_CASE("bytes that are not UTF-8 are refused with file, line and byte") {
  CHECK(contains(message_for("ok\n\xC3\xA4pf\xE4l\n"), "/text:2: byte 5 (0xE4) is not UTF-8"));
  CHECK(contains(message_for("cut \xE2\x82\n"), "/text:1: byte 5 (0xE2) is not UTF-8"));
}

TEST_CASE("a NUL byte is refused with file, line and byte") {
  CHECK(contains(message_for("one\ntw\0o\n"sv), "/text:2: byte 3 (0x00) is NUL, expected text"));
}

TEST_CASE("UTF-16 and UTF-32 are refused by their names") {
  CHECK(contains(message_for("\xFF\xFEh\0\n\0"sv),
                 "/text: found little-endian UTF-16, expected UTF-8"));
  CHECK(contains(message_for("\xFE\xFF\0h\0\n"sv), "found big-endian UTF-16"));
  CHECK(contains(message_for("\xFF\xFE\0\0h\0\0\0"sv), "found little-endian UTF-32"));
  CHECK(contains(message_for("\0\0\xFE\xFF\0\0\0h"sv), "found big-endian UTF-32"));
  CHECK(contains(message_for("one\n\xFF\xFEt\0\n\0"sv), "/text:2: byte 4 (0x00) is NUL"));
  CHECK(contains(message_for("one\n\xFE\xFFtwo\n"), "/text:2: byte 1 (0xFE) is not UTF-8"));
}

TEST_CASE("a missing file is refused with its name and the reason") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "missing";
  CHECK(refusal([&] { read_text_file(path); }) ==
        path.string() + ": cannot be read: No such file or directory");
  folder.write("file", "text\n");
  CHECK(contains(refusal([&] { read_text_file(folder.path() / "file" / "x"); }),
                 "cannot be read: Not a directory"));
}

TEST_CASE("a folder is refused") {
  const TemporaryFolder folder;
  CHECK(refusal([&] { read_text_file(folder.path()); }) ==
        folder.path().string() + ": found a folder, expected a text file");
}

TEST_CASE("a pipe, a socket and a device are refused without blocking") {
  const TemporaryFolder folder;
  const auto pipe = folder.path() / "pipe";
  const auto socket = folder.path() / "socket";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  REQUIRE(mknod(socket.c_str(), S_IFSOCK | 0600, 0) == 0);
  for (const auto& path : {pipe, socket, std::filesystem::path("/dev/zero")}) {
    CHECK(refusal([&] { read_text_file(path); }) ==
          path.string() + ": found a pipe, socket or device, expected a text file");
  }
}

TEST_CASE("a symbolic link is read, unless its target is missing or the link itself") {
  const TemporaryFolder folder;
  folder.write("text", "one\n");
  std::filesystem::create_symlink("text", folder.path() / "link");
  CHECK(read_text_file(folder.path() / "link").lines == Lines{"one"});
  std::filesystem::create_symlink("loop", folder.path() / "loop");
  CHECK(contains(refusal([&] { read_text_file(folder.path() / "loop"); }), "cannot be read"));
}

TEST_CASE("a read that fails half-way is refused") {
  // A regular file by its type, but reading its first page is an input/output error.
  CHECK(refusal([] { read_text_file("/proc/self/mem"); }) ==
        "/proc/self/mem: cannot be read: Input/output error");
}

TEST_CASE("size and digest of a text cover all bytes of the file, line ends included") {
  const TemporaryFolder folder;
  const std::string text = "\xEF\xBB\xBFone\r\n" + std::string(100'000, 'x');
  const TextFile file = read_text_file(folder.write("text", text));
  CHECK(file.bytes == text.size());
  CHECK(file.digest == XXH3_64bits(text.data(), text.size()));
}

TEST_CASE("a text file larger than memory is refused before it is read") {
  const TemporaryFolder folder;
  const auto path = folder.write("text", "one\n");
  std::filesystem::resize_file(path, std::uint64_t{1} << 42);
  CHECK(refusal([&] {
          read_text_file(path);
        }).starts_with(path.string() + ": found 4398046511104 bytes, expected at most "));
}

TEST_CASE("a file that changes while it is read is refused") {
  const TemporaryFolder folder;
  const auto path = folder.write("text", std::string(1'000'000, '\n'));
  const Meanwhile touch([&](long n) {
    const timespec times[] = {{0, n}, {0, n}};
    utimensat(AT_FDCWD, path.c_str(), times, 0);
  });
  CHECK(refusal_in_time(path) == path.string() + ": changed while it was read");
}

TEST_CASE("reading a file that grows at the same speed ends") {
  const TemporaryFolder folder;
  const auto path = folder.write("text", std::string(1'000'000, '\n'));
  std::ofstream file(path, std::ios::app);
  const std::string more(1'000'000, '\n');
  const Meanwhile grow([&](long) { file << more << std::flush; });
  CHECK(refusal_in_time(path) == path.string() + ": changed while it was read");
}

TEST_CASE("control characters in the name of a file are escaped") {
  const TemporaryFolder folder;
  CHECK(refusal([&] { read_text_file(folder.path() / "a\nb\x1B[31m\xFF"); }) ==
        folder.path().string() + "/a\\nb\\x1B[31m\\xFF: cannot be read: No such file or directory");
}
