#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tapestry {

/// The keys, by path, that a user who wrote `name` as the name of a key probably meant, the most
/// likely first: the keys of this name in all sections; if there are none, those that other
/// programs and papers call so, such as schedule.learning_rate for "lr". Empty for an unknown name.
/// Letter case is ignored and `-` equals `_`. For hints; a config is never read by these names.
std::vector<std::string> keys_meant_by(std::string_view name);

/// The names of other programs that keys_meant_by() knows.
std::set<std::string_view> foreign_key_names();

}  // namespace tapestry
