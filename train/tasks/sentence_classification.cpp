// SPDX-License-Identifier: BSD-3-Clause
#include "train/tasks/sentence_classification.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>

#include "data/io/error.h"
#include "data/io/utf8.h"
#include "data/readers/labelled_text.h"
#include "data/readers/toy_tasks.h"
#include "data/text/vocabulary.h"
#include "layers/encoder_models.h"
#include "train/base/format.h"
#include "train/inference/evaluator.h"
#include "train/inference/finite_outputs.h"
#include "train/tasks/data_rules.h"
#include "train/tasks/task_data.h"

namespace tapestry {
namespace {

/// Rejects a line of labelled text, since its label would be read as the first word.
void reject_label(const std::string& line, const std::string& place, const Vocabulary& classes) {
  const std::size_t tab = line.find('\t');
  if (tab == line.npos || classes.id(line.substr(0, tab)) == unk_id) return;
  throw DataError(fmt::format("{}: found the label \"{}\" and a tab, expected only a sentence",
                              place, excerpt(line.substr(0, tab))),
                  "remove the label, for example with: cut -f2-");
}

/// Formats an answer as "cat", a tab and "0.9731".
std::string in_words(const LikelyClass& likely, const TextCodec& codec) {
  return fmt::format("{}\t{:.4f}", codec.decode_target(std::array{likely.id}), likely.probability);
}

class SentenceClasses : public ClassAnswers {
 public:
  Example read_text(std::string_view text, const TextCodec& codec) const override {
    std::vector<std::int32_t> ids = codec.encode_source(text);
    if (ids.empty()) return {};
    ids.insert(ids.begin(), bos_id);
    return {.source = std::move(ids), .target = {first_word_id}};
  }

  std::optional<Example> read_line(const std::string& line, std::size_t number,
                                   const std::string& place,
                                   const TrainedModel& trained) const override {
    reject_label(line, place, trained.codec.target_vocabulary());
    return TaskAnswers::read_line(line, number, place, trained);
  }

 private:
  std::string describe(const Example& example, std::size_t, const TextCodec& codec) const override {
    return codec.decode_source(example.source);
  }
};

class SentenceClassification : public Task {
 public:
  const ConfigKind& kind() const override {
    static const ConfigKind kind{.name = "classifier",
                                 .keys = {"model.num_encoder_layers", "model.pooling"}};
    return kind;
  }

  std::vector<const DataSource*> sources() const override {
    static const DataSource labelled_text{
        .kind = {.name = "labelled_text",
                 .keys = {"data.folder", "data.train_text", "data.validation_text",
                          "data.test_text", "data.lowercase", "data.min_frequency",
                          "data.max_vocabulary", "data.subwords", "data.on_bad_line", "data.cache",
                          "data.corpus_weights"},
                 .check =
                     [](const Config& config, const ConfigCheck& check) {
                       require_file(config, check, "data.train_text", config.data.text.train_text);
                       check_corpus_weights(config, check, "data.train_text",
                                            config.data.text.train_text);
                       check_subwords(config, check);
                     }},
        .load =
            [](const DataOptions& o, const FixedVocabularies* fixed) {
              return load_labelled_text(o.text, o.words, ".", fixed, o.on_bad_line, o.training);
            },
        .has_classes = true,
        .format =
            [](const DataOptions& o, const Vocabulary& source, const Vocabulary&) {
              return TextFormat{.tokenizer = sentence_tokenizer(source, o.words),
                                .target_tokenizer = SpaceTokenizer()};
            }};
    static const DataSource toy_agreement{
        .kind = {.name = "toy_agreement",
                 .keys = {"data.train_size", "data.validation_size", "data.test_size",
                          "data.seed"}},
        .load = [](const DataOptions& o,
                   const FixedVocabularies*) { return make_toy_agreement(o.generated); },
        .has_classes = true};
    return {&labelled_text, &toy_agreement};
  }

