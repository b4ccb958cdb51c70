#pragma once

#include <cstdint>
#include <vector>

#include "data/text/vocabulary.h"
#include "layers/model.h"
#include "train/tasks/task.h"

namespace tapestry {

/// Replaces each <unk> token of a text with the most likely word according to a masked language
/// model, in which <unk> stands for masked tokens. Never predicts a special symbol or a newline.
///
/// tokens  not empty, with <bos> and <eos> if the model has read sentences
/// throws  NumericError if the scores of a masked token are not finite.
std::vector<std::int32_t> fill_in(const Model& model, const Vocabulary& words,
                                  std::vector<std::int32_t> tokens);

}  // namespace tapestry
