#include "data/metrics/chrf.h"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace tapestry {
namespace {

using Sums = std::vector<double>;

Sums sums_of(const ChrfOptions& options, const std::vector<std::string>& hypotheses,
             const std::vector<std::vector<std::string>>& references) {
  return Chrf(options).statistics(hypotheses, references).sum();
}

TEST_CASE("chrF counts character n-grams without white space") {
  const ChrfOptions options{.char_order = 2};
  CHECK(sums_of(options, {"ab a"}, {{"a bab"}}) == Sums{3, 4, 3, 2, 3, 2});
  CHECK(sums_of({.char_order = 2, .whitespace = true}, {"ab a"}, {{"ab b"}}) ==
        Sums{4, 4, 3, 3, 3, 2});
  CHECK(sums_of(options, {"é\u3000中"}, {{"é中"}}) == Sums{2, 2, 2, 1, 1, 1});
}

TEST_CASE("chrF is the F score of mean precision and mean recall") {
  // P = (2/2 + 1/1) / 2 = 1, R = (2/4 + 1/3) / 2 = 5/12.
  const Chrf chrf({.char_order = 2});
  CHECK(chrf.corpus_score({"ab"}, {{"abcd"}}) ==
        doctest::Approx(100.0 * 5.0 * (5.0 / 12.0) / (4.0 + 5.0 / 12.0)).epsilon(1e-12));
  const Chrf beta1({.char_order = 2, .beta = 1});
  CHECK(beta1.corpus_score({"ab"}, {{"abcd"}}) ==
        doctest::Approx(100.0 * 2.0 * (5.0 / 12.0) / (1.0 + 5.0 / 12.0)).epsilon(1e-12));
}

TEST_CASE("chrF excludes orders without n-grams, or counts them as 0 with eps smoothing") {
  CHECK(Chrf().corpus_score({"ab"}, {{"ab"}}) == doctest::Approx(100.0).epsilon(1e-12));
  CHECK(Chrf({.eps_smoothing = true}).corpus_score({"ab"}, {{"ab"}}) ==
        doctest::Approx(100.0 * 2.0 / 6.0).epsilon(1e-12));
  CHECK(Chrf().corpus_score({""}, {{""}}) == 0.0);
  CHECK(Chrf().corpus_score({"ab"}, {{""}}) == 0.0);
  CHECK(Chrf().corpus_score({"ab"}, {{"cd"}}) == 0.0);
}

TEST_CASE("chrF ignores n-grams of an order that the reference does not have") {
  CHECK(sums_of({.char_order = 2}, {"abc"}, {{"a"}}) == Sums{3, 1, 1, 0, 0, 0});
}

TEST_CASE("chrF++ separates one punctuation mark of each word") {
  const ChrfOptions options{.char_order = 1, .word_order = 2};
  // (hi) there! -> (hi | ) | there | !
  CHECK(sums_of(options, {"(hi) there!"}, {{"hi there !"}}) == Sums{10, 8, 8, 4, 3, 2, 3, 2, 1});
  // "a -> " | a; a single mark stays; non-ASCII marks are part of the word
  CHECK(sums_of(options, {"\"a . b。"}, {{"\" a . b 。"}}) == Sums{5, 5, 5, 4, 5, 3, 3, 4, 2});
}

TEST_CASE("chrF uses the reference with the best score of the sentence") {
  CHECK(sums_of({.char_order = 1}, {"ab", "cd"}, {{"xy", "cde"}, {"abz", "x"}}) == Sums{4, 6, 4});
}

TEST_CASE("names and signatures of chrF are those of sacreBLEU") {
  CHECK(Chrf().name() == "chrF2");
  CHECK(Chrf({.word_order = 2, .beta = 3}).name() == "chrF3++");
  CHECK(Chrf().signature() == "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0");
  CHECK(Chrf({.char_order = 4,
              .word_order = 2,
              .lowercase = true,
              .whitespace = true,
              .eps_smoothing = true})
            .signature({.references = 2}) ==
        "nrefs:2|case:lc|eff:no|nc:4|nw:2|space:yes|version:2.6.0");
}

TEST_CASE("lowercase chrF ignores case") {
  CHECK(Chrf().corpus_score({"ÄB"}, {{"äb"}}) == 0.0);
  CHECK(Chrf({.lowercase = true}).corpus_score({"ÄB"}, {{"äb"}}) ==
        doctest::Approx(100.0).epsilon(1e-12));
}

TEST_CASE("orders of chrF outside their range are refused") {
  CHECK_THROWS_AS(Chrf({.char_order = 0}), std::invalid_argument);
  CHECK_THROWS_AS(Chrf({.char_order = 256}), std::invalid_argument);
  CHECK_THROWS_AS(Chrf({.word_order = 256}), std::invalid_argument);
}

}  // namespace
}  // namespace tapestry
