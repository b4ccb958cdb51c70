#include "train/report/report_time.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "train/models/held_out_results.h"
#include "train/models/trained_model.h"
#include "train/recording/weight_statistics.h"
#include "train/report/held_out_json.h"
#include "train/report/html_page.h"
#include "train/report/weights_json.h"

namespace tapestry {
namespace {

/// The mean number of tokens of a reference, with the one that ends it; at least 1.
std::size_t mean_target_length(const std::vector<Example>& examples) {
  std::size_t tokens = 0;
  for (const Example& example : examples) tokens += example.target.size() + 1;
  return std::max<std::size_t>(1, tokens / std::max<std::size_t>(1, examples.size()));
}

}  // namespace

std::uint64_t count_reports(const TrainOptions& options) {
  if (options.report_every == 0 || options.steps == 0) return 0;
  // A report of the last validation is that of the end.
  const std::uint64_t validations = (options.steps - 1) / options.validate_every;
  return validations / options.report_every + 1;
}

double time_report(const ArrayStore& snapshot, const Corpus& corpus) {
  const auto started = std::chrono::steady_clock::now();
  TrainedModel trained = load_model(snapshot);
  if (trained.config.train.max_decode_length == 0) {
    trained.config.train.max_decode_length = mean_target_length(held_out_set(corpus).examples);
  }
  std::vector<std::string> notes;
  nlohmann::ordered_json json = held_out_json(trained, corpus, {}, notes);
  json["weights"] = weights_json(weights_by_block(trained.model->parameters));
  html_page(json);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
}

}  // namespace tapestry
