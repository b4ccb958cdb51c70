#pragma once

#include <string>
#include <vector>

#include "train/config/config.h"
#include "train/report/run_history.h"

namespace tapestry {

/// A sentence for the top of a report.
struct RunFinding {
  std::string text;
  std::string section;  ///< the title of the section of the page with the details
};

/// What the curves, processes, log and held-out examples of a run show, in sentences with a remedy,
/// for the top of a report. Empty if there is nothing to say. Losses have the digits that the
/// tables of the page show.
///
/// - Overfitting: the validation loss has risen by more than 2 % since its minimum, or has not
///   fallen in at least two validations, while the training loss has fallen; or that there is no
///   sign of it, since the last validation loss is the lowest, unless it is more than 1.5 times the
///   training loss. With what the validation accuracy has done since, and, if the run has recorded
///   it, the size of the training set and the accuracy on it. If the curves do not tell, why: fewer
///   than four validations, for example.
/// - Errors on held-out examples, and the share of exact outputs at the last validation.
/// - The validation loss has fallen by more than 1 % in the last quarter of a finished run, a tenth
///   of that or more since the last validation but one, unless it is less than 1 % of the first
///   one.
/// - What made training slow, see speed_findings().
///
/// history   with a training loss without label smoothing, see separate_label_smoothing()
/// finished  whether the run has done all its steps
/// errors    describe_errors() of its model; empty if that is not known
std::vector<RunFinding> findings(const RunHistory& history, const Config& config, bool finished,
                                 const std::string& errors = "");

}  // namespace tapestry
