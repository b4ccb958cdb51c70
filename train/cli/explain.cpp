// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "autograd/kernels/parallel.h"
#include "autograd/ops/reductions.h"
#include "data/batch.h"
#include "data/io/durable_file.h"
#include "data/io/text_file.h"
#include "data/io/utf8.h"
#include "train/base/format.h"
#include "train/checkpoint/run_directory.h"
#include "train/cli/command.h"
#include "train/cli/open_model.h"
#include "train/cli/open_trained.h"
#include "train/config/domain.h"
#include "train/config/error.h"
#include "train/config/text.h"
#include "train/inference/batch_tensors.h"
#include "train/inference/finite_outputs.h"
#include "train/report/computation.h"
#include "train/report/html_page.h"
#include "train/system/standard_streams.h"
#include "train/tasks/task.h"
#include "train/tasks/task_data.h"

namespace tapestry {
namespace explain_cli {
namespace {

constexpr const char* file_name = "explain.html";
constexpr const char* standard_input = "-";     ///< TEXT to read a line of standard input
constexpr std::size_t large_page = 20'000'000;  ///< larger pages cause a warning

struct Arguments {
  std::string model;                   ///< a config file, run directory or checkpoint
  std::string text;                    ///< the input, written as for the command of the task
  std::vector<std::string> overrides;  ///< section.key=value
  std::optional<std::string> target;   ///< labels of the loss
  std::string output;                  ///< empty: default_output()
  bool force = false;
  std::size_t top = 5;  ///< number of predictions per position
  bool json = false;
  std::size_t threads = 0;
};

/// A model whose forward and backward pass are shown.
struct Subject {
  TrainedModel trained;
  std::string origin;
  bool is_trained;
};

Subject open_subject(const Arguments& arguments) {
  if (is_run_or_checkpoint(arguments.model)) {
    auto [trained, origin] = open_trained(arguments.model, arguments.overrides);
    announce(origin);
    return {.trained = std::move(trained), .origin = origin.in_words(), .is_trained = true};
  }
  ModelWithData opened = open_model(arguments.model, arguments.overrides);
  const Corpus& corpus = opened.corpus;
  return {.trained = {.config = opened.config,
                      .codec = make_codec(opened.config.data, corpus.source_vocabulary,
                                          corpus.target_vocabulary),
                      .model = opened.with_dtype(opened.config.train.dtype),
                      .data = {},
                      .step = 0},
          .origin = opened.origin.in_words(),
          .is_trained = false};
}

/// The input line: the argument, or the first line of standard input.
std::string read_input(const Arguments& arguments, const std::string& input_hint) {
  if (arguments.text != standard_input) return arguments.text;
  LineReader lines(STDIN_FILENO, "standard input", input_hint);
  const auto line = lines.next();
  if (!line) reject_option("TEXT", "found no line on standard input, expected one", input_hint);
  return *line;
}

Example read_example(const std::string& line, const Arguments& arguments, const Subject& subject,
                     const Task& task) {
  const bool from_input = arguments.text == standard_input;
  const bool reads_images = task.traits().reads_images;
  // Number the line 2, since the reader could mistake line 1 for the header of a table.
  const auto example =
      task.answers().read_line(line, 2, from_input ? "standard input" : "TEXT", subject.trained);
  if (!example) {
    reject_option(
        "TEXT",
        reads_images ? "found no pixels, expected the pixels of an image"
                     : "found no word, expected a sentence",
        reads_images ? "write the pixels of an image, separated by commas" : "write a sentence");
  }
  return *example;
}

// ---- The labels of the loss.

/// The input as a batch, with the labels of its loss.
struct LabelledInput {
  Batch batch;
  std::string labels;  ///< where the labels come from
};

using Target = std::optional<std::string>;

constexpr const char* own_predictions = "the model's own predictions (change them with --target)";

/// The most likely prediction at each position.
Ids predictions(const Model& model, const Batch& batch) {
  return argmax(
      (*model.network)(network_input(batch, model.parameters.dtype()), Mode::inference()));
}

[[noreturn]] void reject_target(const std::string& message, const std::string& hint) {
  reject_option("--target", message, hint);
}

std::string counted(std::size_t count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::int32_t target_class(const std::string& word, const Vocabulary& names) {
  const std::int32_t id = names.id(word);
  if (id != unk_id) return id;
  std::vector<std::string> known;
  for (std::size_t i = first_word_id; i < names.size() && known.size() < 20; ++i) {
    known.push_back(names.token(static_cast<std::int32_t>(i)));
  }
  reject_target(fmt::format("there is no class `{}`{}", escaped(word), name_odd_character(word)),
                fmt::format("use {}", list_in_words(known)));
}

/// The class of each word of --target.
std::vector<std::int32_t> target_classes(const std::string& target, const Vocabulary& names) {
  std::vector<std::int32_t> classes;
  for (std::size_t at = 0; at < target.size();) {
    const std::size_t end = std::min(target.find(' ', at), target.size());
    if (end > at) classes.push_back(target_class(target.substr(at, end - at), names));
    at = end + 1;
  }
  return classes;
}

/// A source with the greedy output of the model as its target.
LabelledInput with_greedy_target(const Subject& subject, const Task& task, Example example) {
  Config greedy = subject.trained.config;
  greedy.decoding.beam_size = 1;
  // Limits the length, since an untrained model seldom predicts <eos>.
  if (!subject.is_trained)
    greedy.train.max_decode_length = std::max<std::size_t>(example.source.size(), 1);
  example = task.answers().with_own_target(std::move(example), *subject.trained.model, greedy);
  return {.batch = inference_batch(task, example),
          .labels = subject.is_trained
                        ? "the model's own greedy output (change it with --target)"
                        : "the untrained model's own greedy output, cut to the number of tokens "
                          "of the source (change it with --target)"};
}

/// A source with --target or the greedy output of the model as its target.
LabelledInput labelled_pair(const Subject& subject, const Task& task, Example example,
                            const Target& target) {
  if (!target) return with_greedy_target(subject, task, std::move(example));
  example.target = subject.trained.codec.encode_target(*target);
  const TokenLimit limit = task.answers().token_limit(subject.trained.config);
  const std::size_t tokens = longest_side(example, task.layout());
  if (tokens > limit.tokens) {
    reject_target(fmt::format("found {} with <eos>, expected at most {} ({})",
                              counted(tokens, "token"), limit.tokens, limit.key),
                  "cut the target");
  }
  return {.batch = inference_batch(task, example), .labels = "the text of --target"};
}

/// A text whose tokens are predicted from the preceding tokens.
LabelledInput labelled_text(const Subject& subject, const Task& task, const Example& example,
                            const Target& target) {
  if (target) {
    reject_target("a language model predicts the next tokens of the text",
                  "leave out --target, and put the tokens to predict into TEXT");
  }
  Batch batch = inference_batch(task, example);
  if (!subject.trained.codec.multiple_lines()) {
    return {.batch = std::move(batch), .labels = "the next token of the text"};
  }
  // The token after the end of a window is unknown.
  batch.labels.back() = no_label;
  if (batch.labels.size() > 1) {
    return {.batch = std::move(batch),
            .labels = "the next token of the text; the last token has no label"};
  }
  batch.labels.back() = predictions(*subject.trained.model, batch)[0];
  return {.batch = std::move(batch), .labels = own_predictions};
}

/// A text or image with one class, or a text with a class for each token.
LabelledInput labelled_classes(const Subject& subject, const Task& task, Example example,
                               const Target& target) {
  if (!target) {
    Batch batch = inference_batch(task, example);
    const Ids own = predictions(*subject.trained.model, batch);
    std::copy(own.begin(), own.end(), batch.labels.begin());
    return {.batch = std::move(batch), .labels = own_predictions};
  }
  const auto classes = target_classes(*target, subject.trained.codec.target_vocabulary());
  if (classes.size() != example.target.size()) {
    reject_target(
        fmt::format("found {}, expected {}", counted(classes.size(), "label"),
                    example.target.size()),
        task.traits().one_label_per_example ? "write one class" : "write one label for each token");
  }
  example.target = classes;
  return {.batch = inference_batch(task, example), .labels = "the classes of --target"};
}

/// A text whose blanks are predicted. If the text has no blanks, all of its tokens are predicted.
LabelledInput labelled_blanks(const Subject& subject, const Task& task, const Example& example,
                              const Target& target) {
  Batch batch = inference_batch(task, example);
  const bool has_blanks = std::ranges::find(batch.input, unk_id) != batch.input.end();
  std::vector<std::int32_t> tokens = example.target;
  if (target) {
    tokens = task.answers().read_text(*target, subject.trained.codec).target;
    if (tokens.size() != example.target.size()) {
      reject_target(fmt::format("found {}, expected {} as in TEXT", counted(tokens.size(), "token"),
                                example.target.size()),
                    "write the text with a token for each blank");
    }
  } else if (has_blanks) {
    const Ids own = predictions(*subject.trained.model, batch);
    tokens.assign(own.begin(), own.end());
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const bool labelled = !has_blanks || batch.input[i] == unk_id;
    batch.labels[i] = labelled ? tokens[i] : no_label;
  }
  const char* labels = target       ? "the tokens of --target"
                       : has_blanks ? own_predictions
                                    : "the tokens of the text, which has no blank `_`";
  return {.batch = std::move(batch), .labels = labels};
}

/// The input with labels from `target`, the value of --target. Without `target`, the labels come
/// from the text or from the predictions of the model, depending on the task.
///
/// throws  ConfigError if the target does not fit the task or the input.
LabelledInput labelled_input(const Subject& subject, const Task& task, const Example& example,
                             const Target& target) {
  if (task.layout().labels_are_classes) return labelled_classes(subject, task, example, target);
  if (task.traits().reads_source) return labelled_pair(subject, task, example, target);
  if (task.traits().generates_text) return labelled_text(subject, task, example, target);
  return labelled_blanks(subject, task, example, target);
}

// ---- The page.

/// explain.html in MODEL if it is a run directory, otherwise in the working folder.
std::filesystem::path default_output(const std::string& model) {
  std::error_code ignored;
  return std::filesystem::is_directory(model, ignored) ? find_run(model).path() / file_name
                                                       : std::filesystem::path(file_name);
}

std::filesystem::path chosen_output(const Arguments& arguments) {
  const std::filesystem::path output = arguments.output.empty()
                                           ? default_output(arguments.model)
                                           : std::filesystem::path(arguments.output);
  require_output(output.string(), arguments.force || arguments.output.empty());
  return output;
}

void write_page(const std::filesystem::path& output, const Json& data) {
  const std::string page = html_page(data, {"common.js", "explain.js"});
  write_file_durably(output, page);
  if (page.size() > large_page) {
    warn(fmt::format(
        "the page is large ({}); a shorter text or a smaller model gives a smaller page",
        format_bytes(page.size())));
  }
  fmt::print("{}: {}\n", escaped(output.string()), format_bytes(page.size()));
}

void run(const Arguments& arguments) {
  set_num_threads(arguments.threads);
  const std::filesystem::path output = arguments.json ? "" : chosen_output(arguments);
  Subject subject = open_subject(arguments);
  const Task& task = find_task(subject.trained.config);
  const std::string line = read_input(arguments, task.words(subject.trained.config).input_hint);
  const Example example = read_example(line, arguments, subject, task);
  const LabelledInput input = labelled_input(subject, task, example, arguments.target);
  Model& model = *subject.trained.model;
  const ComputationTrace trace = trace_computation(
      model, network_input(input.batch, model.parameters.dtype()), label_ids(input.batch));
  if (!std::isfinite(trace.loss)) {
    reject_non_finite(model, input.batch,
                      arguments.text == standard_input ? "standard input" : "TEXT");
  }
  const ExplainedComputation explained{.config = subject.trained.config,
                                       .codec = subject.trained.codec,
                                       .model = model,
                                       .batch = input.batch,
                                       .trace = trace,
                                       .origin = subject.origin,
                                       .labels = input.labels};
  auto data = computation_json(explained, arguments.top, arguments.json);
  if (!task.traits().reads_images) data["text"] = escaped(line);
  if (!arguments.json) {
    write_page(output, data);
  } else {
    print_json(data, -1);
  }
}

void define(CLI::App& command, Arguments& arguments) {
  add_model(command, arguments.model);
  command
      .add_option("TEXT", arguments.text,
                  "Input: a sentence, or the pixels of an image as for classify; -: one line of "
                  "standard input")
      ->required();
  add_overrides(command, arguments.overrides);
  command.add_option(
      "--target", arguments.target,
      "Target of the loss: a translation, a class, labels, or the text with its blanks "
      "filled; default: the model's own output");
  add_value(command, "--top", arguments.top, between(1, 1'000),
            "Number of predictions to show for each position, the most likely first");
  CLI::Option* const output =
      add_path(
          command, "--output", arguments.output,
          "File to write, which must not exist unless --force is given; default: explain.html in "
          "the run directory or in the working folder, replaced if it exists")
          ->type_name("FILE");
  add_force(command, arguments.force);
  command
      .add_flag("--json", arguments.json,
                "Print one JSON object with all numbers instead of writing the page")
      ->excludes(output);
  add_threads(command, arguments.threads);
  command.footer(
      "The page shows each step of the forward pass with its formula, shapes and numbers, each "
      "attention head,\nthe most likely predictions, and the gradient of the loss at each step. It "
      "needs no other files and\nno network: open it in a browser. Dropout and label smoothing are "
      "off.\n"
      "Examples:\n  tapestry explain runs/toy_translation \"la voiture bleue\"\n"
      "  tapestry explain configs/toy_masked.yaml \"le chat _ dort\" model.d_model=8 "
      "model.num_heads=2\n"
      "  head -n 1 digits.csv | cut -d, -f1-64 | tapestry explain runs/digits_vit - --target 7");
}

}  // namespace
}  // namespace explain_cli

extern const Command explain_command{
    .name = "explain",
    .purpose = "Write an HTML file that follows one input through a model, forward and backward",
    .define = with_arguments(explain_cli::define, explain_cli::run),
    .memory_hint = "give it a shorter text, or more memory (see `ulimit -v`)"};

}  // namespace tapestry
