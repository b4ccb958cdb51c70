#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/contains.h"
#include "tests/train/kind_configs.h"
#include "tests/train/refusal.h"

/// What the program says of data and values that cannot be used, and data.on_bad_line.
namespace tapestry {
namespace {

using test::Arguments;
using test::check_refusal;
using test::contains;
using test::KindWorkplace;
using test::Outcome;
using test::TextWorkplace;
using test::Workplace;

// ---- data.on_bad_line

/// Line 2 of train.en is blank, line 4 of train.de is too long for the model.
struct BadTextWorkplace : TextWorkplace {
  BadTextWorkplace() {
    write("train.de", "ein haus\neine katze\nein hund\nsehr viele kleine graue katzen hier\n");
    write("train.en", "a house\n\na dog\nmany cats\n");
  }
};

TEST_CASE("bad lines of all kinds are named with file and line at once, and can be skipped") {
  const BadTextWorkplace work;
  check_refusal(work, {"train", "text.yaml"}, 3,
                work.at("train.en") + ":2: the line is blank, but " + work.at("train.de") +
                    ":2 is not\n" + work.at("train.de") +
                    ":4: found 7 tokens with <eos>, expected at most 6 (model.max_length)\n"
                    "2 of 4 cannot be used, 1 of them with too many tokens\n"
                    "hint: fill in the line, or delete it from both files; set model.max_length to "
                    "7 or more; data.max_tokens leaves long training pairs out, or leave them all "
                    "out with data.on_bad_line=skip");
  const std::string skip = "data.on_bad_line=skip";
  const Outcome done = work.run({"train", "text.yaml", skip});
  CHECK(done.code == 0);
  CHECK(done.err.empty());
  CHECK(contains(done.out, "train: 1 of 4 skipped, which cannot be used, such as " +
                               work.at("train.en") + ":2: the line is blank, but "));
  CHECK(contains(done.out, "train: 1 of 3 skipped, which cannot be used, such as " +
                               work.at("train.de") +
                               ":4: found 7 tokens with <eos>, expected at "));
  CHECK(contains(done.out, "data: 2 training pairs, "));

  // Evaluation says what it leaves out.
  CHECK(work.run({"evaluate", "runs/text"}).err.empty());
  work.write("more.de", "ein haus\n\n");
  work.write("more.en", "a house\na dog\n");
  const Outcome scored = work.run({"evaluate", "runs/text", "data.validation_source=more.de",
                                   "data.validation_target=more.en"});
  CHECK(scored.code == 0);
  CHECK(contains(scored.out, "validation  1 held-out pairs: "));
  CHECK(scored.err.starts_with("tapestry: warning: validation: 1 of 2 skipped, which cannot be "));
}

TEST_CASE("bad lines are refused before subwords are learned from the others") {
  const BadTextWorkplace work;
  check_refusal(work, {"train", "text.yaml", "data.subwords=bpe", "data.vocabulary_size=24"}, 3,
                work.at("train.en") + ":2: the line is blank, but " + work.at("train.de") +
                    ":2 is not\nhint: fill in the line, or delete it from both files");
}

TEST_CASE("bad lines of tagged text are named together with sentences that are too long") {
  const KindWorkplace work;
  const std::string name = (work / "tags.txt").string();
  work.write("tags.txt", "Ada\tB-PER\nspoke\n\nin\tO\nNew\tB-LOC\nYork\tI-LOC\n");
  check_refusal(work, {"train", "tags.yaml", "model.max_length=2"}, 3,
                name + ":2: found no tab, expected a token, a tab and a label\n" + name +
                    ":4: found 3 tokens to read, expected at most 2 (model.max_length)\n"
                    "2 of 6 cannot be used, 1 of them with too many tokens\n"
                    "hint: write a token, a tab and its label on each line, and an empty line "
                    "between two sentences; columns are chosen with cut, such as cut -f1,4; set "
                    "model.max_length to 3 or more, or leave them all out with "
                    "data.on_bad_line=skip");
}

TEST_CASE("a run that skips bad lines resumes to the same bytes") {
  const BadTextWorkplace work;
  const std::string skip = "data.on_bad_line=skip";
  REQUIRE(work.run({"train", "text.yaml", skip, "train.steps=6"}).code == 0);
  REQUIRE(work.run({"train", "text.yaml", skip, "train.run_dir=parts", "train.steps=3"}).code == 0);
  REQUIRE(work.run({"train", "--resume", "parts", "train.steps=6"}).code == 0);
  const std::string end = "/checkpoints/step-00000006.h5";
  CHECK(test::read_text(work / ("parts" + end)) == test::read_text(work / ("runs/text" + end)));
}

TEST_CASE("many examples that are too long are counted, by file and line") {
  const TextWorkplace work;
  work.write("valid.de", "ein\na b c d e f\nein\na b c d e f g\n");
  work.write("valid.en", "a\na\na\na\n");
  check_refusal(work, {"train", "text.yaml"}, 3,
                work.at("valid.de") +
                    ":2: found 7 tokens with <eos>, expected at most 6 (model.max_length)\n" +
                    work.at("valid.de") +
                    ":4: found 8 tokens with <eos>, expected at most 6 (model.max_length)\n"
                    "2 of 4 cannot be used\n"
                    "hint: set model.max_length to 7 or more; data.max_tokens leaves long training "
                    "pairs out, or leave them all out with data.on_bad_line=skip");
}

TEST_CASE("a run with bad lines only has no training set and is refused") {
  const TextWorkplace work;
  work.write("train.de", "a b c d e f g\n");
  work.write("train.en", "a\n");
  check_refusal(work, {"train", "text.yaml", "data.on_bad_line=skip"}, 3,
                "data: found no training pairs that can be used, expected one or more\n"
                "hint: see what is wrong with them, with data.on_bad_line=stop");
}

// ---- Values

TEST_CASE("values without effect, or that break a run, are refused by their key") {
  const KindWorkplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  struct Case {
    std::vector<std::string> overrides;
    std::string message;
  };
  const std::vector<Case> cases = {
      {{"optimizer.epsilon=1e-320"},
       "command line: optimizer.epsilon=1e-320: `epsilon` is 1e-320, which is 0 in float32, the "
       "element type of the run\nhint: set `epsilon` to 1e-45 or more, or `train.dtype` to "
       "float64"},
      {{"model.layer_norm_epsilon=1e-50"},
       "command line: model.layer_norm_epsilon=1e-50: `layer_norm_epsilon` is 1e-50, which is 0 in "
       "float32, the element type of the run\nhint: set `layer_norm_epsilon` to 1e-45 or more, or "
       "`train.dtype` to float64"},
      {{"data.validation_size=0", "train.patience=2"},
       "train.patience: found 2, expected 0: there are no validation pairs, without which it has "
       "no "
       "effect\nhint: name a validation set or its size in the section data, or leave the key out"},
  };
  for (const Case& each : cases) {
    Arguments arguments{"train", "tiny.yaml"};
    arguments.insert(arguments.end(), each.overrides.begin(), each.overrides.end());
    check_refusal(work, arguments, 2, each.message);
  }
  CHECK(work.run({"train", "tiny.yaml", "optimizer.epsilon=1e-60", "train.dtype=float64"}).code ==
        0);
}

TEST_CASE("generated data larger than memory are refused by their key before generation") {
  const KindWorkplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  for (const std::string key : {"data.train_size", "data.validation_size", "data.test_size"}) {
    for (const std::string config : {"tiny.yaml", "agreement.yaml"}) {
      CAPTURE(config);
      const auto before = work.contents();
      const Outcome refused = work.run({"train", config, key + "=1000000000"});
      CHECK(refused.code == 8);
      CHECK(refused.err.starts_with("tapestry: error: " + key +
                                    ": 1,000,000,000 sequences need about "));
      CHECK(refused.err.ends_with("\nhint: lower " + key + "\n"));
      CHECK(work.contents() == before);
    }
  }
}

// ---- Files

TEST_CASE("an empty file is refused with its expected content") {
  const KindWorkplace work;
  struct Case {
    const char *config, *file, *expected;
  };
  for (const Case& each : {
           Case{"images.yaml", "images.csv", "the pixels and the label of an image a line"},
           Case{"classes.yaml", "labels.txt", "a label, a tab and a sentence a line"},
           Case{"tags.yaml", "tags.txt", "a token, a tab and its label a line"},
           Case{"language.yaml", "text.txt", "text"},
       }) {
    CAPTURE(each.config);
    work.write(each.file, "");
    const Outcome refused = work.run({"train", each.config});
    CHECK(refused.code == 3);
    CHECK(refused.err.starts_with("tapestry: error: " + (work / each.file).string() +
                                  ": found an empty file, expected " + each.expected + "\n"));
  }
}

TEST_CASE("a text of one line is trained on, with a validation set of its end") {
  const KindWorkplace work;
  std::string line;
  for (int i = 0; i < 100; ++i) line += "a bad cab ";
  work.write("text.txt", line);
  const Outcome done = work.run({"train", "language.yaml"});
  CHECK(done.code == 0);
  CHECK(contains(done.out, "data: 150 training windows, 17 validation, "));
}

TEST_CASE("the skipped header of a table of images is printed") {
  const KindWorkplace work;
  work.write("images.csv",
             "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,half\n" + test::read_text(work / "images.csv"));
  const Outcome done = work.run({"train", "images.yaml"});
  CHECK(done.code == 0);
  CHECK(contains(done.out,
                 "images.csv:1: a heading, a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,half, is "
                 "skipped\n"));
}

// ---- Names

TEST_CASE("names of files are escaped in messages and results") {
  const TextWorkplace work;
  const auto check = [&](const Arguments& arguments, const std::string& escaped) {
    CAPTURE(arguments[0]);
    const Outcome done = work.run(arguments);
    CHECK(done.code == 0);
    CHECK(contains(done.out, escaped));
    CHECK_FALSE(contains(done.out + done.err, "\x1B"));
    CHECK_FALSE(contains(done.out + done.err, "\u202E"));
  };
  const std::string turned = "a\u202Eb", turned_escaped = "a\\xE2\\x80\\xAEb";
  check({"plan", "text.yaml", "train.run_dir=" + turned}, turned_escaped);
  check({"train", "text.yaml", "train.run_dir=" + turned}, turned_escaped);
  check({"train", "--resume", turned}, turned_escaped);
  check({"train", "--resume", turned, "train.steps=4"}, turned_escaped);
  const std::string colored = "a\x1B[31m";
  std::filesystem::rename(work / turned, work / colored);
  const std::string newest = colored + "/checkpoints/step-00000004.h5";
  for (const Arguments& arguments : std::vector<Arguments>{
           {"evaluate", colored},
           {"inspect", colored},
           {"check", colored},
           {"gradcheck", colored, "--coordinates=1", "--directions=1"},
           {"attention", colored},
           {"errors", colored},
           {"runs", "."},
           {"diff", newest, newest},
           {"report", colored},
           {"explain", colored, "a"},
           {"average", colored + "/average.h5", colored, "--last=1"},
       }) {
    check(arguments, "a\\x1B[31m");
  }
}

}  // namespace
}  // namespace tapestry
