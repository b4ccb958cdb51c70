#pragma once

#include <cstdint>
#include <vector>

#include "train/model.h"

namespace tapestry {

/// A text with the guess of a masked language model in the place of each token that is <unk>, which
/// is what it was shown for hidden ones. A guess is a word, never a special symbol.
///
/// tokens  not empty, with <bos> and <eos> if the model has read sentences
std::vector<std::int32_t> fill_in(const Model& model, std::vector<std::int32_t> tokens);

}  // namespace tapestry
