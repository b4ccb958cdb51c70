// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/examples.h"
#include "data/io/utf8.h"
#include "data/metrics/bleu.h"
#include "data/metrics/chrf.h"
#include "data/metrics/text_metric.h"
#include "data/readers/parallel_text.h"
#include "data/readers/symbol_tasks.h"
#include "data/readers/toy_tasks.h"
#include "layers/transformer.h"
#include "train/base/format.h"
#include "train/inference/beam_search.h"
#include "train/system/message.h"
#include "train/tasks/data_rules.h"
#include "train/tasks/task.h"

namespace tapestry {
namespace {

// ---- Data

/// Reports an error if sentences with `tokens` tokens, the value of data.`key`, need more positions
/// than the model has.
void require_positions(const Config& config, const ConfigCheck& check, const std::string& key,
                       std::size_t tokens) {
  const std::size_t positions = config.model.max_length;
  if (tokens < positions) return;
  check.reject(
      {"data." + key, "model.max_length", "data.task"},
      fmt::format("`{}` is {}, or {} tokens with `<bos>` or `<eos>`; `model.max_length` is {}", key,
                  tokens, tokens + 1, positions),
      fmt::format("set `model.max_length` to {} or more", tokens + 1));
}

void check_symbols(const Config& config, const ConfigCheck& check) {
  const DataOptions& data = config.data;
  if (data.symbols.min_length > data.symbols.max_length) {
    check.reject({"data.min_length", "data.max_length", "data.task"},
                 fmt::format("`min_length` is {}, more than `max_length` ({})",
                             data.symbols.min_length, data.symbols.max_length),
                 fmt::format("set `min_length` to {} or less, or raise `max_length`",
                             data.symbols.max_length));
  }
  require_positions(config, check, "max_length", data.symbols.max_length);
}

/// A DataSource of generated pairs of sequences.
template <Corpus (*make)(const SymbolOptions&, const GeneratedOptions&)>
DataSource symbol_source(std::string_view name) {
  return {
      .kind = {.name = name,
               .keys = {"data.num_symbols", "data.min_length", "data.max_length", "data.train_size",
                        "data.validation_size", "data.test_size", "data.seed"},
               .check = check_symbols},
      .load = [](const DataOptions& o, const FixedVocabularies*) {
        return make(o.symbols, o.generated);
      }};
}

void check_toy_translation(const Config& config, const ConfigCheck& check) {
  if (config.model.tie_embeddings != TiedEmbeddings::all) return;
  check.reject({"model.tie_embeddings", "data.task"},
               "`tie_embeddings: all` needs one vocabulary, but task toy_translation has two",
               "set `tie_embeddings` to target");
}

void check_pair_files(const DataOptions& data, const ConfigCheck& check) {
  std::vector<std::string> missing;
  if (data.pairs.train_source.empty()) missing.push_back("data.train_source");
  if (data.pairs.train_target.empty()) missing.push_back("data.train_target");
  if (data.pairs.validation_source.empty()) missing.push_back("data.validation_source");
  if (data.pairs.validation_target.empty()) missing.push_back("data.validation_target");
  if (!missing.empty()) {
    check.reject_missing_file({"data.task", "data.train_source", "data.train_target",
                               "data.validation_source", "data.validation_target"},
                              fmt::format("task parallel_text needs {}", fmt::join(missing, ", ")),
                              fmt::format("name the files here or on the command line: {}=FILE",
                                          fmt::join(missing, "=FILE ")));
  }
  const std::size_t sources = data.pairs.train_source.names().size();
  const std::size_t targets = data.pairs.train_target.names().size();
  if (missing.empty() && sources != targets) {
    check.reject(
        {"data.train_target", "data.train_source", "data.task"},
        fmt::format("`train_source` names {} files, but `train_target` names {}", sources, targets),
        "name one target file for each source file");
  }
  if (data.pairs.test_source.empty() != data.pairs.test_target.empty()) {
    check.reject({"data.test_source", "data.test_target", "data.task"},
                 fmt::format("a test set needs two files, but `{}` is missing",
                             data.pairs.test_source.empty() ? "test_source" : "test_target"),
                 "name both files, or none");
  }
}

void check_parallel_text(const Config& config, const ConfigCheck& check) {
  check_pair_files(config.data, check);
  check_subwords(config, check, /*two_vocabularies=*/!config.data.pairs.shared_vocabulary);
  check_corpus_weights(config, check, "data.train_source", config.data.pairs.train_source);
  require_positions(config, check, "max_tokens", config.data.pairs.max_tokens);
  if (config.model.tie_embeddings == TiedEmbeddings::all && !config.data.pairs.shared_vocabulary) {
    check.reject(
        {"model.tie_embeddings", "data.shared_vocabulary", "data.task"},
        "`tie_embeddings: all` needs one vocabulary, but `data.shared_vocabulary` is false",
        "set `data.shared_vocabulary` to true, or `tie_embeddings` to target");
  }
}

// ---- The task

void check_model(const Config& config, const ConfigCheck& check) {
  const std::size_t positions = config.model.max_length;
  if (config.train.max_decode_length <= positions) return;
  check.reject({"train.max_decode_length", "model.max_length"},
               fmt::format("`max_decode_length` is {}, more than `model.max_length` ({})",
                           config.train.max_decode_length, positions),
               fmt::format("set `model.max_length` to {} or more", config.train.max_decode_length));
}

std::vector<Sentence> translate(const Model& model, const Config& config,
                                const std::vector<Example>& examples) {
  std::vector<Sentence> sources;
  for (const Example& example : examples) sources.push_back(example.source);
  return decode(*model.network, config.model.max_length, sources, search_options(config));
}

/// Each process translates one part of consecutive examples.
std::vector<Sentence> translate(const Model& model, const Config& config,
                                const std::vector<Example>& examples, const WorkShare& share) {
  const auto boundary = [&](std::size_t number) {
    return examples.begin() + static_cast<std::ptrdiff_t>(examples.size() * number / share.count);
  };
  const std::vector<std::string> messages = share.all_gather([&] {
    MessageWriter own;
    for (const Sentence& output :
         translate(model, config, {boundary(share.index), boundary(share.index + 1)})) {
      own.put(std::span<const std::int32_t>(output));
    }
    return own.take();
  });
  std::vector<Sentence> outputs;
  for (const std::string& message : messages) {
    for (MessageReader reader(message); !reader.at_end();) {
      outputs.push_back(reader.get_numbers<std::int32_t>());
    }
  }
  return outputs;
}

// With data.lowercase, outputs are in lower case. The metrics therefore ignore case, and their
// signatures state this.

Bleu make_bleu(const Config& config) {
  return Bleu({.tokenizer = config.train.bleu_tokenizer, .lowercase = config.data.words.lowercase});
}

Chrf make_chrf(const Config& config) { return Chrf({.lowercase = config.data.words.lowercase}); }

/// Whether an output is the text of the target's tokens. False for a target with unknown words,
/// since its text is not known.
bool is_exact_match(const std::string& output, const Sentence& target, const TextCodec& codec) {
  return std::ranges::find(target, unk_id) == target.end() && output == codec.decode_target(target);
}

/// Translates a part of a held-out set. Adds the scores of the outputs, and the samples.
void score_outputs(const Model& model, const Config& config, const EvaluationSet& set,
                   std::size_t decoded, Scores& scores) {
  const std::vector<std::size_t> chosen = evenly_spaced(set.examples.size(), decoded);
  if (chosen.empty()) return;
  std::vector<Example> pairs;
  std::vector<std::string> references, outputs;
  for (const std::size_t i : chosen) {
    pairs.push_back(set.examples[i]);
    references.push_back(set.target_texts.empty() ? set.codec.decode_target(pairs.back().target)
                                                  : set.target_texts[i]);
  }
  const std::vector<Sentence> found = translate(model, config, pairs, set.share);
  std::size_t matches = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    outputs.push_back(set.codec.decode_target(found[i]));
    if (is_exact_match(outputs.back(), pairs[i].target, set.codec)) ++matches;
  }
  for (std::size_t i = 0; i < std::min(pairs.size(), config.train.samples); ++i) {
    scores.samples.push_back({.input = set.codec.decode_source(pairs[i].source),
                              .output = outputs[i],
                              .expected = config.data.words.lowercase
                                              ? lowercase_european(references[i])
                                              : references[i]});
  }
  scores.others = {
      {"exact_match", static_cast<double>(matches) / static_cast<double>(pairs.size())},
      {"bleu", make_bleu(config).corpus_score(outputs, {references})},
      {"chrf", make_chrf(config).corpus_score(outputs, {references})}};
}

std::string full_signature(const TextMetric& metric) {
  return fmt::format("{}|{}", metric.name(), metric.signature());
}

class TranslationAnswers : public TaskAnswers {
 public:
  std::vector<ShownExample> show(const TrainedModel& trained,
                                 const std::vector<Example>& pairs) const override {
    const TextCodec& codec = trained.codec;
    const std::vector<Sentence> outputs = translate(*trained.model, trained.config, pairs);
    std::vector<ShownExample> shown;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      shown.push_back({.input = codec.decode_source(pairs[i].source),
                       .output = codec.decode_target(outputs[i]),
                       .expected = codec.decode_target(pairs[i].target)});
    }
    return shown;
  }

