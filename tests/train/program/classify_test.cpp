#include <doctest/doctest.h>

#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "tests/train/kind_configs.h"
#include "tests/train/refusal.h"

/// `tapestry classify`.
namespace tapestry {
namespace {

using test::check_refusal;
using test::KindWorkplace;
using test::Outcome;

std::string classify(const KindWorkplace& work, const std::string& model,
                     const std::string& input) {
  const Outcome done = work.run({"classify", model}, input);
  CHECK(done.code == 0);
  CHECK(done.err.empty());
  return done.out;
}

/// To the model in runs/classes, weather is `no` and days are `yes`.
struct SentenceWorkplace : KindWorkplace {
  SentenceWorkplace() {
    REQUIRE(run({"train", "classes.yaml", "train.steps=60", "model.dropout=0"}).code == 0);
  }
  std::string classes(const std::string& input) const {
    return classify(*this, "runs/classes", input);
  }
};

/// The model in runs/images knows the brighter half of an image.
struct ImageWorkplace : KindWorkplace {
  explicit ImageWorkplace(const char* dtype = "float32") {
    REQUIRE(run({"train", "images.yaml", "train.steps=200", "model.dropout=0",
                 std::string("train.dtype=") + dtype})
                .code == 0);
  }
  std::string classes(const std::string& input) const {
    return classify(*this, "runs/images", input);
  }
};

const std::string top = "9,9,9,9,9,9,9,9,0,0,0,0,0,0,0,0\n";
const std::string bottom = "0,0,0,0,0,0,0,0,9,9,9,9,9,9,9,9\n";
const std::string heading = "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p\n";

TEST_CASE("classify prints for each line a class, a tab and its probability") {
  const SentenceWorkplace work;
  std::istringstream lines(work.classes("a fine day\nit rains again\na zebra day\n"));
  for (const char* expected : {"yes\t", "no\t", "yes\t"}) {
    std::string line;
    REQUIRE(std::getline(lines, line));
    CHECK(line.starts_with(expected));
    const std::string probability = line.substr(line.find('\t') + 1);
    CHECK(probability.size() == 6);
    CHECK(std::strtod(probability.c_str(), nullptr) > 0.5);
    CHECK(std::strtod(probability.c_str(), nullptr) <= 1.0);
  }
}

TEST_CASE("classify of a sentence does not depend on the other sentences") {
  const SentenceWorkplace work;
  const std::string day = work.classes("a fine day\n");
  const std::string rain = work.classes("it rains again and again\n");
  std::string input, expected;
  for (int i = 0; i < 100; ++i) {
    input += i % 3 == 0 ? "it rains again and again\n" : "a fine day\n";
    expected += i % 3 == 0 ? rain : day;
  }
  CHECK(work.classes(input) == expected);
}

/// The fields of a line, which tabs separate.
std::vector<std::string> split_fields(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream text(line);
  for (std::string field; std::getline(text, field, '\t');) fields.push_back(field);
  return fields;
}

TEST_CASE("classify prints the given number of classes, the most likely first") {
  const SentenceWorkplace work;
  const std::string best = work.classes("a fine day\n");
  const auto ranked = [&](const char* count) {
    const Outcome done =
        work.run({"classify", "runs/classes", "--top", count}, "a fine day\n\nit rains again\n");
    CHECK(done.code == 0);
    return done.out;
  };
  const std::string two = ranked("2");
  CHECK(two.starts_with(best.substr(0, best.size() - 1) + "\tno\t0."));
  const std::string first = two.substr(0, two.find('\n'));
  const auto fields = split_fields(first);
  REQUIRE(fields.size() == 4);
  CHECK(std::stod(fields[1]) >= std::stod(fields[3]));
  CHECK(std::stod(fields[1]) + std::stod(fields[3]) == doctest::Approx(1.0).epsilon(2e-4));
  CHECK(two.find("\n\nno\t0.") != std::string::npos);
  CHECK(ranked("5") == two);
  CHECK(ranked("1").starts_with(best));
  const ImageWorkplace images;
  CHECK(split_fields(images.run({"classify", "runs/images", "--top", "2"}, bottom).out)[2] ==
        "top");
  check_refusal(work, {"translate", "runs/classes", "--top", "2"}, 2,
                "command line: there is no option --top\nhint: see `tapestry translate --help`");
}

TEST_CASE("classify of images uses the precision of the model") {
  for (const char* dtype : {"float32", "float64"}) {
    const ImageWorkplace work(dtype);
    const std::string above = work.classes(top), below = work.classes(bottom);
    CHECK(above.starts_with("top\t"));
    CHECK(below.starts_with("bottom\t"));
    CHECK(work.classes(top + bottom + top) == above + below + above);
    CHECK(work.classes("\xEF\xBB\xBF" + top.substr(0, top.size() - 1) + "\r\n") == above);
  }
}

TEST_CASE("classify prints empty lines for blank lines and the header of a table") {
  const SentenceWorkplace sentences;
  CHECK(sentences.classes("\n  \na fine day") == "\n\n" + sentences.classes("a fine day\n"));
  CHECK(sentences.classes("").empty());
  const ImageWorkplace images;
  CHECK(images.classes(heading + "\n" + top) == "\n\n" + images.classes(top));
}

TEST_CASE("classify refuses an invalid sentence after the answers to the lines before it") {
  const SentenceWorkplace work;
  const Outcome refused = work.run({"classify", "runs/classes", "--long-lines", "stop"},
                                   "a fine day\na b c d e f g h i j k l m\na fine day\n");
  CHECK(refused.code == 3);
  CHECK(refused.out == work.classes("a fine day\n"));
  CHECK(refused.err ==
        "tapestry: error: standard input:2: found 15 tokens to read, expected at most 12 "
        "(model.max_length)\n"
        "hint: cut the line, or train a model with a larger model.max_length\n");
  check_refusal(work, {"classify", "runs/classes"}, 3,
                "standard input:1: found the label \"yes\" and a tab, expected a sentence alone\n"
                "hint: leave the label out, with: cut -f2-",
                "yes\ta fine day\n");
  CHECK(work.classes("a\tfine day\n") == work.classes("a fine day\n"));
  check_refusal(work, {"classify", "runs/classes"}, 3,
                "standard input:1: byte 3 (0xFF) is not UTF-8\n"
                "hint: convert the text to UTF-8, for example: iconv -f ISO-8859-1 -t UTF-8",
                "a \xFF\n");
}

TEST_CASE("classify refuses an invalid image after the answers to the lines before it") {
  const ImageWorkplace work;
  const Outcome second = work.run({"classify", "runs/images"}, top + heading);
  CHECK(second.code == 3);
  CHECK(second.out == work.classes(top));
  CHECK(second.err ==
        "tapestry: error: standard input:2: found \"a\" in field 1, expected a number\n"
        "hint: every field is the value of a pixel\n");
  for (const char* line : {"top", "0;0;0", "a fine day"}) {
    check_refusal(work, {"classify", "runs/images"}, 3,
                  "standard input:1: found 1 fields, expected 16: the pixels, without a label\n"
                  "hint: remove the labels; see data.image_height, data.image_width and "
                  "data.image_channels",
                  line);
  }
  check_refusal(work, {"classify", "runs/images"}, 6,
                "standard input: the scores of a line are not finite numbers\n"
                "hint: are its pixels on the scale of the training images?",
                "3e39,3e39,-3e39,-3e39,3e39,3e39,-3e39,-3e39,0,0,3e39,-3e39,0,0,3e39,-3e39\n");
}

}  // namespace
}  // namespace tapestry
