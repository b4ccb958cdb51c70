// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "data/io/file.h"
#include "tests/support/temporary_folder.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/loop/trainer.h"
#include "train/tasks/data_source.h"

/// A copy task so small that a run takes milliseconds. It uses everything that resuming could get
/// wrong: dropout, accumulation, several epochs, a schedule, and sums since the last logged step.
namespace tapestry::test {

inline constexpr std::size_t tiny_steps = 12;

inline Config tiny_config() {
  Config config;
  config.data.symbols.num_symbols = 5;
  config.data.symbols.max_length = 4;
  config.data.generated.train_size = 22;
  config.data.generated.validation_size = 6;
  config.data.generated.test_size = 4;
  config.model = {.d_model = 16,
                  .num_heads = 2,
                  .num_encoder_layers = 1,
                  .num_decoder_layers = 1,
                  .d_ff = 32,
                  .dropout = 0.3,
                  .max_length = 8};
  config.schedule = {.kind = ScheduleKind::inverse_sqrt, .learning_rate = 0.01, .warmup_steps = 4};
  config.train.steps = tiny_steps;
  config.train.batch_size = 4;
  config.train.accumulate = 2;
  config.train.log_every = 5;
  config.train.validate_every = 4;
  config.train.save_every = 3;
  config.train.digest_every = 1;
  config.train.exact_match_sequences = 3;
  return config;
}

/// Sets the embedding of the last symbol of the source vocabulary to finite values that overflow in
/// the forward pass.
inline void poison(const Model& model) {
  Tensor embedding = model.parameters.find("source_embedding.weight")->tensor;
  const auto values = embedding.mutable_values<float>();
  std::ranges::fill(values.last(embedding.shape()[1]), 3e38f);
}

/// A training run in a separate run directory.
class TinyRun {
 public:
  TinyRun() { directory_.create(); }

  /// Trains for the number of steps in `config`, from the newest checkpoint if there is one.
  void train(const Config& config, const Interruptions& interruptions = {}) {
    const Corpus corpus = load_corpus(config.data);
    Trainer trainer(config, corpus, directory_, progress_);
    if (const auto newest = directory_.read_newest()) trainer.resume(newest->arrays);
    trainer.run(interruptions);
  }

  /// Trains until the step `step`.
  void train_to(std::size_t step) {
    Config config = tiny_config();
    config.train.steps = step;
    train(config);
  }

  /// Copies the checkpoint of a step from another run, to continue from it.
  void copy_checkpoint(const TinyRun& other, std::uint64_t step) {
    std::filesystem::copy(other.directory_.checkpoint_path(step), directory_.checkpoint_path(step));
  }

  RunDirectory& directory() { return directory_; }
  Progress& progress() { return progress_; }

  std::vector<std::byte> checkpoint_bytes(std::uint64_t step) const {
    return read_binary_file(directory_.checkpoint_path(step)).bytes;
  }
  ArrayStore snapshot(std::uint64_t step) const {
    return read_checkpoint(directory_.checkpoint_path(step));
  }
  std::vector<std::byte> metrics() const {
    return read_binary_file(directory_.path() / "metrics.csv").bytes;
  }
  /// The fields of each row of metrics.csv except the header. If `split` is not empty, only rows of
  /// that split.
  std::vector<std::vector<std::string>> metrics_rows(const std::string& split = "") const {
    std::ifstream table(directory_.path() / "metrics.csv");
    std::vector<std::vector<std::string>> rows;
    std::string line;
    for (std::getline(table, line); std::getline(table, line);) {
      std::istringstream cells(line);
      std::vector<std::string> row;
      for (std::string cell; std::getline(cells, cell, ',');) row.push_back(cell);
      if (split.empty() || row[2] == split) rows.push_back(row);
    }
    return rows;
  }

 private:
  TemporaryFolder folder_;
  RunDirectory directory_{folder_ / "run"};
  Progress progress_{nullptr, 0, tiny_steps};
};

}  // namespace tapestry::test
