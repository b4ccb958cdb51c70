// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "autograd/kernels/parallel.h"
#include "autograd/ops/linear.h"
#include "data/io/text_file.h"
#include "data/io/utf8.h"
#include "train/base/error.h"
#include "train/cli/command.h"
#include "train/cli/open_trained.h"
#include "train/config/domain.h"
#include "train/config/error.h"
#include "train/inference/beam_search.h"
#include "train/inference/finite_outputs.h"
#include "train/inference/forced_decoding.h"
#include "train/models/line_input.h"
#include "train/system/standard_streams.h"
#include "train/tasks/task.h"
#include "train/tasks/task_data.h"

namespace tapestry {
namespace translate_cli {
namespace {

struct Arguments {
  std::string run;                          ///< a run directory or a checkpoint
  std::optional<std::size_t> num_best{};    ///< outputs per line; nullopt: only the best text
  std::optional<std::size_t> beam_size{};   ///< nullopt: beam size of the run
  std::optional<double> length_penalty{};   ///< nullopt: length penalty of the run
  std::size_t min_length = 0;               ///< minimum number of tokens
  std::optional<std::size_t> max_length{};  ///< maximum; nullopt: value of the run
  bool samples = false;                     ///< whether to sample instead of using beam search
  SamplingOptions sampling{};
  bool has_prefixes = false;       ///< lines are source<TAB>prefix
  std::string forbidden, allowed;  ///< paths of files with tokens, or empty
  std::size_t no_repeat_ngram = 0;
  bool align = false;               ///< whether to print word alignments
  std::string align_layer;          ///< empty: the second to last layer
  bool interactive = false;         ///< whether to answer each line before reading the next
  std::size_t batch_tokens = 2048;  ///< maximum number of source tokens per batch
  std::string on_long_line = long_lines::cut;  ///< one of long_lines
  std::size_t threads = 0;
  bool json = false;
};

// ---- Options

/// For each id of the target vocabulary, whether the file contains its token.
std::vector<bool> tokens_in_file(const std::string& path, const Vocabulary& vocabulary) {
  std::vector<bool> found(vocabulary.size(), false);
  std::size_t unknown = 0;
  const TextFile file = read_text_file(
      path, {.expected = "one token per line", .hint = "name a file with tokens, one per line"});
  for (const std::string& token : file.lines) {
    const std::int32_t id = vocabulary.id(token);
    if (id == unk_id && token != vocabulary.token(unk_id)) {
      unknown += token.empty() ? 0 : 1;
    } else {
      found[static_cast<std::size_t>(id)] = true;
    }
  }
  if (unknown > 0) {
    warn(fmt::format("{}: {} of {} tokens are not in the target vocabulary", path, unknown,
                     file.lines.size()));
  }
  return found;
}

std::vector<bool> forbidden_tokens(const Arguments& arguments, const Vocabulary& vocabulary) {
  if (!arguments.forbidden.empty()) return tokens_in_file(arguments.forbidden, vocabulary);
  if (arguments.allowed.empty()) return {};
  std::vector<bool> tokens = tokens_in_file(arguments.allowed, vocabulary);
  tokens.flip();
  return tokens;
}

/// Lists the given options that constrain outputs, such as "--forbid, --min-length 3".
std::string constraints(const Arguments& arguments) {
  std::vector<std::string> given;
  if (arguments.has_prefixes) given.emplace_back("--prefix");
  if (!arguments.forbidden.empty()) given.emplace_back("--forbid");
  if (!arguments.allowed.empty()) given.emplace_back("--allow");
  if (arguments.min_length > 0) {
    given.push_back(fmt::format("--min-length {}", arguments.min_length));
  }
  if (arguments.no_repeat_ngram > 0) {
    given.push_back(fmt::format("--no-repeat-ngram {}", arguments.no_repeat_ngram));
  }
  return fmt::format("{}", fmt::join(given, ", "));
}

SearchOptions search_options(const TrainedModel& trained, const Arguments& arguments) {
  SearchOptions options = search_options(trained.config);
  options.num_best = arguments.num_best.value_or(1);
  options.beam_size = arguments.beam_size.value_or(std::max(options.beam_size, options.num_best));
  options.length_penalty = arguments.length_penalty.value_or(options.length_penalty);
  options.min_length = arguments.min_length;
  options.max_length = arguments.max_length.value_or(options.max_length);
  options.forbidden = forbidden_tokens(arguments, trained.codec.target_vocabulary());
  options.no_repeat_ngram = arguments.no_repeat_ngram;
  if (arguments.samples) options.sampling = arguments.sampling;
  options.batch_tokens = options.batch_size = arguments.batch_tokens;
  options.batch_size = bounded_batch_size(options, trained.codec.target_vocabulary().size());
  if (!arguments.samples && options.num_best > options.beam_size) {
    reject_option(fmt::format("--n-best {}", options.num_best),
                  fmt::format("expected at most --beam-size ({})", options.beam_size),
                  fmt::format("write --beam-size {}", options.num_best));
  }
  if (options.max_length != 0 && options.min_length > options.max_length) {
    reject_option(fmt::format("--min-length {}", options.min_length),
                  fmt::format("expected at most the maximum length ({})", options.max_length),
                  fmt::format("write --max-length {} or more", options.min_length));
  }
  return options;
}

// ---- Input

/// The example of a line SOURCE<TAB>PREFIX. Its target is the prefix, which may be empty.
std::optional<Example> read_with_prefix(const std::string& line, std::size_t number,
                                        const std::string& place, const TrainedModel& trained) {
  const Task& task = find_task(trained.config);
  const std::size_t tab = line.find('\t');
  if (tab == line.npos) return task.answers().read_line(line, number, place, trained);
  const Sentence prefix = trained.codec.encode_target(line.substr(tab + 1));
  const std::size_t positions = trained.config.model.max_length;
  if (prefix.size() >= positions) {
    throw DataError(fmt::format("{}: found a prefix of {} tokens, expected at most {} "
                                "(model.max_length)",
                                place, prefix.size(), positions - 1),
                    "cut the prefix, or train a model with a larger model.max_length");
  }
  try {
    std::optional<Example> example =
        task.answers().read_line(line.substr(0, tab), number, place, trained);
    if (example) example->target = prefix;
    return example;
  } catch (const LongLine& error) {
    Example cut = error.cut();
    cut.target = prefix;
    throw LongLine(error.what(), error.hint(), std::move(cut));
  }
}

/// Describes the first constraint that a prefix violates, such as "the token `x`, which is
/// forbidden"; empty if the prefix satisfies all constraints.
std::string broken_constraint(const Sentence& prefix, const SearchOptions& options,
                              const Vocabulary& vocabulary) {
  for (const std::int32_t id : prefix) {
    if (options.forbidden.empty() || !options.forbidden[static_cast<std::size_t>(id)]) continue;
    return fmt::format("the token `{}`, which is forbidden", excerpt(vocabulary.token(id)));
  }
  if (options.max_length > 0 && prefix.size() > options.max_length) {
    return fmt::format("{} tokens, more than the maximum length ({})", prefix.size(),
                       options.max_length);
  }
  const std::size_t n = options.no_repeat_ngram;
  std::set<Sentence> sequences;
  for (std::size_t end = n; n > 0 && end <= prefix.size(); ++end) {
    const auto last = prefix.begin() + static_cast<std::ptrdiff_t>(end);
    if (sequences.emplace(last - static_cast<std::ptrdiff_t>(n), last).second) continue;
    return fmt::format("{} twice (--no-repeat-ngram)",
                       n == 1 ? "the same token" : fmt::format("the same {} tokens", n));
  }
  return "";
}

// ---- Output

/// A translation with its word alignment.
struct Answer {
  Hypothesis output{};
  std::vector<WordLink> links{};  ///< empty without --align
};

/// Formats links in the Pharaoh format, such as "0-0 2-1": pairs of source and target word indices.
std::string in_pharaoh_format(const std::vector<WordLink>& links) {
  std::vector<std::string> pairs;
  for (const WordLink& link : links) {
    pairs.push_back(fmt::format("{}-{}", link.source, link.target));
  }
  return fmt::format("{}", fmt::join(pairs, " "));
}

/// A line of an n-best list, in the format of Moses.
std::string list_entry(const InputLine& line, const std::string& text, const Hypothesis& output) {
  return fmt::format("{} ||| {} ||| LogP= {:.6f} ||| {:.6f}", line.number - 1, text,
                     output.log_probability, output.score);
}

/// The text of each word of a sentence.
///
/// decode  returns the text of ids
template <class Decode>
Json word_texts(std::span<const std::int32_t> ids, const Vocabulary& vocabulary,
                const Decode& decode) {
  const std::vector<std::size_t> words = word_indices(vocabulary, ids);
  Json texts = Json::array();
  for (std::size_t begin = 0, end = 0; begin < ids.size(); begin = end) {
    while (end < ids.size() && words[end] == words[begin]) ++end;
    texts.push_back(decode(ids.subspan(begin, end - begin)));
  }
  return texts;
}

Json source_words(const InputLine& line, const TextCodec& codec) {
  if (!line.example) return Json::array();
  return word_texts(line.example->source, codec.source_vocabulary(),
                    [&](std::span<const std::int32_t> ids) { return codec.decode_source(ids); });
}

/// Adds the words of a translation and their links to the words of the source.
void add_alignment(const Answer& answer, const TextCodec& codec, Json& json) {
  json["words"] =
      word_texts(answer.output.tokens, codec.target_vocabulary(),
                 [&](std::span<const std::int32_t> ids) { return codec.decode_target(ids); });
  Json& links = json["alignment"] = Json::array();
  for (const WordLink& link : answer.links) {
    links.push_back(Json::array({link.source, link.target}));
  }
}

Json json_object(const InputLine& line, const std::vector<Answer>& answers,
                 const Arguments& arguments, const TextCodec& codec) {
  Json list = Json::array();
  for (const Answer& answer : answers) {
    const Hypothesis& output = answer.output;
    Json json = {{"text", codec.decode_target(output.tokens)},
                 {"log_probability", output.log_probability},
                 {"score", output.score},
                 {"num_tokens", output.tokens.size()}};
    if (arguments.align) add_alignment(answer, codec, json);
    list.push_back(std::move(json));
  }
  Json json = {{"line", line.number}};
  if (arguments.align) json["source_words"] = source_words(line, codec);
  json["translations"] = std::move(list);
  return json;
}

/// Prints the answers to one line. Without answers prints an empty line, or an entry of an n-best
/// list with an empty text; its log-probability is -inf, or 0 for a line without a source.
void print_answers(const InputLine& line, std::vector<Answer> answers, const Arguments& arguments,
                   const TextCodec& codec) {
  if (arguments.json) {
    return print_json(json_object(line, answers, arguments, codec), -1);
  }
  if (answers.empty()) {
    const double none = line.example ? -std::numeric_limits<double>::infinity() : 0;
    answers.push_back({.output = {.tokens = {}, .log_probability = none, .score = none}});
  }
  for (const auto& [output, links] : answers) {
    const std::string text = for_standard_output(as_one_line(codec.decode_target(output.tokens)));
    fmt::print("{}", arguments.num_best ? list_entry(line, text, output) : text);
    if (arguments.align) fmt::print(" ||| {}", in_pharaoh_format(links));
    fmt::print("\n");
  }
}

/// The outputs for each input, with alignments if --align is given.
std::vector<std::vector<Answer>> with_alignments(const std::vector<SearchInput>& inputs,
                                                 std::vector<std::vector<Hypothesis>> outputs,
                                                 const TrainedModel& trained,
                                                 const Arguments& arguments) {
  const TextCodec& codec = trained.codec;
  std::vector<Example> pairs;
  for (std::size_t i = 0; arguments.align && i < inputs.size(); ++i) {
    for (const Hypothesis& output : outputs[i]) {
      pairs.push_back({.source = inputs[i].source, .target = output.tokens});
    }
  }
  const auto alignments = align_tokens(*trained.model->network, pairs, arguments.align_layer);
  std::vector<std::vector<Answer>> answers(inputs.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for (Hypothesis& output : outputs[i]) {
      std::vector<WordLink> links;
      if (arguments.align) {
        links = link_words(alignments[next++],
                           word_indices(codec.source_vocabulary(), inputs[i].source),
                           word_indices(codec.target_vocabulary(), output.tokens));
      }
      answers[i].push_back({.output = std::move(output), .links = std::move(links)});
    }
  }
  return answers;
}

/// Warnings about lines whose constraints contradict each other.
struct ConstraintWarnings {
  LineWarnings prefixes{"standard input", "have a prefix that breaks a constraint"};
  LineWarnings dead_ends{"standard input", "have no output that satisfies the constraints"};
};

void translate_lines(std::span<const InputLine> lines, const TrainedModel& trained,
                     const SearchOptions& options, const Arguments& arguments,
                     ConstraintWarnings& warnings) {
  std::vector<SearchInput> inputs;
  for (const auto& [number, example] : lines) {
    if (!example) continue;
    inputs.push_back({.source = example->source, .prefix = example->target, .number = number});
    const std::string broken =
        broken_constraint(example->target, options, trained.codec.target_vocabulary());
    if (broken.empty()) continue;
    warnings.prefixes.add(fmt::format("standard input:{}: the prefix has {}", number, broken),
                          "the prefix is kept, only the tokens after it are constrained");
  }
  auto outputs =
      search_outputs(*trained.model->network, trained.config.model.max_length, inputs, options);
  auto answers = with_alignments(inputs, std::move(outputs), trained, arguments);
  auto next = answers.begin();
  for (const InputLine& line : lines) {
    std::vector<Answer> found;
    if (line.example) {
      found = std::move(*next++);
      const std::string place = fmt::format("standard input:{}", line.number);
      if (found.empty()) {
        warnings.dead_ends.add(
            fmt::format("{}: no output satisfies {}", place, constraints(arguments)),
            "the answer is empty");
      } else if (const Hypothesis& best = found.front().output; std::isnan(best.log_probability)) {
        flush_standard_output();  // the answers to earlier lines
        reject_non_finite(*trained.model,
                          inference_batch(find_task(trained.config),
                                          {.source = line.example->source, .target = best.tokens}),
                          place);
      }
    }
    print_answers(line, std::move(found), arguments, trained.codec);
  }
}

/// The layer whose attention --align shows.
std::string chosen_layer(const std::string& given, const Network& network) {
  const std::vector<std::string> layers = cross_attention_layers(network);
  if (layers.empty()) {
    reject_option("--align", "the model has no cross-attention", "leave it out");
  }
  if (given.empty()) return layers[layers.size() - std::min<std::size_t>(2, layers.size())];
  if (std::ranges::find(layers, given) != layers.end()) return given;
  reject_option("--align-layer " + given, "there is no such layer",
                fmt::format("use {}", list_in_words(layers)));
}

/// Maximum number of lines that are sorted by length and answered together.
constexpr std::size_t large_window = 1000;

void run(const LineCommand& command, Arguments arguments) {
  set_num_threads(arguments.threads);
  const TrainedModel trained = open_and_announce(arguments.run);
  require_kind(trained, kinds_that_decode(), command.name);
  if (arguments.align) {
    arguments.align_layer = chosen_layer(arguments.align_layer, *trained.model->network);
  }
  const SearchOptions options = search_options(trained, arguments);
  const Task& task = find_task(trained.config);
  const PackedWeights packed;
  LineInput input({.read =
                       [&](const std::string& line, std::size_t number, const std::string& place) {
                         return arguments.has_prefixes
                                    ? read_with_prefix(line, number, place, trained)
                                    : task.answers().read_line(line, number, place, trained);
                       },
                   .hint = task.words(trained.config).input_hint,
                   .on_long_line = arguments.on_long_line,
                   .window = arguments.interactive ? 1 : large_window});
  ConstraintWarnings warnings;
  for (auto lines = input.next(); !lines.empty(); lines = input.next()) {
    translate_lines(lines, trained, options, arguments, warnings);
  }
  warnings.prefixes.finish();
  warnings.dead_ends.finish();
}

// ---- Command line

/// Adds the options of beam search. Returns --beam-size.
CLI::Option* add_search(CLI::App& command, Arguments& arguments) {
  const WholeNumber lengths = between(0, 1'000'000);
  CLI::Option* const beam_size = add_value(
      command, "--beam-size", arguments.beam_size, between(1, DecodingOptions::max_beam_size),
      "Number of hypotheses in the beam; 1: greedy decoding (default: decoding.beam_size of the "
      "run, or --n-best if that is larger)");
  add_value(command, "--length-penalty", arguments.length_penalty, not_negative(),
            "Exponent of the length normalization; 0: no normalization (default: "
            "decoding.length_penalty of the run)");
  add_value(command, "--min-length", arguments.min_length, lengths,
            "Minimum number of tokens of an output; an output that reaches its maximum length may "
            "have fewer");
  add_value(command, "--max-length", arguments.max_length, lengths,
            "Maximum number of tokens of an output; 0: source length + 50 (default: "
            "train.max_decode_length of the run)");
  add_value(command, "--no-repeat-ngram", arguments.no_repeat_ngram, lengths,
            "Length of token sequences that may not occur twice in an output; 0: no limit");
  return beam_size;
}

void add_constraints(CLI::App& command, Arguments& arguments) {
  command.add_flag("--prefix", arguments.has_prefixes,
                   "Read lines with a source, a tab and the first words of its translation, which "
                   "are kept unchanged; other options constrain only the tokens after them");
  CLI::Option* const forbid =
      add_path(command, "--forbid", arguments.forbidden,
               "File with the tokens that translations must not contain, one per line")
          ->type_name("FILE");
  add_path(command, "--allow", arguments.allowed,
           "File with the only tokens that translations may contain, one per line")
      ->type_name("FILE")
      ->excludes(forbid);
}

void define(CLI::App& command, Arguments& arguments) {
  add_run(command, arguments.run);
  add_value(command, "--n-best", arguments.num_best, between(1, DecodingOptions::max_beam_size),
            "Print this number of translations of each line, the best first, with scores");
  command.add_flag("--json", arguments.json, "Print a JSON object for each line");
  CLI::Option* const beam_size = add_search(command, arguments);
  CLI::Option* const sample = command
                                  .add_flag("--sample", arguments.samples,
                                            "Sample translations instead of using beam search")
                                  ->excludes(beam_size);
  for (CLI::Option* option : add_sampling(command, arguments.sampling)) option->needs(sample);
  add_constraints(command, arguments);
  CLI::Option* const align =
      command.add_flag("--align", arguments.align,
                       "Print word alignments: for each target word, the source words that its "
                       "tokens attend to most, as pairs SOURCE-TARGET of indices from 0");
  command
      .add_option("--align-layer", arguments.align_layer,
                  "Layer whose attention --align uses, such as decoder.layers.0.cross_attn "
                  "(default: the second to "
                  "last)")
      ->needs(align);
  command.add_flag("--interactive", arguments.interactive,
                   "Answer each line before reading the next one");
  add_value(command, "--batch-tokens", arguments.batch_tokens, between(1, 1'000'000),
            "Maximum number of source tokens per batch, including padding");
  add_long_lines(command, arguments.on_long_line);
  add_threads(command, arguments.threads);
  command.footer(
      "With --n-best, each output is a line `INDEX ||| TEXT ||| LogP= LOG_PROBABILITY ||| SCORE`, "
      "the best first;\nINDEX is the index of the line of input, from 0, and SCORE the "
      "log-probability after length normalization.\nJSON: `line`, from 1; `translations`, each "
      "with `text`, `log_probability`, `score` and `num_tokens`. With --align also\n"
      "`source_words`, and for each translation `words` and `alignment`, pairs of a source word "
      "index and a word index.\n"
      "If no output satisfies the options, a warning names the line, and the answer is an empty "
      "line;\nwith --n-best, a line with the log-probability -inf; with --json, an empty list.\n"
      "Examples:\n  tapestry translate runs/multi30k < test.en > test.de\n"
      "  tapestry translate runs/multi30k --beam-size 5 --n-best 5 < test.en\n"
      "  tapestry translate runs/multi30k --sample --top-p 0.9 --n-best 3 --seed 7 < test.en");
}

}  // namespace
}  // namespace translate_cli

Command make_translate_command(const LineCommand& line_command) {
  using translate_cli::Arguments;
  const auto run = [&line_command](const Arguments& arguments) {
    translate_cli::run(line_command, arguments);
  };
  return {.name = line_command.name,
          .purpose = line_command.purpose,
          .define = with_arguments<Arguments>(translate_cli::define, run),
          .memory_hint = line_command.memory_hint,
          .answers_lines = true};
}

}  // namespace tapestry
