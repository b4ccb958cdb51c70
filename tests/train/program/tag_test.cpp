#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

#include "tests/support/contains.h"
#include "tests/train/kind_configs.h"
#include "tests/train/refusal.h"

namespace tapestry::test {
namespace {

TEST_CASE("tag labels each token of each line on standard input") {
  const KindWorkplace work;
  REQUIRE(work.run({"train", "tags.yaml"}).code == 0);
  const Outcome tagged = work.run({"tag", "runs/tags"}, "Ada spoke\n\nin New York\n  in  \n");
  CHECK(tagged.code == 0);
  CHECK(tagged.err.empty());
  CHECK(tagged.out == "B-PER O\n\nO B-LOC I-LOC\nO\n");
}

TEST_CASE("a line that is too long for a tagger is refused after the answers before it") {
  const KindWorkplace work;
  REQUIRE(work.run({"train", "tags.yaml"}).code == 0);
  const Outcome tagged =
      work.run({"tag", "runs/tags", "--long-lines", "stop"}, "Ada\n1 2 3 4 5 6 7 8 9\n");
  CHECK(tagged.code == 3);
  CHECK(tagged.out == "B-PER\n");
  CHECK(tagged.err ==
        "tapestry: error: standard input:2: found 9 tokens to read, expected at most 8 "
        "(model.max_length)\nhint: cut the line, or train a model with a larger "
        "model.max_length\n");
}

TEST_CASE("tag refuses a CoNLL file, and labels its sentences after the suggested conversion") {
  const KindWorkplace work;
  REQUIRE(work.run({"train", "tags.yaml"}).code == 0);
  const std::string conversion = R"(awk -F'\t' '{printf "%s", NF ? $1 " " : "\n"}' )";
  check_refusal(work, {"tag", "runs/tags"}, 3,
                "standard input:1: found a tab, expected the tokens of one sentence separated by "
                "spaces\nhint: turn a CoNLL file into sentences with: " +
                    conversion + "FILE",
                "Ada\tB-PER\nspoke\tO\n");
  work.write("conll.txt", "Ada\tB-PER\nspoke\tO\n\nin\tO\nNew\tB-LOC\nYork\tI-LOC\n");
  const std::string convert =
      "cd " + work.path().string() + " && " + conversion + "conll.txt > sentences.txt";
  REQUIRE(std::system(convert.c_str()) == 0);
  CHECK(work.run({"tag", "runs/tags"}, read_text(work / "sentences.txt")).out ==
        "B-PER O\nO B-LOC I-LOC\n");
}

TEST_CASE("tag refuses models of other kinds, and other commands refuse a tagger") {
  const KindWorkplace work;
  REQUIRE(work.run({"train", "tags.yaml"}).code == 0);
  REQUIRE(work.run({"train", "agreement.yaml"}).code == 0);
  check_refusal(work, {"tag", "runs/agreement"}, 2,
                "command line: tag: the model is of kind classifier, expected tagger\n"
                "hint: `tapestry evaluate RUN` shows what any model does");
  check_refusal(work, {"classify", "runs/tags"}, 2,
                "command line: classify: the model is of kind tagger, expected classifier or "
                "vision_transformer\nhint: `tapestry evaluate RUN` shows what any model does");
}

TEST_CASE("a tagger prints its labels beside the expected ones") {
  const KindWorkplace work;
  REQUIRE(work.run({"train", "tags.yaml"}).code == 0);
  const Outcome scores = work.run({"evaluate", "runs/tags", "--examples", "1"});
  CHECK(contains(scores.out, "  span F1 "));
  CHECK(contains(scores.out, "\ninput     Ada spoke\noutput    B-PER O\n"));
}

}  // namespace
}  // namespace tapestry::test
