#include "data/text_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "tests/data/refusal.h"
#include "tests/data/temporary_folder.h"

using namespace tapestry;
using namespace std::string_view_literals;
using tapestry::testing::contains;
using tapestry::testing::refusal;
using tapestry::testing::TemporaryFolder;
using Lines = std::vector<std::string>;

namespace {

Lines lines_of(std::string_view text) {
  const TemporaryFolder folder;
  return read_text_lines(folder.write("text", text));
}

std::string message_for(std::string_view text) {
  return refusal([&] { lines_of(text); });
}

}  // namespace

TEST_CASE("lines end with a line feed, the last one with or without it") {
  CHECK(lines_of("one\ntwo\n") == Lines{"one", "two"});
  CHECK(lines_of("one\ntwo") == Lines{"one", "two"});
  CHECK(lines_of("one") == Lines{"one"});
}

TEST_CASE("blank lines are lines") {
  CHECK(lines_of("\n") == Lines{""});
  CHECK(lines_of("a\n\n b\n\n") == Lines{"a", "", " b", ""});
}

TEST_CASE("a carriage return before the line feed is dropped, and only there") {
  CHECK(lines_of("one\r\ntwo\r\n") == Lines{"one", "two"});
  CHECK(lines_of("one\rtwo\r\r\nthree\r") == Lines{"one\rtwo\r", "three"});
}

TEST_CASE("no other character ends a line") {
  CHECK(lines_of("a\u2028b\u0085c\vd\fe\n").size() == 1);
}

TEST_CASE("a byte order mark at the front is skipped") {
  CHECK(lines_of("\xEF\xBB\xBFone\ntwo\n") == Lines{"one", "two"});
  CHECK(lines_of("one\n\xEF\xBB\xBFtwo\n")[1].size() == 6);
}

TEST_CASE("a file larger than the read buffer comes out whole") {
  std::string text;
  for (int i = 0; i < 20000; ++i) text += "line " + std::to_string(i) + "\n";
  const Lines lines = lines_of(text);
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
  CHECK(contains(message_for("one\ntw\0o\n"sv), "/text:2: byte 3 is NUL"));
  CHECK(contains(message_for("\xFF\xFEh\0i\0\n\0"sv), "/text:1: byte 4 is NUL"));
}

TEST_CASE("a file that is not there is refused with its name and the reason") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "missing";
  CHECK(refusal([&] { read_text_lines(path); }) ==
        path.string() + ": cannot be read: No such file or directory");
  folder.write("file", "text\n");
  CHECK(contains(refusal([&] { read_text_lines(folder.path() / "file" / "x"); }),
                 "cannot be read: Not a directory"));
}

TEST_CASE("a folder is refused") {
  const TemporaryFolder folder;
  CHECK(refusal([&] { read_text_lines(folder.path()); }) ==
        folder.path().string() + ": found a folder, expected a text file");
}

TEST_CASE("a pipe and a device are refused without waiting for them") {
  const TemporaryFolder folder;
  const auto pipe = folder.path() / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(contains(refusal([&] { read_text_lines(pipe); }), "found a pipe, socket or device"));
  CHECK(contains(refusal([] { read_text_lines("/dev/zero"); }), "found a pipe, socket or device"));
}

TEST_CASE("a link is read, unless it leads nowhere or to itself") {
  const TemporaryFolder folder;
  folder.write("text", "one\n");
  std::filesystem::create_symlink("text", folder.path() / "link");
  CHECK(read_text_lines(folder.path() / "link") == Lines{"one"});
  std::filesystem::create_symlink("loop", folder.path() / "loop");
  CHECK(contains(refusal([&] { read_text_lines(folder.path() / "loop"); }), "cannot be read"));
}

TEST_CASE("a read that fails half-way is refused") {
  // A regular file by its type, but reading its first page is an input/output error.
  CHECK(refusal([] { read_text_lines("/proc/self/mem"); }) ==
        "/proc/self/mem: cannot be read: Input/output error");
}
