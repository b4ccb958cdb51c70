#pragma once

#include <string>
#include <vector>

#include "train/report/run_history.h"

namespace tapestry {

/// What the curves and processes of a run show, in sentences with a remedy, for the top of a
/// report: overfitting (the validation loss has risen by more than 2 % since its minimum, while the
/// training loss has fallen), a validation loss that has fallen by more than 1 % in the last
/// quarter of a finished run, and more than a quarter of the time spent outside of training steps.
/// Empty if there is nothing to say.
///
/// finished  whether the run has done all its steps
std::vector<std::string> findings(const RunHistory& history, bool finished);

}  // namespace tapestry
