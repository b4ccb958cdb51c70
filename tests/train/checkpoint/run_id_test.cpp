// SPDX-License-Identifier: BSD-3-Clause
#include "train/checkpoint/run_id.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/contains.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/program.h"
#include "tests/train/tiny_run.h"
#include "train/base/error.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/open_run.h"
#include "train/tasks/task.h"

namespace tapestry {
namespace {

using test::contains;
using test::tiny_config;
using test::TinyRun;

/// The text that a function writes to standard error.
std::string errors_of(const std::function<void()>& function) {
  const test::TemporaryFolder folder;
  const auto path = folder / "errors";
  const int before = ::dup(STDERR_FILENO);
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT, 0600);
  REQUIRE(::dup2(file, STDERR_FILENO) == STDERR_FILENO);
  function();
  ::dup2(before, STDERR_FILENO);
  ::close(before);
  ::close(file);
  return test::read_text(path);
}

std::string id_of(const Config& config) { return make_run_id(config, load_corpus(config.data)); }

TEST_CASE("runs have the same id if and only if they compute the same results") {
  const std::string id = id_of(tiny_config());
  CHECK(id.size() == 16);
  CHECK(id.find_first_not_of("0123456789abcdef") == std::string::npos);
  const std::vector<std::function<void(Config&)>> changes = {
      [](Config& c) { c.train.seed = 2; }, [](Config& c) { c.model.d_model = 32; },
      [](Config& c) { c.model.dropout = 0.1; }, [](Config& c) { c.schedule.learning_rate = 0.02; },
      [](Config& c) { c.data.generated.train_size = 23; }};
  for (const auto& change : changes) {
    Config config = tiny_config();
    change(config);
    CHECK(id_of(config) != id);
  }
  // Keys that may change on resume, process settings and paths do not change the id.
  Config config = tiny_config();
  config.train.steps = 20;
  config.train.save_every = 1;
  config.train.threads = 2;
  config.train.run_dir = config.train.initialize_from = "elsewhere";
  CHECK(id_of(config) == id);
  Corpus other = load_corpus(tiny_config().data);
  ++other.fingerprint;
  CHECK(make_run_id(tiny_config(), other) != id);
}

TEST_CASE("await_checkpoint_of_run() waits for a checkpoint up to a timeout, with one warning") {
  using namespace std::chrono_literals;
  TinyRun run;
  run.train(tiny_config());
  const RunDirectory directory = run.directory();
  const std::uint64_t step = directory.steps().back();
  const auto path = directory.checkpoint_path(step);
  const auto hidden = path.string() + ".hidden";
  std::filesystem::rename(path, hidden);
  CHECK_THROWS_AS(await_checkpoint_of_run(directory, step, 0ms), UnusableCheckpoint);
  std::thread other([&] {
    std::this_thread::sleep_for(300ms);
    std::filesystem::rename(hidden, path);
  });
  const std::string errors =
      errors_of([&] { CHECK(saved_step(await_checkpoint_of_run(directory, step, 60s)) == step); });
  other.join();
  const auto warning = errors.find("warning: " + path.string());
  CHECK(warning != errors.npos);
  CHECK(errors.find("waiting up to 60 s", warning) != errors.npos);
  CHECK(errors.find("warning: ", warning + 1) == errors.npos);
}

TEST_CASE("runs that start from different pretrained parameters have different ids") {
  const Config config = tiny_config();
  const Corpus corpus = load_corpus(config.data);
  const auto id_from = [&](std::uint64_t seed) {
    const Model model(network_maker(config, network_sizes(config, corpus)), DType::float32, seed);
    return make_run_id(config, corpus, &model);
  };
  CHECK(id_from(1) == id_from(1));
  CHECK(id_from(1) != id_from(2));
  CHECK(id_from(1) != make_run_id(config, corpus));
}

/// A finished run of tiny_config() with this seed, with its id in config.yaml.
struct OwnRun : TinyRun {
  explicit OwnRun(std::uint64_t seed = 1) {
    Config config = tiny_config();
    config.train.seed = seed;
    train(config);
    std::ofstream(directory().path() / "config.yaml") << run_id_line(id_of(config)) << "data:\n";
  }
  std::filesystem::path path(std::uint64_t step) { return directory().checkpoint_path(step); }
  /// Replaces the checkpoint of a step with another file.
  void replace(std::uint64_t step, const std::filesystem::path& by) {
    std::filesystem::copy_file(by, path(step), std::filesystem::copy_options::overwrite_existing);
  }
};

TEST_CASE("checkpoints and the config file of a run contain its id") {
  OwnRun run;
  const std::uint64_t newest = run.directory().steps().back();
  CHECK(saved_run_id(run.snapshot(newest)) == id_of(tiny_config()));
  CHECK(recorded_run_id(run.directory()) == id_of(tiny_config()));
  for (const char* text : {"", "# run id: 0123", "# run id: 0123456789ABCDEF\n", "data:\n"}) {
    std::ofstream(run.directory().path() / "config.yaml") << text;
    CHECK(recorded_run_id(run.directory()) == std::nullopt);
  }
  std::filesystem::remove(run.directory().path() / "config.yaml");
  CHECK(recorded_run_id(run.directory()) == std::nullopt);
}

/// The reason for skipping the newest checkpoint in favor of the checkpoint of step `expected`.
std::string reason_to_skip(const RunDirectory& directory, std::uint64_t expected) {
  const auto found = read_newest_of_run(directory);
  REQUIRE(found.has_value());
  CHECK(found->step == expected);
  REQUIRE(found->rejected.size() == 1);
  return found->rejected[0].reason;
}

TEST_CASE("checkpoints of another run and renamed checkpoints are skipped") {
  OwnRun run;
  OwnRun other(2);
  const std::vector<std::uint64_t> steps = run.directory().steps();
  const std::uint64_t newest = steps.back();
  run.replace(9999, run.path(newest));
  CHECK(
      contains(reason_to_skip(run.directory(), newest),
               "found the checkpoint of step " + std::to_string(newest) + ", expected step 9999"));
  std::filesystem::remove(run.path(9999));
  run.replace(newest, other.path(newest));
  CHECK(contains(reason_to_skip(run.directory(), steps.at(steps.size() - 2)),
                 ": found a checkpoint of run "));
  CHECK_THROWS_AS(read_checkpoint_of_run(run.directory(), newest), UnusableCheckpoint);
  // Without a config file, the id of the run is unknown.
  std::filesystem::remove(run.directory().path() / "config.yaml");
  CHECK(read_newest_of_run(run.directory())->step == newest);
}

TEST_CASE("a checkpoint without an id is used, and the run gets an id") {
  OwnRun run;
  const std::uint64_t newest = run.directory().steps().back();
  ArrayStore old;
  for (const auto& [path, array] : run.snapshot(newest)) {
    if (path != "run_id") old.put(path, array);
  }
  run.directory().save(newest, old, {.keep_last = 9});
  CHECK(read_newest_of_run(run.directory())->step == newest);
  CHECK(saved_run_id(old).empty());
  Config config = tiny_config();
  config.train.steps += 1;
  run.train(config);
  CHECK(saved_run_id(run.snapshot(newest + 1)) == id_of(tiny_config()));
}

TEST_CASE("a run keeps its id when its config changes on resume") {
  OwnRun run;
  Config config = tiny_config();
  config.train.steps += 1;
  config.model.dropout = 0.1;
  run.train(config);
  CHECK(saved_run_id(run.snapshot(config.train.steps)) == id_of(tiny_config()));
}

}  // namespace
}  // namespace tapestry
