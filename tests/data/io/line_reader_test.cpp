#include "data/io/text_file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <thread>

#include "tests/data/refusal.h"
#include "tests/support/temporary_folder.h"

using namespace tapestry;
using tapestry::test::refusal;
using tapestry::test::TemporaryFolder;

namespace {

/// A reader of a text that stands in a file.
struct OpenText {
  explicit OpenText(std::string_view text)
      : descriptor(::open(folder.write("text", text).c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~OpenText() { ::close(descriptor); }

  TemporaryFolder folder;
  int descriptor;
  LineReader reader{descriptor, "the text", "try again"};
};

volatile std::sig_atomic_t interruptions = 0;

/// Lets SIGUSR1 interrupt what a thread waits for, while one is alive.
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

}  // namespace

TEST_CASE("LineReader gives lines one by one with their numbers, then none") {
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
  const std::string huge(2 * longest_line + 9, 'x');
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
  CHECK(refusal([&] { text.reader.next(); }) == "the text:2: byte 5 (0xFF) is not UTF-8");
}

TEST_CASE("a line of the greatest length is read whole, with any line end") {
  const std::string line(longest_line, 'x');
  for (const char* end : {"", "\n", "\r\n"}) {
    OpenText text(line + end);
    CHECK(text.reader.next() == line);
    CHECK_FALSE(text.reader.next());
  }
}

TEST_CASE("a longer line is refused before it is read to its end") {
  OpenText ended("one\n" + std::string(longest_line + 1, 'x') + "\n");
  CHECK(ended.reader.next() == "one");
  CHECK(refusal([&] { ended.reader.next(); }) ==
        "the text:2: the line is longer than 1048576 bytes, the limit");
  OpenText endless(std::string(10 * longest_line, 'x'));
  CHECK(refusal([&] { endless.reader.next(); }) ==
        "the text:1: the line is longer than 1048576 bytes, the limit");
  CHECK(endless.reader.bytes_read() < 2 * longest_line);
}

TEST_CASE("a long line of binary data or old Mac text is refused by its first bad byte") {
  OpenText zeros(std::string(2 * longest_line, '\0'));
  CHECK(refusal([&] { zeros.reader.next(); }) == "the text:1: byte 1 (0x00) is NUL, expected text");
  std::string old_macintosh;
  while (old_macintosh.size() < 2 * longest_line) old_macintosh += "line\r";
  OpenText macintosh(old_macintosh);
  CHECK(refusal([&] { macintosh.reader.next(); }) ==
        "the text:1: byte 5 (0x0D) is a carriage return without a line feed after it");
}

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

TEST_CASE("a line that is too long is not ready, and no more of it is read") {
  GrowingText text;
  LineReader reader(text.descriptor(), "the text", "try again", 10);
  text.add("more than ten bytes");
  CHECK_FALSE(reader.line_is_ready());
  text.add("and more");
  CHECK_FALSE(reader.line_is_ready());
  CHECK(reader.bytes_read() == 19);
}

TEST_CASE("a descriptor that cannot be read is refused with the reason") {
  LineReader reader(-1, "the text", "try again");
  CHECK(refusal([&] { reader.next(); }) == "the text: cannot be read: Bad file descriptor");
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
