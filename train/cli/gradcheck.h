#pragma once

#include <string>

#include "autograd/gradcheck/gradcheck.h"

/// The output of `tapestry gradcheck --json`.
namespace tapestry {

/// The report as one JSON object: `model`, `rows`, `first_wrong` (null if there is none), `verdict`
/// (`wrong` if any row is wrong, else `inconclusive` if any row is inconclusive, else `too small`
/// if all rows are, else `agrees`). Values that are not finite are null, since JSON cannot
/// represent them. Coordinates, inputs and operations count from 0.
std::string to_json(const GradcheckReport& report, const std::string& model);

}  // namespace tapestry
