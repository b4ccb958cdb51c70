// SPDX-License-Identifier: BSD-3-Clause
#include "train/checkpoint/run_directory.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <new>
#include <optional>
#include <stdexcept>
#include <utility>

#include "tests/support/contains.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/error_text.h"
#include "train/base/error.h"

namespace tapestry {
namespace {

using test::contains;
using test::error_text;
using test::FaultyFileSystem;
using test::TemporaryFolder;
using Steps = std::vector<std::uint64_t>;

ArrayStore snapshot_of(std::uint64_t step) {
  ArrayStore snapshot;
  snapshot.put_scalar<std::uint64_t>("step", step);
  return snapshot;
}

/// A run directory with checkpoints of some steps.
struct MadeRun {
  TemporaryFolder folder;
  RunDirectory directory{folder / "run"};

  explicit MadeRun(const Steps& steps = {}) {
    directory.create();
    for (const std::uint64_t step : steps) {
      directory.save(step, snapshot_of(step), {.keep_last = 100});
    }
  }

  void damage(std::uint64_t step) const {
    std::filesystem::resize_file(directory.checkpoint_path(step), 1000);
  }

  void add_file(const std::string& name) const {
    std::ofstream(directory.path() / "checkpoints" / name) << "text";
  }
};

TEST_CASE("a checkpoint is named by its step with at least 8 digits") {
  const RunDirectory directory("run");
  CHECK(directory.checkpoint_path(1234) == "run/checkpoints/step-00001234.h5");
  CHECK(directory.checkpoint_path(1234567890) == "run/checkpoints/step-1234567890.h5");
}

TEST_CASE("a run without a folder or without checkpoints has no steps and no newest checkpoint") {
  const RunDirectory nowhere("/nowhere/run");
  CHECK(nowhere.steps().empty());
  CHECK_FALSE(nowhere.read_newest().has_value());
  const MadeRun run;
  CHECK(run.directory.steps().empty());
  CHECK_FALSE(run.directory.read_newest().has_value());
}

TEST_CASE("steps are listed in ascending order, and other names are ignored") {
  const MadeRun run({300, 5, 100'000'000});
  for (const char* name : {"step-7.h5", "step-000000009.h5", "step-00000001.h5.bak", "step-.h5",
                           "step--0000001.h5", "step-99999999999999999999.h5", "best.h5"}) {
    run.add_file(name);
  }
  CHECK(run.directory.steps() == Steps{5, 300, 100'000'000});
}

TEST_CASE("a run is found by its directory and by its folder of checkpoints") {
  const MadeRun run({10});
  const std::string path = run.directory.path().string();
  CHECK(find_run(path).path() == path);
  CHECK(find_run(path + "/checkpoints").path() == path);
  CHECK(find_run(path + "/checkpoints/").path() == path);
  CHECK(find_run(path + "/checkpoints/.").steps() == Steps{10});
  CHECK(find_run("checkpoints").path() == "checkpoints");
  std::filesystem::rename(path, run.folder / "checkpoints");  // a run named `checkpoints`
  CHECK(find_run(run.folder / "checkpoints").path() == run.folder / "checkpoints");
  CHECK(find_run(run.folder / "checkpoints/checkpoints").path() == run.folder / "checkpoints");
}

TEST_CASE("read_newest() returns the intact checkpoint with the highest step") {
  const MadeRun run({30, 10, 20});
  const auto newest = run.directory.read_newest();
  REQUIRE(newest.has_value());
  CHECK(newest->step == 30);
  CHECK(newest->path == run.directory.checkpoint_path(30));
  CHECK(newest->arrays == snapshot_of(30));
  CHECK(newest->rejected.empty());

  run.damage(20);
  run.damage(30);
  const auto older = run.directory.read_newest();
  REQUIRE(older.has_value());
  CHECK(older->step == 10);
  REQUIRE(older->rejected.size() == 2);
  CHECK(older->rejected[0].path == run.directory.checkpoint_path(30));
  CHECK(contains(older->rejected[1].reason, "truncated"));

  run.damage(10);  // all checkpoints are damaged: an error, not a new run
  CHECK_THROWS_AS(run.directory.read_newest(), CheckpointError);
}

TEST_CASE("if the newest checkpoint cannot be opened, it is skipped and reported") {
  const MadeRun run({10, 20});
  const auto newest_of = [&](FileSystem& files) {
    return RunDirectory(run.directory.path(), files).read_newest();
  };
  for (const int error : {EACCES, EIO}) {
    FaultyFileSystem files;
    files.failing_call = 0;
    files.error = error;
    const auto newest = newest_of(files);
    REQUIRE(newest.has_value());
    CHECK(newest->step == 10);
    REQUIRE(newest->rejected.size() == 1);
    CHECK(newest->rejected[0].reason.find("cannot be read") != std::string::npos);
  }
  for (const int error : {EMFILE, ENFILE, ENOMEM}) {  // these errors are not caused by the file
    FaultyFileSystem files;
    files.failing_call = 0;
    files.error = error;
    CHECK_THROWS_AS(newest_of(files), CheckpointError);
  }
}

/// Creates something other than a regular file at the path of a checkpoint.
using Replacement = std::function<void(const std::filesystem::path& checkpoint)>;

const std::vector<std::pair<const char*, Replacement>> replacements = {
    {"dangling link", [](const auto& path) { std::filesystem::create_symlink("none", path); }},
    {"folder", [](const auto& path) { std::filesystem::create_directory(path); }},
    {"pipe", [](const auto& path) { REQUIRE(::mkfifo(path.c_str(), 0600) == 0); }}};

TEST_CASE("a checkpoint that is not a regular file is skipped in favor of an older checkpoint") {
  for (const auto& replacement : replacements) {
    CAPTURE(replacement.first);
    MadeRun run({10, 20});
    replacement.second(run.directory.checkpoint_path(30));
    const auto newest = run.directory.read_newest();
    REQUIRE(newest.has_value());
    CHECK(newest->step == 20);
    CHECK(newest->rejected.size() == 1);
    run.directory.save(30, snapshot_of(30), {.keep_last = 3});
    CHECK(run.directory.read_newest()->arrays == snapshot_of(30));
    replacement.second(run.directory.checkpoint_path(35));
    CHECK_NOTHROW(run.directory.save(40, snapshot_of(40), {.keep_last = 1}));
    CHECK(run.directory.read_newest()->step == 40);
  }
}

/// A run whose folder of checkpoints cannot be listed.
struct UnlistedRun : MadeRun {
  FaultyFileSystem files;
  RunDirectory unlisted{directory.path(), files};

