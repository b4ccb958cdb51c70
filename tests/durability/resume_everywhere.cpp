// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <chrono>
#include <clocale>
#include <cstddef>
#include <filesystem>
#include <locale>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/kernels/parallel.h"
#include "tests/train/tiny_run.h"

/// Stops a run of 40 steps after each step, or after each pair of steps, and resumes it. The last
/// checkpoint and the metrics must have the same bytes as an uninterrupted run. Stops occur in the
/// middle of epochs, between validation and the next save, and between two logged steps. The parts
/// of a run alternate between one and two threads, and between decimal points and decimal commas.
///
///     resume_everywhere [--full]      all 780 pairs of steps instead of one in 26
namespace tapestry {
namespace {

using test::TinyRun;

constexpr std::size_t all_steps = 40;

/// Three epochs of about 27 batches of up to 40 tokens, with two batches per step. Some steps span
/// two epochs.
Config config_of_run(std::size_t steps) {
  Config config = test::tiny_config();
  config.data.generated.train_size = 106;
  config.schedule.warmup_steps = 10;
  config.train.validate_every = 6;
  config.train.save_every = 11;
  config.train.exact_match_sequences = 1;
  config.train.ema_decay = 0.9;
  config.train.batch_tokens = 40;
  config.train.steps = steps;
  return config;
}

/// German number format: 1.234,5.
struct DecimalComma : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

/// Sets a locale with decimal commas during its lifetime.
class ForeignLocale {
 public:
  ForeignLocale() : previous_(std::locale::global(std::locale({}, new DecimalComma))) {
    for (const char* name : {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"}) {
      if (std::setlocale(LC_ALL, name) != nullptr) break;
    }
  }
  ForeignLocale(const ForeignLocale&) = delete;
  ForeignLocale& operator=(const ForeignLocale&) = delete;
  ~ForeignLocale() {
    std::locale::global(previous_);
    std::setlocale(LC_ALL, "C");
  }

 private:
  std::locale previous_;
};

/// Trains to a step. For step 0, uses a time limit that expires before the first step.
void train_to(TinyRun& run, std::size_t steps) {
  if (steps > 0) return run.train(config_of_run(steps));
  using namespace std::chrono_literals;
  const TimeLimit is_up(TimeLimit::Clock::now() - 2s, 1s);
  run.train(config_of_run(all_steps), {.time = is_up});
}

void train_part(TinyRun& run, std::size_t steps, std::size_t part) {
  kernels::set_num_threads(1 + part % 2);
  if (part % 4 < 2) {
    train_to(run, steps);
  } else {
    const ForeignLocale locale;
    train_to(run, steps);
  }
}

/// The files of a run at its end.
struct End {
  std::vector<std::byte> checkpoint, metrics;

  explicit End(const TinyRun& run)
      : checkpoint(run.checkpoint_bytes(all_steps)), metrics(run.metrics()) {}
  bool operator==(const End&) const = default;
};

/// Trains to each of the stops, with a new trainer for each part.
///
/// first_part  determines the threads and locales of the parts
End stopped_at(const std::vector<std::size_t>& stops, std::size_t first_part) {
  TinyRun run;
  std::size_t part = first_part;
  for (const std::size_t stop : stops) train_part(run, stop, part++);
  train_part(run, all_steps, part);
  return End(run);
}

/// Simulates a process that is killed after a step, before its save.
End killed_after(std::size_t step) {
  TinyRun run;
  run.train(config_of_run(step));
  const auto steps = run.directory().steps();
  if (steps.size() > 1) std::filesystem::remove(run.directory().checkpoint_path(step));
  run.train(config_of_run(all_steps));
  return End(run);
}

/// Counts the runs that end as expected, and prints runs that end differently.
class Comparison {
 public:
  explicit Comparison(const End& expected) : expected_(expected) {}

  void add(const End& end, const std::string& run) {
    ++runs_;
    if (end == expected_) return;
    ++wrong_;
    fmt::print("a run that was {} ends differently\n", run);
  }

  bool report() const {
    fmt::print("{} of {} final checkpoints byte-equal\n", runs_ - wrong_, runs_);
    return wrong_ == 0;
  }

 private:
  const End& expected_;
  std::size_t runs_ = 0, wrong_ = 0;
};

/// stride  tests every stride-th pair of steps
bool check_all(std::size_t stride) {
  TinyRun whole;
  whole.train(config_of_run(all_steps));
  const End expected(whole);
  Comparison comparison(expected);
  std::size_t pair = 0;
  for (std::size_t i = 0; i < all_steps; ++i) {
    comparison.add(stopped_at({i}, i), fmt::format("stopped after {}", i));
    comparison.add(killed_after(i + 1), fmt::format("killed after {}", i + 1));
    for (std::size_t j = i + 1; j < all_steps; ++j) {
      if (pair++ % stride != 0) continue;
      comparison.add(stopped_at({i, j}, i + j), fmt::format("stopped after {} and {}", i, j));
    }
  }
  return comparison.report();
}

}  // namespace
}  // namespace tapestry

int main(int argc, char** argv) {
  const bool full = argc > 1 && std::string_view(argv[1]) == "--full";
  return tapestry::check_all(full ? 1 : 26) ? 0 : 1;
}
