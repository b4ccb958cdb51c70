// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/corpus.h"
#include "train/inference/attention_view.h"
#include "train/inference/evaluator.h"
#include "train/tasks/task.h"

/// Results of a trained model on held-out data, for reports.
namespace tapestry {

/// The scores of a held-out set.
struct SetScores {
  std::string name;  ///< "validation" or "test"
  Scores scores;
  double unknown;  ///< fraction of unknown tokens
};

/// Scores a model on the validation set and the test set of a corpus, and decodes all their
/// examples. Omits empty sets.
///
/// throws  NumericError with the first such example if a loss is NaN or infinite.
std::vector<SetScores> score_held_out_sets(const TrainedModel& trained, const Corpus& corpus);

/// Whether outputs and references of a task have a label for each token of the input.
bool labels_tokens(const Task& task);

/// Labels with a common property, such as the length of their example.
struct LabelGroup {
  std::string name;          ///< "4-15"
  std::uint64_t labels = 0;  ///< number of labels
  std::uint64_t hits = 0;    ///< number of labels that are predicted correctly
};

/// A confusion matrix: how often each class is predicted for examples of each class.
struct Confusion {
  std::vector<std::string> classes;   ///< names; the last name may be `other_classes`
  std::vector<std::uint64_t> counts;  ///< (labels, predictions), row-major

  /// The name of the group of rare classes if a table cannot show all classes.
  static constexpr const char* other_classes = "(other classes)";
};

/// Accuracy on a held-out set. For each prediction, the model is given the preceding labels.
struct HeldOutAccuracy {
  std::size_t examples = 0;                ///< number of scored examples
  std::uint64_t labels = 0, hits = 0;      ///< number of labels, and of correct predictions
  std::vector<LabelGroup> by_length{};     ///< labels by length in tokens; empty for images
  std::vector<LabelGroup> by_frequency{};  ///< labels by their frequency; empty for classes
  bool frequency_of_training = false;      ///< whether frequencies refer to the training set
  Confusion confusion{};                   ///< predictions by class; empty for tokens
  std::vector<ExampleLoss> losses{};       ///< losses of the scored examples; indices in the set
};

/// A token with the model's prediction from the preceding or the surrounding tokens.
struct TokenPrediction {
  std::string expected;      ///< the label, or the input token if it has no label
  std::string predicted{};   ///< the most likely token; empty if there is no label
  double probability = 0.0;  ///< probability of the expected token; 0 if there is no label
};

/// An image with values from 0 to 255.
struct ReportImage {
  std::size_t height = 0, width = 0, channels = 0;  ///< height and width are at most 64
  std::vector<std::uint8_t> values;                 ///< (height, width, channels)
};

/// A held-out example with the model's output.
struct ReportExample {
  std::size_t number = 0;               ///< number of the example in its set, from 1
  ShownExample text;                    ///< empty for tasks that show tokens
  std::vector<TokenPrediction> tokens;  ///< only for tasks without output, such as language_model
  ReportImage image;                    ///< empty without images
};

/// Attention weights of an example.
struct AttentionSample {
  std::size_t number = 0;              ///< number of the example in its set, from 1
  std::vector<LayerAttention> layers;  ///< in call order; may be empty if there are notes
  std::vector<std::string> notes;      ///< layers that are left out, see AttentionViews
  ReportImage image;                   ///< empty without images
};

/// The names of held-out sets. The validation set is the default everywhere, since a test set is no
/// longer independent after its errors have influenced the model's design.
inline constexpr const char* validation_name = "validation";
inline constexpr const char* test_name = "test";

/// A held-out set of the corpus, which may be empty.
///
/// set  validation_name or test_name
EvaluationSet held_out_set(const TrainedModel& trained, const Corpus& corpus, std::string_view set);

/// Scores at most `max_examples` evenly spaced examples of a held-out set of the corpus.
HeldOutAccuracy held_out_accuracy(const TrainedModel& trained, const Corpus& corpus,
                                  const std::vector<Example>& set, std::size_t max_examples);

/// Selects `count` examples to show and returns their losses in descending order: half of
/// the examples have the greatest losses; the other half are evenly spaced among the rest, sorted
/// by loss.
std::vector<ExampleLoss> worst_and_spread(const std::vector<ExampleLoss>& losses,
                                          std::size_t count);

/// The examples with these indices as text, with the model's outputs. References are the texts of
/// the file, if it has texts, since tokens lack unknown words. The reference of an exact match is
/// its output, even if they differ in spaces. Empty for tasks without outputs: language_model.
std::vector<ShownExample> show_examples(const TrainedModel& trained, const EvaluationSet& set,
                                        const std::vector<std::size_t>& indices);

/// The examples with these indices, and the model's outputs for them.
std::vector<ReportExample> report_examples(const TrainedModel& trained, const EvaluationSet& set,
                                           const std::vector<std::size_t>& indices);

/// Limits on the attention weights to compute.
struct AttentionChoice {
  std::size_t examples;    ///< number of held-out examples, of different lengths
  std::size_t max_tokens;  ///< maximum length of an example; longer windows of a text are cut
};

/// The attention weights of a model on examples of a held-out set, the longest first. Empty if all
/// examples are longer than max_tokens.
std::vector<AttentionSample> attention_samples(const Model& model, const Config& config,
                                               const TextCodec& codec,
                                               const std::vector<Example>& set,
                                               const AttentionChoice& choice);

}  // namespace tapestry
