// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "autograd/kernels/parallel.h"
#include "data/io/utf8.h"
#include "train/base/error.h"
#include "train/base/format.h"
#include "train/cli/command.h"
#include "train/cli/open_trained.h"
#include "train/inference/evaluator.h"
#include "train/inference/finite_outputs.h"
#include "train/models/held_out_results.h"
#include "train/models/run_data.h"
#include "train/tasks/task.h"
#include "train/tasks/task_data.h"

namespace tapestry {
namespace errors_cli {
namespace {

struct Arguments {
  std::string run;                     ///< a run directory or a checkpoint
  std::vector<std::string> overrides;  ///< data.KEY=FILE
  std::string set = validation_name;   ///< validation_name or test_name
  std::string by = "mean";
  std::size_t examples = 10;
  std::size_t threads = 0;
  bool json = false;
};

/// A held-out example with its loss.
struct RankedExample {
  ExampleLoss loss;
  ReportExample example;
};

/// set  not empty
std::vector<RankedExample> find_greatest_losses(const TrainedModel& trained,
                                                const EvaluationSet& set,
                                                const Arguments& arguments) {
  const auto mean = [](const ExampleLoss& loss) { return loss.mean(); };
  const auto sum = [](const ExampleLoss& loss) { return loss.sum; };
  const auto losses = greatest_losses(
      example_losses(*trained.model, set.examples, trained.config.train.batch_size,
                     batch_rules(trained.config, trained.codec.target_vocabulary().size())),
      arguments.examples, arguments.by == "sum" ? +sum : +mean);
  if (const ExampleLoss& greatest = losses.front(); !std::isfinite(greatest.sum)) {
    reject_non_finite(*trained.model,
                      inference_batch(find_task(trained.config), set.examples[greatest.example]),
                      fmt::format("{}: example {}", arguments.set, greatest.example + 1));
  }
  std::vector<std::size_t> indices;
  for (const ExampleLoss& loss : losses) indices.push_back(loss.example);
  std::vector<ReportExample> examples = report_examples(trained, set, indices);
  std::vector<RankedExample> ranked;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    ranked.push_back({.loss = losses[i], .example = std::move(examples[i])});
  }
  return ranked;
}

// ---- Output

/// The wrong predictions of an example, in ascending order of the probability of the label.
std::vector<TokenPrediction> wrong_predictions(const ReportExample& example) {
  std::vector<TokenPrediction> wrong;
  for (const TokenPrediction& token : example.tokens) {
    if (!token.predicted.empty() && token.predicted != token.expected) wrong.push_back(token);
  }
  std::ranges::stable_sort(wrong, {}, &TokenPrediction::probability);
  return wrong;
}

std::string expected_tokens(const ReportExample& example) {
  constexpr std::size_t max_tokens = 60;
  std::string text;
  for (std::size_t i = 0; i < std::min(example.tokens.size(), max_tokens); ++i) {
    text += (i == 0 ? "" : " ") + escaped(example.tokens[i].expected);
  }
  return example.tokens.size() > max_tokens ? text + " ..." : text;
}

/// Formats the number of right labels, such as "3 of 5 tokens right"; "right class" or "wrong
/// class" for an example with one label.
std::string count_hits(const ExampleLoss& loss, const Task& task, const Config& config) {
  if (task.traits().one_label_per_example) return loss.hits > 0 ? "right class" : "wrong class";
  return fmt::format("{} of {} {} right", format_count(loss.hits), format_count(loss.labels),
                     task.words(config).targets);
}

void print_text(const RankedExample& ranked, std::size_t rank, const Task& task,
                const Config& config) {
  constexpr std::size_t max_tokens = 8;
  const auto& [loss, example] = ranked;
  fmt::print("\n{}. example {}: loss {}, {}\n", rank, format_count(example.number),
             format_value(loss.mean(), 4), count_hits(loss, task, config));
  std::vector<std::string> lines = {escaped(example.text.input), escaped(example.text.expected),
                                    escaped(example.text.output)};
  if (labels_tokens(task)) lines = align_words(lines);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    constexpr std::array names = {"input", "expected", "output"};
    if (!lines[i].empty()) fmt::print("   {:<8}  {}\n", names[i], lines[i]);
  }
  if (!example.tokens.empty()) fmt::print("   tokens    {}\n", expected_tokens(example));
  std::vector<TokenPrediction> wrong = wrong_predictions(example);
  wrong.resize(std::min(wrong.size(), max_tokens));
  for (const TokenPrediction& token : wrong) {
    fmt::print("   expected {} (probability {:.2g}), predicted {}\n", escaped(token.expected),
               token.probability, escaped(token.predicted));
  }
}

void print_json(const std::vector<RankedExample>& ranked, const ModelOrigin& origin,
                const std::string& set) {
  Json json = {{"model", origin.place}, {"set", set}, {"examples", Json::array()}};
  for (const auto& [loss, example] : ranked) {
    Json tokens = Json::array();
    for (const TokenPrediction& token : example.tokens) {
      if (token.predicted.empty()) continue;
      tokens.push_back({{"expected", token.expected},
                        {"predicted", token.predicted},
                        {"probability", token.probability}});
    }
    json["examples"].push_back({{"example", example.number},
                                {"loss", loss.mean()},
                                {"loss_sum", loss.sum},
                                {"labels", loss.labels},
                                {"right", loss.hits},
                                {"input", example.text.input},
                                {"expected", example.text.expected},
                                {"output", example.text.output},
                                {"tokens", std::move(tokens)}});
  }
  tapestry::print_json(json);
}

/// The set that the arguments name.
///
/// throws  UsageError if it has no examples
EvaluationSet chosen_set(const TrainedModel& trained, const Corpus& corpus,
                         const std::string& name) {
  EvaluationSet set = held_out_set(trained, corpus, name);
  if (!set.examples.empty()) return set;
  const char* other = name == test_name ? validation_name : test_name;
  throw UsageError(fmt::format("found no {} examples, expected at least one", name),
                   held_out_set(trained, corpus, other).examples.empty()
                       ? fmt::format("name a file, such as data.{}_text=more.txt", name)
                       : fmt::format("use --set {}, the other held-out set of the run", other));
}

void run(const Arguments& arguments) {
  set_num_threads(arguments.threads);
  const auto [trained, origin] = open_trained(arguments.run, arguments.overrides);
  Corpus corpus = load_corpus_for(trained, DataUse::scores, arguments.overrides);
  corpus.clear_training();  // the training set is not used and may no longer fit the model
  require_fitting_examples(corpus, trained.config);
  const EvaluationSet set = chosen_set(trained, corpus, arguments.set);
  const std::vector<RankedExample> ranked = find_greatest_losses(trained, set, arguments);
  if (arguments.json) {
    announce(origin);
    print_json(ranked, origin, arguments.set);
    return;
  }
  const Task& task = find_task(trained.config);
  fmt::print("{}\n{}: the {} of {} {} with the greatest loss\n", origin.in_words(), arguments.set,
             format_count(ranked.size()), format_count(set.examples.size()),
             task.words(trained.config).examples);
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    print_text(ranked[i], i + 1, task, trained.config);
  }
}

