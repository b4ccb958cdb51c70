// SPDX-License-Identifier: BSD-3-Clause
#include "train/models/held_out_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <span>
#include <utility>

#include "autograd/ops/activations.h"
#include "autograd/ops/reductions.h"
#include "data/examples.h"
#include "data/io/utf8.h"
#include "train/base/format.h"
#include "train/inference/batch_tensors.h"
#include "train/inference/evaluator.h"
#include "train/inference/finite_outputs.h"
#include "train/tasks/task_data.h"

namespace tapestry {
namespace {

std::vector<Example> select(const std::vector<Example>& examples,
                            const std::vector<std::size_t>& indices) {
  std::vector<Example> selected;
  for (const std::size_t i : indices) selected.push_back(examples[i]);
  return selected;
}

// ---- Accuracy

/// Counts labels and hits by a whole number, such as a length.
using Tally = std::map<std::uint64_t, LabelGroup>;

void add(LabelGroup& group, bool hit) {
  ++group.labels;
  if (hit) ++group.hits;
}

void add(LabelGroup& group, const LabelGroup& other) {
  group.labels += other.labels;
  group.hits += other.hits;
}

std::string range_name(std::uint64_t first, std::uint64_t last) {
  return first == last ? format_count(first)
                       : fmt::format("{}-{}", format_count(first), format_count(last));
}

/// Groups of about equal width.
std::vector<LabelGroup> by_ranges(const Tally& tally, std::uint64_t max_groups) {
  std::vector<LabelGroup> groups;
  if (tally.empty()) return groups;
  const std::uint64_t first = tally.begin()->first, last = tally.rbegin()->first;
  const std::uint64_t width = (last - first) / max_groups + 1;
  for (std::uint64_t begin = first; begin <= last; begin += width) {
    LabelGroup group{.name = range_name(begin, std::min(begin + width - 1, last))};
    for (auto i = tally.lower_bound(begin); i != tally.end() && i->first < begin + width; ++i) {
      add(group, i->second);
    }
    if (group.labels > 0) groups.push_back(group);
  }
  return groups;
}

/// Groups of the frequencies 0, 1-3, 4-15, 16-63 and so on.
std::vector<LabelGroup> by_powers(const Tally& tally) {
  std::vector<LabelGroup> groups;
  std::uint64_t end = 0;  // end of the last group
  for (const auto& [frequency, counts] : tally) {
    if (groups.empty() || frequency >= end) {
      std::uint64_t begin = 0;
      for (end = 1; end <= frequency; end *= 4) begin = end;
      groups.push_back({.name = range_name(begin, end - 1)});
    }
    add(groups.back(), counts);
  }
  return groups;
}

/// Counts how often each id is a target in the examples. Counts <eos> once for each example that
/// does not end with it.
std::vector<std::uint64_t> target_frequencies(const std::vector<Example>& examples,
                                              std::size_t vocabulary) {
  std::vector<std::uint64_t> counts(vocabulary, 0);
  for (const Example& example : examples) {
    for (const std::int32_t id : example.target) ++counts.at(static_cast<std::size_t>(id));
    if (example.target.empty() || example.target.back() != eos_id) ++counts.at(eos_id);
  }
  return counts;
}

/// Counts the pairs of label and prediction.
using ClassPairs = std::map<std::pair<std::int32_t, std::int32_t>, std::uint64_t>;

/// A table of the most frequent classes, in the order of the vocabulary.
Confusion confusion_table(const ClassPairs& pairs, const Vocabulary& classes,
                          std::size_t max_classes) {
  const std::size_t num_classes = classes.size() - first_word_id;
  std::vector<std::uint64_t> frequency(num_classes, 0);
  for (const auto& [pair, count] : pairs) {
    frequency[static_cast<std::size_t>(pair.first)] += count;
    frequency[static_cast<std::size_t>(pair.second)] += count;
  }
  std::vector<std::size_t> kept(num_classes);
  std::iota(kept.begin(), kept.end(), std::size_t{0});
  if (num_classes > max_classes) {
    std::ranges::stable_sort(kept, std::ranges::greater(), [&](auto i) { return frequency[i]; });
    kept.resize(max_classes - 1);
    std::ranges::sort(kept);
  }
  Confusion table;
  std::vector<std::size_t> row_of(num_classes, kept.size());
  for (const std::size_t i : kept) {
    row_of[i] = table.classes.size();
    table.classes.push_back(classes.token(static_cast<std::int32_t>(i) + first_word_id));
  }
  if (num_classes > max_classes) table.classes.emplace_back(Confusion::other_classes);
  const std::size_t size = table.classes.size();
  table.counts.assign(size * size, 0);
  for (const auto& [pair, count] : pairs) {
    const std::size_t row = row_of[static_cast<std::size_t>(pair.first)];
    table.counts[row * size + row_of[static_cast<std::size_t>(pair.second)]] += count;
  }
  return table;
}

/// Counts the labels of held-out examples, and how many of them a model predicts correctly.
class LabelTally {
 public:
  /// frequencies  frequency of each target, see HeldOutAccuracy::by_frequency; not used for classes
  LabelTally(const Task& task, const std::vector<Example>& examples,
             std::vector<std::uint64_t> frequencies)
      : examples_(examples),
        layout_(task.layout()),
        has_lengths_(!task.traits().reads_images),
        frequencies_(std::move(frequencies)) {}

