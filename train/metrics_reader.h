#pragma once

#include <string_view>

namespace tapestry {

/// The first line of a metrics.csv, with its line end.
inline constexpr std::string_view metrics_heading =
    "step,epoch,split,loss,perplexity,token_accuracy,exact_match,learning_rate,gradient_norm,"
    "target_tokens\n";

/// Checks the text of a metrics.csv that need not be trusted: the heading, then rows as
/// MetricsTable writes them, each ended by '\n'. Which fields of a row are empty follows from its
/// split. `nan` and `inf` are numbers: a loss can be either.
///
/// place   stands in front of errors
/// throws  CheckpointError that names the line
void require_metrics(std::string_view csv, std::string_view place);

}  // namespace tapestry
