#pragma once

#include <cstdint>
#include <vector>

#include "data/text/vocabulary.h"
#include "layers/model.h"
#include "train/tasks/task.h"

namespace tapestry {

/// model.kind: masked_language_model. Masked tokens of a text given those on both sides (Devlin et
/// al. 2019, "BERT"), with an encoder; `tapestry fill` predicts the blanks of a line.
const Task& masked_language_modelling();

/// A text with the guess of a masked language model in the place of each token that is <unk>, which
/// is what it was shown for hidden ones: of all words the most likely, never a special symbol nor
/// the end of a line.
///
/// tokens  not empty, with <bos> and <eos> if the model has read sentences
/// throws  NumericError if the scores of a place are not finite.
std::vector<std::int32_t> fill_in(const Model& model, const Vocabulary& words,
                                  std::vector<std::int32_t> tokens);

}  // namespace tapestry
