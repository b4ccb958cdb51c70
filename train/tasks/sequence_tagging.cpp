// SPDX-License-Identifier: BSD-3-Clause
#include "train/tasks/sequence_tagging.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "data/io/error.h"
#include "data/io/utf8.h"
#include "data/readers/labelled_text.h"
#include "layers/encoder_models.h"
#include "train/base/error.h"
#include "train/base/format.h"
#include "train/inference/evaluator.h"
#include "train/inference/finite_outputs.h"
#include "train/tasks/data_rules.h"
#include "train/tasks/sentence_classification.h"
#include "train/tasks/task_data.h"

namespace tapestry {
namespace {

using Labels = std::vector<std::string>;

/// The row for the tokens a b with labels 0 and 2, padded to length 3:
///
///     input   a  b  <pad>
///     labels  0  2  no_label
constinit const RowLayout tag_rows{
    .source_length = [](const ExampleLengths&) { return std::size_t{0}; },
    .target_length = [](const ExampleLengths& example) { return example.source; },
    .write =
        [](const Example& example, std::size_t, const BatchRules&, const BatchRow& row) {
          std::ranges::copy(example.source, row.input);
          std::ranges::transform(example.target, row.labels,
                                 [](std::int32_t id) { return id - first_word_id; });
        },
    .labels_are_classes = true};

/// The letter and the type of a BIO label: 'B' and "PER" of "B-PER", 'O' and "" of "O".
struct LabelParts {
  char letter;
  std::string_view type;
};

LabelParts split_label(std::string_view label) {
  return {label.front(), label.substr(std::min<std::size_t>(label.size(), 2))};
}

bool is_span_label(std::string_view label) {
  const bool prefixed = label.size() > 2 && label[1] == '-';
  return label == "O" || (prefixed && std::string_view("BIES").find(label[0]) != label.npos);
}

/// Whether all labels are BIO or BIOES labels, and not, for example, parts of speech.
bool mark_spans(const Vocabulary& labels) {
  for (std::size_t id = first_word_id; id < labels.size(); ++id) {
    if (!is_span_label(labels.token(static_cast<std::int32_t>(id)))) return false;
  }
  return true;
}

Labels label_names(std::span<const std::int32_t> classes, const Vocabulary& labels) {
  Labels names;
  for (const std::int32_t id : classes) names.push_back(labels.token(id + first_word_id));
  return names;
}

std::span<const std::int32_t> row_labels(std::span<const std::int32_t> all, const Batch& batch,
                                         std::size_t row) {
  return all.subspan(row * batch.target_length, batch.target_lengths[row]);
}

struct Predictions {
  std::vector<Labels> labels;  ///< labels of each example
  bool finite;                 ///< whether all logits are finite
};

Predictions predict(const TrainedModel& trained, const std::vector<Example>& examples) {
  const Vocabulary& labels = trained.codec.target_vocabulary();
  std::vector<Labels> predicted(examples.size());
  const Scores scores = score_labels(
      *trained.model, examples, trained.config.train.batch_size, {.layout = tag_rows},
      [&](const Batch& batch, std::span<const std::int32_t> best) {
        for (std::size_t row = 0; row < batch.rows; ++row) {
          predicted[batch.examples[row]] = label_names(row_labels(best, batch, row), labels);
        }
      });
  return {.labels = std::move(predicted), .finite = std::isfinite(scores.loss)};
}

/// Rejects a line of a CoNLL file, since its label would be read as a token.
void reject_columns(const std::string& line, const std::string& place) {
  if (line.find('\t') == line.npos || is_blank(line)) return;
  throw DataError(
      fmt::format("{}: found a tab, expected the tokens of one sentence separated by spaces",
                  place),
      R"(turn a CoNLL file into sentences with: )"
      R"(awk -F'\t' '{printf "%s", NF ? $1 " " : "\n"}' FILE)");
}

class TaggerAnswers : public TaskAnswers {
 public:
  std::vector<ShownExample> show(const TrainedModel& trained,
                                 const std::vector<Example>& examples) const override {
    const TextCodec& codec = trained.codec;
    const std::vector<Labels> predicted = predict(trained, examples).labels;
    std::vector<ShownExample> shown;
    for (std::size_t i = 0; i < examples.size(); ++i) {
      shown.push_back({.input = codec.decode_source(examples[i].source),
                       .output = fmt::format("{}", fmt::join(predicted[i], " ")),
                       .expected = codec.decode_target(examples[i].target)});
    }
    return shown;
  }

  Example read_text(std::string_view text, const TextCodec& codec) const override {
    Example example{.source = codec.encode_source(text)};
    example.target.assign(example.source.size(), first_word_id);
    return example;
  }

  const LineCommand* command() const override {
    static constexpr LineCommand tag{
        .name = "tag",
        .purpose = "Label each token of each sentence on standard input",
        .footer =
            "Prints one line per input line: the labels of its tokens, separated by spaces; an "
            "empty line for a blank line.\nEach input line is one sentence whose tokens are "
            "separated by spaces.\n"
            "Example:\n  echo \"Ada Lovelace lived in London .\" | tapestry tag runs/tagging"};
    return &tag;
  }

  std::optional<Example> read_line(const std::string& line, std::size_t number,
                                   const std::string& place,
                                   const TrainedModel& trained) const override {
    reject_columns(line, place);
    return TaskAnswers::read_line(line, number, place, trained);
  }

  std::vector<std::string> answer(const TrainedModel& trained,
                                  const std::vector<Example>& examples) const override {
    const Predictions predicted = predict(trained, examples);
    if (!predicted.finite) {
      const auto wrong = std::ranges::find_if(
          examples, [&](const Example& example) { return !predict(trained, {example}).finite; });
      reject_non_finite(*trained.model,
                        inference_batch(find_task(trained.config),
                                        wrong == examples.end() ? examples.front() : *wrong),
                        "a line of standard input");
    }
    std::vector<std::string> lines;
    for (const Labels& labels : predicted.labels) {
      lines.push_back(fmt::format("{}", fmt::join(labels, " ")));
    }
    return lines;
  }