  void add_batch(const Batch& batch, std::span<const std::int32_t> predictions) {
    for (std::size_t row = 0; row < batch.rows; ++row) {
      const std::size_t length = longest_side(examples_[batch.examples[row]], layout_);
      for (std::size_t i = row * batch.target_length; i < (row + 1) * batch.target_length; ++i) {
        if (batch.labels[i] != no_label) add_label(batch.labels[i], predictions[i], length);
      }
    }
  }

  /// Copies the counts to `accuracy`.
  void finish(const Vocabulary& targets, HeldOutAccuracy& accuracy) const {
    constexpr std::size_t max_classes = 40, max_ranges = 12;
    accuracy.labels = all_.labels;
    accuracy.hits = all_.hits;
    accuracy.by_length = by_ranges(by_length_, max_ranges);
    accuracy.by_frequency = by_powers(by_frequency_);
    if (layout_.labels_are_classes) {
      accuracy.confusion = confusion_table(pairs_, targets, max_classes);
    }
  }

 private:
  void add_label(std::int32_t label, std::int32_t prediction, std::size_t length) {
    const bool hit = label == prediction;
    add(all_, hit);
    if (has_lengths_) add(by_length_[length], hit);
    if (layout_.labels_are_classes) {
      ++pairs_[{label, prediction}];
    } else {
      add(by_frequency_[frequencies_[static_cast<std::size_t>(label)]], hit);
    }
  }

