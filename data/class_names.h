#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/vocabulary.h"

namespace tapestry {

/// Whether a label is one word, as the name of a class must be, and spells no special symbol.
bool can_be_class(std::string_view label);

/// The vocabulary of the labels in a training set: every different one, whole numbers by size and
/// before all others, the others in the order of their bytes.
///
/// labels  each can_be_class()
/// throws  DataError, naming the training set by `name`, if there are fewer than two classes.
Vocabulary class_names(const std::vector<std::string>& labels, std::string_view name);

/// "no, yes", or the first of many; harmless to a terminal, whatever the labels are.
std::string list_of_classes(const Vocabulary& classes);

/// The id of the class that a label names.
///
/// throws  DataError, which begins with `place`, if there is no such class.
std::int32_t class_id(const Vocabulary& classes, std::string_view label, const std::string& place);

}  // namespace tapestry
