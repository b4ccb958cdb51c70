#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <new>
#include <optional>
#include <string>

#include "optim/optimizer.h"
#include "tests/durability/memory_file.h"
#include "tests/durability/mutation.h"
#include "tests/train/tiny_run.h"
#include "train/checkpoint/checkpoint.h"
#include "train/error.h"
#include "train/models/trained_model.h"
#include "train/storage/checkpoint_file.h"
#include "train/storage/checkpoint_table.h"
#include "train/tasks/task.h"

/// Damages the bytes of a checkpoint at random and reads what comes out: with its digests as they
/// were, when each mutant must be refused, and with digests that fit, when it must be refused or be
/// just what its table of contents tells. What is accepted is then restored and loaded.
///
///     checkpoint_mutants --mutants 1000000 --repaired 200000      the full figure
namespace tapestry {
namespace {

using test::Bytes;

constexpr std::uint64_t max_memory = std::uint64_t{256} << 20;  ///< beside that of the start
constexpr int max_seconds = 5;

volatile sig_atomic_t current_mutant = 0;

/// Says which mutant killed the program.
void report_death(int signal) {
  char text[64];
  const int length = std::snprintf(text, sizeof text, "signal %d at mutant %d\n", signal,
                                   static_cast<int>(current_mutant));
  [[maybe_unused]] const ssize_t written =
      ::write(STDERR_FILENO, text, static_cast<std::size_t>(length));
  ::_exit(1);
}

/// A mutant may take no more processor time than this before SIGPROF ends the program.
void limit_time() {
  const itimerval limit{.it_interval = {}, .it_value = {.tv_sec = max_seconds, .tv_usec = 0}};
  ::setitimer(ITIMER_PROF, &limit, nullptr);
}

std::uint64_t address_space() {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

void limit_memory() {
  const rlim_t most = address_space() + max_memory;
  const rlimit limit{.rlim_cur = most, .rlim_max = most};
  ::setrlimit(RLIMIT_AS, &limit);
}

std::uint64_t peak_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

/// Two checkpoints of a run, and what a mutant of the first is restored into.
class Target {
 public:
  Target()
      : original_(read(1)),
        other_(read(2)),
        config_(saved_config(original())),
        corpus_(load_corpus(config_.data)),
        model_(network_maker(config_, network_sizes(config_, corpus_)), config_.train.dtype,
               config_.train.seed),
        optimizer_(make_optimizer(config_.optimizer, model_.parameters.list())) {
    restore(original(), parts());
    before_ = make_snapshot(parts());
  }

  const Bytes& bytes() const { return original_; }
  const Bytes& other_bytes() const { return other_; }

  /// What is wrong with how an accepted snapshot is taken up; nothing if all is well.
  std::string take_up(const Snapshot& snapshot) {
    std::string wrong;
    try {
      restore(snapshot, parts());
      const Snapshot after = make_snapshot(parts());
      for (const auto& [path, array] : after) {
        if (path.starts_with("parameters/") && array != snapshot.at(path)) wrong = path;
      }
      restore(original(), parts());
    } catch (const CheckpointError&) {
      if (make_snapshot(parts()) != before_) wrong = "a refused snapshot changed the run";
    }
    try {
      load_model(snapshot);
    } catch (const CheckpointError&) {
    }
    return wrong;
  }

 private:
  static Bytes read(std::size_t steps) {
    test::TinyRun run;
    Config config = test::tiny_config();
    config.train.steps = steps;
    config.model.d_model = config.model.d_ff = 8;
    run.train(config);
    return run.checkpoint_bytes(steps);
  }

  Snapshot original() const {
    test::MemoryFile files(original_);
    return read_checkpoint("original", original_.size(), files);
  }

  RunParts parts() {
    return {.config = config_,
            .corpus = corpus_,
            .model = model_,
            .optimizer = *optimizer_,
            .average = nullptr,
            .state = state_};
  }

  Bytes original_, other_;
  Config config_;
  Corpus corpus_;
  Model model_;
  std::unique_ptr<Optimizer> optimizer_;
  TrainingState state_;
  Snapshot before_;
};

/// Whether a snapshot is what the table of contents of its file tells, digests included.
bool is_told_by_table(const Snapshot& snapshot, const Bytes& file) {
  const Envelope envelope = open_envelope(file, file.size(), "");
  const auto table = std::span(file).subspan(envelope_size, envelope.table_size);
  const auto entries = decode_table(table, {envelope.hdf5_offset, file.size()}, "");
  return entries.size() == snapshot.size() &&
         std::ranges::all_of(entries, [&](const ArrayEntry& entry) {
           const StoredArray& array = snapshot.at(entry.path);
           const auto bytes = std::span(file).subspan(entry.offset, entry.size);
           return array.type == entry.type && array.shape == entry.shape &&
                  std::ranges::equal(array.bytes, bytes) && array_digest(bytes) == entry.digest;
         });
}

struct Tally {
  std::size_t refused = 0, unchanged = 0, accepted = 0, wrong = 0;
  double longest = 0.0;  ///< seconds
};

/// Reads one mutant and takes it up; returns what is wrong with that.
std::string judge(Target& target, const Bytes& mutant, bool repaired, Tally& tally) {
  test::MemoryFile files(mutant);
  std::optional<Snapshot> snapshot;
  try {
    snapshot = read_checkpoint("mutant.h5", 1 << 24, files);
  } catch (const CheckpointError&) {
    ++tally.refused;
    return "";
  }
  if (mutant == target.bytes()) {
    ++tally.unchanged;
    return "";
  }
  ++tally.accepted;
  if (!repaired) return "accepted with the old digests";
  if (!is_told_by_table(*snapshot, mutant)) return "the snapshot is not what its table tells";
  return target.take_up(*snapshot);
}

void try_mutant(Target& target, std::uint64_t seed, bool repaired, Tally& tally) {
  test::Random random(seed);
  Bytes mutant = target.bytes();
  const std::string what = test::mutate(mutant, target.other_bytes(), random);
  if (repaired) test::repair(mutant, random);

  limit_time();
  const auto start = std::chrono::steady_clock::now();
  std::string wrong;
  try {
    wrong = judge(target, mutant, repaired, tally);
  } catch (const std::bad_alloc&) {
    wrong = fmt::format("takes more than {} MiB", max_memory >> 20);
  } catch (const std::exception& error) {
    wrong = fmt::format("another error than a CheckpointError: {}", error.what());
  }
  const std::chrono::duration<double> duration = std::chrono::steady_clock::now() - start;
  tally.longest = std::max(tally.longest, duration.count());
  if (wrong.empty()) return;
  if (++tally.wrong <= 10) fmt::print("mutant {} ({}): {}\n", seed, what, wrong);
}

bool try_mutants(Target& target, std::uint64_t first, std::uint64_t count, bool repaired) {
  Tally tally;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    current_mutant = static_cast<sig_atomic_t>(seed);
    try_mutant(target, seed, repaired, tally);
  }
  fmt::print(
      "digests {}: {} mutants: {} refused, {} as the original, {} accepted, {} wrong; at "
      "most {:.3f} s for one\n",
      repaired ? "repaired" : "not repaired", count, tally.refused, tally.unchanged, tally.accepted,
      tally.wrong, tally.longest);
  return tally.wrong == 0 && tally.longest < max_seconds;
}

int run(std::uint64_t mutants, std::uint64_t repaired, std::uint64_t first) {
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGPROF}) {
    ::signal(signal, report_death);
  }
  Target target;
  fmt::print("a checkpoint of {} bytes\n", target.bytes().size());
  limit_memory();
  const std::uint64_t before = peak_memory();
  const bool plain_ok = try_mutants(target, first, mutants, false);
  const bool repaired_ok = try_mutants(target, first, repaired, true);
  const std::uint64_t peak = peak_memory();
  fmt::print("peak memory {} MiB, {} of them at the start\n", peak >> 20, before >> 20);
  return plain_ok && repaired_ok && peak <= max_memory ? 0 : 1;
}

}  // namespace
}  // namespace tapestry

int main(int argc, char** argv) {
  CLI::App app("Damages a checkpoint at random and reads it");
  std::uint64_t mutants = 20'000, repaired = 10'000, first = 1;
  app.add_option("--mutants", mutants, "With their old digests")->capture_default_str();
  app.add_option("--repaired", repaired, "With digests that fit")->capture_default_str();
  app.add_option("--first", first, "Number of the first mutant")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return tapestry::run(mutants, repaired, first);
}