  explicit UnlistedRun(int error) : MadeRun({10}) {
    files.failing_name = "list";
    files.error = error;
  }
};

TEST_CASE("a folder of checkpoints that cannot be listed is an error") {
  UnlistedRun run(EACCES);
  const std::string text = error_text<CheckpointError>([&] { run.unlisted.read_newest(); });
  CHECK(contains(text, "/checkpoints: could not list the checkpoints: Permission denied"));
  UnlistedRun limited(EMFILE);
  CHECK(contains(error_text<CheckpointError>([&] { limited.unlisted.steps(); }), "ulimit -n"));
  UnlistedRun small(ENOMEM);
  CHECK_THROWS_AS(small.unlisted.steps(), std::bad_alloc);
}

TEST_CASE("a save succeeds and returns a problem if old checkpoints cannot be listed") {
  for (const auto& [error, words] : {std::pair(EACCES, "could not list the checkpoints"),
                                     {ENOMEM, "not enough memory to list the checkpoints"}}) {
    UnlistedRun run(error);
    const auto problems = run.unlisted.save(20, snapshot_of(20), {.keep_last = 1});
    REQUIRE(problems.size() == 1);
    CHECK(contains(problems[0], words));
    CHECK(run.directory.steps() == Steps{10, 20});
  }
}

/// A file system with a given number of free inodes.
struct FewInodes : FileSystem {
  std::optional<std::uint64_t> free = 0;
  std::optional<std::uint64_t> free_inodes(const char*) override { return free; }
};

TEST_CASE("the error about a lock file that cannot be created says if no inode is left") {
  struct Full : FewInodes {
    int open(const char*, int, mode_t) override { return errno = ENOSPC, -1; }
  } files;
  const MadeRun run;
  RunDirectory directory(run.directory.path(), files);
  const std::string text = error_text<OutputError>([&] { directory.lock(); });
  CHECK(contains(text, "/.lock: could not open the lock file: No space left on device"));
  CHECK(contains(text, "no inode is left"));
}

TEST_CASE("a save keeps a folder at the path of an old checkpoint and reports no problem") {
  MadeRun run({20});
  std::filesystem::create_directory(run.directory.checkpoint_path(10));
  CHECK(run.directory.save(30, snapshot_of(30), {.keep_last = 1}).empty());
  CHECK(run.directory.steps() == Steps{10, 30});
}

TEST_CASE("a save deletes old checkpoints and reports checkpoints that cannot be deleted") {
  const MadeRun run({10, 20, 30});
  FaultyFileSystem files;
  files.fail_times("unlink", 1, EPERM);
  RunDirectory directory(run.directory.path(), files);
  const auto problems = directory.save(40, snapshot_of(40), {.keep_last = 1});
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].starts_with(run.directory.checkpoint_path(10).string() +
                                ": could not delete the file"));
  CHECK(run.directory.steps() == Steps{10, 40});
  CHECK(directory.save(50, snapshot_of(50), {.keep_last = 1}).empty());
  CHECK(run.directory.steps() == Steps{50});
}

