#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "train/checkpoint.h"

namespace tapestry {

/// What standard input should be where a line is a sentence.
inline constexpr const char* sentences_hint = "give it text, one sentence a line, such as `< FILE`";

/// How a command answers the lines of standard input.
struct LineAnswers {
  const char* hint;  ///< what standard input should be, if it cannot be read

  /// What the model reads of a line, or nothing for one that an empty line answers. `number` is
  /// that of the line, from 1, and `place` names it in messages. throws DataError.
  std::function<std::optional<Example>(const std::string& line, std::size_t number,
                                       const std::string& place)>
      read;

  /// The answers to some examples, a line each. One does not depend on the others.
  std::function<std::vector<std::string>(const std::vector<Example>& examples)> answer;
};

/// Standard input to standard output, a line out for each line in, in order. Many lines are
/// answered at once, but each as it comes where it is typed.
///
/// throws  DataError, behind the answers to the lines before, if a line is no text or is refused.
void answer_lines(const LineAnswers& answers);

/// The sentence on a line as the model reads it, or nothing on a blank line.
///
/// throws  DataError, which begins with `place`, if the model has no positions for all of it.
std::optional<Example> read_sentence(const std::string& line, const std::string& place,
                                     const TrainedModel& trained);

}  // namespace tapestry