  const TaskQuestions* questions() const override {
    static const TaskQuestions questions{
        .description = "classify sentences",
        .files = {{"data.train_text", "Training text, a label, a tab and a sentence per line"},
                  {"data.validation_text", "Validation text"},
                  {"data.test_text", "Test text (may be empty)", false}},
        .values = {{"data.task", "labelled_text"}, {"data.min_frequency", "2"}}};
    return &questions;
  }

  TaskWords words(const Config&) const override {
    return {.examples = "sentences", .targets = "sentences"};
  }

  std::string describe_vocabularies(const Corpus& corpus) const override {
    return fmt::format("vocabulary of {}, {}", format_count(corpus.source_vocabulary.size()),
                       describe_classes(corpus));
  }

  std::string describe_size(const Batch& batch) const override {
    return fmt::format("{} x {} tokens", batch.rows, batch.source_length);
  }

  const RowLayout& layout() const override { return class_rows; }

  TaskTraits traits() const override {
    return {.reads_source = true, .one_label_per_example = true};
  }

  std::unique_ptr<Network> make_network(const Scope& scope, const Config& config,
                                        const NetworkSizes& sizes) const override {
    return std::make_unique<Classifier>(scope, config.model, sizes.source, sizes.target, pad_id);
  }

  std::string format_scores(const Scores& scores, const Config&) const override {
    return format_class_scores(scores);
  }

  const TaskAnswers& answers() const override {
    static const SentenceClasses answers;
    return answers;
  }
};

}  // namespace

/// model.kind: classifier. Predicts the class of a sentence, with an encoder; `tapestry classify`
/// prints the most likely class of each line.
const Task& sentence_classification() {
  static const SentenceClassification task;
  return task;
}

std::string describe_classes(const Corpus& corpus) {
  const Vocabulary& classes = corpus.target_vocabulary;
  return fmt::format("{} classes: {}", format_count(classes.size() - first_word_id),
                     list_of_classes(classes));
}

std::string format_class_scores(const Scores& scores) {
  return fmt::format("loss {}  accuracy {:.2f} %", format_value(scores.loss, 4),
                     100 * scores.token_accuracy);
}

const LineCommand* ClassAnswers::command() const {
  static constexpr LineCommand classify{
      .name = "classify",
      .purpose = "Classify each sentence or image on standard input",
      .footer =
          "Prints a line for each input line: the class, a tab and its probability; an empty line "
          "for a blank line.\nAn image is a line of pixel values, separated by commas and without "
          "a "
          "label: row by row from the\ntop left, the channels of a pixel side by side, on the "
          "scale "
          "of the training images. The output for a\nheader line is an empty line.\n"
          "With --top K, the K most likely classes and their probabilities, separated by tabs.\n"
          "Examples:\n  tapestry classify runs/toy_agreement < sentences.txt\n"
          "  cut -d, -f1-64 digits.csv | tapestry classify runs/digits_vit",
      .ranks = true,
      .memory_hint = "end other programs or give it more memory (see `ulimit -v`)"};
  return &classify;
}

std::vector<std::string> ClassAnswers::top_answers(const TrainedModel& trained,
                                                   const std::vector<Example>& examples,
                                                   std::size_t count) const {
  std::vector<std::string> lines;
  for (const std::vector<LikelyClass>& ranked :
       ranked_classes(*trained.model, examples, trained.config.train.batch_size, count)) {
    std::string line;
    for (const LikelyClass& likely : ranked) {
      if (std::isnan(likely.probability)) {
        reject_non_finite(*trained.model,
                          inference_batch(find_task(trained.config), examples[lines.size()]),
                          "a line of standard input", "scale its pixels like the training images");
      }
      if (!line.empty()) line += '\t';
      line += in_words(likely, trained.codec);
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<ShownExample> ClassAnswers::show(const TrainedModel& trained,
                                             const std::vector<Example>& examples) const {
  const TextCodec& codec = trained.codec;
  const auto classes = ranked_classes(*trained.model, examples, trained.config.train.batch_size, 1);
  std::vector<ShownExample> shown;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    shown.push_back({.input = describe(examples[i], i, codec),
                     .output = codec.decode_target(std::array{classes[i].front().id}),
                     .expected = codec.decode_target(examples[i].target)});
  }
  return shown;
}

}  // namespace tapestry
