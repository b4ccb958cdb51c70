#include "train/metrics.h"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "train/metrics_reader.h"
#include "train/platform/durable_file.h"

namespace tapestry {

MetricsTable::MetricsTable() : csv_(metrics_heading) {}

MetricsTable::MetricsTable(std::string csv, std::string_view place) : csv_(std::move(csv)) {
  require_metrics(csv_, place);
}

void MetricsTable::add(const TrainMetrics& row) {
  csv_ += fmt::format("{},{},train,{},{},,,{},{},{}\n", row.step, row.epoch, row.loss,
                      row.perplexity, row.learning_rate, row.gradient_norm, row.target_tokens);
}

void MetricsTable::add_validation(std::uint64_t step, std::uint64_t epoch, const Scores& scores) {
  const auto exact_match = scores.others.find("exact_match");
  csv_ +=
      fmt::format("{},{},validation,{},{},{},{},,,{}\n", step, epoch, scores.loss,
                  scores.perplexity, scores.token_accuracy,
                  exact_match == scores.others.end() ? "" : fmt::format("{}", exact_match->second),
                  scores.tokens);
}

void MetricsTable::write(const std::filesystem::path& path, FileSystem& files) const {
  write_file_durably(path, std::as_bytes(std::span(csv_)), files);
}

}  // namespace tapestry
