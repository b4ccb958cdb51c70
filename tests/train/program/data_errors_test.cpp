// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/train/kinds.h"

/// Tests errors for unusable data and values, and data.on_bad_line.
namespace tapestry {
namespace {

using test::check_rejected;
using test::check_words;
using test::contains;
using test::KindWorkplace;
using test::Outcome;
using test::TextWorkplace;

// ---- data.on_bad_line

/// Line 2 of train.en is blank, line 4 of train.de is too long for the model.
struct BadTextWorkplace : TextWorkplace {
  BadTextWorkplace() {
    write("train.de", "ein haus\neine katze\nein hund\nsehr viele kleine graue katzen hier\n");
    write("train.en", "a house\n\na dog\nmany cats\n");
  }
};

TEST_CASE("all bad lines are reported together with file and line, and can be skipped") {
  const BadTextWorkplace work;
  const std::string blank = work.at("train.en") + ":2: the line is blank, but ";
  const std::string long_line = work.at("train.de") + ":4: found 7 tokens with <eos>, expected at ";
  check_rejected(work, "train text.yaml", 3,
                 {blank, long_line, "\n2 of 4 cannot be used, 1 of them with too many tokens\n",
                  "model.max_length to 7", "data.max_tokens", "data.on_bad_line=skip"});
  // Bad lines are reported before subwords are learned from the other lines.
  check_rejected(work, "train text.yaml data.subwords=bpe data.vocabulary_size=24", 3, {blank});
  check_words(
      work.out("train text.yaml data.on_bad_line=skip"),
      {"train: 1 of 4 skipped as unusable, for example " + blank,
       "train: 1 of 3 skipped as unusable, for example " + long_line, "data: 2 training pairs, "});
  // Evaluation reports the lines that it skips.
  CHECK(work.run("evaluate runs/text").err.empty());
  work.write("more.de", "ein haus\n\n");
  work.write("more.en", "a house\na dog\n");
  const Outcome scored =
      work.run("evaluate runs/text data.validation_source=more.de data.validation_target=more.en");
  CHECK(scored.code == 0);
  CHECK(contains(scored.out, "validation  1 held-out pairs: "));
  CHECK(contains(scored.err, "warning: validation: 1 of 2 skipped as unusable"));
}

TEST_CASE("a run that skips bad lines resumes to the same bytes") {
  const BadTextWorkplace work;
  const std::string skip = "train text.yaml data.on_bad_line=skip ";
  work.out(skip + "train.steps=6");
  work.out(skip + "train.run_dir=parts train.steps=3");
  work.out("train --resume parts train.steps=6");
  const std::string end = "/checkpoints/step-00000006.h5";
  CHECK(work.read("parts" + end) == work.read("runs/text" + end));
}

TEST_CASE("examples that are too long are counted, by file and line, before training") {
  const TextWorkplace work;
  work.write("valid.de", "ein\na b c d e f\nein\na b c d e f g\n");
  work.write("valid.en", "a\na\na\na\n");
  const test::Words words = {work.at("valid.de") + ":2: found 7 tokens with <eos>, expected at",
                             work.at("valid.de") + ":4: found 8 tokens", "\n2 of 4 cannot be used",
                             "model.max_length to 8 or more"};
  for (const char* command : {"train text.yaml", "gradcheck text.yaml"}) {
    check_rejected(work, command, 3, words);
  }
  work.write("valid.de", "ein hund\n");
  work.write("valid.en", "a dog that is very old\n");
  check_rejected(work, "train text.yaml", 3, {work.at("valid.en") + ":1: found 7 tokens"});
  // If both sides are too long, the error names the longer side.
  work.write("valid.de", "ein hund und noch ein hund\n");
  work.write("valid.en", "a dog that is very old too\n");
  check_rejected(work, "train text.yaml", 3, {work.at("valid.en") + ":1: found 8 tokens"});
  CHECK_FALSE(contains(work.run("train text.yaml").err, "data.max_tokens"));
  work.write("valid.de", "ein hund\n");
  work.write("valid.en", "a dog\n");
  work.write("train.en", "a very big house\na cat\n");
  check_rejected(work, "train text.yaml train.batch_tokens=4", 3,
                 {work.at("train.en") + ":1: found 5 tokens", "expected at most 4 (train.batch_tok",
                  "set train.batch_tokens to 5 or more"});
  work.write("train.de", "a b c d e f g\na b c d e f g\n");
  check_rejected(work, "train text.yaml data.on_bad_line=skip", 3,
                 {"found no training pairs that can be used", "data.on_bad_line=stop"});
  work.write("train.de", "a b\na b\n");
  work.write("train.en", "a\na cat\n");
  work.write("valid.de", "a b c d e f g\n");
  check_rejected(work, "train text.yaml data.on_bad_line=skip", 3,
                 {"found no validation pairs that can be used", "data.on_bad_line=stop"});
  const KindWorkplace classes;
  check_rejected(classes, "train classes.yaml model.max_length=4", 3,
                 {classes.at("labels.txt") + ":5: found 5 tokens to read, expected at most 4",
                  "\nand 6 more\n11 of 11 cannot be used\n", "model.max_length to 5"});
}

TEST_CASE("an error in the second training file names that file and its line") {
  const TextWorkplace work;
  const std::string two =
      "train text.yaml 'data.train_source=[train.de, more.de]' "
      "'data.train_target=[train.en, more.en]' data.cache=";
  for (const std::string side : {"more.de", "more.en"}) {
    work.write("more.de", "ein\nein\n");
    work.write("more.en", "a\na\n");
    work.write(side, "a\na b c d e f g\n");
    for (const std::string cache : {"never", "always"}) {
      const Outcome rejected = work.run(two + cache);
      CHECK(rejected.code == 3);
      CHECK(contains(rejected.err, work.at(side) + ":2: found 8 tokens"));
    }
  }
}

// ---- Sizes and files

TEST_CASE("data that would exceed memory are not generated, and the hint names the key to lower") {
  const KindWorkplace work;
  for (const std::string key : {"data.train_size", "data.validation_size", "data.test_size"}) {
    for (const std::string config : {"tiny.yaml", "agreement.yaml"}) {
      check_rejected(work, "train " + config + " " + key + "=1000000000", 8,
                     {key + ": 1,000,000,000 sequences need about ", "\nhint: lower " + key});
    }
  }
}

TEST_CASE("a text of one line can be trained on; its end is the validation set") {
  const KindWorkplace work;
  std::string line;
  for (int i = 0; i < 100; ++i) line += "a bad cab ";
  work.write("text.txt", line);
  CHECK(contains(work.out("train language.yaml"), "data: 150 training windows, 17 validation, "));
}

TEST_CASE(
    "the held-out end of a text has the configured share, even if the text is a single line") {
  const KindWorkplace work;
  std::string line;  // longer than the 64 KB that are read at a time
  while (line.size() < 200'000) line += "a bad cab ";
  const std::string plan = "train language.yaml --dry-run data.validation_share=0.5 ";
  const auto windows = [&](const std::string& text) {
    work.write("text.txt", text);
    std::string out = work.out(plan);
    std::erase(out, ',');
    const std::size_t end = out.find(" validation ");
    const std::size_t begin = out.rfind(' ', end - 1) + 1;
    return std::stoul(out.substr(begin, end - begin));
  };
  CHECK(windows(line + "\n" + line + "\n") == (line.size() + 5) / 6);
  CHECK(std::abs(static_cast<double>(windows(line)) - 200'000 / 2 / 6.0) < 100);
}

// ---- Names

TEST_CASE("names of files are escaped in messages and results") {
  const TextWorkplace work;
  const auto check = [&](const test::CommandLine& command, const std::string& escaped) {
    CAPTURE(command.text());
    const Outcome done = work.run(command);
    CHECK(done.code == 0);
    CHECK(contains(done.out, escaped));
    CHECK_FALSE(contains(done.out + done.err, "\x1B"));
    CHECK_FALSE(contains(done.out + done.err, "\u202E"));
  };
  const std::string turned = "a\u202Eb", turned_escaped = "a\\xE2\\x80\\xAEb";
  check("plan text.yaml train.run_dir=" + turned, turned_escaped);
  check("train text.yaml train.run_dir=" + turned, turned_escaped);
  check("train --resume " + turned, turned_escaped);
  check("train --resume " + turned + " train.steps=4", turned_escaped);
  const std::string colored = "a\x1B[31m";
  std::filesystem::rename(work / turned, work / colored);
  const std::string newest = colored + "/checkpoints/step-00000004.h5";
  for (const std::string command :
       {"evaluate ", "inspect ", "check ", "gradcheck --coordinates=1 --directions=1 ",
        "attention ", "errors ", "report "}) {
    check(command + colored, "a\\x1B[31m");
  }
  check("explain " + colored + " a", "a\\x1B[31m");
  check("runs .", "a\\x1B[31m");
  check("diff " + newest + " " + newest, "a\\x1B[31m");
  check("average mean\x1B[31m.h5 " + colored + " --last=1", "mean\\x1B[31m.h5");
  check_rejected(work, "average " + colored + "/average.h5 " + colored + " --last=1", 2,
                 {"a\\x1B[31m/average.h5 belongs to a run"});
}

}  // namespace
}  // namespace tapestry
