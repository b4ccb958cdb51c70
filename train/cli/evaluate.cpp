// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "autograd/kernels/parallel.h"
#include "data/io/durable_file.h"
#include "data/io/utf8.h"
#include "train/base/format.h"
#include "train/checkpoint/run_directory.h"
#include "train/cli/command.h"
#include "train/cli/open_trained.h"
#include "train/models/held_out_results.h"
#include "train/models/run_data.h"
#include "train/report/run_history.h"
#include "train/system/standard_streams.h"
#include "train/tasks/task.h"
#include "train/tasks/task_data.h"

namespace tapestry {
namespace evaluate_cli {
namespace {

struct Arguments {
  std::string run;                     ///< a run directory or a checkpoint
  std::vector<std::string> overrides;  ///< data.KEY=FILE
  std::size_t examples = 5;            ///< number of inputs to show with the model's outputs
  std::size_t threads = 0;
  bool json = false;
};

/// The first examples of the test set, or of the validation set if there is no test set, with the
/// model's outputs.
std::vector<ShownExample> first_examples(const TrainedModel& trained, const Corpus& corpus,
                                         const char* set_name, std::size_t count) {
  const EvaluationSet set = held_out_set(trained, corpus, set_name);
  std::vector<std::size_t> indices(std::min(count, set.examples.size()));
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  return show_examples(trained, set, indices);
}

// ---- Output

void print_text(const TrainedModel& trained, const ModelOrigin& origin,
                const std::vector<SetScores>& sets, const char* set_of_examples,
                const std::vector<ShownExample>& examples) {
  const Task& task = find_task(trained.config);
  const std::string noun = task.words(trained.config).examples;
  fmt::print("{}\n", origin.in_words());
  for (const auto& [name, scores, unknown] : sets) {
    fmt::print("{:<10}  {} held-out {}: {}\n", name, scores.sentences, noun,
               task.format_scores(scores, trained.config));
    if (unknown > 0.0) {
      fmt::print("{:<10}  {} of its tokens are unknown\n", "", format_share(unknown));
    }
  }
  if (!sets.empty()) {
    for (const auto& [name, signature] : task.signatures(trained.config)) {
      fmt::print("{:<10}  {}\n", "signature", signature);
    }
  }
  if (sets.empty()) fmt::print("no held-out {}: set their files or sizes in the config\n", noun);
  if (!examples.empty()) fmt::print("\nexamples of the {} set:\n", set_of_examples);
  for (const auto& [input, output, expected] : examples) {
    std::vector<std::string> lines = {escaped(input), escaped(output), escaped(expected)};
    if (labels_tokens(task)) lines = align_words(lines);
    fmt::print("\ninput     {}\noutput    {}\n", lines[0], lines[1]);
    if (output != expected) fmt::print("expected  {}\n", lines[2]);
  }
}

/// Converts the scores of a set to JSON. Omits the perplexity of labels and classes, since it adds
/// no information to the loss.
Json to_json(const SetScores& set, const Task& task) {
  Json json = {
      {"examples", set.scores.sentences}, {"labels", set.scores.tokens}, {"loss", set.scores.loss}};
  if (!task.layout().labels_are_classes) json["perplexity"] = set.scores.perplexity;
  json["accuracy"] = set.scores.token_accuracy;
  json["unknown_tokens"] = set.unknown;
  for (const auto& [name, value] : set.scores.others) json[name] = value;
  return json;
}

Json to_json(const TrainedModel& trained, const ModelOrigin& origin,
             const std::vector<SetScores>& sets) {
  Json json = {{"model", origin.place},
               {"step", trained.step},
               {"choice", origin.choice},
               {validation_name, nullptr},
               {test_name, nullptr}};
  const Task& task = find_task(trained.config);
  for (const SetScores& set : sets) json[set.name] = to_json(set, task);
  json["signatures"] = Json::object();
  for (const auto& [name, signature] : task.signatures(trained.config)) {
    json["signatures"][name] = signature;
  }
  return json;
}

void print_json(Json json, const char* set_of_examples, const std::vector<ShownExample>& examples) {
  json["examples_of"] = set_of_examples;
  json["examples"] = Json::array();
  for (const auto& [input, output, expected] : examples) {
    json["examples"].push_back({{"input", input}, {"output", output}, {"expected", expected}});
  }
  tapestry::print_json(json);
}

/// Records the scores in the run directory, for the report of the run. A failure only causes a
/// warning, since the scores have been printed.
void record_scores(const Arguments& arguments, Json json) try {
  std::error_code ignored;
  if (!std::filesystem::is_directory(arguments.run, ignored)) return;  // not a run
  json["overrides"] = arguments.overrides;
  const std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  write_file_durably(find_run(arguments.run).path() / evaluation_file_name, text);
} catch (const OutputError& error) {
  warn(fmt::format("the scores are not recorded for `report`: {}", error.what()));
}

/// Warns about held-out examples that were skipped and are not part of the scores.
void warn_of_skipped(const Corpus& corpus) {
  for (const std::string& note : corpus.notes) {
    if (note.starts_with("validation: ") || note.starts_with("test: ")) warn(note);
  }
}

void run(const Arguments& arguments) {
  set_num_threads(arguments.threads);
  const auto [trained, origin] = open_trained(arguments.run, arguments.overrides);
  Corpus corpus = load_corpus_for(trained, DataUse::scores, arguments.overrides);
  corpus.clear_training();  // the training set is not used and may no longer fit the model
  require_fitting_examples(corpus, trained.config);
  warn_of_skipped(corpus);
  const auto sets = score_held_out_sets(trained, corpus);
  const char* const set = corpus.test.empty() ? validation_name : test_name;
  const auto examples = first_examples(trained, corpus, set, arguments.examples);
  const Json json = to_json(trained, origin, sets);
  if (arguments.json) {
    announce(origin);
    print_json(json, set, examples);
  } else {
    print_text(trained, origin, sets, set, examples);
  }
  flush_standard_output();  // scores that could not be printed are not recorded
  record_scores(arguments, json);
}

void define(CLI::App& command, Arguments& arguments) {
  add_run(command, arguments.run);
  command.add_option("OVERRIDES", arguments.overrides,
                     "Other data files, such as data.test_text=more.txt, or keys of the section "
                     "decoding, such as decoding.beam_size=5");
  add_value(command, "--examples", arguments.examples, between(0, 1'000'000),
            "Number of inputs to show with the model's outputs");
  add_threads(command, arguments.threads);
  add_json(command, arguments.json);
  command.footer(
      "JSON: `model`, `step`, `choice`; `validation` and `test`, the scores of the set or null, "
      "with shares\nfrom 0 to 1; `examples` of the set `examples_of`, the test set if there is "
      "one, "
      "each with\n`input`, `output` and `expected`; `signatures`, the signature of each score as "
      "in "
      "sacreBLEU.\n"
      "evaluation.json in a run directory contains the last scores, which `report` shows.\n"
      "Examples:\n  tapestry evaluate runs/copy\n"
      "  tapestry evaluate runs/copy/checkpoints/step-00002500.h5 --json");
}

}  // namespace
}  // namespace evaluate_cli

extern const Command evaluate_command{
    .name = "evaluate",
    .purpose = "Score a trained model on its held-out data",
    .define = with_arguments(evaluate_cli::define, evaluate_cli::run)};

}  // namespace tapestry
