#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "train/models/trained_model.h"
#include "train/report/report_options.h"

namespace tapestry {

/// What a model does with held-out data, for its report: `held_out` with examples, accuracy and
/// `errors`, the text of describe_errors(); `attention` with the weights of all heads; `patches` of
/// images. Empty without held-out data.
///
/// notes  gets what is left out, and why
nlohmann::ordered_json held_out_json(const TrainedModel& trained, const Corpus& corpus,
                                     const ReportOptions& options, std::vector<std::string>& notes);

}  // namespace tapestry
