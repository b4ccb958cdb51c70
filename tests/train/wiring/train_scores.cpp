#include "tests/train/wiring/train_scores.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "data/metrics/bleu.h"
#include "data/metrics/chrf.h"
#include "tests/support/model_kind.h"
#include "tests/support/values.h"
#include "train/inference/batch_tensors.h"
#include "train/tasks/task.h"

namespace tapestry::test {
namespace {

using test::values_of;

using test::ModelKind;

ModelKind model_kind(const Config& config) { return test::model_kind_named(config.model_kind); }

bool is_tagger(const Config& config) { return model_kind(config) == ModelKind::tagger; }

/// The labels of a sentence, one for each of its tokens.
RowLayout tagged_rows() {
  return {.source_length = [](const ExampleLengths&) { return std::size_t{0}; },
          .target_length = [](const ExampleLengths& example) { return example.source; },
          .write =
              [](const Example& example, std::size_t, const BatchRules&, const BatchRow& row) {
                for (std::size_t i = 0; i < example.source.size(); ++i) {
                  row.input[i] = example.source[i];
                  row.labels[i] = example.target[i] - first_word_id;
                }
              },
          .labels_are_classes = true};
}

RowLayout layout_of(const Config& config) {
  switch (model_kind(config)) {
    case ModelKind::seq2seq:
      return pair_rows;
    case ModelKind::language_model:
      return window_rows;
    case ModelKind::masked_language_model:
      return masked_rows;
    case ModelKind::tagger:
      return tagged_rows();
    default:
      return class_rows;
  }
}

bool predicts_classes(const Config& config) { return layout_of(config).labels_are_classes; }

/// One sentence by itself, token by token.
std::vector<std::int32_t> decoded(const Config& config, const Model& model,
                                  const std::vector<std::int32_t>& source) {
  const std::size_t most = std::min(
      config.train.max_decode_length != 0 ? config.train.max_decode_length : source.size() + 50,
      config.model.max_length - 1);
  std::vector<std::int32_t> output;
  while (output.size() < most) {
    const std::vector<Example> pair{{source, output}};
    const Batch batch = make_batch(pair, std::vector<std::size_t>{0});
    const auto logits =
        values_of((*model.network)(network_input(batch, config.train.dtype), Mode::inference()));
    const std::size_t width = logits.size() / (output.size() + 1);
    const auto last = logits.end() - static_cast<std::ptrdiff_t>(width);
    const auto next = static_cast<std::int32_t>(std::max_element(last, logits.end()) - last);
    if (next == eos_id) break;
    output.push_back(next);
  }
  return output;
}

}  // namespace

BatchRules rules_of(const Config& config, const Corpus& corpus, std::uint64_t epoch) {
  return {.layout = layout_of(config),
          .vocabulary = corpus.target_vocabulary.size(),
          .seed = config.train.seed,
          .epoch = epoch};
}

Model new_model(const Config& config, const Corpus& corpus) {
  const bool classes = predicts_classes(config);
  const NetworkSizes sizes{
      .source = corpus.source_vocabulary.size(),
      .target = corpus.target_vocabulary.size() - (classes ? first_word_id : 0),
      .image = {.height = config.data.image_height,
                .width = config.data.image_width,
                .channels = config.data.image_channels}};
  return Model(network_maker(config, sizes), config.train.dtype, config.train.seed);
}

void set_values(const Model& model, const Values& values) {
  for (const auto& [name, tensor] : model.parameters) {
    Tensor target = tensor;
    const std::vector<double>& from = values.at(name);
    dispatch(target.dtype(), [&]<class T>() {
      std::ranges::transform(from, target.template mutable_values<T>().begin(),
                             [](double value) { return static_cast<T>(value); });
    });
  }
}

Values values_of_parameters(const Model& model) {
  Values values;
  for (const auto& [name, tensor] : model.parameters) values[name] = values_of(tensor);
  return values;
}

Sums sums_of(const std::vector<double>& logits, const std::vector<std::int32_t>& labels,
             double smoothing) {
  const std::size_t width = logits.size() / labels.size();
  Sums sums;
  for (std::size_t row = 0; row < labels.size(); ++row) {
    if (labels[row] < 0) continue;
    const auto first = logits.begin() + static_cast<std::ptrdiff_t>(row * width);
    const auto last = first + static_cast<std::ptrdiff_t>(width);
    const double top = *std::max_element(first, last);
    double total = 0.0, all = 0.0;
    for (auto x = first; x != last; ++x) total += std::exp(*x - top);
    const double log_total = top + std::log(total);
    for (auto x = first; x != last; ++x) all += log_total - *x;
    const double nll = log_total - first[labels[row]];
    sums.nll += nll;
    sums.objective += (1.0 - smoothing) * nll + smoothing * all / static_cast<double>(width);
    sums.hits += std::max_element(first, last) - first == labels[row] ? 1 : 0;
    ++sums.labels;
  }
  return sums;
}

MetricsRow scores_with(const Config& config, const Corpus& corpus, const Model& model,
                       const std::vector<Example>& examples, std::size_t wanted) {
  Sums sums;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const Batch batch =
        make_batch(examples, std::vector<std::size_t>{i}, rules_of(config, corpus, 0));
    const Tensor logits =
        (*model.network)(network_input(batch, config.train.dtype), Mode::inference());
    sums.add(sums_of(values_of(logits), batch.labels, 0.0));
  }
  const auto count = static_cast<double>(sums.labels);
  MetricsRow row{.split = "validation",
                 .loss = sums.nll / count,
                 .perplexity = std::exp(sums.nll / count),
                 .accuracy = static_cast<double>(sums.hits) / count,
                 .tokens = sums.labels};
  if (model_kind(config) != ModelKind::seq2seq || wanted == 0) return row;
  const std::size_t all = examples.size(), some = std::min(wanted, all);
  const TextCodec codec =
      make_codec(config.data, corpus.source_vocabulary, corpus.target_vocabulary);
  const std::vector<std::string>& texts = &examples == &corpus.test
                                              ? corpus.test_lines.target_texts
                                              : corpus.validation_lines.target_texts;
  std::vector<std::string> outputs, references;
  std::size_t right = 0;
  for (std::size_t i = 0; i < some; ++i) {
    const std::size_t chosen = i * all / some;
    const Example& pair = examples[chosen];
    const std::vector<std::int32_t> output = decoded(config, model, pair.source);
    right += output == pair.target ? 1 : 0;
    outputs.push_back(codec.decode_target(output));
    references.push_back(texts.empty() ? codec.decode_target(pair.target) : texts[chosen]);
  }
  row.exact_match = static_cast<double>(right) / static_cast<double>(some);
  row.bleu = Bleu({.tokenizer = config.train.bleu_tokenizer}).corpus_score(outputs, {references});
  row.chrf = Chrf().corpus_score(outputs, {references});
  return row;
}