  const std::vector<Example>& examples_;
  const RowLayout& layout_;
  bool has_lengths_;
  std::vector<std::uint64_t> frequencies_;
  LabelGroup all_;
  Tally by_length_, by_frequency_;
  ClassPairs pairs_;
};

// ---- Examples

std::string token_name(const TrainedModel& trained, std::int32_t label) {
  const bool is_class = find_task(trained.config).layout().labels_are_classes;
  return trained.codec.target_vocabulary().token(is_class ? label + first_word_id : label);
}

/// The tokens of an example, including tokens without a label, with the model's predictions.
std::vector<TokenPrediction> predict_tokens(const TrainedModel& trained,
                                            const std::vector<Example>& examples,
                                            std::size_t index) {
  constexpr std::size_t max_tokens = 400;
  const Vocabulary& words = trained.codec.target_vocabulary();
  const Batch batch =
      make_batch(examples, std::array{index}, batch_rules(trained.config, words.size()));
  const Tensor logits = (*trained.model->network)(
      network_input(batch, trained.model->parameters.dtype()), Mode::inference());
  const Tensor probabilities = softmax(logits.to(DType::float64));
  const auto values = probabilities.values<double>();
  const Ids best = argmax(logits);
  const std::size_t width = probabilities.shape().back();
  std::vector<TokenPrediction> tokens;
  for (std::size_t i = 0; i < std::min(batch.labels.size(), max_tokens); ++i) {
    const std::int32_t label = batch.labels[i];
    if (label == no_label) {
      tokens.push_back({.expected = i < batch.input.size() ? words.token(batch.input[i]) : ""});
      continue;
    }
    tokens.push_back({.expected = token_name(trained, label),
                      .predicted = token_name(trained, best[i]),
                      .probability = values[i * width + static_cast<std::size_t>(label)]});
  }
  return tokens;
}

/// The mean of an image channel over a square with a side of `side` pixels, cut off at the border.
float mean_of_square(const Example& example, const ImageOptions& image, std::size_t y,
                     std::size_t x, std::size_t channel, std::size_t side) {
  float sum = 0.0F;
  std::size_t count = 0;
  for (std::size_t i = y; i < std::min(y + side, image.image_height); ++i) {
    for (std::size_t j = x; j < std::min(x + side, image.image_width); ++j, ++count) {
      sum += example.pixels[(i * image.image_width + j) * image.image_channels + channel];
    }
  }
  return sum / static_cast<float>(count);
}

/// The image of an example, downscaled by averaging to at most 64 x 64 pixels.
ReportImage report_image(const Example& example, const Config& config) {
  constexpr std::size_t max_side = 64;
  if (example.pixels.empty()) return {};
  const ImageOptions& image = config.data.images;
  const std::size_t height = image.image_height, width = image.image_width;
  const std::size_t step = (std::max(height, width) + max_side - 1) / max_side;
  const auto [low, high] = std::ranges::minmax(example.pixels);
  // Pixels are usually in [0, 1]; images with other values are scaled to this range.
  const float black = std::min(low, 0.0F), range = std::max(high, 1.0F) - black;
  ReportImage reduced{.height = (height + step - 1) / step,
                      .width = (width + step - 1) / step,
                      .channels = image.image_channels,
                      .values = {}};
  for (std::size_t y = 0; y < height; y += step) {
    for (std::size_t x = 0; x < width; x += step) {
      for (std::size_t c = 0; c < image.image_channels; ++c) {
        const float value = (mean_of_square(example, image, y, x, c, step) - black) / range;
        reduced.values.push_back(static_cast<std::uint8_t>(std::lround(255.0F * value)));
      }
    }
  }
  return reduced;
}

/// The example; a window of a text is cut to `max_tokens` tokens.
Example cut_window(Example example, const Config& config, std::size_t max_tokens) {
  const bool is_window = example.source.empty() && example.pixels.empty() &&
                         data_source(config.data).makes_windows &&
                         example.target.size() > max_tokens;
  if (is_window) example.target.resize(max_tokens);
  return example;
}

/// The number of tokens that the longest stack of the model reads.
std::size_t tokens_read(const Example& example, const Config& config) {
  const Task& task = find_task(config);
  if (!task.traits().reads_images) return longest_side(example, task.inference_layout());
  const std::size_t size = std::max<std::size_t>(config.model.patch_size, 1);
  return (config.data.images.image_height / size) * (config.data.images.image_width / size) + 1;
}

}  // namespace

std::vector<SetScores> score_held_out_sets(const TrainedModel& trained, const Corpus& corpus) {
  const Config& config = trained.config;
  const Task& task = find_task(config);
  const BatchRules rules = batch_rules(config, trained.codec.target_vocabulary().size());
  std::vector<SetScores> all;
  const auto score = [&](const char* name, const EvaluationSet& set) {
    if (set.examples.empty()) return;
    all.push_back({.name = name,
                   .scores = task.evaluate(*trained.model, config, rules, set,
                                           /*decoded=*/set.examples.size()),
                   .unknown = share_of_unknown_tokens(set.examples, task.layout())});
    if (std::isfinite(all.back().scores.loss)) return;
    const auto losses =
        example_losses(*trained.model, set.examples, config.train.batch_size, rules);
    const auto wrong = std::ranges::find_if(
        losses, [](const ExampleLoss& loss) { return !std::isfinite(loss.sum); });
    const std::size_t i = wrong == losses.end() ? 0 : wrong->example;
    reject_non_finite(*trained.model, inference_batch(task, set.examples[i]),
                      fmt::format("{}: example {}", name, i + 1));
  };
  score(validation_name, validation_set(corpus, trained.codec));
  score(test_name, test_set(corpus, trained.codec));
  return all;
}

bool labels_tokens(const Task& task) {
  return task.layout().labels_are_classes && !task.traits().one_label_per_example;
}

EvaluationSet held_out_set(const TrainedModel& trained, const Corpus& corpus,
                           std::string_view set) {
  return set == test_name ? test_set(corpus, trained.codec) : validation_set(corpus, trained.codec);
}

HeldOutAccuracy held_out_accuracy(const TrainedModel& trained, const Corpus& corpus,
                                  const std::vector<Example>& set, std::size_t max_examples) {
  const Config& config = trained.config;
  const Task& task = find_task(config);
  const Vocabulary& targets = trained.codec.target_vocabulary();
  const std::vector<std::size_t> scored = evenly_spaced(set.size(), max_examples);
  const std::vector<Example> examples = select(set, scored);
  const bool by_training = !corpus.train.empty();
  std::vector<std::uint64_t> frequencies;
  if (!task.layout().labels_are_classes) {
    frequencies = target_frequencies(by_training ? corpus.train : set, targets.size());
  }
  LabelTally tally(task, examples, std::move(frequencies));
  HeldOutAccuracy accuracy{.examples = examples.size(), .frequency_of_training = by_training};
  accuracy.losses = example_losses(
      *trained.model, examples, config.train.batch_size, batch_rules(config, targets.size()),
      [&](const Batch& batch, std::span<const std::int32_t> predictions) {
        tally.add_batch(batch, predictions);
      });
  for (ExampleLoss& loss : accuracy.losses) loss.example = scored[loss.example];
  tally.finish(targets, accuracy);
  return accuracy;
}

std::vector<ExampleLoss> worst_and_spread(const std::vector<ExampleLoss>& losses,
                                          std::size_t count) {
  const auto mean = +[](const ExampleLoss& loss) { return loss.mean(); };
  const std::vector<ExampleLoss> sorted = greatest_losses(losses, losses.size(), mean);
  const std::size_t num_worst = std::min((count + 1) / 2, sorted.size());
  std::vector<ExampleLoss> shown(sorted.begin(),
                                 sorted.begin() + static_cast<std::ptrdiff_t>(num_worst));
  const std::size_t others = sorted.size() - num_worst;
  for (const std::size_t i : evenly_spaced(others, count - std::min(count, num_worst))) {
    shown.push_back(sorted[num_worst + i]);
  }
  return shown;
}

std::vector<ShownExample> show_examples(const TrainedModel& trained, const EvaluationSet& set,
                                        const std::vector<std::size_t>& indices) {
  if (indices.empty()) return {};
  auto shown = find_task(trained.config).answers().show(trained, select(set.examples, indices));
  if (set.target_texts.empty()) return shown;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const std::vector<std::int32_t>& target = set.examples[indices[i]].target;
    const bool is_known = std::ranges::find(target, unk_id) == target.end();
    if (is_known && shown[i].output == shown[i].expected) continue;
    const std::string& text = set.target_texts[indices[i]];
    shown[i].expected = trained.config.data.words.lowercase ? lowercase_european(text) : text;
  }
  return shown;
}

