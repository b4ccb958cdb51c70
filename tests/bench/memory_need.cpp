// Compares the memory that a run is said to need with what it takes.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "autograd/kernels/memory.h"
#include "autograd/kernels/parallel.h"
#include "tests/bench/measurements.h"
#include "tests/support/temporary_folder.h"
#include "train/loop/memory_need.h"
#include "train/loop/trainer.h"
#include "train/tasks/data_source.h"

namespace {

using namespace tapestry;

double megabytes(std::uint64_t bytes) { return 1e-6 * static_cast<double>(bytes); }

std::string compared(std::uint64_t estimate, std::uint64_t measured) {
  return fmt::format("{:.0f} / {:.0f} MB = {:.2f}", megabytes(estimate), megabytes(measured),
                     static_cast<double>(estimate) / static_cast<double>(measured));
}

/// Some steps, each followed by a validation and a save as far as the config has them, and the
/// average of the last checkpoints.
void run(const std::string& name, Config config) {
  const test::TemporaryFolder folder;
  RunDirectory directory(folder / "run");
  directory.create();
  Progress progress(nullptr, 0, config.train.steps);
  const Corpus corpus = load_corpus(config.data);
  const std::uint64_t before = bench::peak_memory();

  MemoryNeed need = need_of_model(config, corpus);
  const std::size_t empty_pool = kernels::restart_memory_peak();
  Trainer trainer(config, corpus, directory, progress);
  const std::uint64_t state = kernels::memory_statistics().peak_bytes_in_use - empty_pool;
  need.step = estimate_step(trainer.model(), corpus, config);
  const std::uint64_t step =
      warm_up(trainer.model(), largest_batch(corpus.train, config.train.batch_size), config);
  trainer.run();
  fmt::print("{:<16} state {}, largest step {}, all {}\n", name, compared(need.state, state),
             compared(need.step, step), compared(need.total(), bench::peak_memory() - before));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Compares the memory that a run is said to need, in MB, with what it takes.");
  std::string path;
  std::vector<std::string> overrides;
  std::size_t steps = 20;
  app.add_option("CONFIG", path, "Config file (YAML)")->required();
  app.add_option("OVERRIDES", overrides, "Keys to change, such as model.d_model=128");
  app.add_option("--steps", steps, "Steps, with one validation and one save at their end")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    Config config = load_config(path, overrides);
    config.train.steps = config.train.validate_every = steps;
    kernels::set_num_threads(config.train.threads);
    run(std::filesystem::path(path).stem(), config);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_memory_need: error: {}\n", error.what());
    return 2;
  }
  return 0;
}
