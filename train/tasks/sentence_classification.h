// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "train/tasks/task.h"

namespace tapestry {

/// Describes classes as "3 classes: cat, dog, fox". The names show the user if a heading was read
/// as an example.
std::string describe_classes(const Corpus& corpus);

/// Formats scores as "loss 0.1234  accuracy 96.10 %".
std::string format_class_scores(const Scores& scores);

/// Answers with classes, for sentences and images: the command `classify`. Its answer to a line is
/// the most likely class, a tab and its probability, or several such pairs, separated by tabs.
///
/// answer() and top_answers() throw  NumericError if the scores of an example are not finite.
class ClassAnswers : public TaskAnswers {
 public:
  const LineCommand* command() const override;
  std::vector<ShownExample> show(const TrainedModel& trained,
                                 const std::vector<Example>& examples) const override;
  std::vector<std::string> answer(const TrainedModel& trained,
                                  const std::vector<Example>& examples) const override {
    return top_answers(trained, examples, 1);
  }
  std::vector<std::string> top_answers(const TrainedModel& trained,
                                       const std::vector<Example>& examples,
                                       std::size_t count) const override;

 private:
  /// The input of example i, from 0, as `tapestry evaluate` shows it.
  virtual std::string describe(const Example& example, std::size_t i,
                               const TextCodec& codec) const = 0;
};

}  // namespace tapestry
