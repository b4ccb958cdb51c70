#pragma once

#include <vector>

#include "data/batch.h"
#include "data/corpus.h"

namespace tapestry {

/// The share of the tokens in some examples that are <unk>, which stands for all that are not in
/// the vocabulary; in [0, 1]. Other special symbols and classes do not count.
double share_of_unknown_tokens(const std::vector<Example>& examples, Objective objective);

}  // namespace tapestry