  Example read_text(std::string_view text, const TextCodec& codec) const override {
    return {.source = codec.encode_source(text)};
  }

  const LineCommand* command() const override {
    static constexpr LineCommand translate{
        .name = "translate",
        .purpose = "Translate standard input to standard output, line by line",
        .footer = "",
        .decodes = true};
    return &translate;
  }

  std::vector<std::string> answer(const TrainedModel& trained,
                                  const std::vector<Example>& examples) const override {
    std::vector<std::string> lines;
    for (const Sentence& target : translate(*trained.model, trained.config, examples)) {
      lines.push_back(trained.codec.decode_target(target));
    }
    return lines;
  }

  Example with_own_target(Example example, const Model& model,
                          const Config& config) const override {
    example.target = translate(model, config, {example}).front();
    return example;
  }
};

class Translation : public Task {
 public:
  const ConfigKind& kind() const override {
    static const ConfigKind kind{
        .name = "seq2seq",
        .keys = {"model.num_encoder_layers", "model.num_decoder_layers", "model.tie_embeddings",
                 "decoding.beam_size", "decoding.length_penalty", "train.max_decode_length",
                 "train.exact_match_sequences", "train.samples", "train.bleu_tokenizer"},
        .scores = {"exact_match", "bleu", "chrf"},
        .check = check_model};
    return kind;
  }

