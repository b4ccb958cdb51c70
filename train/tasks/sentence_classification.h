#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "train/tasks/task.h"

namespace tapestry {

/// "3 classes: cat, dog, fox". Naming them reveals a heading that was read as an example.
std::string describe_classes(const Corpus& corpus);

/// "loss 0.1234  accuracy 96.10 %"
std::string format_class_scores(const Scores& scores);

/// The command `classify`, for sentences and images.
const LineCommand& classify_command();

/// One line per example: its most likely class, a tab and the probability.
///
/// throws  NumericError if the scores of an example are not finite.
std::vector<std::string> classify(const TrainedModel& trained,
                                  const std::vector<Example>& examples);

/// One line per example: its `count` most likely classes, each with a tab and its probability,
/// separated by tabs.
///
/// throws  NumericError if the scores of an example are not finite.
std::vector<std::string> rank_classes(const TrainedModel& trained,
                                      const std::vector<Example>& examples, std::size_t count);

/// The examples with their predicted classes, as `tapestry evaluate` shows them.
///
/// describe  the input of example i, from 0
std::vector<ShownExample> show_classes(
    const TrainedModel& trained, const std::vector<Example>& examples,
    const std::function<std::string(const Example&, std::size_t i)>& describe);

}  // namespace tapestry
