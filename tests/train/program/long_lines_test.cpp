#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/train/kind_configs.h"
#include "tests/train/refusal.h"

/// Lines on standard input with more tokens than the model can read: --long-lines.
namespace tapestry {
namespace {

using test::Arguments;
using test::check_refusal;
using test::KindWorkplace;
using test::Outcome;

/// A command with a line that it can read and one of which only the first tokens fit.
struct LongLineCase {
  std::string command, config, run;
  std::string good;
  std::string too_long;
  std::string cut;  ///< the first tokens of `too_long`, as many as the model can read
  std::string problem;
};

const std::vector<LongLineCase> cases = {
    {"translate", "tiny.yaml", "runs/tiny", "a", "a b c d e a b c", "a b c d e a b",
     "found 9 tokens with <eos>, expected at most 8 (model.max_length)"},
    {"classify", "classes.yaml", "runs/classes", "a fine day", "a b c d e f g h i j k l m",
     "a b c d e f g h i j", "found 15 tokens to read, expected at most 12 (model.max_length)"},
    {"tag", "tags.yaml", "runs/tags", "in New York", "a b c d e f g h i j", "a b c d e f g h",
     "found 10 tokens to read, expected at most 8 (model.max_length)"},
    {"fill", "masked.yaml", "runs/masked", "le chat _", "", "",
     "found 42 tokens to read, expected at most 40 (model.max_length)"},
};

std::string repeated(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

struct LongLineWorkplace : KindWorkplace {
  explicit LongLineWorkplace(const LongLineCase& given) {
    write("tiny.yaml", test::tiny_yaml);
    REQUIRE(run({"train", given.config, "train.steps=4"}).code == 0);
  }
};

LongLineCase with_lines(LongLineCase given) {
  if (given.command != "fill") return given;
  given.too_long = repeated("_ ", 40);
  given.cut = repeated("_ ", 38);
  return given;
}

TEST_CASE("a line that is too long gets an empty answer and a warning, other lines their answers") {
  for (const LongLineCase& raw : cases) {
    CAPTURE(raw.command);
    const LongLineCase given = with_lines(raw);
    const LongLineWorkplace work(given);
    const std::string answer = work.run({given.command, given.run}, given.good + "\n").out;
    const Outcome done = work.run({given.command, given.run, "--long-lines", "empty"},
                                  given.good + "\n" + given.too_long + "\n\n" + given.good + "\n");
    CHECK(done.code == 0);
    CHECK(done.out == answer + "\n\n" + answer);
    CHECK(done.err == "tapestry: warning: standard input:2: " + given.problem +
                          "; the answer is an empty line\n");
  }
}

TEST_CASE("--long-lines cut answers the first tokens of a line that is too long") {
  for (const LongLineCase& raw : cases) {
    CAPTURE(raw.command);
    const LongLineCase given = with_lines(raw);
    const LongLineWorkplace work(given);
    const std::string answer = work.run({given.command, given.run}, given.cut + "\n").out;
    REQUIRE((given.command == "translate" || answer.size() > 1));
    const Outcome done =
        work.run({given.command, given.run, "--long-lines", "cut"}, given.too_long + "\n");
    CHECK(done.code == 0);
    CHECK(done.out == answer);
    CHECK(done.err == "tapestry: warning: standard input:1: " + given.problem +
                          "; only the first are answered\n");
  }
}

TEST_CASE("many lines that are too long are counted, and the first three reported") {
  const LongLineCase& given = cases.front();
  const LongLineWorkplace work(given);
  const Outcome done =
      work.run({given.command, given.run}, repeated(given.too_long + "\n", 200) + given.good);
  CHECK(done.code == 0);
  CHECK(std::ranges::count(done.out, '\n') == 201);
  CHECK(std::ranges::count(done.err, '\n') == 4);
  CHECK(done.err.find("standard input:3: ") != std::string::npos);
  CHECK(done.err.ends_with("tapestry: warning: standard input: 200 lines were too long\n"));
}

TEST_CASE("a line of more than a megabyte is skipped, and the next lines are answered") {
  const LongLineCase& given = cases.front();
  const LongLineWorkplace work(given);
  const std::string answer = work.run({given.command, given.run}, given.good + "\n").out;
  const std::string huge((std::size_t{3} << 20) + 5, 'x');
  const std::string input = given.good + "\n" + huge + "\n" + given.good + "\n" + huge;
  const Outcome done = work.run({given.command, given.run}, input);
  CHECK(done.code == 0);
  CHECK(done.out == answer + "\n" + answer + "\n");
  CHECK(done.err ==
        "tapestry: warning: standard input:2: the line is longer than 1048576 bytes, the limit; "
        "the answer is an empty line\n"
        "tapestry: warning: standard input:4: the line is longer than 1048576 bytes, the limit; "
        "the answer is an empty line\n");
  const Outcome refused = work.run({given.command, given.run, "--long-lines", "stop"}, input);
  CHECK(refused.code == 3);
  CHECK(refused.out == answer);
}

TEST_CASE("an invalid value of --long-lines is refused") {
  const KindWorkplace work;
  check_refusal(work, {"translate", "runs/tiny", "--long-lines", "drop"}, 2,
                "command line: --long-lines: expected empty, cut or stop, found \"drop\"\n"
                "hint: see `tapestry translate --help`");
}

}  // namespace
}  // namespace tapestry
