// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "autograd/kernels/parallel.h"
#include "train/base/error.h"
#include "train/base/program.h"
#include "train/cli/command.h"
#include "train/cli/open_model.h"
#include "train/cli/open_trained.h"
#include "train/config/domain.h"
#include "train/config/error.h"
#include "train/inference/attention_view.h"
#include "train/system/standard_streams.h"
#include "train/tasks/task.h"
#include "train/tasks/task_data.h"

namespace tapestry {
namespace attention_cli {
namespace {

/// A model and the example that it reads.
struct AttentionSubject {
  Config config;
  TextCodec codec;
  std::unique_ptr<Model> model;
  ModelOrigin origin;
  Example example;
  std::string name;  ///< name of the example
};

struct Arguments {
  std::string model;                   ///< a config file, run directory or checkpoint
  std::vector<std::string> overrides;  ///< section.key=value; for a run, only data.KEY=FILE
  std::size_t example = 1;             ///< index of the held-out example, from 1
  std::optional<std::string> text;     ///< text to read instead of an example
  std::string layer;                   ///< path of the layer to show; empty: all layers
  std::optional<std::size_t> head;     ///< the head to show, from 0; nullopt: all heads
  bool json = false;
  std::size_t threads = 0;
};

/// The layers that the arguments select.
std::vector<LayerAttention> chosen_layers(std::vector<LayerAttention> layers,
                                          const std::string& path) {
  if (path.empty()) return layers;
  std::vector<std::string> paths;
  for (const LayerAttention& layer : layers) paths.push_back(layer.layer);
  const auto found = std::ranges::find(paths, path);
  if (found == paths.end()) {
    reject_option("--layer " + path, "there is no such layer",
                  fmt::format("use {}", list_in_words(paths)));
  }
  return {std::move(layers[static_cast<std::size_t>(found - paths.begin())])};
}

/// The heads that the arguments select.
HeadRange chosen_heads(const LayerAttention& layer, const std::optional<std::size_t>& head) {
  if (!head) return {.begin = 0, .end = layer.num_heads};
  if (*head >= layer.num_heads) {
    reject_option(fmt::format("--head {}", *head),
                  fmt::format("the layer has {} heads", layer.num_heads),
                  fmt::format("use 0 to {}", layer.num_heads - 1));
  }
  return {.begin = *head, .end = *head + 1};
}

/// The part of the data that the example is taken from.
struct Part {
  const char* name;
  Examples examples;
};

Part example_part(const Corpus& corpus) {
  if (!corpus.validation.empty()) return {"validation", corpus.validation};
  if (!corpus.test.empty()) return {"test", corpus.test};
  return {"training", corpus.training()};
}

void choose_example(const Corpus& corpus, std::size_t number, AttentionSubject& subject) {
  const auto [name, examples] = example_part(corpus);
  if (number > examples.size()) {
    reject_option(fmt::format("--example {}", number),
                  fmt::format("the {} set has {} examples", name, examples.size()),
                  fmt::format("use 1 to {}", examples.size()));
  }
  subject.example = examples[number - 1];
  subject.name = fmt::format("{} {}", name, number);
}

void require_fitting(const Example& example, const Config& config) {
  const TokenLimit limit = find_task(config).answers().token_limit(config);
  const std::size_t tokens = longest_side(example, find_task(config).layout());
  if (tokens <= limit.tokens) return;
  reject_option("--text",
                fmt::format("found {} tokens to read, expected at most {} ({})", tokens,
                            limit.tokens, limit.key),
                "cut the text");
}

void read_text(const std::string& text, AttentionSubject& subject) {
  const Config& config = subject.config;
  const Task& task = find_task(config);
  if (task.traits().reads_images) {
    reject_option("--text", "the model reads images, expected --example", "leave out --text");
  }
  subject.example = task.answers().read_text(text, subject.codec);
  subject.name = "the text given";
  if (subject.example == Example{}) {
    reject_option("--text", "found no word, expected a sentence", "write at least one word");
  }
  require_fitting(subject.example, config);
  subject.example =
      task.answers().with_own_target(std::move(subject.example), *subject.model, config);
}

/// The model and example that the arguments name. With --text, a trained model needs no data; a
/// seq2seq model then uses its own translation as the target.
///
/// throws  ConfigError, CheckpointError, DataError.
AttentionSubject attention_subject(const Arguments& arguments) {
  if (arguments.text && is_run_or_checkpoint(arguments.model)) {
    if (!arguments.overrides.empty()) {
      reject_option(arguments.overrides.front(), "--text needs no data files",
                    "leave out the override or --text");
    }
    auto [model, origin] = open_trained(arguments.model, {});
    AttentionSubject subject{.config = std::move(model.config),
                             .codec = std::move(model.codec),
                             .model = std::move(model.model),
                             .origin = std::move(origin),
                             .example = {},
                             .name = {}};
    read_text(*arguments.text, subject);
    return subject;
  }
  ModelWithData opened = open_model(arguments.model, arguments.overrides);
  const Corpus& corpus = opened.corpus;
  AttentionSubject subject{
      .config = opened.config,
      .codec = make_codec(opened.config.data, corpus.source_vocabulary, corpus.target_vocabulary),
      .model = std::move(opened.model),
      .origin = std::move(opened.origin),
      .example = {},
      .name = {}};
  if (arguments.text) {
    read_text(*arguments.text, subject);
  } else {
    choose_example(corpus, arguments.example, subject);
  }
  return subject;
}

void run(const Arguments& arguments) {
  set_num_threads(arguments.threads);
  const AttentionSubject subject = attention_subject(arguments);
  const Task& task = find_task(subject.config);
  const Batch batch = inference_batch(task, subject.example);
  auto [all_layers, notes] = attention_weights(
      *subject.model, batch, task.answers().stack_tokens(batch, subject.config, subject.codec));
  for (const std::string& note : notes) warn(note);
  if (all_layers.empty()) {
    reject_option(
        "attention", "the model has no attention layer",
        fmt::format("`{} inspect RUN` lists the parameters of its layers", program_name()));
  }
  const auto layers = chosen_layers(std::move(all_layers), arguments.layer);
  const HeadRange heads = chosen_heads(layers.front(), arguments.head);
  if (arguments.json) {
    announce(subject.origin);
    fmt::print("{}\n", attention_json(layers, heads, subject.origin.place, subject.name));
  } else {
    fmt::print("{}, {}\n{}", subject.origin.in_words(), subject.name,
               attention_tables(layers, heads));
  }
}

void define(CLI::App& command, Arguments& arguments) {
  add_model(command, arguments.model);
  add_overrides(command, arguments.overrides);
  CLI::Option* const example = add_value(
      command, "--example", arguments.example, between(1, 1'000'000'000),
      "Number of the example in the validation set or, if that set is empty, in the test or "
      "training set");
  command.add_option("--text", arguments.text, "Text to read instead of an example")
      ->excludes(example);
  command.add_option("--layer", arguments.layer,
                     "Show only this layer, such as encoder.layers.0.self_attn");
  add_value(command, "--head", arguments.head, between(0, 1'000'000),
            "Show only this head, counted from 0");
  command.add_flag("--json", arguments.json, "Print one JSON object");
  add_threads(command, arguments.threads);
  command.footer(
      "The decoder of a seq2seq model reads the reference of the example or, with --text, the\n"
      "model's own translation. Words that are not in the vocabulary are shown as <unk>.\n"
      "Examples:\n  tapestry attention runs/copy --layer decoder.layers.1.cross_attn\n"
      "  tapestry attention runs/copy --text \"d a c\" --json\n"
      "  tapestry attention configs/copy.yaml model.window=2      masks of an untrained model");
}

}  // namespace
}  // namespace attention_cli

extern const Command attention_command{
    .name = "attention",
    .purpose = "Show the attention weights of every layer and head",
    .define = with_arguments(attention_cli::define, attention_cli::run),
    .memory_hint = "use a shorter text or example"};

}  // namespace tapestry
