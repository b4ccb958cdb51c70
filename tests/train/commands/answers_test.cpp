// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/train/kinds.h"

/// Tests `tapestry classify`, `tag` and `fill`, and --long-lines of all commands that read lines.
namespace tapestry {
namespace {

using test::check_rejected;
using test::contains;
using test::KindWorkplace;
using test::Outcome;
using test::split_lines;

/// A workplace with trained models: runs/classes labels weather `no` and days `yes`; runs/images
/// names the brighter half of an image; runs/double is runs/images in float64. It also has
/// runs/tags, runs/masked and runs/tiny.
const KindWorkplace& trained_kinds() {
  static const KindWorkplace work;
  static const bool is_trained = [] {
    work.out("train classes.yaml train.steps=60 model.dropout=0");
    work.out("train images.yaml train.steps=200 model.dropout=0");
    work.out(
        "train images.yaml train.steps=200 model.dropout=0 train.dtype=float64 "
        "train.run_dir=runs/double");
    work.out("train tags.yaml");
    work.out("train masked.yaml train.steps=40");
    work.out("train tiny.yaml");
    return true;
  }();
  REQUIRE(is_trained);
  return work;
}

std::string classes(const std::string& input, const std::string& model = "classes") {
  return trained_kinds().out("classify runs/" + model, input);
}

const std::string top = "9,9,9,9,9,9,9,9,0,0,0,0,0,0,0,0\n";
const std::string bottom = "0,0,0,0,0,0,0,0,9,9,9,9,9,9,9,9\n";
const std::string heading = "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p\n";

// ---- classify

TEST_CASE("classify prints a class, a tab and the probability of the class for each line") {
  const auto lines = split_lines(classes("a fine day\nit rains again\na zebra day\n"));
  REQUIRE(lines.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(lines[i].starts_with(i == 1 ? "no\t" : "yes\t"));
    const std::string probability = lines[i].substr(lines[i].find('\t') + 1);
    CHECK(probability.size() == 6);
    CHECK(std::strtod(probability.c_str(), nullptr) > 0.5);
    CHECK(std::strtod(probability.c_str(), nullptr) <= 1.0);
  }
  // An answer does not depend on the other lines.
  std::string input, expected;
  for (int i = 0; i < 100; ++i) {
    input += i % 3 == 0 ? "it rains again\n" : "a fine day\n";
    expected += lines[i % 3 == 0 ? 1 : 0] + "\n";
  }
  CHECK(classes(input) == expected);
  CHECK(classes("a\tfine day\n") == lines[0] + "\n");
}

TEST_CASE("classify prints the given number of classes, the most likely first") {
  const std::string best = classes("a fine day\n");
  const auto ranked = [&](const std::string& count) {
    return trained_kinds().out("classify runs/classes --top " + count,
                               "a fine day\n\nit rains again\n");
  };
  const std::string two = ranked("2");
  CHECK(two.starts_with(best.substr(0, best.size() - 1) + "\tno\t0."));
  const auto number = [&](std::size_t at) { return std::strtod(two.c_str() + at, nullptr); };
  const double first = number(4), second = number(two.find("\tno\t") + 4);
  CHECK(first >= second);
  CHECK(first + second == doctest::Approx(1.0).epsilon(2e-4));
  CHECK(contains(two, "\n\nno\t0."));
  CHECK(ranked("5") == two);
  CHECK(ranked("1").starts_with(best));
  CHECK(contains(trained_kinds().out("classify runs/images --top 2", bottom), "\ttop\t"));
}

TEST_CASE("classify runs an image model in the model's precision") {
  for (const char* model : {"images", "double"}) {
    const std::string above = classes(top, model), below = classes(bottom, model);
    CHECK(above.starts_with("top\t"));
    CHECK(below.starts_with("bottom\t"));
    CHECK(classes(top + bottom + top, model) == above + below + above);
    CHECK(classes("\xEF\xBB\xBF" + top.substr(0, top.size() - 1) + "\r\n", model) == above);
  }
}

TEST_CASE("classify prints an empty line for a blank line and for the header of a table") {
  CHECK(classes("\n  \na fine day") == "\n\n" + classes("a fine day\n"));
  CHECK(classes("").empty());
  CHECK(classes(heading + "\n" + top, "images") == "\n\n" + classes(top, "images"));
}

TEST_CASE("classify answers all lines before an invalid line, then rejects it") {
  const KindWorkplace& work = trained_kinds();
  const Outcome second = work.run("classify runs/images", top + heading);
  CHECK(second.code == 3);
  CHECK(second.out == classes(top, "images"));
  CHECK(contains(second.err, "standard input:2: found \"a\" in field 1, expected a number\n"));
  check_rows(
      work,
      {{"classify runs/classes", 3, {":1: found the label \"yes\" and a tab"}, "yes\ta fine day\n"},
       {"classify runs/classes", 3, {":1: byte 3 (0xFF) is not UTF-8"}, "a \xFF\n"},
       {"classify runs/images", 3, {":1: found 1 field, expected 16"}, "0;0;0"},
       {"classify runs/images", 3, {":1: found 1 field,", "data.image_height"}, "a fine day"},
       {"classify runs/images",
        6,
        {"expected finite numbers; first in ", "like the training images"},
        "3e39,3e39,-3e39,-3e39,3e39,3e39,-3e39,-3e39,0,0,3e39,-3e39,0,0,3e39,-3e39\n"},
       {"translate runs/classes --top 2", 2, {"there is no option --top"}}});
}

// ---- tag

TEST_CASE("tag labels each token of each line on standard input") {
  const KindWorkplace& work = trained_kinds();
  CHECK(work.out("tag runs/tags", "Ada spoke\n\nin New York\n \t\n  in  \n") ==
        "B-PER O\n\nO B-LOC I-LOC\n\nO\n");
  const std::string scores = work.out("evaluate runs/tags --examples 1");
  CHECK(contains(scores, "  span F1 "));
  CHECK(contains(scores, "\ninput     Ada   spoke\noutput    B-PER O\n"));
}

TEST_CASE("tag rejects a CoNLL file, but accepts it after the conversion that the hint suggests") {
  const KindWorkplace& work = trained_kinds();
  const std::string conversion = R"(awk -F'\t' '{printf "%s", NF ? $1 " " : "\n"}' )";
  check_rejected(work, "tag runs/tags", 3, {":1: found a tab", conversion + "FILE"},
                 "Ada\tB-PER\nspoke\tO\n");
  const test::TemporaryFolder folder;
  folder.write("conll.txt", "Ada\tB-PER\nspoke\tO\n\nin\tO\nNew\tB-LOC\nYork\tI-LOC\n");
  const std::string convert =
      "cd " + folder.path().string() + " && " + conversion + "conll.txt > s";
  REQUIRE(std::system(convert.c_str()) == 0);
  CHECK(work.out("tag runs/tags", test::read_text(folder / "s")) == "B-PER O\nO B-LOC I-LOC\n");
}

// ---- fill

TEST_CASE("fill replaces only the words that a masked model does not know") {
  const auto fill = [&](const std::string& input) {
    return trained_kinds().out("fill runs/masked", input);
  };
  CHECK(fill("le chat dort\n\n") == "le chat dort\n\n");
  const auto filled = test::CommandLine(split_lines(fill("le _ dort zebra\n")).front()).words;
  REQUIRE(filled.size() == 4);
  CHECK(filled[0] == "le");
  CHECK(filled[2] == "dort");
  for (const std::size_t blank : {1, 3}) {
    CHECK(filled[blank] != "_");
    CHECK(filled[blank] != "zebra");
    CHECK_FALSE(filled[blank].starts_with('<'));
  }
}

TEST_CASE("fill reads a line of characters up to the length that data.context allows") {
  const KindWorkplace work;
  work.write("windows.yaml",
             "data: {task: text, train_text: text.txt, context: 6}\n"
             "model: {kind: masked_language_model, d_model: 32, num_heads: 2, "
             "num_encoder_layers: 1, d_ff: 64, max_length: 9}\n"
             "train: {steps: 12, batch_size: 4, threads: 1, validate_every: 6, save_every: 6}\n");
  work.out("train windows.yaml");
  const std::string filled = work.out("fill runs/windows", "a bad c\n__bad__\na ba_\n");
  CHECK(filled.starts_with("a bad c\n"));
  CHECK(split_lines(filled).size() == 3);
  CHECK_FALSE(contains(filled, "_"));
  check_rejected(work, "fill runs/windows --long-lines stop", 3,
                 {":1: found 8 tokens to read, expected at most 7 (data.context)"}, "a bad ca\n");
}

// ---- Unsuitable models and lines that are too long

TEST_CASE("commands reject models of the wrong kind and name the kinds that they accept") {
  const KindWorkplace& work = trained_kinds();
  check_rows(work,
             {{"translate runs/masked", 2, {"kind masked_language_model, expected seq2seq"}},
              {"classify runs/tiny", 2, {"expected classifier or vision_transformer"}},
              {"classify runs/tags", 2, {"kind tagger"}},
              {"tag runs/classes", 2, {"kind classifier, expected tagger"}},
              {"fill runs/tiny", 2, {"seq2seq, expected masked_language_model"}},
              {"classify runs/tiny", 2, {"`tapestry translate RUN`"}},
              {"classify runs/masked", 2, {"`tapestry fill RUN`"}},
              {"generate runs/tiny", 2, {"seq2seq, expected language_model", "translate RUN"}},
              {"score runs/tags", 2, {"kind tagger"}}});
}

std::string repeated(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

TEST_CASE(
    "--long-lines selects whether a long line gets an empty answer, is cut or ends the command") {
  struct Case {
    std::string command;
    std::string good;      ///< a line that the model can read
    std::string too_long;  ///< a line of which only the first tokens fit
    std::string cut;       ///< the tokens of `too_long` that fit
    std::string problem;
  };
  const std::vector<Case> cases = {
      {"translate runs/tiny", "a", "a b c d e a b c", "a b c d e a b",
       "found 9 tokens with <eos>, expected at most 8 (model.max_length)"},
      {"classify runs/classes", "a fine day", "a b c d e f g h i j k l m", "a b c d e f g h i j",
       "found 15 tokens to read, expected at most 12 (model.max_length)"},
      {"tag runs/tags", "in New York", "a b c d e f g h i j", "a b c d e f g h",
       "found 10 tokens to read, expected at most 8 (model.max_length)"},
      {"fill runs/masked", "le chat _", repeated("_ ", 40), repeated("_ ", 38),
       "found 42 tokens to read, expected at most 40 (model.max_length)"},
  };
  const KindWorkplace& work = trained_kinds();
  for (const Case& given : cases) {
    CAPTURE(given.command);
    const std::string answer = work.out(given.command, given.good + "\n");
    const std::string lines = given.good + "\n" + given.too_long + "\n\n" + given.good + "\n";
    const Outcome empty = work.run(given.command + " --long-lines empty", lines);
    CHECK(empty.code == 0);
    CHECK(empty.out == answer + "\n\n" + answer);
    CHECK(empty.err == "tapestry: warning: standard input:2: " + given.problem +
                           "; the answer is an empty line\n");
    const Outcome cut = work.run(given.command + " --long-lines cut", lines);
    CHECK(cut.code == 0);
    CHECK(cut.out == answer + work.out(given.command, given.cut + "\n") + "\n" + answer);
    CHECK(cut.err == "tapestry: warning: standard input:2: " + given.problem +
                         "; only its first tokens are answered\n");
    const Outcome stopped = work.run(given.command + " --long-lines stop", lines);
    CHECK(stopped.code == 3);
    CHECK(stopped.out == answer);
    CHECK(
        contains(stopped.err, "error: standard input:2: " + given.problem + "\nhint: shorten the"));
  }
  check_rejected(work, "translate runs/tiny --long-lines drop", 2,
                 {"--long-lines: expected empty, cut or stop, found \"drop\""});
}

TEST_CASE("lines that are too long are counted; a line of several megabytes is not read") {
  const KindWorkplace& work = trained_kinds();
  const Outcome many = work.run("translate runs/tiny", repeated("a b c d e a b c\n", 200) + "a");
  CHECK(many.code == 0);
  CHECK(split_lines(many.out).size() == 201);
  CHECK(split_lines(many.err).size() == 4);
  CHECK(contains(many.err, "standard input:3: "));
  CHECK(many.err.ends_with("tapestry: warning: standard input: 200 lines were too long\n"));

  const std::string answer = work.out("translate runs/tiny", "a\n");
  const std::string huge((std::size_t{3} << 20) + 5, 'x');
  const std::string input = "a\n" + huge + "\na\n" + huge;
  const Outcome done = work.run("translate runs/tiny", input);
  CHECK(done.code == 0);
  CHECK(done.out == answer + "\n" + answer + "\n");
  test::check_words(done.err, {":2: the line is longer than 1048576 bytes", ":4: the line is"});
  const Outcome stopped = work.run("translate runs/tiny --long-lines stop", input);
  CHECK(stopped.code == 3);
  CHECK(stopped.out == answer);
}

}  // namespace
}  // namespace tapestry