TEST_CASE(
    "saving keeps the newest checkpoints, the requested steps and the best-ranked checkpoints") {
  const std::vector<std::uint64_t> ranking{70, 20, 15, 10, 30, 40};
  struct Case {
    Retention retention;
    Steps kept;
  };
  for (const auto& [retention, kept] : std::vector<Case>{
           {{.keep_last = 1}, {50, 1000}},
           {{.keep_last = 2, .steps = {20, 30}}, {20, 30, 40, 50, 1000}},
           {{.keep_last = 1, .best_first = ranking, .keep_best = 2}, {10, 20, 50, 1000}},
           {{.keep_last = 1, .best_first = ranking, .keep_best = 1}, {20, 50, 1000}}}) {
    // The checkpoint of a later step is neither counted nor deleted.
    MadeRun run({10, 20, 30, 40, 1000});
    CHECK(run.directory.save(50, snapshot_of(50), retention).empty());
    CHECK(run.directory.steps() == kept);
  }
}

TEST_CASE("a probe reserves space in the folder of checkpoints and leaves no file") {
  const MadeRun run;
  FaultyFileSystem files;
  const RunDirectory directory(run.directory.path(), files);
  directory.probe(5000, 0);
  CHECK(std::ranges::count(files.calls, "fallocate") == 1);
  files.failing_name = "fallocate";
  files.error = ENOSPC;
  files.free_space = 17;
  CHECK(contains(error_text<OutputError>([&] { directory.probe(5000, 0); }),
                 "/checkpoints/probe: could not reserve space: No space left on device (5000 bytes "
                 "needed, 17 free)"));
  CHECK(std::filesystem::is_empty(run.directory.path() / "checkpoints"));
}

TEST_CASE("a probe fails if fewer inodes are free than a checkpoint and other files need") {
  FewInodes files;
  const MadeRun run;
  const RunDirectory directory(run.directory.path(), files);
  for (const std::uint64_t free : {0, 1, 6}) {
    files.free = free;
    CHECK(contains(error_text<OutputError>([&] { directory.probe(5000, 6); }),
                   "(7 inodes needed, " + std::to_string(free) + " free)"));
  }
  files.free = 7;
  CHECK_NOTHROW(directory.probe(5000, 6));
  files.free = 1;
  CHECK_NOTHROW(directory.probe(5000, 0));
  files.free.reset();
  CHECK_NOTHROW(directory.probe(5000, 6));
}

TEST_CASE("saving the same step again replaces its checkpoint") {
  MadeRun run({10});
  run.directory.save(10, snapshot_of(11), {});
  CHECK(run.directory.read_newest()->arrays == snapshot_of(11));
}

TEST_CASE("a failed save neither deletes nor changes files") {
  const MadeRun run({10, 20});
  for (const char* call : {"open", "fallocate", "write", "fsync", "pread", "close", "rename"}) {
    CAPTURE(call);
    FaultyFileSystem files;
    files.failing_name = call;
    RunDirectory directory(run.directory.path(), files);
    CHECK_THROWS_AS(directory.save(20, snapshot_of(30), {.keep_last = 1}), OutputError);
    CHECK(run.directory.steps() == Steps{10, 20});
    CHECK(run.directory.read_newest()->arrays == snapshot_of(20));
  }
}

TEST_CASE("keeping 0 checkpoints is rejected before anything is written") {
  MadeRun run({10});
  CHECK_THROWS_AS(run.directory.save(20, snapshot_of(20), {.keep_last = 0}), std::invalid_argument);
  CHECK(run.directory.steps() == Steps{10});
}

TEST_CASE("only temporary files of crashed saves are removed") {
  MadeRun run({10});
  run.add_file(".step-00000020.h5.tmp-17-0");
  run.add_file("notes.txt");
  const auto [removed, problems] = run.directory.remove_stray_temporaries();
  CHECK(problems.empty());
  REQUIRE(removed.size() == 1);
  CHECK(removed[0].filename() == ".step-00000020.h5.tmp-17-0");
  CHECK_FALSE(std::filesystem::exists(removed[0]));
  CHECK(std::filesystem::exists(run.directory.path() / "checkpoints/notes.txt"));
  CHECK(run.directory.remove_stray_temporaries().removed.empty());
}

TEST_CASE(
    "a temporary file that cannot be deleted is reported, and other temporary files are removed") {
  MadeRun run({10});
  run.add_file(".step-00000020.h5.tmp-17-0");
  run.add_file(".step-00000030.h5.tmp-17-0");
  FaultyFileSystem files;
  files.fail_times("unlink", 1, EPERM);
  const auto [removed, problems] =
      RunDirectory(run.directory.path(), files).remove_stray_temporaries();
  const auto folder = run.directory.path() / "checkpoints";
  CHECK(removed == std::vector{folder / ".step-00000030.h5.tmp-17-0"});
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].starts_with((folder / ".step-00000020.h5.tmp-17-0").string()));
}

}  // namespace
}  // namespace tapestry