  StackTokens stack_tokens(const Batch& batch, const Config&,
                           const TextCodec& codec) const override {
    Tokens names;
    for (const std::int32_t id : batch.input) {
      names.push_back(codec.source_vocabulary().token(id));
    }
    return {.encoder = names, .decoder = names};
  }
};

class SequenceTagging : public Task {
 public:
  const ConfigKind& kind() const override {
    static const ConfigKind kind{
        .name = "tagger", .keys = {"model.num_encoder_layers"}, .scores = {"span_f1"}};
    return kind;
  }

  std::vector<const DataSource*> sources() const override {
    static const DataSource tagged_text{
        .kind = {.name = "tagged_text",
                 .keys = {"data.folder", "data.train_text", "data.validation_text",
                          "data.test_text", "data.min_frequency", "data.max_vocabulary",
                          "data.on_bad_line"},
                 .check =
                     [](const Config& config, const ConfigCheck& check) {
                       require_file(config, check, "data.train_text", config.data.text.train_text);
                     }},
        .load = [](const DataOptions& o, const FixedVocabularies* fixed) {
          return load_tagged_text(o.text, o.words, ".", fixed, o.on_bad_line,
                                  o.training.find_too_long);
        }};
    return {&tagged_text};
  }

  const TaskQuestions* questions() const override {
    static const TaskQuestions questions{
        .description = "label every token of a sentence: named entities, parts of speech",
        .files = {{"data.train_text",
                   "Training text, a token, a tab and a label per line, sentences separated by an "
                   "empty line"},
                  {"data.validation_text", "Validation text"},
                  {"data.test_text", "Test text (may be empty)", false}},
        .values = {{"data.task", "tagged_text"}, {"data.min_frequency", "2"}}};
    return &questions;
  }

  TaskWords words(const Config&) const override {
    return {.examples = "sentences",
            .input_hint =
                "give it text, one sentence per line with tokens separated by spaces, such as "
                "`< FILE`"};
  }

  std::string describe_vocabularies(const Corpus& corpus) const override {
    return fmt::format("vocabulary of {}, {}", format_count(corpus.source_vocabulary.size()),
                       describe_classes(corpus));
  }

  const RowLayout& layout() const override { return tag_rows; }

  std::unique_ptr<Network> make_network(const Scope& scope, const Config& config,
                                        const NetworkSizes& sizes) const override {
    return std::make_unique<Tagger>(scope, config.model, sizes.source, sizes.target, pad_id);
  }

  Scores evaluate(const Model& model, const Config& config, const BatchRules& rules,
                  const EvaluationSet& set, std::size_t) const override {
    const Vocabulary& targets = set.codec.target_vocabulary();
    SpanF1 f1;
    Scores scores = score_labels(
        model, set.examples, config.train.batch_size, rules,
        [&](const Batch& batch, std::span<const std::int32_t> best) {
          for (std::size_t row = 0; row < batch.rows; ++row) {
            f1.add(label_names(row_labels(batch.labels, batch, row), targets),
                   label_names(row_labels(best, batch, row), targets));
          }
        },
        set.share);
    if (mark_spans(targets)) scores.others["span_f1"] = f1.value();
    return scores;
  }

  std::string format_scores(const Scores& scores, const Config&) const override {
    const std::string text = fmt::format("loss {}  accuracy {:.2f} %", format_value(scores.loss, 4),
                                         100 * scores.token_accuracy);
    const auto f1 = scores.others.find("span_f1");
    if (f1 == scores.others.end()) return text;
    return fmt::format("{}  span F1 {:.2f} %", text, 100 * f1->second);
  }

  const TaskAnswers& answers() const override {
    static const TaggerAnswers answers;
    return answers;
  }
};

}  // namespace

/// model.kind: tagger. Predicts a label for each token, with an encoder: parts of speech, or named
/// entities as BIO labels (Ramshaw & Marcus 1995, "Text Chunking using Transformation-Based
/// Learning"); `tapestry tag` prints the labels of each line.
const Task& sequence_tagging() {
  static const SequenceTagging task;
  return task;
}

std::vector<TaggedSpan> find_spans(std::span<const std::string> labels) {
  std::vector<TaggedSpan> spans;
  std::string_view open_type;  // type of the open span
  bool open = false;
  char last = 'O';
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto [letter, type] = split_label(labels[i]);
    const bool inside = letter == 'I' || letter == 'E';
    const bool ended = last == 'E' || last == 'S' || !inside || type != open_type;
    if (open && ended) open = false;
    if (!open && letter != 'O') {
      spans.push_back({.type = std::string(type), .begin = i, .end = i});
      open = true;
      open_type = type;
    }
    if (open) spans.back().end = i + 1;
    last = letter;
  }
  return spans;
}

void SpanF1::add(std::span<const std::string> expected, std::span<const std::string> predicted) {
  const std::vector<TaggedSpan> truth = find_spans(expected), found = find_spans(predicted);
  const std::set<TaggedSpan> known(truth.begin(), truth.end());
  expected_ += truth.size();
  predicted_ += found.size();
  both_ += static_cast<std::size_t>(
      std::ranges::count_if(found, [&](const TaggedSpan& span) { return known.contains(span); }));
}

double SpanF1::value() const {
  if (both_ == 0) return 0.0;
  const auto both = static_cast<double>(both_);
  return 2 * both / static_cast<double>(expected_ + predicted_);
}

}  // namespace tapestry
