// SPDX-License-Identifier: BSD-3-Clause
#include "train/tasks/language_modelling.h"

#include <fmt/format.h>

#include <numbers>
#include <utility>

#include "data/readers/language_model_corpus.h"
#include "data/readers/toy_tasks.h"
#include "layers/encoder_models.h"
#include "train/base/format.h"
#include "train/tasks/data_rules.h"

namespace tapestry {
namespace {

bool makes_windows(const DataOptions& options) { return data_source(options).makes_windows; }

void check_text(const Config& config, const ConfigCheck& check) {
  require_file(config, check, "data.train_text", config.data.text.train_text);
  check_corpus_weights(config, check, "data.train_text", config.data.text.train_text);
  check_subwords(config, check);
}

/// The model reads all tokens of a window except the last, which is only a label.
std::size_t tokens_read(const Config& config) { return config.data.windows.context; }

class LanguageModelAnswers : public TaskAnswers {
 public:
  Example read_text(std::string_view text, const TextCodec& codec) const override {
    std::vector<std::int32_t> ids = codec.encode_target(text);
    if (ids.empty()) return {};
    if (!codec.multiple_lines()) ids.insert(ids.begin(), bos_id);
    ids.push_back(eos_id);  // used only as a label
    return {.target = std::move(ids)};
  }

  TokenLimit token_limit(const Config& config) const override {
    return window_limit(config, tokens_read(config));
  }
};

class LanguageModelling : public PlainTextTask {
 public:
  const ConfigKind& kind() const override {
    static const ConfigKind kind{.name = "language_model",
                                 .keys = {"model.num_decoder_layers", "model.tie_embeddings"},
                                 .check = [](const Config& config, const ConfigCheck& check) {
                                   check_windows(config, check, tokens_read(config));
                                 }};
    return kind;
  }

  const TaskQuestions* questions() const override {
    static const TaskQuestions questions{
        .description = "continue a text: a language model",
        .files = plain_text_files(),
        .values = {{"data.task", "text"}, {"data.unit", "character"}, {"data.context", "128"}}};
    return &questions;
  }

  const RowLayout& layout() const override { return window_rows; }

  TaskTraits traits() const override { return {.has_encoder = false, .generates_text = true}; }

  std::unique_ptr<Network> make_network(const Scope& scope, const Config& config,
                                        const NetworkSizes& sizes) const override {
    return std::make_unique<LanguageModel>(scope, config.model, sizes.target, pad_id);
  }

  std::string format_scores(const Scores& scores, const Config& config) const override {
    const DataOptions& data = config.data;
    const bool subwords = data.words.subwords.kind != SubwordKind::none;
    const bool characters = makes_windows(data) && data.windows.unit == TextUnit::character;
    return fmt::format("{}  bits per {} {}", Task::format_scores(scores, config),
                       subwords     ? "subword"
                       : characters ? "character"
                                    : "word",
                       format_value(scores.loss / std::numbers::ln2, 4));
  }

  const TaskAnswers& answers() const override {
    static const LanguageModelAnswers answers;
    return answers;
  }
};

}  // namespace

/// model.kind: language_model. Predicts each token of a text from the preceding tokens, with a
/// decoder-only Transformer; `tapestry generate` samples from it.
const Task& language_modelling() {
  static const LanguageModelling task;
  return task;
}

std::vector<const DataSource*> PlainTextTask::sources() const {
  static const DataSource text{
      .kind = {.name = "text",
               .keys = {"data.folder", "data.train_text", "data.validation_text", "data.test_text",
                        "data.unit", "data.context", "data.validation_share", "data.lowercase",
                        "data.min_frequency", "data.max_vocabulary", "data.subwords", "data.cache",
                        "data.corpus_weights"},
               .check = check_text},
      .load =
          [](const DataOptions& o, const FixedVocabularies* fixed) {
            return load_language_model_corpus(o.text, o.windows, o.words, ".", fixed, o.training);
          },
      .makes_windows = true,
      .format =
          [](const DataOptions& o, const Vocabulary& words, const Vocabulary&) {
            return TextFormat{.tokenizer = window_tokenizer(o.windows, o.words, words),
                              .multiple_lines = true};
          },
      .held_out =
          [](const DataOptions& o) {
            return HeldOutParts{.validation = o.text.validation_text.empty() &&
                                              o.windows.validation_share > 0.0};
          }};
  static const DataSource toy_sentences{
      .kind = {.name = "toy_sentences",
               .keys = {"data.train_size", "data.validation_size", "data.test_size", "data.seed"}},
      .load = [](const DataOptions& o, const FixedVocabularies*) {
        return make_toy_sentences(o.generated);
      }};
  return {&text, &toy_sentences};
}

TaskWords PlainTextTask::words(const Config& config) const {
  return {.examples = makes_windows(config.data) ? "windows" : "sentences"};
}

std::string PlainTextTask::describe_vocabularies(const Corpus& corpus) const {
  return fmt::format("vocabulary of {}", format_count(corpus.target_vocabulary.size()));
}

std::vector<TaskQuestions::File> plain_text_files() {
  return {{"data.train_text", "Training text"},
          {"data.validation_text", "Validation text (empty: the end of the training text)", false}};
}

void check_windows(const Config& config, const ConfigCheck& check, std::size_t tokens) {
  const std::size_t positions = config.model.max_length;
  if (!makes_windows(config.data) || tokens <= positions) return;
  check.reject({"data.context", "model.max_length", "data.task"},
               fmt::format("`context` is {}, so the model reads {} tokens; `model.max_length` is "
                           "{}",
                           config.data.windows.context, tokens, positions),
               fmt::format("set `model.max_length` to {} or more", tokens));
}

TokenLimit window_limit(const Config& config, std::size_t tokens) {
  if (makes_windows(config.data) && tokens < config.model.max_length) {
    return {.tokens = tokens, .key = "data.context"};
  }
  return {.tokens = config.model.max_length, .key = "model.max_length"};
}

}  // namespace tapestry
