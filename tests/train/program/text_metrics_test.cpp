#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/contains.h"
#include "tests/train/refusal.h"

/// `tapestry bleu` and `tapestry compare`. Golden scores: tests/data/metrics/golden_test.cpp.
namespace tapestry {
namespace {

using nlohmann::json;
using test::Arguments;
using test::check_refusal;
using test::contains;
using test::Outcome;
using test::Workplace;

struct Translations : Workplace {
  Translations() {
    write("ref", "The cat sat on the mat.\nA dog runs.\n");
    write("ref2", "The cat was on the mat.\nOne dog is running.\n");
    write("a", "The cat sat on a mat.\nA dog runs.\n");
    write("b", "the cat on the mat\nA dog runs!\n");
  }

  std::string out(const Arguments& arguments, const std::string& input = "") const {
    const Outcome done = run(arguments, input);
    CHECK(done.code == 0);
    CHECK(done.err.empty());
    return done.out;
  }

  json parsed(Arguments arguments) const {
    arguments.push_back("--json");
    return json::parse(out(arguments));
  }
};

TEST_CASE("bleu prints the lines of sacreBLEU") {
  const Translations work;
  CHECK(work.out({"bleu", "a", "--reference", "ref"}) ==
        "BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0 = 63.40 "
        "90.9/77.8/57.1/40.0 (BP = 1.000 ratio = 1.000 hyp_len = 11 ref_len = 11)\n"
        "chrF2|nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0 = 75.47\n");
  CHECK(work.out({"bleu", "b", "--reference", "ref", "--reference", "ref2", "--metrics",
                  "multi-bleu,chrf++", "--decimals", "1"}) ==
        "BLEU|nrefs:2|case:lc|eff:no|tok:none|smooth:none|version:2.6.0 = 0.0 "
        "75.0/50.0/0.0/0.0 (BP = 0.882 ratio = 0.889 hyp_len = 8 ref_len = 9)\n"
        "chrF2++|nrefs:2|case:mixed|eff:yes|nc:6|nw:2|space:no|version:2.6.0 = 66.4\n");
}

TEST_CASE("options of bleu change scores and signatures") {
  const Translations work;
  CHECK(work.out({"bleu",
                  "b",
                  "--reference",
                  "ref",
                  "--metrics",
                  "bleu,chrf",
                  "--lowercase",
                  "--tokenize",
                  "intl",
                  "--smooth",
                  "floor",
                  "--smooth-value",
                  "0.5",
                  "--effective-order",
                  "--chrf-char-order",
                  "4",
                  "--chrf-word-order",
                  "1",
                  "--chrf-beta",
                  "3",
                  "--chrf-whitespace",
                  "--chrf-eps-smoothing",
                  "--score-only"}) == "36.32\n80.31\n");
  const std::string line = work.out({"bleu", "b", "--reference", "ref", "--metrics", "bleu",
                                     "--smooth", "add-k", "--confidence", "50", "--seed", "9"});
  CHECK(line.starts_with(
      "BLEU|nrefs:1|bs:50|seed:9|case:mixed|eff:no|tok:13a|smooth:add-k[1.00]|version:2.6.0 = "));
  CHECK(contains(line, " (μ = "));
}

TEST_CASE("bleu reads standard input, and ignores CRLF and white space at the end of lines") {
  const Translations work;
  const Arguments arguments{"bleu", "-", "--reference", "ref"};
  CHECK(work.out(arguments, "The cat sat on a mat.  \r\nA dog runs.\u3000\r\n") ==
        work.out({"bleu", "a", "--reference", "ref"}));
}

TEST_CASE("sentence-level scores are those of the single sentences") {
  const Translations work;
  const std::string found = work.out(
      {"bleu", "a", "--reference", "ref", "--metrics", "bleu", "--sentence-level", "--score-only"});
  CHECK(found == "48.89\n100.00\n");
  CHECK(work.parsed({"bleu", "a", "--reference", "ref", "--metrics", "bleu", "--sentence-level"})
            .at("scores")[1]
            .at("eff") == "yes");
}

TEST_CASE("bleu --json has scores in full precision and the signature's parts") {
  const Translations work;
  const json found = work.parsed({"bleu", "a", "--reference", "ref", "--confidence", "20"});
  CHECK(found.at("sentences") == 2);
  REQUIRE(found.at("scores").size() == 2);
  const json& bleu = found.at("scores")[0];
  CHECK(bleu.at("name") == "BLEU");
  CHECK(bleu.at("score").get<double>() == doctest::Approx(63.40).epsilon(1e-4));
  CHECK(bleu.at("bs") == "20");
  CHECK(bleu.at("confidence_half_width").get<double>() > 0.0);
  CHECK(bleu.at("details").get<std::string>().starts_with("90.9/77.8"));
  CHECK(!found.at("scores")[1].contains("details"));
}

TEST_CASE("text that appears to be tokenized gets a warning") {
  const Translations work;
  std::string lines;
  for (int i = 0; i < 100; ++i) lines += "a b c d .\n";
  work.write("tokenized", lines);
  const std::string warning = "100 lines end in a separate point";
  CHECK(contains(work.run({"bleu", "tokenized", "--reference", "tokenized"}).err, warning));
  for (const Arguments& more : {Arguments{"--tokenize", "none"}, Arguments{"--metrics", "chrf"}}) {
    Arguments arguments{"bleu", "tokenized", "--reference", "tokenized"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    CHECK(work.run(arguments).err.empty());
  }
}

TEST_CASE("compare shows differences from the baseline and their p-values") {
  const Translations work;
  std::string reference, baseline, better;
  for (int i = 0; i < 60; ++i) {
    const std::string n = std::to_string(i);
    reference += "this is sentence " + n + " of the text\n";
    baseline += (i % 2 == 0 ? "this is " : "that was ") + ("sentence " + n + " of the text\n");
    better += (i % 10 == 0 ? "that was " : "this is ") + ("sentence " + n + " of the text\n");
  }
  work.write("ref", reference);
  work.write("base", baseline);
  work.write("better", better);
  const Arguments arguments{"compare",   "ref",  "base",   "better", "base",
                            "--metrics", "bleu", "--seed", "4"};
  const json found = work.parsed(arguments);
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

  const std::string text = work.out(arguments);
  CHECK(text.starts_with("BLEU       score  difference     95 % interval  p bootstrap\nbase   "));
  CHECK(contains(text, "    baseline  "));
  const std::string none =
      work.out({"compare", "ref", "base", "better", "--bootstrap", "0", "--reference", "ref"});
  CHECK(contains(none, "                 -            -\nnrefs:2|case:mixed|"));
}

TEST_CASE("files whose numbers of lines differ are refused") {
  const Translations work;
  work.write("three", "a\nb\nc\n");
  const std::string hint =
      "\nhint: line n of each file must be the translation of the same sentence";
  check_refusal(work, {"bleu", "a", "--reference", "ref", "--reference", "three"}, 3,
                "a: found 2 lines, expected 3 as in three" + hint);
  check_refusal(work, {"bleu", "-", "--reference", "ref"}, 3,
                "standard input: found 1 lines, expected 2 as in ref" + hint, "a\n");
  check_refusal(work, {"compare", "ref", "three", "a"}, 3,
                "three: found 3 lines, expected 2 as in ref" + hint);
  check_refusal(work, {"compare", "ref", "a", "b", "three"}, 3,
                "three: found 3 lines, expected 2 as in ref" + hint);
}

TEST_CASE("files that are no text are refused with file, line and byte") {
  const Translations work;
  work.write("bytes", "ok\na\xFF\n");
  check_refusal(
      work, {"bleu", "bytes", "--reference", "ref"}, 3,
      "bytes:2: byte 2 (0xFF) is not UTF-8\nhint: convert the text to UTF-8, for example: "
      "iconv -f ISO-8859-1 -t UTF-8");
  check_refusal(work, {"bleu", "-", "--reference", "ref"}, 3,
                "standard input: found no line, expected one sentence a line\nhint: send it the "
                "sentences, such as < FILE");
  CHECK(work.run({"bleu", "missing", "--reference", "ref"}).code == 3);
  CHECK(work.run({"compare", "ref", "a", "missing"}).code == 3);
}

TEST_CASE("options of metrics that contradict each other are refused") {
  const Translations work;
  const std::string help = "\nhint: see `tapestry bleu --help`";
  check_refusal(work, {"bleu", "a"}, 2, "command line: --reference is required" + help);
  check_refusal(work, {"bleu", "a", "--reference", "ref", "--metrics", "bleu,rouge"}, 2,
                "command line: --metrics: expected bleu, multi-bleu, chrf or chrf++, found "
                "\"rouge\"" +
                    help);
  check_refusal(work, {"bleu", "a", "--reference", "ref", "--smooth-value", "0.5"}, 2,
                "command line: --smooth-value: found it with --smooth exp, which takes no "
                "value\nhint: choose --smooth floor or add-k");
  check_refusal(work, {"compare", "ref", "a"}, 2,
                "command line: SYSTEMS is required\nhint: see `tapestry compare --help`");
}

}  // namespace
}  // namespace tapestry