std::vector<ReportExample> report_examples(const TrainedModel& trained, const EvaluationSet& set,
                                           const std::vector<std::size_t>& indices) {
  const std::vector<Example> examples = select(set.examples, indices);
  const Task& task = find_task(trained.config);
  const std::vector<ShownExample> shown = show_examples(trained, set, indices);
  std::vector<ReportExample> result;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    ReportExample& example = result.emplace_back();
    example.number = indices[i] + 1;
    if (i < shown.size()) {
      example.text = shown[i];
      // The number of the image in the set, from 1.
      if (task.traits().reads_images) example.text.input = fmt::format("image {}", example.number);
    } else {
      example.tokens = predict_tokens(trained, examples, i);
    }
    example.image = report_image(examples[i], trained.config);
  }
  return result;
}

std::vector<AttentionSample> attention_samples(const Model& model, const Config& config,
                                               const TextCodec& codec,
                                               const std::vector<Example>& set,
                                               const AttentionChoice& choice) {
  const std::size_t max_tokens = choice.max_tokens;
  const Task& task = find_task(config);
  std::vector<std::size_t> fitting(set.size());
  std::iota(fitting.begin(), fitting.end(), std::size_t{0});
  std::erase_if(fitting, [&](std::size_t i) {
    return tokens_read(cut_window(set[i], config, max_tokens), config) > max_tokens;
  });
  // Selects evenly spaced quantiles of the length, without minimum and maximum.
  std::ranges::stable_sort(fitting, {}, [&](std::size_t i) { return tokens_read(set[i], config); });
  std::vector<AttentionSample> samples;
  const std::size_t shown = std::min(choice.examples, fitting.size());
  for (std::size_t k = shown; k-- > 0;) {
    const std::size_t i = fitting[(2 * k + 1) * fitting.size() / (2 * shown)];
    const Example example = cut_window(set[i], config, max_tokens);
    const Batch batch = inference_batch(task, example);
    AttentionViews views =
        attention_weights(model, batch, task.answers().stack_tokens(batch, config, codec));
    if (views.layers.empty() && views.notes.empty()) continue;
    samples.push_back({.number = i + 1,
                       .layers = std::move(views.layers),
                       .notes = std::move(views.notes),
                       .image = report_image(example, config)});
  }
  return samples;
}

}  // namespace tapestry
