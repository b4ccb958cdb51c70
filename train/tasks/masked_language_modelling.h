#pragma once

#include <cstdint>
#include <vector>

#include "data/text/vocabulary.h"
#include "layers/model.h"
#include "train/tasks/task.h"

namespace tapestry {

/// A text with the guess of a masked language model in the place of each token that is <unk>, which
/// is what it was shown for hidden ones: of all words the most likely, never a special symbol nor
/// the end of a line.
///
/// tokens  not empty, with <bos> and <eos> if the model has read sentences
/// throws  NumericError if the scores of a place are not finite.
std::vector<std::int32_t> fill_in(const Model& model, const Vocabulary& words,
                                  std::vector<std::int32_t> tokens);

}  // namespace tapestry
