#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <exception>
#include <string>

#include "tests/durability/memory_file.h"
#include "tests/durability/mutation.h"
#include "tests/train/tiny_run.h"
#include "train/base/error.h"
#include "train/checkpoint/checkpoint_file.h"

/// Damages the bytes of a checkpoint at random, as a disk or a copy may, and reads what comes out:
/// each mutant must be rejected before libhdf5 reads it.
///
///     checkpoint_mutants --mutants 1000000      the full figure
namespace tapestry {
namespace {

using test::Bytes;

/// The checkpoint after some steps of a small run.
Bytes checkpoint_of(std::size_t steps) {
  test::TinyRun run;
  Config config = test::tiny_config();
  config.train.steps = steps;
  config.model.d_model = config.model.d_ff = 8;
  run.train(config);
  return run.checkpoint_bytes(steps);
}

/// What is wrong with how a damaged checkpoint is read; empty if it is rejected.
std::string judge(const Bytes& mutant) try {
  test::MemoryFile files(mutant);
  read_checkpoint("mutant.h5", mutant.size() + 1, files);
  return "accepted";
} catch (const CheckpointError&) {
  return "";
} catch (const std::exception& error) {
  return fmt::format("another error than a CheckpointError: {}", error.what());
}

int run(std::uint64_t mutants, std::uint64_t first) {
  const Bytes original = checkpoint_of(1), other = checkpoint_of(2);
  fmt::print("a checkpoint of {} bytes\n", original.size());
  std::uint64_t unchanged = 0, wrong = 0;
  for (std::uint64_t seed = first; seed < first + mutants; ++seed) {
    test::Random random(seed);
    Bytes mutant = original;
    const std::string what = test::mutate(mutant, other, random);
    if (mutant == original) {
      ++unchanged;
      continue;
    }
    const std::string mistake = judge(mutant);
    if (mistake.empty()) continue;
    if (++wrong <= 10) fmt::print("mutant {} ({}): {}\n", seed, what, mistake);
  }
  fmt::print("{} mutants: {} with the bytes of the original, {} wrong, the others rejected\n",
             mutants, unchanged, wrong);
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tapestry

int main(int argc, char** argv) {
  CLI::App app("Damages a checkpoint at random and reads it");
  std::uint64_t mutants = 20'000, first = 1;
  app.add_option("--mutants", mutants, "Number of damaged files")->capture_default_str();
  app.add_option("--first", first, "Number of the first mutant")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return tapestry::run(mutants, first);
}
