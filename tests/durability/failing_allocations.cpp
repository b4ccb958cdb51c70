// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>
#include <hdf5.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/kernels/parallel.h"
#include "data/io/durable_file.h"
#include "tests/durability/memory_shortage.h"
#include "tests/train/tiny_run.h"
#include "train/base/error.h"
#include "train/checkpoint/checkpoint.h"
#include "train/models/trained_model.h"

/// Makes the n-th allocation fail, or the n-th and all later allocations, while a run is resumed,
/// and while two steps are trained, validated and saved (the first save in the background). Then
/// trains under increasing memory limits until the memory is enough.
///
/// Each failure is tested in a separate process. The action must end with std::bad_alloc,
/// OutputError or success. The weights must belong to a whole step, old checkpoints must be intact,
/// no temporary file may be left, and the continued run must end with the same bytes as without
/// failure. After a failed allocation inside libhdf5 the process may crash; then only the files are
/// checked, and another process continues the run. Under a memory limit, no allocation inside
/// libhdf5 may fail.
///
///     failing_allocations [--full]      every n instead of about sixty
namespace tapestry {
namespace {

using test::Shortage;
using Bytes = std::vector<std::byte>;

constexpr unsigned max_seconds = 20;

Bytes parameter_bytes(const Model& model) {
  Bytes bytes;
  for (const NamedTensor& parameter : model.parameters) {
    const auto values = std::as_bytes(parameter.tensor.values<float>());
    bytes.insert(bytes.end(), values.begin(), values.end());
  }
  return bytes;
}

constexpr std::uint64_t first_step = 2, last_step = 4;

/// A run of last_step steps. Attempts start from its checkpoint of first_step.
struct Scene {
  Config config;
  Corpus corpus;
  test::TinyRun start;
  std::filesystem::path run_path = start.directory().path();
  Bytes first, last;           ///< the checkpoints of first_step and last_step
  std::vector<Bytes> weights;  ///< after each step of an attempt

  Scene() : config(config_of_run()), corpus(load_corpus(config.data)) {
    start.train(config);
    first = start.checkpoint_bytes(first_step);
    last = start.checkpoint_bytes(last_step);
    for (std::uint64_t step = first_step + 1; step <= last_step; ++step) {
      const auto path = start.directory().checkpoint_path(step);
      weights.push_back(parameter_bytes(*load_model(read_checkpoint(path)).model));
      std::filesystem::remove(path);
    }
  }

  static Config config_of_run() {
    Config config = test::tiny_config();
    config.model.d_model = config.model.d_ff = 8;
    config.train.steps = last_step;
    config.train.log_every = config.train.validate_every = config.train.save_every = 1;
    config.train.keep_last = last_step;
    return config;
  }
};

/// Continues a run from its files.
class Continuation {
 public:
  Continuation(const Scene& scene, const std::filesystem::path& folder)
      : scene_(scene), directory_(folder), progress_(nullptr, 0, last_step) {}

  /// Describes what the run has lost; empty if it can continue and ends with the expected bytes.
  std::string loss() {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory_.path())) {
      if (is_temporary_name(entry.path().filename().string())) return "a temporary file is left";
    }
    if (read_binary_file(directory_.checkpoint_path(first_step)).bytes != scene_.first) {
      return "a checkpoint is lost";
    }
    Trainer trainer(scene_.config, scene_.corpus, directory_, progress_);
    trainer.resume(directory_.read_newest()->arrays);
    trainer.run();
    const Bytes end = read_binary_file(directory_.checkpoint_path(last_step)).bytes;
    return end == scene_.last ? "" : "the run ends with different bytes";
  }

 private:
  const Scene& scene_;
  RunDirectory directory_;
  Progress progress_;
};

/// A copy of the run in which an action runs out of memory.
class Attempt {
 public:
  explicit Attempt(const Scene& scene, const std::filesystem::path& folder)
      : scene_(scene),
        directory_(folder),
        progress_(nullptr, 0, last_step),
        trainer_(scene.config, scene.corpus, directory_, progress_),
        before_(parameter_bytes(trainer_.model())) {}
  virtual ~Attempt() = default;

