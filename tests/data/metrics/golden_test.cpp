#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/metrics/bleu.h"
#include "data/metrics/chrf.h"
#include "tests/support/source_folder.h"

/// tests/golden/text_metrics.json: scores of corpora with odd tokens by sacreBLEU.
namespace tapestry {
namespace {

using nlohmann::json;

template <class E>
E named(const json& options, const char* key,
        const std::vector<std::pair<std::string, E>>& values) {
  const std::string name = options.value(key, values.front().first);
  for (const auto& [text, value] : values) {
    if (text == name) return value;
  }
  FAIL("unknown " << key << " " << name);
  return values.front().second;
}

BleuOptions bleu_options(const json& json_options) {
  BleuOptions options{.tokenizer = named<BleuTokenizer>(json_options, "tokenize",
                                                        {{"13a", BleuTokenizer::mteval_13a},
                                                         {"none", BleuTokenizer::none},
                                                         {"char", BleuTokenizer::character},
                                                         {"intl", BleuTokenizer::international},
                                                         {"zh", BleuTokenizer::chinese}}),
                      .lowercase = json_options.value("lowercase", false),
                      .smoothing = named<BleuSmoothing>(json_options, "smooth_method",
                                                        {{"exp", BleuSmoothing::exponential},
                                                         {"floor", BleuSmoothing::floor},
                                                         {"add-k", BleuSmoothing::add_k},
                                                         {"none", BleuSmoothing::none}}),
                      .max_order = json_options.value("max_ngram_order", std::size_t{4}),
                      .effective_order = json_options.value("effective_order", false)};
  if (const auto value = json_options.find("smooth_value");
      value != json_options.end() && !value->is_null()) {
    options.smooth_value = value->get<double>();
  }
  return options;
}

std::unique_ptr<TextMetric> make_metric(const json& options) {
  const std::string metric = options.at("metric");
  if (metric == "bleu") return std::make_unique<Bleu>(bleu_options(options));
  return std::make_unique<Chrf>(
      ChrfOptions{.char_order = options.value("char_order", std::size_t{6}),
                  .word_order = options.value("word_order", std::size_t{0}),
                  .beta = options.value("beta", 2U),
                  .lowercase = options.value("lowercase", false),
                  .whitespace = options.value("whitespace", false),
                  .eps_smoothing = options.value("eps_smoothing", false)});
}

TEST_CASE("scores, details and signatures of unusual text are those of sacreBLEU") {
  std::ifstream file(test::source_folder() / "tests/golden/text_metrics.json");
  const json golden = json::parse(file);
  REQUIRE(golden.at("sacrebleu") == sacrebleu_version);
  std::size_t compared = 0;
  for (const json& corpus : golden.at("corpora")) {
    const auto hypotheses = corpus.at("hypotheses").get<std::vector<std::string>>();
    const auto references = corpus.at("references").get<std::vector<std::vector<std::string>>>();
    for (std::size_t i = 0; i < golden.at("settings").size(); ++i) {
      CAPTURE(golden.at("settings")[i].dump());
      CAPTURE(corpus.dump());
      const auto metric = make_metric(golden.at("settings")[i]);
      const json& expected = corpus.at("scores")[i];
      const auto sums = metric->statistics(hypotheses, references).sum();
      CHECK(std::abs(metric->score(sums) - expected[0].get<double>()) < 1e-9);
      CHECK(metric->details(sums) == expected[1].get<std::string>());
      CHECK(metric->signature({.references = references.size()}) == expected[2].get<std::string>());
      ++compared;
    }
  }
  CHECK(compared >= 300);
}

}  // namespace
}  // namespace tapestry