void define(CLI::App& command, Arguments& arguments) {
  add_run(command, arguments.run);
  command.add_option("OVERRIDES", arguments.overrides,
                     "Other data files, such as data.test_text=more.txt");
  command
      .add_option("--set", arguments.set,
                  "Held-out set; a test set whose errors have been used to improve a model can no "
                  "longer test it")
      ->check(one_of({validation_name, test_name}))
      ->capture_default_str();
  command
      .add_option("--by", arguments.by,
                  "Sort by the mean or by the sum of the losses of an example's labels")
      ->check(one_of({"mean", "sum"}));
  add_value(command, "--examples", arguments.examples, between(1, 1'000'000),
            "Number of examples to list");
  add_threads(command, arguments.threads);
  add_json(command, arguments.json);
  command.footer(
      "The loss is -log p(label), in nats, without label smoothing. For masked and other language\n"
      "models, wrong predictions are listed token by token.\n"
      "JSON: `model`, `set`; `examples`, each with `example` (its number in the set), `loss`,\n"
      "`loss_sum`, `labels`, `right`, `input`, `expected`, `output` and `tokens`.\n"
      "Examples:\n  tapestry errors runs/multi30k --examples 20\n"
      "  tapestry errors runs/digits --set test --json");
}

}  // namespace
}  // namespace errors_cli

extern const Command errors_command{.name = "errors",
                                    .purpose = "List the held-out examples with the greatest loss",
                                    .define = with_arguments(errors_cli::define, errors_cli::run)};

}  // namespace tapestry