  virtual void act() = 0;
  /// Describes what the run has lost by act(); empty if nothing is lost. Call it after
  /// end_shortage().
  ///
  /// done  whether act() succeeded
  virtual std::string loss(bool done) = 0;

 protected:
  void resume() { trainer_.resume(directory_.read_newest()->arrays); }

  std::string loss_of_run() { return Continuation(scene_, directory_.path()).loss(); }

  const Scene& scene_;
  RunDirectory directory_;
  Progress progress_;
  Trainer trainer_;
  Bytes before_;
};

struct Resuming : Attempt {
  using Attempt::Attempt;
  void act() override { resume(); }
  std::string loss(bool done) override {
    if (!done && parameter_bytes(trainer_.model()) != before_) return "the weights have changed";
    return loss_of_run();
  }
};

struct Training : Attempt {
  Training(const Scene& scene, const std::filesystem::path& folder) : Attempt(scene, folder) {
    resume();
    before_ = parameter_bytes(trainer_.model());
    H5close();  // so that the first save also initializes libhdf5
  }
  void act() override { trainer_.run(); }
  std::string loss(bool /*done*/) override {
    const Bytes after = parameter_bytes(trainer_.model());
    const std::string lost = loss_of_run();
    if (!lost.empty()) return lost;
    const bool is_whole = after == before_ || std::ranges::count(scene_.weights, after) > 0;
    return is_whole ? "" : "the weights are in the middle of a step";
  }
};

enum class End { success, no_memory, no_output, other, crash };

/// The report of a process about its attempt, in shared memory.
struct Report {
  End end = End::crash;
  std::uint64_t allocations = 0;
  bool hdf5_failed = false;  ///< an allocation inside libhdf5 failed
  std::array<char, 200> loss{};

  bool has_loss() const { return loss[0] != '\0'; }
  void tell(std::string_view text) {
    text = text.substr(0, loss.size() - 1);
    std::ranges::copy(text, loss.begin());
    loss[text.size()] = '\0';
  }
};

