#include "train/platform/child_process.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "tests/train/few_descriptors.h"

namespace tapestry {
namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;

std::string run(const std::function<std::string()>& work) {
  return run_contained(work, 1, 64 * mebibyte);
}

TEST_CASE("work in a process of its own gives its answer and changes nothing here") {
  int here = 1;
  CHECK(run([&] {
          here = 2;
          return std::string("said ") + std::to_string(here);
        }) == "said 2");
  CHECK(here == 1);
  CHECK(run([] { return std::string(); }) == "");
  CHECK(run([] { return std::string("a\0b", 3); }) == std::string("a\0b", 3));
}

TEST_CASE("an exception comes back with its message") {
  CHECK_THROWS_WITH_AS(run([]() -> std::string { throw std::invalid_argument("no such thing"); }),
                       "no such thing", std::runtime_error);
}

TEST_CASE("what is thrown without a message comes back as an error all the same") {
  CHECK_THROWS_WITH_AS(run([]() -> std::string { throw 1; }), "an unknown error",
                       std::runtime_error);
}

TEST_CASE("a process that cannot be started is an error of the system") {
  const auto run_without_descriptors = [] {
    const test::FewDescriptors none(0);
    return run([] { return std::string(); });
  };
  CHECK_THROWS_AS(run_without_descriptors(), std::system_error);
}

TEST_CASE("a crash and an exit are told of and do no harm") {
  CHECK_THROWS_WITH_AS(run([]() -> std::string {
                         ::raise(SIGKILL);
                         return "";
                       }),
                       "it was ended by signal 9", NotContained);
  CHECK_THROWS_WITH_AS(run([]() -> std::string { std::abort(); }), "it was ended by signal 6",
                       NotContained);
  CHECK_THROWS_WITH_AS(run([]() -> std::string { ::_exit(0); }), "it answered with 0 bytes",
                       NotContained);
}

TEST_CASE("work that never ends is ended") {
  CHECK_THROWS_WITH_AS(run([]() -> std::string {
                         for (volatile bool on = true; on;) continue;
                         return "";
                       }),
                       "it took more than 1 s of processor time", NotContained);
}

TEST_CASE("work that waits for ever is ended") {
  CHECK_THROWS_WITH_AS(run_contained(
                           []() -> std::string {
                             ::pause();
                             return "";
                           },
                           1, mebibyte),
                       "it took more than 10 s", NotContained);
}

TEST_CASE("an answer that is too long is refused, however long it is") {
  CHECK(run([] { return std::string(65'535, 'x'); }).size() == 65'535);
  CHECK_THROWS_WITH_AS(run([] { return std::string(65'536, 'x'); }), "it answered with 65537 bytes",
                       NotContained);
  CHECK_THROWS_AS(run([] { return std::string(mebibyte, 'x'); }), NotContained);
}

#if !defined(TAPESTRY_ASAN) && !defined(TAPESTRY_TSAN)
TEST_CASE("work has no more memory than it was given") {
  const auto take = [](std::size_t bytes) {
    return run([bytes] {
      std::vector<char> memory(bytes, 'x');
      return std::string(1, memory.back());
    });
  };
  CHECK(take(16 * mebibyte) == "x");
  CHECK_THROWS_WITH_AS(take(256 * mebibyte), "it took more than 67 MB of memory", NotContained);
}
#endif

}  // namespace
}  // namespace tapestry
