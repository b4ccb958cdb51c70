// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/kernels/parallel.h"
#include "data/io/text_file.h"
#include "data/text/vocabulary.h"
#include "train/cli/command.h"
#include "train/cli/open_trained.h"
#include "train/inference/sampler.h"
#include "train/models/line_input.h"
#include "train/system/standard_streams.h"
#include "train/tasks/task.h"

namespace tapestry {
namespace generate_cli {
namespace {

struct Arguments {
  std::string run;     ///< a run directory or a checkpoint
  std::string prompt;  ///< the beginning of the text
  std::size_t tokens = 500;
  std::size_t samples = 1;  ///< number of continuations of each prompt
  std::size_t threads = 0;
  SamplingOptions sampling;
};

constexpr const char* standard_input = "-";  ///< PROMPT to read prompts from standard input

/// The default prompt: the newline token, or <bos> if the vocabulary has no newline.
std::vector<std::int32_t> default_prompt(const TextCodec& codec) {
  const std::int32_t newline = codec.target_vocabulary().id(newline_token);
  return {newline == unk_id ? bos_id : newline};
}

std::vector<std::string> kinds_that_generate() {
  std::vector<std::string> kinds;
  for (const Task* task : all_tasks()) {
    if (task->traits().generates_text) kinds.emplace_back(task->kind().name);
  }
  return kinds;
}

constexpr std::string_view replacement_character = "\uFFFD";

/// Warns about tokens of the prompt that are not in the vocabulary.
void warn_of_unknown(const std::vector<std::int32_t>& prompt) {
  const auto unknown = std::ranges::count(prompt, unk_id);
  if (unknown == 0) return;
  warn(
      fmt::format("{} of the {} tokens of the prompt are not in the vocabulary; the model reads "
                  "them as <unk>",
                  unknown, prompt.size()));
}

/// Prints a prompt and its continuation.
void print_continuation(const TrainedModel& trained, const std::string& prompt_text,
                        std::size_t tokens, const SamplingOptions& sampling) {
  std::vector<std::int32_t> prompt = default_prompt(trained.codec);
  const auto given = trained.codec.encode_target(prompt_text);
  prompt.insert(prompt.end(), given.begin(), given.end());
  fmt::print("{}", for_standard_output(prompt_text));
  std::vector<std::int32_t> line = given;
  std::string printed = trained.codec.decode_target(line);
  const auto print_rest = [&](const std::string& text) {
    if (text.size() <= printed.size()) return;
    fmt::print("{}", for_standard_output(text.substr(printed.size())));
  };
  generate(*trained.model->network, trained.config.model.max_length, prompt, tokens, sampling,
           [&](std::int32_t token) {
             line.push_back(token);
             const std::string text = trained.codec.decode_target(line);
             // A character may consist of several byte tokens.
             if (text.ends_with(replacement_character)) return;
             print_rest(text);
             flush_standard_output();
             const bool ended = text.ends_with('\n');
             if (ended) line.clear();
             printed = ended ? "" : text;
           });
  print_rest(trained.codec.decode_target(line));
  fmt::print("\n");
  flush_standard_output();
}

void run(const Arguments& arguments) {
  set_num_threads(arguments.threads);
  const TrainedModel trained = open_and_announce(arguments.run);
  require_kind(trained, kinds_that_generate(), "generate");
  const bool reads_prompts = arguments.prompt == standard_input;
  const bool several = reads_prompts || arguments.samples > 1;
  std::size_t prompts = 0;
  const auto continue_prompt = [&](const std::string& prompt) {
    ++prompts;
    warn_of_unknown(trained.codec.encode_target(prompt));
    SamplingOptions sampling = arguments.sampling;
    sampling.window = find_task(trained.config).answers().token_limit(trained.config).tokens;
    for (std::size_t sample = 1; sample <= arguments.samples; ++sample, ++sampling.seed) {
      if (several) fmt::print("== prompt {}, sample {}, seed {}\n", prompts, sample, sampling.seed);
      print_continuation(trained, prompt, arguments.tokens, sampling);
    }
  };
  if (reads_prompts) {
    LineReader lines(STDIN_FILENO, "standard input",
                     "pass prompts on standard input, one per line, such as `< FILE`");
    while (const auto line = lines.next()) continue_prompt(*line);
  } else {
    continue_prompt(arguments.prompt);
  }
}

void define(CLI::App& command, Arguments& arguments) {
  add_run(command, arguments.run);
  command.add_option("PROMPT", arguments.prompt,
                     "Beginning of the text; -: read prompts from standard input, one per line");
  add_value(command, "--tokens", arguments.tokens, between(0, 1'000'000'000),
            "Number of tokens to add: characters, words or subwords");
  add_sampling(command, arguments.sampling);
  add_value(command, "--samples", arguments.samples, between(1, 1'000'000),
            "Number of continuations of each prompt; sample N is drawn with --seed plus N - 1");
  add_threads(command, arguments.threads);
  command.footer(
      "The model reads a line end (<bos> if the vocabulary has none) before the prompt.\nIt "
      "predicts each new token from the last data.context tokens.\n"
      "With several prompts or samples, a line such as `== prompt 1, sample 2, seed 2` "
      "precedes\neach text.\n"
      "Examples:\n  tapestry generate runs/shakespeare_char \"ROMEO:\" --tokens 300 --samples 3\n"
      "  tapestry generate runs/shakespeare_char - < prompts.txt");
}

}  // namespace
}  // namespace generate_cli

extern const Command generate_command{
    .name = "generate",
    .purpose = "Continue a text with a trained language model",
    .define = with_arguments(generate_cli::define, generate_cli::run)};

}  // namespace tapestry
