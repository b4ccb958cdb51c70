#pragma once

#include <cstddef>

#include "data/metrics/ngrams.h"

namespace tapestry {

/// The number of edits of TER, shifts included, that turn the words of a hypothesis into those of a
/// reference; see Ter. For an empty reference, the number of words of the hypothesis.
std::size_t translation_edits(const Symbols& hypothesis, const Symbols& reference);

}  // namespace tapestry
