#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/vocabulary.h"

namespace tapestry {

/// Whether a label can name a class: it is one word and spells no special symbol.
bool can_be_class(std::string_view label);

/// The vocabulary of the distinct labels of a training set: first whole numbers in ascending order,
/// then all others in the order of their bytes.
///
/// labels  can_be_class() is true for each
/// throws  DataError, naming the training set by `name`, if there are fewer than two classes.
Vocabulary class_names(const std::vector<std::string>& labels, std::string_view name);

/// The names of the classes, escaped for messages: "no, yes"; of many classes the first ten.
std::string list_of_classes(const Vocabulary& classes);

/// The id of the class that a label names.
///
/// throws  DataError, which begins with `place`, if there is no such class.
std::int32_t class_id(const Vocabulary& classes, std::string_view label, const std::string& place);

}  // namespace tapestry
