// SPDX-License-Identifier: BSD-3-Clause
#include "train/loop/run_description.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "autograd/kernels/parallel.h"
#include "data/batch.h"
#include "data/example_file.h"
#include "train/base/format.h"
#include "train/checkpoint/arithmetic.h"
#include "train/config/config.h"
#include "train/config/steps.h"
#include "train/models/model_summary.h"
#include "train/system/cores.h"
#include "train/tasks/task.h"

namespace tapestry {
namespace {

/// Reports the share of unknown tokens, which a model cannot distinguish.
std::optional<std::string> note_on_unknown_tokens(const Config& config, const Corpus& corpus) {
  constexpr double alarming = 0.5;  // share of unknown tokens in the training set
  const RowLayout& layout = find_task(config).layout();
  const double training = share_of_unknown_tokens(corpus.stored_training(), layout);
  std::vector<std::string> shares;
  const auto add = [&](double share, const char* part) {
    if (share > 0.0) shares.push_back(fmt::format("{} of the {} set", format_share(share), part));
  };
  add(training, "training");
  add(share_of_unknown_tokens(corpus.validation, layout), "validation");
  add(share_of_unknown_tokens(corpus.test, layout), "test");
  if (shares.empty()) return std::nullopt;
  return fmt::format("{}unknown tokens: {}", training > alarming ? "warning: " : "",
                     fmt::join(shares, ", "));
}

/// "batches: 106 per epoch, of 273.6 pairs and 4057 tokens on average; padding 4.1 %". Images have
/// no tokens and no padding.
std::string describe_batches(const BatchStatistics& epoch, const Task& task, const Config& config) {
  const auto batches = static_cast<double>(epoch.batches);
  const std::string examples =
      fmt::format("batches: {} per epoch, of {:.1f} {}", format_count(epoch.batches),
                  static_cast<double>(epoch.examples) / batches, task.words(config).examples);
  if (task.traits().reads_images || epoch.positions == 0) return examples + " on average";
  const auto share = static_cast<double>(epoch.padding) / static_cast<double>(epoch.positions);
  return fmt::format("{} and {:.0f} tokens on average; padding {:.1f} %", examples,
                     static_cast<double>(epoch.tokens) / batches, 100 * share);
}

/// "data: 29,000 training pairs, 1,014 validation, 1,000 test; vocabularies of 8,000 and 7,500"
std::string describe_data(const Corpus& corpus, const Task& task, const Config& config) {
  return fmt::format("data: {} training {}, {} validation, {} test; {}",
                     format_count(corpus.training().size()), task.words(config).examples,
                     format_count(corpus.validation.size()), format_count(corpus.test.size()),
                     task.describe_vocabularies(corpus));
}

std::string describe_model(const Parameters& parameters, const std::string& run_dir,
                           std::size_t processes) {
  return fmt::format("model: {} parameters in {} tensors; {}threads: {}; {}; run directory {}",
                     format_count(parameters.num_values()), parameters.list().size(),
                     processes == 1 ? "" : fmt::format("processes: {}; ", processes),
                     kernels::num_threads(), arithmetic(), run_dir);
}

}  // namespace

std::optional<RateProblem> find_rate_problem(const Config& config) {
  const ScheduleOptions& schedule = config.schedule;
  const std::size_t steps = config.train.steps;
  if (schedule.kind != ScheduleKind::constant && schedule.warmup_steps > steps) {
    return RateProblem{
        .found = fmt::format("the warm-up of {} steps is longer than the run of {}, which never "
                             "reaches schedule.learning_rate",
                             format_count(schedule.warmup_steps), format_count(steps)),
        .change = "lower schedule.warmup_steps, such as schedule.warmup_steps=5%"};
  }
  const bool ends_at_zero =
      schedule.kind == ScheduleKind::cosine && schedule.min_learning_rate == 0.0;
  if (!ends_at_zero || schedule.decay_steps == 0 || schedule.decay_steps >= steps) {
    return std::nullopt;
  }
  return RateProblem{.found = fmt::format("the learning rate is 0 from step {} to {}",
                                          format_count(schedule.decay_steps), format_count(steps)),
                     .change = "raise schedule.decay_steps or schedule.min_learning_rate"};
}

std::vector<std::string> describe_run(StepComputer& computer, const std::string& run_dir,
                                      std::size_t processes) {
  const Config& config = computer.config();
  const Corpus& corpus = computer.corpus();
  const Parameters& parameters = computer.model().parameters;
  const Task& task = find_task(config);
  std::vector<std::string> lines = corpus.notes;
  lines.push_back(describe_data(corpus, task, config));
  if (corpus.train_file) {
    lines.push_back(fmt::format("cache: {} of tokenized examples in a memory-mapped file",
                                format_bytes(corpus.train_file->bytes())));
  }
  if (const auto note = note_on_unknown_tokens(config, corpus)) lines.push_back(*note);
  lines.push_back(describe_batches(computer.measure_epoch(), task, config));
  lines.push_back(describe_model(parameters, run_dir, processes));
  lines.push_back("blocks: " + to_line(summarize(parameter_shapes(parameters))));
  if (const auto note = describe_percentages(config)) lines.push_back(*note);
  for (const auto& warning : {warning_about_cores(read_cores(), kernels::num_threads()),
                              warning_about_blas(read_blas())}) {
    if (warning) lines.push_back(*warning);
  }
  if (const auto problem = find_rate_problem(config)) {
    lines.push_back(fmt::format("warning: {}: {}", problem->found, problem->change));
  }
  return lines;
}

}  // namespace tapestry