  std::vector<const DataSource*> sources() const override {
    static const DataSource copy = symbol_source<make_copy_task>("copy");
    static const DataSource reverse = symbol_source<make_reverse_task>("reverse");
    static const DataSource sort = symbol_source<make_sort_task>("sort");
    static const DataSource toy_translation{
        .kind = {.name = "toy_translation",
                 .keys = {"data.train_size", "data.validation_size", "data.test_size", "data.seed"},
                 .check = check_toy_translation},
        .load = [](const DataOptions& o, const FixedVocabularies*) {
          return make_toy_translation(o.generated);
        }};
    static const DataSource parallel_text{
        .kind = {.name = "parallel_text",
                 .keys = {"data.folder", "data.train_source", "data.train_target",
                          "data.validation_source", "data.validation_target", "data.test_source",
                          "data.test_target", "data.lowercase", "data.min_frequency",
                          "data.max_vocabulary", "data.subwords", "data.shared_vocabulary",
                          "data.max_tokens", "data.on_bad_line", "data.cache",
                          "data.corpus_weights"},
                 .check = check_parallel_text},
        .load =
            [](const DataOptions& o, const FixedVocabularies* fixed) {
              return load_parallel_text(o.pairs, o.words, ".", fixed, o.on_bad_line, o.training);
            },
        .format =
            [](const DataOptions& o, const Vocabulary& source, const Vocabulary& target) {
              return TextFormat{.tokenizer = sentence_tokenizer(source, o.words),
                                .target_tokenizer = sentence_tokenizer(target, o.words)};
            }};
    return {&copy, &reverse, &sort, &toy_translation, &parallel_text};
  }

  const TaskQuestions* questions() const override {
    static const TaskQuestions questions{
        .description = "turn one text into another: translation, summaries, corrections",
        .files = {{"data.train_source", "Training text, one sentence per line"},
                  {"data.train_target", "Its translation, line by line"},
                  {"data.validation_source", "Validation text"},
                  {"data.validation_target", "Its translation"},
                  {"data.test_source", "Test text (may be empty)", false},
                  {"data.test_target", "Its translation (may be empty)", false}},
        .values = {{"data.task", "parallel_text"},
                   {"data.subwords", "unigram"},
                   {"data.on_bad_line", "skip"}}};
    return &questions;
  }

  TaskWords words(const Config&) const override {
    return {.examples = "pairs",
            .example = "pair",
            .tokens = "with <eos>",
            .long_example_hint = ", or skip long training pairs with data.max_tokens"};
  }

  std::string describe_vocabularies(const Corpus& corpus) const override {
    return fmt::format("vocabularies of {} and {}", format_count(corpus.source_vocabulary.size()),
                       format_count(corpus.target_vocabulary.size()));
  }

  std::string describe_size(const Batch& batch) const override {
    return fmt::format("{} x {} x {} tokens", batch.rows, batch.source_length, batch.target_length);
  }

  const RowLayout& layout() const override { return pair_rows; }

  TaskTraits traits() const override { return {.reads_source = true}; }

  std::unique_ptr<Network> make_network(const Scope& scope, const Config& config,
                                        const NetworkSizes& sizes) const override {
    return std::make_unique<Transformer>(scope, config.model, sizes.source, sizes.target, pad_id);
  }

  Scores evaluate(const Model& model, const Config& config, const BatchRules& rules,
                  const EvaluationSet& set, std::size_t decoded) const override {
    Scores scores = Task::evaluate(model, config, rules, set, decoded);
    score_outputs(model, config, set, decoded, scores);
    return scores;
  }

  std::string format_scores(const Scores& scores, const Config& config) const override {
    const std::string text = Task::format_scores(scores, config);
    if (scores.others.empty()) return text;
    return fmt::format("{}  exact match {:.2f} %  BLEU {:.2f}  chrF {:.2f}", text,
                       100 * scores.others.at("exact_match"), scores.others.at("bleu"),
                       scores.others.at("chrf"));
  }

  std::vector<std::pair<std::string, std::string>> signatures(const Config& config) const override {
    return {{"bleu", full_signature(make_bleu(config))},
            {"chrf", full_signature(make_chrf(config))}};
  }

  const TaskAnswers& answers() const override {
    static const TranslationAnswers answers;
    return answers;
  }
};

}  // namespace

/// model.kind: seq2seq. Maps a sequence of tokens to a sequence of tokens with an encoder-decoder
/// Transformer: trains on pairs of sentences or generated pairs of sequences, translates by beam
/// search, and adds BLEU, chrF and the fraction of exact matches to the usual scores.
const Task& translation() {
  static const Translation task;
  return task;
}

}  // namespace tapestry
