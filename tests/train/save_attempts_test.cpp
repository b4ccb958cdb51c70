#include "train/save_attempts.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <new>
#include <string>

#include "tests/train/program.h"
#include "train/error.h"

namespace tapestry {
namespace {

/// Attempts whose warnings can be read.
struct Watched {
  Watched() { progress.log_to((folder / "log").string()); }

  std::size_t warnings() const {
    std::size_t count = 0;
    const std::string log = test::read_text(folder / "log");
    for (auto at = log.find("warning: not saved: "); at != log.npos;
         at = log.find("warning: not saved: ", at + 1)) {
      ++count;
    }
    return count;
  }

  test::TemporaryFolder folder;
  Progress progress{nullptr, 0, 1};
  SaveAttempts attempts{progress};
};

void full_disk() { throw OutputError("file: could not write: No space left (9 bytes needed)"); }

TEST_CASE("a save that fails once or twice in a row is a warning with its reason") {
  Watched watched;
  for (int round = 0; round < 3; ++round) {
    CHECK_FALSE(watched.attempts.attempt(full_disk, false));
    CHECK_FALSE(watched.attempts.attempt(full_disk, false));
    CHECK(watched.attempts.attempt([] {}, false));
  }
  CHECK(watched.warnings() == 6);
  CHECK(test::read_text(watched.folder / "log")
            .find("; training continues (1 failed save in a row; the run stops after 3)") !=
        std::string::npos);
  CHECK(test::read_text(watched.folder / "log")
            .find("file: could not write: No space left (9 bytes needed); training continues (2 "
                  "failed saves in a row; the run stops after 3)") != std::string::npos);
}

TEST_CASE("the third failure in a row is thrown") {
  Watched watched;
  CHECK_FALSE(watched.attempts.attempt(full_disk, false));
  CHECK_FALSE(watched.attempts.attempt([] { throw std::bad_alloc(); }, false));
  CHECK(
      test::read_text(watched.folder / "log")
          .find("warning: not saved: no memory for a checkpoint; training continues (2 failed ") !=
      std::string::npos);
  CHECK_THROWS_AS(watched.attempts.attempt(full_disk, false), OutputError);
}

TEST_CASE("a failure of the last save is thrown at once, as it was") {
  Watched watched;
  CHECK_THROWS_AS(watched.attempts.attempt(full_disk, true), OutputError);
  CHECK_THROWS_AS(watched.attempts.attempt([] { throw std::bad_alloc(); }, true), std::bad_alloc);
  CHECK(watched.warnings() == 0);
}

TEST_CASE("an error of another kind is no matter of saving") {
  Watched watched;
  CHECK_THROWS_AS(watched.attempts.attempt([] { throw NumericError("x"); }, false), NumericError);
}

}  // namespace
}  // namespace tapestry
