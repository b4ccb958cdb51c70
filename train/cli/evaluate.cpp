#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "data/batch.h"
#include "data/io/utf8.h"
#include "train/cli/command.h"
#include "train/cli/open_model.h"
#include "train/error.h"
#include "train/format.h"
#include "train/initial_state.h"
#include "train/platform/standard_streams.h"
#include "train/tasks/task.h"

namespace tapestry {
namespace {

struct Arguments {
  std::string run;                     ///< a run directory or a checkpoint
  std::vector<std::string> overrides;  ///< data.KEY=FILE
  std::size_t examples = 5;            ///< inputs to show with the model's outputs
};

void print_scores(const TrainedModel& trained, const char* which,
                  const std::vector<Example>& examples) {
  if (examples.empty()) return;
  const Config& config = trained.config;
  const Task& task = find_task(config);
  const Vocabulary& targets = trained.codec.target_vocabulary();
  const Scores scores =
      task.evaluate(*trained.model, config, batch_rules(config, targets.size()), targets, examples,
                    /*decoded=*/examples.size());
  fmt::print("{:<10}  {} held-out {}: {}\n", which, scores.sentences, task.example_noun(config),
             task.format_scores(scores, config));
  const double unknown = share_of_unknown_tokens(examples, task.layout());
  if (unknown > 0.0) {
    fmt::print("{:<10}  {} of its tokens are unknown\n", "", format_share(unknown));
  }
}

void print_examples(const TrainedModel& trained, std::vector<Example> examples, std::size_t count) {
  examples.resize(std::min(count, examples.size()));
  if (examples.empty()) return;
  for (const auto& [input, output, expected] : find_task(trained.config).show(trained, examples)) {
    fmt::print("\ninput     {}\noutput    {}\n", escaped(input), escaped(output));
    if (output != expected) fmt::print("expected  {}\n", escaped(expected));
  }
}

/// Warns about held-out examples that the scores leave out.
void warn_of_skipped(const Corpus& corpus) {
  for (const std::string& note : corpus.notes) {
    if (note.starts_with("validation: ") || note.starts_with("test: ")) warn(note);
  }
}

int run(const Arguments& arguments) {
  const auto [trained, origin] = open_trained(arguments.run, arguments.overrides);
  Corpus corpus = load_corpus_for(trained, DataUse::scores, arguments.overrides);
  corpus.train.clear();  // the training set is not used and may no longer fit the model
  require_fitting_examples(corpus, trained.config);
  warn_of_skipped(corpus);
  fmt::print("{}\n", origin.in_words());
  print_scores(trained, "validation", corpus.validation);
  print_scores(trained, "test", corpus.test);
  if (corpus.validation.empty() && corpus.test.empty()) {
    fmt::print("no held-out {}: name files or sizes for them in the config\n",
               find_task(trained.config).example_noun(trained.config));
  }
  print_examples(trained, corpus.test.empty() ? corpus.validation : corpus.test,
                 arguments.examples);
  return static_cast<int>(ExitCode::done);
}

Action define(CLI::App& app) {
  const auto arguments = std::make_shared<Arguments>();
  add_run(app, arguments->run);
  app.add_option("OVERRIDES", arguments->overrides,
                 "Other data files, such as data.test_text=more.txt");
  app.add_option("--examples", arguments->examples, "Inputs to show with their outputs")
      ->check(within(between(0, 1'000'000)))
      ->capture_default_str();
  return [arguments] { return run(*arguments); };
}

}  // namespace

const Command evaluate_command{
    .name = "evaluate", .purpose = "Score a trained model on its held-out data", .define = define};

}  // namespace tapestry
