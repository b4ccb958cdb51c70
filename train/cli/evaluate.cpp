#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>

#include "data/batch.h"
#include "data/io/escape.h"
#include "train/batch_tensors.h"
#include "train/checkpoint.h"
#include "train/cli/command.h"
#include "train/cli/open_model.h"
#include "train/evaluator.h"
#include "train/exit_code.h"
#include "train/format.h"
#include "train/greedy_decoder.h"
#include "train/initial_state.h"
#include "train/objective.h"
#include "train/progress.h"
#include "train/sentence_limit.h"

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
  const Scores scores =
      evaluate(*trained.model, examples,
               {.batch_size = config.train.batch_size,
                .rules = batch_rules(config, trained.codec.target_vocabulary().size()),
                .unit = text_unit(config.data),
                .decoded_sentences = examples.size(),
                .max_decode_length = config.train.max_decode_length});
  fmt::print("{:<10}  {} held-out {}: {}\n", which, scores.sentences, words_for_examples(config),
             format_scores(scores));
  const double unknown = share_of_unknown_tokens(examples, objective_of(config.model.kind));
  if (unknown > 0.0) {
    fmt::print("{:<10}  {} of its tokens are unknown\n", "", format_share(unknown));
  }
}

void print_example(const std::string& input, const std::string& output,
                   const std::string& expected) {
  fmt::print("\ninput     {}\noutput    {}\n", input, output);
  if (output != expected) fmt::print("expected  {}\n", expected);
}

void print_translations(const TrainedModel& trained, const std::vector<Example>& pairs) {
  std::vector<Sentence> sources;
  for (const Example& pair : pairs) sources.push_back(pair.source);
  const auto outputs = greedy_decode(trained.model->as<Transformer>(), sources,
                                     trained.config.train.max_decode_length);
  const TextCodec& codec = trained.codec;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    print_example(codec.decode_source(sources[i]), codec.decode_target(outputs[i]),
                  codec.decode_target(pairs[i].target));
  }
}

void print_classes(const TrainedModel& trained, const std::vector<Example>& examples) {
  const TextCodec& codec = trained.codec;
  const auto classes =
      most_likely_classes(*trained.model, examples, trained.config.train.batch_size);
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const bool image = !examples[i].pixels.empty();
    print_example(image ? fmt::format("image {}", i + 1) : codec.decode_source(examples[i].source),
                  codec.decode_target(std::array{classes[i].id}),
                  codec.decode_target(examples[i].target));
  }
}

/// The text with the guesses of the model in the places of what is hidden from it; one that is no
/// word is <unk>.
void print_guesses(const TrainedModel& trained, const std::vector<Example>& examples) {
  const TextCodec& codec = trained.codec;
  const BatchRules rules = batch_rules(trained.config, codec.target_vocabulary().size());
  const auto in_words = [&](const std::vector<std::int32_t>& ids) {
    return escaped(codec.decode_target(ids));
  };
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const Batch batch = make_batch(examples, std::array{i}, rules);
    const NetworkInput input = network_input(batch, trained.model->parameters.dtype());
    const auto guesses = largest_of_rows((*trained.model->network)(input));
    std::vector<std::int32_t> filled = examples[i].target;
    for (std::size_t at = 0; at < filled.size(); ++at) {
      const bool hidden = batch.labels[at] != no_label;
      if (hidden) filled[at] = guesses[at] < first_word_id ? unk_id : guesses[at];
    }
    print_example(in_words(batch.decoder_input), in_words(filled), in_words(examples[i].target));
  }
}

void print_examples(const TrainedModel& trained, std::vector<Example> examples, std::size_t count) {
  examples.resize(std::min(count, examples.size()));
  if (examples.empty()) return;
  const Objective objective = objective_of(trained.config.model.kind);
  if (objective == Objective::translation) print_translations(trained, examples);
  if (objective == Objective::masked_tokens) print_guesses(trained, examples);
  if (objective == Objective::label) print_classes(trained, examples);
}

int run(const Arguments& arguments) {
  const auto [trained, origin] = open_trained(arguments.run, arguments.overrides);
  Corpus corpus = load_corpus_of(trained);
  corpus.train.clear();  // which need not fit the model any more
  require_fitting_sentences(corpus, trained.config.model);
  fmt::print("{}\n", origin.in_words());
  print_scores(trained, "validation", corpus.validation);
  print_scores(trained, "test", corpus.test);
  if (corpus.validation.empty() && corpus.test.empty()) {
    fmt::print("no held-out {}: name files or sizes for them in the config\n",
               words_for_examples(trained.config));
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
