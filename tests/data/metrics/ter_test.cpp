#include "data/metrics/ter.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace tapestry {
namespace {

std::vector<double> sums_of(const std::string& hypothesis,
                            const std::vector<std::string>& references,
                            const TerOptions& options = {}) {
  std::vector<std::vector<std::string>> lists;
  for (const std::string& reference : references) lists.push_back({reference});
  return Ter(options).statistics({hypothesis}, lists).sum();
}

double edits(const std::string& hypothesis, const std::string& reference,
             const TerOptions& options = {}) {
  return sums_of(hypothesis, {reference}, options)[0];
}

TEST_CASE("TER counts 1 for an insertion, a deletion and a substitution") {
  CHECK(edits("a b c", "a b c") == 0);
  CHECK(edits("a c", "a b c") == 1);
  CHECK(edits("a b x c", "a b c") == 1);
  CHECK(edits("a x c", "a b c") == 1);
  CHECK(edits("", "a b c") == 3);
  CHECK(edits("a b", "") == 2);
}

TEST_CASE("TER counts 1 for moving a sequence of words") {
  CHECK(edits("c d e a b", "a b c d e") == 1);
  CHECK(edits("b c d e a", "a b c d e") == 1);
  CHECK(edits("x a b c d e y", "x d e a b c y") == 1);
  // The example of Snover et al. 2006: one shift, two substitutions and an insertion.
  CHECK(
      edits("this week the saudis denied information published in the new york times",
            "saudi arabia denied this week information published in the american new york times") ==
      4);
}

TEST_CASE("TER makes only moves that reduce the edit distance") {
  CHECK(edits("b a", "a b") == 1);
  CHECK(edits("a b c d", "d c b a") == 3);
}

TEST_CASE("TER moves sequences by at most 50 words") {
  const auto filler = [](int words) {
    std::string text;
    for (int i = 0; i < words; ++i) text += "f" + std::to_string(i) + " ";
    return text;
  };
  CHECK(edits("x " + filler(50), filler(50) + "x") == 1);
  CHECK(edits("x " + filler(51), filler(51) + "x") == 2);
}

TEST_CASE("of several references TER uses the fewest edits and the mean length") {
  CHECK(sums_of("a b c", {"x y z v", "a b d", "q"}) == std::vector<double>{1, 8.0 / 3.0});
}

TEST_CASE("TER is edits per reference word, and 100 without reference words") {
  CHECK(Ter().score(std::vector<double>{3, 4}) == 75.0);
  CHECK(Ter().score(std::vector<double>{5, 4}) == 125.0);
  CHECK(Ter().score(std::vector<double>{5, 0}) == 100.0);
  CHECK(Ter().score(std::vector<double>{0, 0}) == 0.0);
  CHECK_FALSE(Ter().higher_is_better());
}

TEST_CASE("options of TER determine how words are normalized") {
  CHECK(edits("A B", "a b") == 0);
  CHECK(edits("A B", "a b", {.case_sensitive = true}) == 2);
  CHECK(edits("a, b", "a , b") == 2);
  CHECK(edits("a, b", "a , b", {.normalized = true}) == 0);
  CHECK(edits("&quot;a&lt;", "\" a <", {.normalized = true}) == 0);
  CHECK(edits("dog's 'so\"", "dog 's 'so \"", {.normalized = true}) == 0);
  CHECK(edits("a, b!", "a b", {.no_punct = true}) == 0);
  CHECK(edits("我a。", "我 a 。", {.normalized = true}) == 3);
  CHECK(edits("我a。", "我 a 。", {.normalized = true, .asian_support = true}) == 0);
  CHECK(edits("a。b！", "ab", {.no_punct = true}) == 1);
  CHECK(edits("a。b！", "ab", {.no_punct = true, .asian_support = true}) == 0);
  CHECK(edits("我a", "我 a", {.asian_support = true}) == 2);
}

TEST_CASE("references are normalized twice, as sacreBLEU does") {
  const TerOptions options{.normalized = true};
  CHECK(sums_of("it 's", {"it's\u00A0x"}, options) == std::vector<double>{1, 3});
  CHECK(sums_of("it's\u00A0x", {"it 's x"}, options) == std::vector<double>{2, 3});
}

TEST_CASE("the signature of TER is that of sacreBLEU") {
  CHECK(Ter().signature() == "nrefs:1|case:lc|tok:tercom|norm:no|punct:yes|asian:no|version:2.6.0");
  CHECK(Ter({.normalized = true, .no_punct = true, .asian_support = true, .case_sensitive = true})
            .signature() ==
        "nrefs:1|case:mixed|tok:tercom|norm:yes|punct:no|asian:yes|version:2.6.0");
}

}  // namespace
}  // namespace tapestry
