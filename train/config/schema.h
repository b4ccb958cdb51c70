// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace tapestry {

/// A JSON Schema (draft 7) of config files, for completion and validation in editors: all sections
/// and keys, with meanings, defaults, types, ranges and choices.
///
/// It also has the rules between keys that are lists of values: which keys the values of another
/// key use, and the data and scores of each kind of model. It has no rules that compare or compute
/// numbers, such as that `d_model` is a multiple of `num_heads`, does not look at files, and is
/// stricter where YAML has types: a number in quotes, which a config may have, is a text to it.
std::string config_schema();

}  // namespace tapestry
