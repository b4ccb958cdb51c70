#pragma once

#include <string>

namespace tapestry {

/// A JSON Schema (draft 7) of config files, for completion and validation in editors: all sections
/// and keys, with meanings, defaults, types, ranges and choices.
///
/// The schema knows each key by itself. It does not have the rules between keys, such as which keys
/// a kind of model uses, does not look at files, and is stricter where YAML has types: a number in
/// quotes, which a config may have, is a text to it.
std::string config_schema();

}  // namespace tapestry
