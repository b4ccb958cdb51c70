#include "data/metrics/bleu.h"

#include <doctest/doctest.h>

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "data/io/error.h"

namespace tapestry {
namespace {

using Sentences = std::vector<std::string>;
using References = std::vector<Sentences>;

BleuScore score_of(const BleuOptions& options, const Sentences& hypotheses,
                   const References& references) {
  const Bleu bleu(options);
  return bleu.compute_score(bleu.statistics(hypotheses, references).sum());
}

double exact(double value) { return std::round(value * 1e9) / 1e9; }

TEST_CASE("BLEU of a translation equal to its reference is 100") {
  CHECK(exact(Bleu().corpus_score({"the cat sat on the mat ."}, {{"the cat sat on the mat ."}})) ==
        100.0);
}

TEST_CASE("BLEU is the geometric mean of clipped precisions times the brevity penalty") {
  // Matches: 5 of 5, 3 of 4, 2 of 3, 1 of 2; 5 tokens against 6.
  const BleuScore found = score_of({}, {"the cat sat on mat"}, {{"the cat sat on the mat"}});
  CHECK(found.matches == std::vector<double>{5, 3, 2, 1});
  CHECK(found.totals == std::vector<double>{5, 4, 3, 2});
  CHECK(found.brevity_penalty == doctest::Approx(std::exp(-0.2)).epsilon(1e-12));
  CHECK(found.score ==
        doctest::Approx(100.0 * std::exp(-0.2) * std::pow(1.0 * 0.75 * 2.0 / 3.0 * 0.5, 0.25))
            .epsilon(1e-12));
}

TEST_CASE("matches are clipped to the largest count in one reference") {
  // The example of Papineni et al. 2002, with a word that each reference has once or twice.
  const BleuScore found = score_of({}, {"the the the the the the the"},
                                   {{"the cat is on the mat"}, {"there is a cat on the mat"}});
  CHECK(found.matches == std::vector<double>{2, 0, 0, 0});
  CHECK(found.totals == std::vector<double>{7, 6, 5, 4});
}

TEST_CASE("BLEU uses the closest reference length, of two equally close ones the shorter") {
  CHECK(score_of({}, {"a b c d"}, {{"a b c d e f"}, {"a b c"}}).reference_length == 3);
  CHECK(score_of({}, {"a b c d"}, {{"a b c"}, {"a b c d e"}}).reference_length == 3);
  CHECK(score_of({}, {"a b c d"}, {{"a b c d e"}, {"a b c"}}).reference_length == 3);
  CHECK(score_of({}, {"a b c d"}, {{"a b"}, {"a b c d e"}}).reference_length == 5);
}

TEST_CASE("matches, n-grams and lengths are summed over the corpus") {
  const BleuScore found = score_of({}, {"a b", "c d e"}, {{"a b", "c x e f"}});
  CHECK(found.hypothesis_length == 5);
  CHECK(found.reference_length == 6);
  CHECK(found.matches == std::vector<double>{4, 1, 0, 0});
  CHECK(found.totals == std::vector<double>{5, 3, 1, 0});
}

TEST_CASE("smoothing replaces precisions of orders without a match") {
  const Sentences hypothesis{"a b x c"};
  const References reference{{"a b c d"}};  // 3 of 4, 1 of 3, 0 of 2, 0 of 1
  const auto precisions = [&](BleuSmoothing smoothing, std::optional<double> value = {}) {
    auto found =
        score_of({.smoothing = smoothing, .smooth_value = value}, hypothesis, reference).precisions;
    for (double& precision : found) precision = exact(precision);
    return found;
  };
  const double third = exact(100.0 / 3.0);
  CHECK(precisions(BleuSmoothing::none) == std::vector<double>{75, third, 0, 0});
  CHECK(precisions(BleuSmoothing::exponential) == std::vector<double>{75, third, 25, 25});
  CHECK(precisions(BleuSmoothing::floor) == std::vector<double>{75, third, 5, 10});
  CHECK(precisions(BleuSmoothing::floor, 0.5) == std::vector<double>{75, third, 25, 50});
  CHECK(precisions(BleuSmoothing::add_k) == std::vector<double>{75, 50, third, 50});
  CHECK(precisions(BleuSmoothing::add_k, 3.0) ==
        std::vector<double>{75, exact(400.0 / 6.0), 60, 75});
}

TEST_CASE("without smoothing BLEU is 0 if an order has no match") {
  CHECK(score_of({.smoothing = BleuSmoothing::none}, {"a b x c"}, {{"a b c d"}}).score == 0.0);
}

TEST_CASE("BLEU of a corpus without any match is 0 with every smoothing") {
  for (const auto smoothing : {BleuSmoothing::none, BleuSmoothing::exponential,
                               BleuSmoothing::floor, BleuSmoothing::add_k}) {
    CHECK(score_of({.smoothing = smoothing}, {"a b c d"}, {{"e f g h"}}).score == 0.0);
    CHECK(score_of({.smoothing = smoothing}, {""}, {{"a b"}}).score == 0.0);
    CHECK(score_of({.smoothing = smoothing}, {""}, {{""}}).score == 0.0);
  }
}

TEST_CASE("effective order excludes orders longer than the hypotheses") {
  CHECK(score_of({}, {"a b"}, {{"a b"}}).score == 0.0);
  CHECK(exact(score_of({.effective_order = true}, {"a b"}, {{"a b"}}).score) == 100.0);
  CHECK(exact(score_of({.max_order = 2}, {"a b"}, {{"a b"}}).score) == 100.0);
}

TEST_CASE("each tokenizer separates what sacreBLEU separates") {
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

TEST_CASE("lowercase BLEU ignores case in every script") {
  CHECK(Bleu({.effective_order = true}).corpus_score({"ÄPFEL И"}, {{"äpfel и"}}) == 0.0);
  CHECK(exact(Bleu({.lowercase = true, .effective_order = true})
                  .corpus_score({"ÄPFEL И"}, {{"äpfel и"}})) == 100.0);
}

TEST_CASE("multi-BLEU is lowercase BLEU of tokens separated by spaces, without smoothing") {
  const Bleu bleu(multi_bleu_options());
  CHECK(bleu.signature() == "nrefs:1|case:lc|eff:no|tok:none|smooth:none|version:2.6.0");
  CHECK(bleu.corpus_score({"a b x c"}, {{"a b c d"}}) == 0.0);
  CHECK(bleu.tokenize("A, b.") == "a, b.");
}

TEST_CASE("signature and details are what sacreBLEU prints") {
  CHECK(Bleu().signature() == "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0");
  CHECK(Bleu({.lowercase = true, .smoothing = BleuSmoothing::floor, .effective_order = true})
            .signature({.references = 3, .bootstrap_samples = 1000, .seed = 7}) ==
        "nrefs:3|bs:1000|seed:7|case:lc|eff:yes|tok:13a|smooth:floor[0.10]|version:2.6.0");
  CHECK(Bleu({.tokenizer = BleuTokenizer::international,
              .smoothing = BleuSmoothing::add_k,
              .smooth_value = 0.5})
            .signature() == "nrefs:1|case:mixed|eff:no|tok:intl|smooth:add-k[0.50]|version:2.6.0");
  const Bleu bleu;
  const auto sums = bleu.statistics({"a b c d"}, {{"a b c e f"}}).sum();
  CHECK(bleu.details(sums) ==
        "75.0/66.7/50.0/50.0 (BP = 0.779 ratio = 0.800 hyp_len = 4 ref_len = 5)");
}

TEST_CASE("BLEU refuses sentences that cannot be scored") {
  const Bleu bleu;
  CHECK_THROWS_AS((void)bleu.statistics({}, {{}}), std::invalid_argument);
  CHECK_THROWS_AS((void)bleu.statistics({"a"}, {}), std::invalid_argument);
  CHECK_THROWS_WITH_AS((void)bleu.statistics({"a", "b"}, {{"a", "b"}, {"a"}}),
                       "statistics: found 2 hypotheses and 1 references, expected as many",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS((void)bleu.statistics({"a", "b\xFF"}, {{"a", "b"}}),
                       "hypothesis 2: text: byte 2 (0xFF) is not UTF-8", DataError);
  CHECK_THROWS_AS(Bleu({.max_order = 0}), std::invalid_argument);
  CHECK_THROWS_AS(Bleu({.smooth_value = -1.0}), std::invalid_argument);
}

}  // namespace
}  // namespace tapestry
