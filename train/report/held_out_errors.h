#pragma once

#include <string>
#include <string_view>

#include "train/models/held_out_results.h"

namespace tapestry {

/// What a model gets wrong on a held-out set, in sentences for the findings of a report: the share
/// of wrong labels, and where errors are frequent.
///
/// - Classes: the two most frequent confusions, unless each occurs once, and the class with the
///   lowest recall. "(other classes)" takes no part.
/// - Tokens: the number of examples without an error, if there are any; the lengths of examples and
///   the frequencies of tokens that have most errors beyond the mean, if they have at least 10
///   errors and 1.5 times the mean rate.
///
/// accuracy  with at least one label
/// set       "test" or "validation"
/// noun      of examples, in the plural: "pairs"
std::string describe_errors(const HeldOutAccuracy& accuracy, std::string_view set,
                            std::string_view noun);

}  // namespace tapestry
