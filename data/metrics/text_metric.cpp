#include "data/metrics/text_metric.h"

#include <fmt/format.h>

#include <stdexcept>
#include <string_view>

#include "data/io/error.h"
#include "data/io/unicode.h"

namespace tapestry {

namespace {

std::u32string decode(const std::string& sentence, std::string_view what, std::size_t number) try {
  return decode_utf8(sentence);
} catch (const DataError& error) {
  throw DataError(fmt::format("{} {}: {}", what, number, error.what()), error.hint());
}

void check_sizes(std::size_t hypotheses, const std::vector<std::vector<std::string>>& references) {
  if (hypotheses == 0 || references.empty()) {
    throw std::invalid_argument(
        fmt::format("statistics: found {} hypotheses and {} references each, expected at least one",
                    hypotheses, references.size()));
  }
  for (const auto& reference : references) {
    if (reference.size() == hypotheses) continue;
    throw std::invalid_argument(
        fmt::format("statistics: found {} hypotheses and {} references, expected as many",
                    hypotheses, reference.size()));
  }
}

}  // namespace

std::vector<double> SegmentStatistics::sum() const {
  std::vector<double> sums(width_);
  for (std::size_t i = 0; i < values_.size(); ++i) sums[i % width_] += values_[i];
  return sums;
}

SegmentStatistics TextMetric::statistics(
    const std::vector<std::string>& hypotheses,
    const std::vector<std::vector<std::string>>& references) const {
  check_sizes(hypotheses.size(), references);
  SegmentStatistics all(hypotheses.size(), width());
  std::vector<std::u32string> here(references.size());
  for (std::size_t i = 0; i < hypotheses.size(); ++i) {
    for (std::size_t r = 0; r < references.size(); ++r) {
      here[r] = decode(references[r][i], "reference", i + 1);
    }
    compute(decode(hypotheses[i], "hypothesis", i + 1), here, all[i]);
  }
  return all;
}

double TextMetric::corpus_score(const std::vector<std::string>& hypotheses,
                                const std::vector<std::vector<std::string>>& references) const {
  return score(statistics(hypotheses, references).sum());
}

TextMetric::Settings TextMetric::signature_fields(const SignatureUse& use) const {
  Settings fields{{"nrefs", std::to_string(use.references)}};
  if (use.bootstrap_samples > 0) {
    fields.emplace_back("bs", std::to_string(use.bootstrap_samples));
    fields.emplace_back("seed", std::to_string(use.seed));
  }
  for (auto& setting : settings()) fields.push_back(std::move(setting));
  fields.emplace_back("version", sacrebleu_version);
  return fields;
}

std::string TextMetric::signature(const SignatureUse& use) const {
  std::string text;
  for (const auto& [name, value] : signature_fields(use)) {
    text += fmt::format("{}{}:{}", text.empty() ? "" : "|", name, value);
  }
  return text;
}

}  // namespace tapestry
