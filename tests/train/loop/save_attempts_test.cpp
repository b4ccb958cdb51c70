#include "train/loop/save_attempts.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <string>

#include "tests/train/program.h"
#include "train/base/error.h"

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
  RunDirectory directory{folder / "my run"};
  SaveAttempts attempts{progress, directory};
};

constexpr std::uint64_t step = 1200;

void full_disk() {
  throw OutputError("file: could not write: No space left (9 bytes needed)", "free space");
}

TEST_CASE("a save that fails once or twice in a row is a warning with its reason") {
  Watched watched;
  for (int round = 0; round < 3; ++round) {
    CHECK_FALSE(watched.attempts.attempt(full_disk, step, false));
    CHECK_FALSE(watched.attempts.attempt(full_disk, step, false));
    CHECK(watched.attempts.attempt([] {}, step, false));
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
  CHECK_FALSE(watched.attempts.attempt(full_disk, step, false));
  CHECK_FALSE(watched.attempts.attempt([] { throw std::bad_alloc(); }, step, false));
  CHECK(
      test::read_text(watched.folder / "log")
          .find("warning: not saved: no memory for a checkpoint; training continues (2 failed ") !=
      std::string::npos);
  CHECK_THROWS_AS(watched.attempts.attempt(full_disk, step, false), OutputError);
}

/// The error of a save that ends the run.
OutputError ending_error(SaveAttempts& attempts, bool last) {
  try {
    attempts.attempt(full_disk, step, last);
  } catch (const OutputError& error) {
    return error;
  }
  return OutputError("none");
}

TEST_CASE("the error of the third failure has the reason, the step, and the last checkpoint") {
  Watched watched;
  watched.directory.create();
  for (const std::uint64_t saved : {800, 900, 1300}) {  // the last by an abandoned continuation
    test::write_text(watched.directory.checkpoint_path(saved), "");
  }
  watched.attempts.attempt(full_disk, step - 200, false);
  watched.attempts.attempt(full_disk, step - 100, false);
  const OutputError error = ending_error(watched.attempts, false);
  const std::string run = (watched.folder / "my run").string();
  CHECK(std::string(error.what()) ==
        "file: could not write: No space left (9 bytes needed); the run ends at step 1,200, since "
        "3 saves in a row have failed; its newest checkpoint is " +
            run + "/checkpoints/step-00000900.h5");
  CHECK(error.hint() == "free space, then resume with `tapestry train --resume '" + run + "'`");
}

TEST_CASE("the error of a failed last save says so, and that there is no checkpoint") {
  Watched watched;
  const OutputError error = ending_error(watched.attempts, true);
  CHECK(std::string(error.what()) ==
        "file: could not write: No space left (9 bytes needed); the run ends at step 1,200, since "
        "its last save has failed; it has no checkpoint");
  CHECK(error.hint() == "free space, then start the run again");
}

TEST_CASE("lack of memory for the last save is logged with the text of an error") {
  Watched watched;
  CHECK_THROWS_AS(watched.attempts.attempt([] { throw std::bad_alloc(); }, step, true),
                  std::bad_alloc);
  CHECK(test::read_text(watched.folder / "log")
            .find("  not saved: no memory for a checkpoint; the run ends at step 1,200, since its "
                  "last save has failed; it has no checkpoint; start the run again\n") !=
        std::string::npos);
}

TEST_CASE("a failure of the last save is thrown at once") {
  Watched watched;
  CHECK_THROWS_AS(watched.attempts.attempt(full_disk, step, true), OutputError);
  CHECK_THROWS_AS(watched.attempts.attempt([] { throw std::bad_alloc(); }, step, true),
                  std::bad_alloc);
  CHECK(watched.warnings() == 0);
}

TEST_CASE("errors other than those of saving are rethrown") {
  Watched watched;
  CHECK_THROWS_AS(watched.attempts.attempt([] { throw NumericError("x"); }, step, false),
                  NumericError);
}

}  // namespace
}  // namespace tapestry
