#include "train/platform/child_process.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "tests/train/few_descriptors.h"

namespace tapestry {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::size_t mebibyte = std::size_t{1} << 20;
constexpr ChildProcess::Limits limits{.seconds = 1, .bytes = 64 * mebibyte};

Bytes to_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

/// Of work that sends nothing but its answer, that answer, which has as many bytes.
std::string run(const std::function<std::string()>& work, std::size_t size = 0) {
  ChildProcess child([&](const ChildProcess::Send& send) { send(to_bytes(work())); }, limits);
  std::string answer(size, '?');
  child.receive(std::as_writable_bytes(std::span(answer)));
  child.finish();
  return answer;
}

TEST_CASE("work in a child process sends bytes and changes nothing in the parent") {
  int here = 1;
  CHECK(run(
            [&] {
              here = 2;
              return std::string("said ") + std::to_string(here);
            },
            6) == "said 2");
  CHECK(here == 1);
  CHECK(run([] { return std::string(); }) == "");
  CHECK(run([] { return std::string("a\0b", 3); }, 3) == std::string("a\0b", 3));
}

TEST_CASE("bytes arrive in order, however many and in whatever pieces they are sent and received") {
  constexpr std::size_t count = 5'000'000;
  ChildProcess child(
      [](const ChildProcess::Send& send) {
        std::string block;
        for (std::size_t i = 0; i < count; ++i) {
          block += static_cast<char>(i % 251);
          if (block.size() > i % 4099) send(to_bytes(std::exchange(block, "")));
        }
        send(to_bytes(block));
      },
      limits);
  std::string all(count, '?');
  for (std::size_t begin = 0, step = 1; begin < count; step = step * 3 % 1'999'993) {
    const std::size_t size = std::min(step, count - begin);
    child.receive(std::as_writable_bytes(std::span(all)).subspan(begin, size));
    begin += size;
  }
  child.finish();
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) wrong += all[i] == static_cast<char>(i % 251) ? 0 : 1;
  CHECK(wrong == 0);
}

TEST_CASE("an exception of the child process is thrown in the parent with its message") {
  CHECK_THROWS_WITH_AS(run([]() -> std::string { throw std::invalid_argument("no such thing"); }),
                       "no such thing", std::runtime_error);
  CHECK_THROWS_WITH_AS(
      run([]() -> std::string { throw std::invalid_argument(std::string(100'000, 'x')); }),
      std::string(4000, 'x').c_str(), std::runtime_error);
}

TEST_CASE("bytes sent before an exception are received first") {
  ChildProcess child(
      [](const ChildProcess::Send& send) {
        send(to_bytes("abc"));
        throw std::runtime_error("no more");
      },
      limits);
  std::string text(3, '?');
  child.receive(std::as_writable_bytes(std::span(text)));
  CHECK(text == "abc");
  CHECK_THROWS_WITH_AS(child.receive(std::as_writable_bytes(std::span(text))), "no more",
                       std::runtime_error);
}

TEST_CASE("an exception without a message is thrown in the parent too") {
  CHECK_THROWS_WITH_AS(run([]() -> std::string { throw 1; }), "an unknown error",
                       std::runtime_error);
}

TEST_CASE("a child process that cannot be started is a system error") {
  const auto run_without_descriptors = [] {
    const test::FewDescriptors none(0);
    return run([] { return std::string(); });
  };
  CHECK_THROWS_AS(run_without_descriptors(), std::system_error);
}

TEST_CASE("a crash or exit of a child process is an error in the parent") {
  CHECK_THROWS_WITH_AS(run([]() -> std::string {
                         ::raise(SIGKILL);
                         return "";
                       }),
                       "it was ended by signal 9", NotContained);
  CHECK_THROWS_WITH_AS(run([]() -> std::string { std::abort(); }), "it was ended by signal 6",
                       NotContained);
  CHECK_THROWS_WITH_AS(run([]() -> std::string { ::_exit(0); }), "it ended without an answer",
                       NotContained);
}

TEST_CASE("work in a child process that computes forever is ended") {
  CHECK_THROWS_WITH_AS(run([]() -> std::string {
                         for (volatile bool on = true; on;) continue;
                         return "";
                       }),
                       "it took more than 1 s of processor time", NotContained);
}

TEST_CASE("work in a child process that waits forever is ended") {
  CHECK_THROWS_WITH_AS(run([]() -> std::string {
                         ::pause();
                         return "";
                       }),
                       "it took more than 10 s", NotContained);
}

TEST_CASE("an answer of a wrong length is refused") {
  CHECK_THROWS_WITH_AS(run([] { return std::string(9, 'x'); }, 10),
                       "it sent less than was expected", NotContained);
  CHECK_THROWS_WITH_AS(run([] { return std::string(11, 'x'); }, 10),
                       "it sent more than was expected", NotContained);
  CHECK_THROWS_WITH_AS(run([] { return std::string(16 * mebibyte, 'x'); }),
                       "it sent more than was expected", NotContained);
}

TEST_CASE("a child process ends when its object is destroyed") {
  pid_t id = 0;
  {
    ChildProcess child(
        [](const ChildProcess::Send& send) {
          const pid_t self = ::getpid();
          send(std::as_bytes(std::span(&self, 1)));
          ::pause();
        },
        limits);
    child.receive(std::as_writable_bytes(std::span(&id, 1)));
    REQUIRE(::kill(id, 0) == 0);
  }
  CHECK(::kill(id, 0) != 0);
}

#if !defined(TAPESTRY_ASAN) && !defined(TAPESTRY_TSAN) && !defined(TAPESTRY_COVERAGE)
TEST_CASE("work in a child process can send, and neither open files nor connect") {
  const std::string failures = run(
      [] {
        std::string codes;
        for (const int descriptor : {::open("/dev/null", O_RDONLY | O_CLOEXEC),
                                     ::socket(AF_UNIX, SOCK_STREAM, 0), ::dup(0)}) {
          codes += descriptor < 0 && errno == EMFILE ? 'x' : 'o';
        }
        return codes;
      },
      3);
  CHECK(failures == "xxx");
}
#endif

#if !defined(TAPESTRY_ASAN) && !defined(TAPESTRY_TSAN)
TEST_CASE("work in a child process has no more memory than its limit") {
  const auto take = [](std::size_t bytes) {
    return run(
        [bytes] {
          std::vector<char> memory(bytes, 'x');
          return std::string(1, memory.back());
        },
        1);
  };
  CHECK(take(16 * mebibyte) == "x");
  CHECK_THROWS_WITH_AS(take(256 * mebibyte), "it took more than 67 MB of memory", NotContained);
}
#endif

}  // namespace
}  // namespace tapestry
