// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <cstddef>
#include <utility>

#include "autograd/kernels/parallel.h"
#include "train/base/error.h"
#include "train/checks/check.h"
#include "train/cli/command.h"
#include "train/cli/open_model.h"
#include "train/cli/open_trained.h"
#include "train/tasks/task.h"

namespace tapestry {
namespace check_cli {
namespace {

struct Arguments {
  std::string model;                   ///< a config file, run directory or checkpoint
  std::vector<std::string> overrides;  ///< section.key=value; for a run, only data.KEY=FILE
  bool json = false;
  std::size_t threads = 0;
};

std::string list_of_checks() {
  std::string list = "Checks:";
  for (const Check& check : all_checks()) {
    list += fmt::format("\n  {:<14}{}", check.name, check.meaning);
  }
  return list;
}

constexpr std::size_t sentences = 6;
constexpr std::size_t sentences_for_threads = 32;

/// Why the model may be unable to distinguish some inputs; empty if it can distinguish all inputs.
std::string learning_limit(const TransformerOptions& model, const Task& task) {
  if (model.attention == AttentionKind::parameter_free) return "its attention has no parameters";
  if (model.positions == PositionKind::none) return "it has no positions";
  if (model.positions == PositionKind::alibi && task.traits().has_encoder) {
    return "with alibi, an encoder knows distances but not directions";
  }
  return "";
}

CheckContext make_context(const ModelWithData& configured) {
  const TransformerOptions& model = configured.config.model;
  const Corpus& corpus = configured.corpus;
  const NetworkSizes sizes = network_sizes(configured.config, corpus);
  const Task& task = find_task(configured.config);
  return {.copy = [&](DType dtype) { return checked_model(configured.with_dtype(dtype)); },
          .dtype = configured.config.train.dtype,
          .trained = configured.trained,
          .has_running_averages = !configured.model->parameters.buffers().empty(),
          .vocabulary = sizes.target,
          .learning_limit = learning_limit(model, task),
          .causal = configured.model->network->causal(),
          .max_source_length = task.traits().reads_source ? model.max_length : 0,
          .max_target_length = task.traits().one_label_per_example ? 1 : model.max_length,
          .label_smoothing = configured.config.train.label_smoothing,
          .seed = configured.config.train.seed,
          .tied_width = model.tie_embeddings == TiedEmbeddings::none ? 0 : model.d_model,
          .batch = configured.first_batch(sentences),
          .large_batch = configured.first_batch(sentences_for_threads)};
}

const char* status_word(CheckStatus status) {
  switch (status) {
    case CheckStatus::passed:
      return "ok";
    case CheckStatus::failed:
      return "FAILED";
    case CheckStatus::skipped:
      return "skipped";
  }
  return "";
}

const char* json_word(CheckStatus status) {
  return status == CheckStatus::passed   ? "passed"
         : status == CheckStatus::failed ? "failed"
                                         : "skipped";
}

ExitCode run(const Arguments& arguments) {
  set_num_threads(arguments.threads);
  const ModelWithData configured = open_model(arguments.model, arguments.overrides);
  const CheckContext context = make_context(configured);
  if (arguments.json) {
    announce(configured.origin);
  } else {
    fmt::print("{}\n", configured.origin.in_words());
  }
  Json results = Json::array();
  std::size_t num_passed = 0, num_run = 0;
  for (const Check& check : all_checks()) {
    const auto [status, details] = run_check(check, context);
    if (arguments.json) {
      results.push_back(
          {{"name", check.name}, {"status", json_word(status)}, {"details", details}});
    } else {
      fmt::print("{:<8}{:<14}{}\n", status_word(status), check.name, details);
    }
    if (status == CheckStatus::passed) ++num_passed;
    if (status != CheckStatus::skipped) ++num_run;
  }
  if (arguments.json) {
    const Json json = {{"model", configured.origin.place},
                       {"passed", num_passed},
                       {"run", num_run},
                       {"checks", std::move(results)}};
    print_json(json);
  } else {
    fmt::print("{} of {} checks passed\n", num_passed, num_run);
  }
  return num_passed == num_run ? ExitCode::done : ExitCode::failure;
}

void define(CLI::App& command, Arguments& arguments) {
  add_model(command, arguments.model);
  add_overrides(command, arguments.overrides);
  add_json(command, arguments.json);
  add_threads(command, arguments.threads);
  command.footer(list_of_checks() +
                 "\nExamples:\n  tapestry check configs/copy.yaml\n"
                 "  tapestry check runs/copy --json");
}

}  // namespace
}  // namespace check_cli

extern const Command check_command{
    .name = "check",
    .purpose = "Check a model for silent errors, such as attention to masked tokens",
    .define = with_arguments(check_cli::define, check_cli::run),
    .memory_hint = smaller_model_hint};

}  // namespace tapestry