MetricsRow scores_of(const Config& config, const Corpus& corpus, const Values& weights,
                     const std::vector<Example>& examples, std::size_t decoded_sequences) {
  const Model model = new_model(config, corpus);
  set_values(model, weights);
  return scores_with(config, corpus, model, examples, decoded_sequences);
}

std::string printed_scores(const Config& config, const MetricsRow& scores) {
  if (is_tagger(config)) {
    return fmt::format("loss {:.4f}  tokens {:.2f} %", scores.loss, 100 * *scores.accuracy);
  }
  if (predicts_classes(config)) {
    return fmt::format("loss {:.4f}  accuracy {:.2f} %", scores.loss, 100 * *scores.accuracy);
  }
  std::string text = fmt::format("loss {:.4f}  perplexity {:.3f}  tokens {:.2f} %", scores.loss,
                                 scores.perplexity, 100 * *scores.accuracy);
  if (model_kind(config) == ModelKind::language_model) {
    const bool characters = config.data.task == "text" && config.data.unit == TextUnit::character;
    text += fmt::format("  bits per {} {:.4f}", characters ? "character" : "word",
                        scores.loss / std::log(2.0));
  }
  if (scores.exact_match) {
    text += fmt::format("  exact match {:.2f} %  BLEU {:.2f}  chrF {:.2f}",
                        100 * *scores.exact_match, *scores.bleu, *scores.chrf);
  }
  return text;
}

std::vector<MetricsRow> parse_metrics(const std::string& csv) {
  std::istringstream lines(csv);
  std::string line;
  std::getline(lines, line);
  const std::string heading =
      "step,epoch,split,loss,perplexity,token_accuracy,exact_match,learning_rate,gradient_norm,"
      "target_tokens";
  REQUIRE(line.starts_with(heading));
  const std::string others = line.substr(heading.size());
  CHECK((others.empty() || others == ",span_f1" || others == ",bleu,chrf"));
  const std::size_t columns = 10 + std::ranges::count(others, ',');
  std::vector<MetricsRow> rows;
  while (std::getline(lines, line)) {
    std::vector<std::string> fields(1);
    for (const char c : line) {
      if (c == ',') {
        fields.emplace_back();
      } else {
        fields.back() += c;
      }
    }
    REQUIRE(fields.size() == columns);
    const auto number = [&](std::size_t i) {
      return fields[i].empty() ? std::nullopt : std::optional(std::stod(fields[i]));
    };
    rows.push_back({.step = std::stoull(fields[0]),
                    .epoch = std::stoull(fields[1]),
                    .split = fields[2],
                    .loss = number(3).value(),
                    .perplexity = number(4).value(),
                    .accuracy = number(5),
                    .exact_match = number(6),
                    .learning_rate = number(7),
                    .gradient_norm = number(8),
                    .tokens = std::stoull(fields[9])});
    if (others != ",bleu,chrf") continue;
    rows.back().bleu = number(10);
    rows.back().chrf = number(11);
  }
  return rows;
}

}  // namespace tapestry::test
