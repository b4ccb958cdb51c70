// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace tapestry {

/// A JSON Schema (draft 7) of config files, for completion and validation in editors: all sections
/// and keys, with meanings, defaults, types, ranges and choices.
///
/// Includes rules between keys that can be written as lists of values: which keys are used
/// depending on the value of another key, and the data tasks and scores of each kind of model.
/// Omits rules that compare or compute numbers, such as `d_model` being a multiple of `num_heads`,
/// and checks of files. The schema is stricter than the program about types: it rejects a number in
/// quotes.
std::string config_schema();

}  // namespace tapestry
