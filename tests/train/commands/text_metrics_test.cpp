// SPDX-License-Identifier: BSD-3-Clause
#include <nlohmann/json.hpp>
#include <string>

#include "tests/train/program.h"

/// Tests `tapestry bleu` and `tapestry compare`; tests/data/metrics/golden_test.cpp has golden
/// scores.
namespace tapestry {
namespace {

using nlohmann::json;
using test::check_words;
using test::contains;

struct Translations : test::Workplace {
  Translations() {
    write("ref", "The cat sat on the mat.\nA dog runs.\n");
    write("ref2", "The cat was on the mat.\nOne dog is running.\n");
    write("a", "The cat sat on a mat.\nA dog runs.\n");
    write("b", "the cat on the mat\nA dog runs!\n");
  }
};

TEST_CASE(
    "bleu prints the same lines as sacreBLEU, and options change the score and the signature") {
  const Translations work;
  const std::string usual = work.out("bleu a --reference ref");
  CHECK(usual ==
        "BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0 = 63.40 "
        "90.9/77.8/57.1/40.0 (BP = 1.000 ratio = 1.000 hyp_len = 11 ref_len = 11)\n"
        "chrF2|nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0 = 75.47\n");
  // CRLF and white space at the end of lines are ignored.
  CHECK(work.out("bleu - --reference ref", "The cat sat on a mat.  \r\nA dog runs.\u3000\r\n") ==
        usual);
  CHECK(work.out("bleu b --reference ref --reference ref2 --metrics multi-bleu,chrf++ "
                 "--decimals 1") ==
        "BLEU|nrefs:2|case:lc|eff:no|tok:none|smooth:none|version:2.6.0 = 0.0 "
        "75.0/50.0/0.0/0.0 (BP = 0.882 ratio = 0.889 hyp_len = 8 ref_len = 9)\n"
        "chrF2++|nrefs:2|case:mixed|eff:yes|nc:6|nw:2|space:no|version:2.6.0 = 66.4\n");
  CHECK(work.out("bleu b --reference ref --metrics bleu,chrf --lowercase --tokenize intl "
                 "--smooth floor --smooth-value 0.5 --effective-order --chrf-char-order 4 "
                 "--chrf-word-order 1 --chrf-beta 3 --chrf-whitespace --chrf-eps-smoothing "
                 "--score-only") == "36.32\n80.31\n");
  const std::string line =
      work.out("bleu b --reference ref --metrics bleu --smooth add-k --confidence 50 --seed 9");
  CHECK(line.starts_with(
      "BLEU|nrefs:1|bs:50|seed:9|case:mixed|eff:no|tok:13a|smooth:add-k[1.00]|version:2.6.0 = "));
  CHECK(contains(line, " (μ = "));
}

TEST_CASE("bleu --json prints scores in full precision and the parts of the signature") {
  const Translations work;
  const json found = json::parse(work.out("bleu a --reference ref --confidence 20 --json"));
  CHECK(found.at("sentences") == 2);
  REQUIRE(found.at("scores").size() == 2);
  const json& bleu = found.at("scores")[0];
  CHECK(bleu.at("name") == "BLEU");
  CHECK(bleu.at("score").get<double>() == doctest::Approx(63.40).epsilon(1e-4));
  CHECK(bleu.at("bs") == "20");
  CHECK(bleu.at("confidence_half_width").get<double>() > 0.0);
  CHECK(bleu.at("details").get<std::string>().starts_with("90.9/77.8"));
  CHECK(!found.at("scores")[1].contains("details"));
  const std::string sentences = "bleu a --reference ref --metrics bleu --sentence-level ";
  CHECK(work.out(sentences + "--score-only") == "48.89\n100.00\n");
  CHECK(json::parse(work.out(sentences + "--json")).at("scores")[1].at("eff") == "yes");
}

TEST_CASE("bleu warns about text that appears to be tokenized") {
  const Translations work;
  std::string lines;
  for (int i = 0; i < 100; ++i) lines += "a b c d .\n";
  work.write("tokenized", lines);
  const std::string bleu = "bleu tokenized --reference tokenized";
  CHECK(contains(work.run(bleu).err, "100 lines end in a tokenized period"));
  work.out(bleu + " --tokenize none");
  work.out(bleu + " --metrics chrf");
}

TEST_CASE("compare shows differences from the baseline and their p-values") {
  const Translations work;
  std::string reference, baseline, better;
  for (int i = 0; i < 60; ++i) {
    const std::string rest = "sentence " + std::to_string(i) + " of the text\n";
    reference += "this is " + rest;
    baseline += (i % 2 == 0 ? "this is " : "that was ") + rest;
    better += (i % 10 == 0 ? "that was " : "this is ") + rest;
  }
  work.write("ref", reference);
  work.write("base", baseline);
  work.write("better", better);
  const std::string compare = "compare ref base better base --metrics bleu --seed 4";
  const json found = json::parse(work.out(compare + " --json"));
  CHECK(found.at("sentences") == 60);
  const json& metric = found.at("metrics").at(0);
  CHECK(metric.at("signature") ==
        "nrefs:1|bs:1000|seed:4|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0");
  const json& systems = metric.at("systems");
  REQUIRE(systems.size() == 3);
  CHECK(systems[0].at("file") == "base");
  CHECK(systems[0].at("difference").is_null());
  CHECK(systems[0].at("p_bootstrap").is_null());
  CHECK(systems[1].at("difference").get<double>() ==
        systems[1].at("score").get<double>() - systems[0].at("score").get<double>());
  CHECK(systems[1].at("p_bootstrap").get<double>() < 0.01);
  CHECK(systems[2].at("difference") == 0.0);
  CHECK(systems[2].at("confidence_half_width") == systems[0].at("confidence_half_width"));

  const std::string text = work.out(compare);
  CHECK(text.starts_with("BLEU       score  difference     95 % interval  p bootstrap\nbase   "));
  CHECK(contains(text, "    baseline  "));
  CHECK(contains(work.out("compare ref base better --bootstrap 0 --reference ref"),
                 "                 -            -\nnrefs:2|case:mixed|"));
}

TEST_CASE("files of different lengths, empty input and contradictory options are rejected") {
  const Translations work;
  work.write("three", "a\nb\nc\n");
  work.write("bytes", "ok\na\xFF\n");
  const std::string one = " --reference ref";
  check_rows(
      work, {{"bleu a --reference three" + one, 3, {"a: found 2 lines, expected 3 as in three"}},
             {"bleu -" + one, 3, {"standard input: found 1 line, expected 2 as in ref"}, "a\n"},
             {"bleu -" + one, 3, {"standard input: found no line, expected one sentence per line"}},
             {"compare ref three a", 3, {"three: found 3 lines, expected 2 as in ref"}},
             {"compare ref a b three", 3, {"three: found 3 lines, expected 2 as in ref"}},
             {"bleu bytes" + one, 3, {"bytes:2: byte 2 (0xFF) is not UTF-8", "iconv"}},
             {"bleu missing" + one, 3, {"missing"}},
             {"compare ref a missing", 3, {"missing"}},
             {"bleu a", 2, {"--reference is required"}},
             {"bleu a --metrics bleu,rouge" + one, 2, {"--metrics: expected bleu, ", "\"rouge\""}},
             {"bleu a --smooth-value 0.5" + one, 2, {"--smooth-value", "--smooth floor or add-k"}},
             {"compare ref a", 2, {"SYSTEMS is required"}}});
}

}  // namespace
}  // namespace tapestry
