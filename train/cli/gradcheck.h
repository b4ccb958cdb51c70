#pragma once

#include <string>

#include "autograd/gradcheck.h"

/// What `tapestry gradcheck --json` prints.
namespace tapestry {

/// The report as one JSON object: `model`, `rows`, `first_wrong` (null if there is none), `verdict`
/// (`wrong` if any row is, else `inconclusive` if any is, else `agrees`). Numbers that are not
/// finite are null, as JSON has none. Coordinates, inputs and operations count from 0.
std::string to_json(const GradcheckReport& report, const std::string& model);

}  // namespace tapestry