Report& shared_report() {
  static auto* const report = static_cast<Report*>(
      ::mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  return *report;
}

/// A way to run out of memory.
struct Trial {
  std::string what;
  std::function<void()> begin;
};

Trial failing_allocation(std::uint64_t n, Shortage shortage) {
  return {fmt::format("allocation {}{}", n, shortage == Shortage::lasting ? " and all later" : ""),
          [=] { test::fail_allocation(n, shortage); }};
}

Trial limited_memory(std::uint64_t bytes) {
  return {fmt::format("{} more bytes of memory", bytes), [=] { test::limit_memory(bytes); }};
}

End end_of(const std::function<void()>& action) try {
  action();
  return End::success;
} catch (const std::bad_alloc&) {
  return End::no_memory;
} catch (const OutputError&) {
  return End::no_output;
}

template <class Action>
void attempt(const Scene& scene, const std::filesystem::path& folder, const Trial& trial) {
  Report& report = shared_report();
  Action action(scene, folder);
  trial.begin();
  const End end = end_of([&] { action.act(); });
  report.allocations = test::end_shortage();
  if (!test::failed_in_hdf5()) report.tell(action.loss(end == End::success));
  report.end = end;
}

/// Runs `body` in a separate process. An exception is written to the report; a crash leaves the
/// report unchanged.
void in_another_process(const std::function<void()>& body) {
  const pid_t process = ::fork();
  if (process != 0) {
    ::waitpid(process, nullptr, 0);
    return;
  }
  ::alarm(max_seconds);
  try {
    body();
  } catch (const std::exception& error) {
    test::end_shortage();
    shared_report().end = End::other;
    shared_report().tell(error.what());
  }
  ::_exit(0);
}

template <class Action>
Report attempt_apart(const Scene& scene, const Trial& trial) {
  const test::TemporaryFolder folder;
  std::filesystem::copy(scene.run_path, folder / "run", std::filesystem::copy_options::recursive);
  shared_report() = {};
  in_another_process([&] { attempt<Action>(scene, folder / "run", trial); });
  shared_report().hdf5_failed = test::failed_in_hdf5();
  const Report report = shared_report();
  if (!report.hdf5_failed) return report;
  shared_report().tell("the run does not continue after libhdf5 failed");
  in_another_process([&] {
    shared_report().tell(Continuation(scene, folder / "run").loss());
    shared_report().end = report.end;
  });
  return shared_report();
}

/// Counts the outcomes of an action by kind.
class Tally {
 public:
  explicit Tally(const char* action) : action_(action) {}

  void add(const Report& report, const Trial& trial) {
    ++ends_[static_cast<std::size_t>(report.end)];
    hdf5_crashes_ += report.end == End::crash && report.hdf5_failed;
    const bool crashed = report.end == End::crash && !report.hdf5_failed;
    if (!report.has_loss() && !crashed) return;
    if (++losses_ > 10) return;
    fmt::print("{}: {}: {}\n", action_, trial.what, crashed ? "crash" : report.loss.data());
  }

  bool report() const {
    fmt::print(
        "{}: {} successes, {} bad_alloc, {} OutputError, {} other errors, {} crashes ({} of them "
        "inside libhdf5), {} losses\n",
        action_, ends_[0], ends_[1], ends_[2], ends_[3], ends_[4], hdf5_crashes_, losses_);
    return losses_ == 0;
  }

 private:
  const char* action_;
  std::array<std::size_t, 5> ends_{};
  std::size_t hdf5_crashes_ = 0, losses_ = 0;
};

/// Makes the n-th allocation fail for every n, or for about `max_trials` evenly spaced n.
template <class Action>
bool fail_allocations(const char* name, const Scene& scene,
                      std::optional<std::uint64_t> max_trials) {
  Tally tally(name);
  const Trial none = failing_allocation(0, Shortage::once);
  const std::uint64_t allocations = attempt_apart<Action>(scene, none).allocations;
  const std::uint64_t stride =
      max_trials ? std::max<std::uint64_t>(1, allocations / *max_trials) : 1;
  for (const Shortage shortage : {Shortage::once, Shortage::lasting}) {
    for (std::uint64_t n = 1; n <= allocations; n += stride) {
      const Trial trial = failing_allocation(n, shortage);
      tally.add(attempt_apart<Action>(scene, trial), trial);
    }
  }
  return tally.report() && allocations > 1000;
}

/// Trains under increasing memory limits until the memory is enough.
bool limit_memory(const Scene& scene, std::uint64_t stride) {
  Tally tally("train under a memory limit");
  std::size_t enough = 0, short_of_it = 0, hdf5_failures = 0;
  for (std::uint64_t bytes = 0; enough < 5 && bytes < std::uint64_t{1} << 30; bytes += stride) {
    const Trial trial = limited_memory(bytes);
    const Report report = attempt_apart<Training>(scene, trial);
    tally.add(report, trial);
    hdf5_failures += report.hdf5_failed;
    ++(report.end == End::success ? enough : short_of_it);
  }
  fmt::print("allocations inside libhdf5 failed in {} of them\n", hdf5_failures);
  return tally.report() && enough == 5 && short_of_it > 0 && hdf5_failures == 0;
}

int run(bool full) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  kernels::set_num_threads(1);
  const Scene scene;
  const auto max_trials = full ? std::nullopt : std::optional<std::uint64_t>(60);
  const bool resumes = fail_allocations<Resuming>("resume a run", scene, max_trials);
  const bool trains = fail_allocations<Training>("train, validate and save", scene, max_trials);
  const bool limits = limit_memory(scene, full ? 4096 : 65536);
  return resumes && trains && limits ? 0 : 1;
}

}  // namespace
}  // namespace tapestry

int main(int argc, char** argv) {
  return tapestry::run(argc > 1 && std::string_view(argv[1]) == "--full");
}
