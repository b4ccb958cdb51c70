// SPDX-License-Identifier: BSD-3-Clause
#include "data/metrics/text_metric.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "data/io/error.h"
#include "data/io/random.h"
#include "data/metrics/bleu.h"
#include "data/metrics/chrf.h"
#include "tests/support/source_folder.h"

namespace tapestry {
namespace {

using doctest::Approx;
using nlohmann::json;
using Sentences = std::vector<std::string>;
using References = std::vector<Sentences>;

// ---- Scores of sacreBLEU: tests/golden/text_metrics.json has corpora with unusual tokens, and
// settings for all options.

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

TEST_CASE("scores, details and signatures of unusual text equal those of sacreBLEU") {
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

// ---- Hand-computed values

BleuScore bleu_of(const Sentences& hypotheses, const References& references) {
  const Bleu bleu;
  return bleu.compute_score(bleu.statistics(hypotheses, references).sum());
}

TEST_CASE("BLEU is the geometric mean of clipped precisions times the brevity penalty") {
  // Matches: 5 of 5, 3 of 4, 2 of 3, 1 of 2. The hypothesis has 5 tokens, the reference 6.
  const BleuScore found = bleu_of({"the cat sat on mat"}, {{"the cat sat on the mat"}});
  CHECK(found.matches == std::vector<double>{5, 3, 2, 1});
  CHECK(found.totals == std::vector<double>{5, 4, 3, 2});
  CHECK(found.brevity_penalty == Approx(std::exp(-0.2)).epsilon(1e-12));
  CHECK(
      found.score ==
      Approx(100.0 * std::exp(-0.2) * std::pow(1.0 * 0.75 * 2.0 / 3.0 * 0.5, 0.25)).epsilon(1e-12));
  // The example of Papineni et al. 2002: "the" occurs twice in the first reference and once in the
  // second.
  const BleuScore clipped = bleu_of({"the the the the the the the"},
                                    {{"the cat is on the mat"}, {"there is a cat on the mat"}});
  CHECK(clipped.matches == std::vector<double>{2, 0, 0, 0});
  CHECK(clipped.totals == std::vector<double>{7, 6, 5, 4});
  const BleuScore summed = bleu_of({"a b", "c d e"}, {{"a b", "c x e f"}});
  CHECK(summed.hypothesis_length == 5);
  CHECK(summed.reference_length == 6);
  CHECK(summed.matches == std::vector<double>{4, 1, 0, 0});
  // The closest reference length counts; of two equally close lengths, the shorter.
  const std::pair<References, double> lengths[] = {{{{"a b c d e f"}, {"a b c"}}, 3},
                                                   {{{"a b c"}, {"a b c d e"}}, 3},
                                                   {{{"a b c d e"}, {"a b c"}}, 3},
                                                   {{{"a b"}, {"a b c d e"}}, 5}};
  for (const auto& [references, length] : lengths) {
    CHECK(bleu_of({"a b c d"}, references).reference_length == length);
  }
}

TEST_CASE("BLEU is 0 for a corpus without any match and for sentences that are too short") {
  for (const auto smoothing : {BleuSmoothing::none, BleuSmoothing::exponential,
                               BleuSmoothing::floor, BleuSmoothing::add_k}) {
    const Bleu bleu({.smoothing = smoothing});
    CHECK(bleu.corpus_score({"a b c d"}, {{"e f g h"}}) == 0.0);
    CHECK(bleu.corpus_score({""}, {{"a b"}}) == 0.0);
    CHECK(bleu.corpus_score({""}, {{""}}) == 0.0);
  }
  CHECK(Bleu().corpus_score({"a b"}, {{"a b"}}) == 0.0);
  CHECK(Bleu({.max_order = 2}).corpus_score({"a b"}, {{"a b"}}) == Approx(100.0).epsilon(1e-12));
}

TEST_CASE("the tokenizers separate text like sacreBLEU") {
  const auto tokens = [](BleuTokenizer tokenizer, const std::string& sentence) {
    return Bleu({.tokenizer = tokenizer}).tokenize(sentence);
  };
  const std::string text = "Hi, (it's) 3.5% of 1,000 -- 7-8. Is <b>&amp;quot; x- 2019.";
  CHECK(tokens(BleuTokenizer::none, " a\tb\u00A0c  ") == "a b c");
  CHECK(tokens(BleuTokenizer::mteval_13a, text) ==
        "Hi , ( it's ) 3.5 % of 1,000 -- 7 - 8 . Is < b > & quot ; x- 2019 .");
  CHECK(tokens(BleuTokenizer::mteval_13a, "«a» b。<skipped>c") == "«a» b。c");
  CHECK(tokens(BleuTokenizer::mteval_13a, "&amp;lt; &quot;") == "< \"");
  CHECK(tokens(BleuTokenizer::mteval_13a, "a... ,,b") == "a . . . , , b");
  CHECK(tokens(BleuTokenizer::mteval_13a, "hyphen-\nated line\nend") == "hyphenated line end");
  CHECK(tokens(BleuTokenizer::international, "«a» 3.5€ it's 2019. e\u0301!") ==
        "« a » 3.5 € it ' s 2019 . e\u0301 !");
  CHECK(tokens(BleuTokenizer::international, "in 2019.") == "in 2019.");
  CHECK(tokens(BleuTokenizer::international, "Ⅳ.5 x.5 ½-") == "Ⅳ.5 x . 5 ½-");
  CHECK(tokens(BleuTokenizer::character, "ab 中\u0301") == "a b 中 \u0301");
  CHECK(tokens(BleuTokenizer::chinese, "我ab喜欢3.5。カ U.S.") == "我 ab 喜 欢 3.5 。 カ U . S .");
  CHECK(tokens(BleuTokenizer::chinese, "𠀀a\u2019b\u2028c") == "𠀀a \u2019 b c");
}

using Sums = std::vector<double>;

Sums chrf_sums(const ChrfOptions& options, const Sentences& hypotheses,
               const References& references) {
  return Chrf(options).statistics(hypotheses, references).sum();
}

TEST_CASE("chrF counts character n-grams without white space") {
  const ChrfOptions options{.char_order = 2};
  CHECK(chrf_sums(options, {"ab a"}, {{"a bab"}}) == Sums{3, 4, 3, 2, 3, 2});
  CHECK(chrf_sums({.char_order = 2, .whitespace = true}, {"ab a"}, {{"ab b"}}) ==
        Sums{4, 4, 3, 3, 3, 2});
  CHECK(chrf_sums(options, {"é\u3000中"}, {{"é中"}}) == Sums{2, 2, 2, 1, 1, 1});
}

TEST_CASE("chrF is the F score of mean precision and mean recall") {
  // P = (2/2 + 1/1) / 2 = 1, R = (2/4 + 1/3) / 2 = 5/12.
  const Chrf chrf({.char_order = 2});
  CHECK(chrf.corpus_score({"ab"}, {{"abcd"}}) ==
        Approx(100.0 * 5.0 * (5.0 / 12.0) / (4.0 + 5.0 / 12.0)).epsilon(1e-12));
  const Chrf beta1({.char_order = 2, .beta = 1});
  CHECK(beta1.corpus_score({"ab"}, {{"abcd"}}) ==
        Approx(100.0 * 2.0 * (5.0 / 12.0) / (1.0 + 5.0 / 12.0)).epsilon(1e-12));
  CHECK(Chrf().corpus_score({"ab"}, {{"ab"}}) == Approx(100.0).epsilon(1e-12));
  CHECK(Chrf({.eps_smoothing = true}).corpus_score({"ab"}, {{"ab"}}) ==
        Approx(100.0 * 2.0 / 6.0).epsilon(1e-12));
  for (const char* reference : {"", "cd"}) {
    CHECK(Chrf().corpus_score({"ab"}, {{reference}}) == 0.0);
    CHECK(Chrf().corpus_score({""}, {{reference}}) == 0.0);
  }
}

TEST_CASE("chrF++ separates one punctuation mark from each word") {
  const ChrfOptions options{.char_order = 1, .word_order = 2};
  // (hi) there! -> (hi | ) | there | !
  CHECK(chrf_sums(options, {"(hi) there!"}, {{"hi there !"}}) == Sums{10, 8, 8, 4, 3, 2, 3, 2, 1});
  // "a -> " | a; a single mark is not split; non-ASCII marks are part of the word
  CHECK(chrf_sums(options, {"\"a . b。"}, {{"\" a . b 。"}}) == Sums{5, 5, 5, 4, 5, 3, 3, 4, 2});
  // The reference may have no n-grams of an order. For each sentence, the best reference counts.
  CHECK(chrf_sums({.char_order = 2}, {"abc"}, {{"a"}}) == Sums{3, 1, 1, 0, 0, 0});
  CHECK(chrf_sums({.char_order = 1}, {"ab", "cd"}, {{"xy", "cde"}, {"abz", "x"}}) == Sums{4, 6, 4});
}

TEST_CASE("metric names, and signatures with resampling, equal those of sacreBLEU") {
  CHECK(Bleu({.lowercase = true, .smoothing = BleuSmoothing::floor, .effective_order = true})
            .signature({.references = 3, .bootstrap_samples = 1000, .seed = 7}) ==
        "nrefs:3|bs:1000|seed:7|case:lc|eff:yes|tok:13a|smooth:floor[0.10]|version:2.6.0");
  CHECK(Bleu(multi_bleu_options()).signature() ==
        "nrefs:1|case:lc|eff:no|tok:none|smooth:none|version:2.6.0");
  CHECK(Chrf().name() == "chrF2");
  CHECK(Chrf({.word_order = 2, .beta = 3}).name() == "chrF3++");
}

TEST_CASE("sentences that cannot be scored, and options outside their range, are rejected") {
  const Bleu bleu;
  CHECK_THROWS_AS((void)bleu.statistics({}, {{}}), std::invalid_argument);
  CHECK_THROWS_AS((void)bleu.statistics({"a"}, {}), std::invalid_argument);
  CHECK_THROWS_AS((void)bleu.statistics({"a", "b"}, {{"a", "b"}, {"a"}}), std::invalid_argument);
  CHECK_THROWS_WITH_AS((void)bleu.statistics({"a", "b\xFF"}, {{"a", "b"}}),
                       "hypothesis 2: text: byte 2 (0xFF) is not UTF-8", DataError);
  CHECK_THROWS_AS(Bleu({.max_order = 0}), std::invalid_argument);
  CHECK_THROWS_AS(Bleu({.smooth_value = -1.0}), std::invalid_argument);
  CHECK_THROWS_AS(Chrf({.char_order = 0}), std::invalid_argument);
  CHECK_THROWS_AS(Chrf({.char_order = 256}), std::invalid_argument);
  CHECK_THROWS_AS(Chrf({.word_order = 256}), std::invalid_argument);
}

// ---- Significance

/// Percentage of wrong words, from statistics [wrong words, words].
class ErrorRate : public TextMetric {
 public:
  std::string name() const override { return "error rate"; }
  double score(std::span<const double> sums) const override { return 100.0 * sums[0] / sums[1]; }

 private:
  std::size_t width() const override { return 2; }
  void compute(const std::u32string&, const std::vector<std::u32string>&,
               std::span<double>) const override {}
  Settings settings() const override { return {}; }
};

const ErrorRate metric;

/// Statistics of one-word sentences whose word is wrong with a given probability.
SegmentStatistics words(std::size_t sentences, std::uint64_t wrong_of_100, std::uint64_t stream) {
  SegmentStatistics all(sentences, 2);
  RandomDraws random(5, DrawPurpose::training_example, stream);
  for (std::size_t i = 0; i < sentences; ++i) {
    all[i][0] = random.below(100) < wrong_of_100 ? 1.0 : 0.0;
    all[i][1] = 1.0;
  }
  return all;
}

TEST_CASE("a system compared with itself has the smallest possible p-value") {
  const auto system = words(50, 30, 1);
  // No difference exceeds the mean of 0, so only the +1 of the formula remains.
  CHECK(paired_bootstrap(metric, system, system, 99).p_value == Approx(0.01));
}

TEST_CASE("clear differences are significant, and small differences are not") {
  const auto baseline = words(300, 50, 1), similar = words(300, 50, 2), better = words(300, 30, 3);
  CHECK(paired_bootstrap(metric, baseline, better, 2000).p_value < 0.01);
  CHECK(paired_bootstrap(metric, baseline, similar, 2000).p_value > 0.05);
}

TEST_CASE(
    "the bootstrap interval is close to the confidence interval of a mean of independent values") {
  const auto system = words(400, 50, 1);
  const double score = metric.score(system.sum()) / 100.0;
  const ConfidenceInterval found = bootstrap_confidence(metric, system, 20'000);
  const double deviation = 100.0 * std::sqrt(score * (1.0 - score) / 400.0);
  CHECK(found.mean == Approx(100.0 * score).epsilon(0.002));
  CHECK(found.half_width == Approx(1.96 * deviation).epsilon(0.06));
}

TEST_CASE("equal seeds give equal p-values, and different seeds give different p-values") {
  const auto a = words(100, 50, 1), b = words(100, 40, 2);
  const auto bootstrap = [&](std::uint64_t seed) {
    return paired_bootstrap(metric, a, b, 500, seed);
  };
  CHECK(bootstrap(3).p_value == bootstrap(3).p_value);
  CHECK(bootstrap(3).system.mean == bootstrap_confidence(metric, b, 500, 3).mean);
  CHECK(bootstrap(3).baseline.half_width == bootstrap_confidence(metric, a, 500, 3).half_width);
  CHECK(bootstrap(3).system.mean != bootstrap(4).system.mean);
}

TEST_CASE("systems with different numbers of sentences, or without sentences, are rejected") {
  const auto ten = words(10, 50, 1), nine = words(9, 50, 1), none = SegmentStatistics(0, 2);
  CHECK_THROWS_AS((void)paired_bootstrap(metric, ten, nine), std::invalid_argument);
  CHECK_THROWS_AS((void)bootstrap_confidence(metric, none), std::invalid_argument);
  CHECK_THROWS_AS((void)bootstrap_confidence(metric, ten, 0), std::invalid_argument);
}

}  // namespace
}  // namespace tapestry
