// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "autograd/kernels/parallel.h"
#include "data/io/durable_file.h"
#include "data/io/text_file.h"
#include "data/io/utf8.h"
#include "train/base/format.h"
#include "train/checkpoint/run_directory.h"
#include "train/cli/command.h"
#include "train/cli/labelled_input.h"
#include "train/cli/open_model.h"
#include "train/cli/open_trained.h"
#include "train/config/error.h"
#include "train/config/text.h"
#include "train/inference/batch_tensors.h"
#include "train/report/computation.h"
#include "train/report/html_page.h"
#include "train/system/standard_streams.h"
#include "train/tasks/task_data.h"

namespace tapestry {
namespace explain_cli {
namespace {

constexpr const char* file_name = "explain.html";
constexpr const char* standard_input = "-";     ///< TEXT to read a line of standard input
constexpr std::size_t large_page = 20'000'000;  ///< bytes above which a warning is printed

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

Subject open_subject(const Arguments& arguments) {
  if (is_run_or_checkpoint(arguments.model)) {
    auto [trained, origin] = open_trained(arguments.model, arguments.overrides);
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
  write_file_durably(output, std::as_bytes(std::span(page)));
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
      add_path(command, "--output", arguments.output,
               "File to write, which must be new without --force; default: explain.html in the run "
               "directory or in the working folder, replaced if it exists")
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
