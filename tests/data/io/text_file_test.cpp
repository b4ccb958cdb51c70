// SPDX-License-Identifier: BSD-3-Clause
#include "data/io/text_file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <array>
#include <chrono>
#include <csignal>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/data/rejection.h"
#include "tests/support/meanwhile.h"
#include "tests/support/temporary_folder.h"

using namespace tapestry;
using namespace std::string_view_literals;
using tapestry::test::check_rejected;
using tapestry::test::Meanwhile;
using tapestry::test::rejection;
using tapestry::test::TemporaryFolder;
using Lines = std::vector<std::string>;

namespace {

Lines read_lines(std::string_view text) {
  const TemporaryFolder folder;
  return read_text_file(folder.write("text", text)).lines;
}

/// The error from reading a file while another thread changes it. This may take several attempts.
std::string rejection_in_time(const std::filesystem::path& path) {
  for (int attempt = 0; attempt < 1000; ++attempt) {
    try {
      read_text_file(path);
    } catch (const DataError& error) {
      return error.what();
    }
  }
  return "none";
}

/// Reads a text from a file.
struct OpenText {
  explicit OpenText(std::string_view text)
      : descriptor(::open(folder.write("text", text).c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~OpenText() { ::close(descriptor); }

  TemporaryFolder folder;
  int descriptor;
  LineReader reader{descriptor, "the text", "try again"};
};

volatile std::sig_atomic_t interruptions = 0;

/// While an object of this class exists, SIGUSR1 interrupts blocking system calls.
class Interruptible {
 public:
  Interruptible() {
    struct sigaction action {};
    action.sa_handler = [](int) { interruptions = interruptions + 1; };
    ::sigaction(SIGUSR1, &action, &before_);
  }
  ~Interruptible() { ::sigaction(SIGUSR1, &before_, nullptr); }

 private:
  struct sigaction before_ {};
};

/// A text that a program is still writing.
class GrowingText {
 public:
  GrowingText() { REQUIRE(::pipe2(ends_.data(), O_CLOEXEC) == 0); }
  ~GrowingText() {
    ::close(ends_[0]);
    end();
  }
  GrowingText(const GrowingText&) = delete;
  GrowingText& operator=(const GrowingText&) = delete;

  int descriptor() const { return ends_[0]; }
  void add(std::string_view text) const {
    REQUIRE(::write(ends_[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  void end() {
    if (ends_[1] >= 0) ::close(ends_[1]);
    ends_[1] = -1;
  }

 private:
  std::array<int, 2> ends_{};
};

}  // namespace

TEST_CASE("lines end with \\n or \\r\\n, and the last line may have no line end") {
  const std::pair<std::string_view, Lines> texts[] = {
      {"one\ntwo\n", {"one", "two"}},
      {"one\ntwo", {"one", "two"}},
      {"one", {"one"}},
      {"\n", {""}},
      {"a\n\n b\n\n", {"a", "", " b", ""}},
      {"one\r\ntwo\r\n", {"one", "two"}},
      {"\xEF\xBB\xBFone\ntwo\n", {"one", "two"}},
      {"a\u2028b\u0085c\vd\fe\n", {"a\u2028b\u0085c\vd\fe"}},
  };
  for (const auto& [text, lines] : texts) CHECK(read_lines(text) == lines);
  std::string text;
  for (int i = 0; i < 20000; ++i) text += "line " + std::to_string(i) + "\n";
  const Lines lines = read_lines(text);  // larger than the buffer
  CHECK(lines.size() == 20000);
  CHECK(lines[19999] == "line 19999");
}

TEST_CASE("texts that programs interpret differently are rejected with file, line and byte") {
  const std::string zeros(2 * max_text_line_length, '\0');
  std::string old_macintosh;
  while (old_macintosh.size() < 2 * max_text_line_length) old_macintosh += "line\r";
  const std::string carriage_return = "is a carriage return without a line feed after it";
  check_rejected(
      {
          {"one\rtwo\n", {"/text:1: byte 4 (0x0D) " + carriage_return}},
          {"one\r\r\n", {"/text:1: byte 4 (0x0D) " + carriage_return}},
          {"one\ntwo\r", {"/text:2: byte 4 (0x0D) " + carriage_return}},
          {old_macintosh, {"/text:1: byte 5 (0x0D) " + carriage_return}},
          {"one\n\xEF\xBB\xBFtwo\n", {"/text:2: byte 1 (0xEF)", "byte order mark"}},
          {"\xEF\xBB\xBFone\xEF\xBB\xBF\n", {"/text:1: byte 7 (0xEF)", "byte order mark"}},
          {"", {"/text: found an empty file, expected one sentence per line"}},
          {"\xEF\xBB\xBF", {"found an empty file"}},
          {"ok\n\xC3\xA4pf\xE4l\n", {"/text:2: byte 5 (0xE4) is not UTF-8"}},
          {"cut \xE2\x82\n", {"/text:1: byte 5 (0xE2) is not UTF-8"}},
          {std::string("one\ntw\0o\n", 9), {"/text:2: byte 3 (0x00) is NUL"}},
          {zeros, {"/text:1: byte 1 (0x00) is NUL"}},
          {"\x89PNG\r\n\x1A\n", {"/text: found a PNG image, expected text", "images.md"}},
          {"\xFF\xD8\xFF\xE0", {"found a JPEG image", "images.md"}},
          {"\x1F\x8B\x08\x08", {"found a gzip file", "gunzip"}},
          {"PK\x03\x04", {"found a ZIP or .npz file", "numpy.save"}},
          {"\x93NUMPY\x01", {"found a NumPy array"}},
          {"\x89HDF\r\n\x1A\n", {"found an HDF5 file"}},
          {"%PDF-1.7\n", {"found a PDF file", "pdftotext"}},
          {std::string("\xFF\xFEh\0\n\0", 6), {"/text: found little-endian UTF-16", "iconv"}},
          {std::string("\xFE\xFF\0h\0\n", 6), {"found big-endian UTF-16"}},
          {std::string("\xFF\xFE\0\0h\0\0\0", 8), {"found little-endian UTF-32"}},
          {std::string("\0\0\xFE\xFF\0\0\0h", 8), {"found big-endian UTF-32"}},
          {std::string("one\n\xFF\xFEt\0\n\0", 10), {"/text:2: byte 4 (0x00) is NUL"}},
          {"one\n\xFE\xFFtwo\n", {"/text:2: byte 1 (0xFE) is not UTF-8"}},
          {"one\n" + std::string(max_text_line_length + 1, 'x') + "\n",
           {"/text:2: the line is longer than 1048576 bytes"}},
      },
      [](const std::string& text) { read_lines(text); });
}

TEST_CASE("a path that is not a readable text file is rejected with its name and the reason") {
  const TemporaryFolder folder;
  const auto at = [&](const char* name) { return (folder.path() / name).string(); };
  REQUIRE(mkfifo(at("pipe").c_str(), 0600) == 0);
  REQUIRE(mknod(at("socket").c_str(), S_IFSOCK | 0600, 0) == 0);
  folder.write("file", "one\n");
  std::filesystem::create_symlink("file", at("link"));
  std::filesystem::create_symlink("loop", at("loop"));
  CHECK(read_text_file(at("link")).lines == Lines{"one"});
  std::filesystem::resize_file(folder.write("large", "one\n"), std::uint64_t{1} << 42);
  const std::string special = ": found a pipe, socket or device, expected a text file";
  check_rejected(
      {
          {at("missing"), {at("missing") + ": cannot be read: No such file or directory"}},
          {at("file/x"), {"cannot be read: Not a directory"}},
          {at("loop"), {"cannot be read"}},
          {folder.path().string(), {folder.path().string() + ": found a folder"}},
          {at("pipe"), {at("pipe") + special}},
          {at("socket"), {at("socket") + special}},
          {"/dev/zero", {"/dev/zero" + special}},
          // A regular file, but reading its first page fails with an input/output error.
          {"/proc/self/mem", {"/proc/self/mem: cannot be read: Input/output error"}},
          {at("large"), {at("large") + ": found 4398046511104 bytes, expected at most "}},
          {at("a\nb\x1B[31m\xFF"), {"/a\\nb\\x1B[31m\\xFF: cannot be read"}},
      },
      [](const std::string& path) { read_text_file(path); });
}

TEST_CASE("size and digest of a text cover all bytes of the file, including line ends") {
  const TemporaryFolder folder;
  const std::string text = "\xEF\xBB\xBFone\r\n" + std::string(100'000, 'x');
  const TextFile file = read_text_file(folder.write("text", text));
  CHECK(file.bytes == text.size());
  CHECK(file.digest == XXH3_64bits(text.data(), text.size()));
}

TEST_CASE("a file that changes while it is read is rejected") {
  const TemporaryFolder folder;
  const auto path = folder.write("text", std::string(1'000'000, '\n'));
  const Meanwhile touch([&](long n) {
    const timespec times[] = {{0, n}, {0, n}};
    utimensat(AT_FDCWD, path.c_str(), times, 0);
  });
  CHECK(rejection_in_time(path) == path.string() + ": changed while it was read");
}

TEST_CASE("reading ends even if the file grows as fast as it is read") {
  const TemporaryFolder folder;
  const auto path = folder.write("text", std::string(1'000'000, '\n'));
  std::ofstream file(path, std::ios::app);
  const std::string more(1'000'000, '\n');
  const Meanwhile grow([&](long) { file << more << std::flush; });
  CHECK(rejection_in_time(path) == path.string() + ": changed while it was read");
}

// ---- LineReader

TEST_CASE("LineReader returns lines one by one with their numbers, then nullopt") {
  OpenText text("one\n\nthree");
  CHECK(text.reader.next() == "one");
  CHECK(text.reader.line_number() == 1);
  CHECK(text.reader.next() == "");
  CHECK(text.reader.next() == "three");
  CHECK(text.reader.line_number() == 3);
  CHECK_FALSE(text.reader.next());
  CHECK_FALSE(text.reader.next());
}

TEST_CASE("the rest of a line that is too long can be skipped, and the next line is read") {
  const std::string huge(2 * max_text_line_length + 9, 'x');
  for (const std::string& lines : {"a\n" + huge + "\nb\n", "a\n" + huge + "\r\nb"}) {
    OpenText text(lines);
    CHECK(text.reader.next() == "a");
    CHECK_THROWS_AS((void)text.reader.next(), OverlongLine);
    text.reader.skip_line();
    CHECK(text.reader.next() == "b");
    CHECK(text.reader.line_number() == 3);
    CHECK_FALSE(text.reader.next());
  }
}

TEST_CASE("LineReader returns a line before it checks the next one") {
  OpenText text("fine\nbad \xFF\n");
  CHECK(text.reader.next() == "fine");
  CHECK(rejection([&] { text.reader.next(); }) == "the text:2: byte 5 (0xFF) is not UTF-8");
}

TEST_CASE("a line of the maximum length is accepted, with any line end") {
  const std::string line(max_text_line_length, 'x');
  for (const char* end : {"", "\n", "\r\n"}) {
    OpenText text(line + end);
    CHECK(text.reader.next() == line);
    CHECK_FALSE(text.reader.next());
  }
}

TEST_CASE("a line that is too long is rejected before it is read to its end") {
  OpenText endless(std::string(10 * max_text_line_length, 'x'));
  CHECK_THROWS_AS((void)endless.reader.next(), OverlongLine);
  CHECK(endless.reader.bytes_read() < 2 * max_text_line_length);
}

TEST_CASE("a line is ready once it is complete or the text ends") {
  GrowingText text;
  LineReader reader(text.descriptor(), "the text", "try again");
  CHECK_FALSE(reader.line_is_ready());
  text.add("on");
  CHECK_FALSE(reader.line_is_ready());
  text.add("e\ntwo\nth");
  CHECK(reader.line_is_ready());
  CHECK(reader.next() == "one");
  CHECK(reader.line_is_ready());
  CHECK(reader.next() == "two");
  CHECK_FALSE(reader.line_is_ready());
  text.end();
  CHECK(reader.line_is_ready());
  CHECK(reader.next() == "th");
  CHECK(reader.line_is_ready());
  CHECK_FALSE(reader.next());
}

TEST_CASE("a line that is too long is not ready, and its rest is not read") {
  GrowingText text;
  LineReader reader(text.descriptor(), "the text", "try again", 10);
  text.add("more than ten bytes");
  CHECK_FALSE(reader.line_is_ready());
  text.add("and more");
  CHECK_FALSE(reader.line_is_ready());
  CHECK(reader.bytes_read() == 19);
}

TEST_CASE("a descriptor that cannot be read is rejected with the reason") {
  LineReader reader(-1, "the text", "try again");
  CHECK(rejection([&] { reader.next(); }) == "the text: cannot be read: Bad file descriptor");
}

TEST_CASE("a read that a signal interrupts is continued") {
  const Interruptible interruptible;
  std::array<int, 2> pipe{};
  REQUIRE(::pipe(pipe.data()) == 0);
  std::thread writer([&, reading = ::pthread_self()] {
    for (int i = 0; i < 20; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ::pthread_kill(reading, SIGUSR1);
    }
    CHECK(::write(pipe[1], "one\n", 4) == 4);
    ::close(pipe[1]);
  });
  LineReader reader(pipe[0], "the text", "try again");
  CHECK(reader.next() == "one");
  CHECK_FALSE(reader.next());
  writer.join();
  CHECK(interruptions > 0);
  ::close(pipe[0]);
}
