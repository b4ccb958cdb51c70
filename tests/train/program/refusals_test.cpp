#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "tests/support/contains.h"
#include "tests/train/refusal.h"

/// What the program says to mistakes on the command line, in configs, data and folders. Nothing
/// that is there may change.
namespace tapestry {
namespace {

using test::Arguments;
using test::check_refusal;
using test::ConfiguredWorkplace;
using test::contains;
using test::Outcome;
using test::TextWorkplace;
using test::Workplace;

TEST_CASE("mistakes on the command line have the exit code 2 and a hint") {
  const Workplace work;
  const auto check = [&](const Arguments& arguments, const std::string& message) {
    check_refusal(work, arguments, 2, "command line: " + message);
  };
  check({}, "a command is required\nhint: see `tapestry --help`");
  check({"trian", "tiny.yaml"}, "unknown command `trian`\nhint: did you mean `train`?");
  const std::string commands =
      "train, plan, evaluate, translate, fill, classify, tag, score, generate, gradcheck, check, "
      "attention, explain, inspect, report, runs, watch, diff, replay, errors, average, sweep, "
      "config, bleu, compare, "
      "completion or help";
  check({"begin"}, "unknown command `begin`\nhint: use " + commands);
  check({"help", "begin"},
        "COMMAND: expected " + commands + ", found \"begin\"\nhint: see `tapestry help --help`");
  check(
      {"completion", "tcsh"},
      "SHELL: expected bash, zsh or fish, found \"tcsh\"\nhint: see `tapestry completion --help`");
  check({"train"}, "CONFIG or --resume RUN is required\nhint: see `tapestry train --help`");
  check({"evaluate"}, "RUN is required\nhint: see `tapestry evaluate --help`");
  check({"train", "tiny.yaml", "--frsh"}, "there is no option --frsh\nhint: did you mean --fresh?");
  check({"train", "tiny.yaml", "--faster"},
        "there is no option --faster\nhint: see `tapestry train --help`");
  const std::string inspect_help = "\nhint: see `tapestry inspect --help`";
  check({"inspect", "runs/tiny", "one", "two"},
        "found `one`, expected nothing more" + inspect_help);
  check({"inspect", "runs/tiny", "--", "one"}, "found `one`, expected nothing more" + inspect_help);
  check({"inspect", "--", "runs/tiny", "one"}, "found `one`, expected nothing more" + inspect_help);
  check({"bleu", "--reference", "one", "two", "three"},
        "found `three`, expected nothing more\nhint: see `tapestry bleu --help`");
  work.write("in.txt", "a\n");
  check({"translate", "runs/tiny", "in.txt"},
        "found `in.txt`, expected nothing more\nhint: to read a file, write < in.txt");
  check({"translate", "runs/tiny", "a b"},
        "found `a b`, expected nothing more\nhint: give it the lines as standard input, such as `< "
        "FILE`");
  work.write("\x1B[31mfile", "a\n");
  check({"translate", "runs/tiny", "\x1B[31mfile"},
        "found `\\x1B[31mfile`, expected nothing more\nhint: to read a file, write < "
        "$'\\033[31mfile'");
  check({"inspect", "runs/tiny", "-x"}, "there is no option -x" + inspect_help);
  check({"inspect", "runs/tiny", "--", "-x"}, "there is no option -x" + inspect_help);
  for (const char* option : {"--json", "-v", "--resume", "--"}) {
    check(
        {option, "inspect", "runs/tiny"},
        "found " + std::string(option) + ", expected a command first\nhint: see `tapestry --help`");
  }
  check({"generate", "runs/tiny", "--tokens", "5", "--tokens", "0"},
        "--tokens: found 2 values, expected one\nhint: see `tapestry generate --help`");
  check({"generate", "runs/tiny", "--tokens"},
        "--tokens: found no value, expected one\nhint: see `tapestry generate --help`");
  check({"train", "tiny.yaml", "--profile=no"},
        "--profile: found a value, expected none\nhint: see `tapestry train --help`");
  check({"train", "--resume", "runs/tiny", "--fresh"},
        "--resume excludes --fresh\nhint: see `tapestry train --help`");
  check({"evaluate", "runs/tiny", "--examples", "-1"},
        "--examples: expected a whole number from 0 to 1000000, found \"-1\"\n"
        "hint: see `tapestry evaluate --help`");
  check({"gradcheck", "tiny.yaml", "--seed", "-1"},
        "--seed: expected a whole number >= 0, found \"-1\"\n"
        "hint: see `tapestry gradcheck --help`");
  check({"gradcheck", "tiny.yaml", "--seed", "1_000"},
        "--seed: expected a whole number >= 0, found \"1_000\"\n"
        "hint: write `1000`, in decimal digits alone");
  check({"generate", "runs/tiny", "--temperature", "nan"},
        "--temperature: expected a number in [0, 1000000], found \"nan\"\n"
        "hint: see `tapestry generate --help`");
}

TEST_CASE("an empty path is refused by its argument") {
  const Workplace work;
  for (const char* command :
       {"evaluate", "translate", "classify", "inspect", "report", "generate"}) {
    check_refusal(work, {command, ""}, 2,
                  "command line: RUN: found an empty text, expected a path\nhint: see `tapestry " +
                      std::string(command) + " --help`");
  }
  for (const char* command : {"check", "gradcheck", "attention", "explain"}) {
    check_refusal(
        work, {command, ""}, 2,
        "command line: MODEL: found an empty text, expected a path\nhint: see `tapestry " +
            std::string(command) + " --help`");
  }
  check_refusal(work, {"train", ""}, 2,
                "command line: CONFIG: found an empty text, expected a path\n"
                "hint: see `tapestry train --help`");
}

TEST_CASE("a misspelled key is reported with its line") {
  const ConfiguredWorkplace work("d_model", "d_modl");
  for (const char* command : {"train", "gradcheck"}) {
    check_refusal(work, {command, "tiny.yaml"}, 2,
                  "tiny.yaml:9:3: unknown key `d_modl` in `model`\n"
                  "    d_modl: 16\n"
                  "    ^~~~~~\n"
                  "hint: did you mean `d_model`?");
  }
}

TEST_CASE("a value of the wrong type is reported with its line") {
  const ConfiguredWorkplace work("steps: 12", "steps: many");
  check_refusal(work, {"train", "tiny.yaml"}, 2,
                "tiny.yaml:21:10: expected a whole number from 1 to 1000000000000, found \"many\"\n"
                "    steps: many\n"
                "           ^~~~\n"
                "hint: write for example 2000, the default");
}

TEST_CASE("characters that turn the direction of text are escaped in a quoted value") {
  const std::string escaped = "ma\\xE2\\x80\\xAEny";
  const std::string found =
      "expected a whole number from 1 to 1000000000000, found \"" + escaped + "\"\n";
  const std::string hint = "hint: write for example 2000, the default";
  const ConfiguredWorkplace work("steps: 12", "steps: ma\u202Eny");
  check_refusal(
      work, {"train", "tiny.yaml"}, 2,
      "tiny.yaml:21:10: " + found + "    steps: " + escaped + "\n           ^~~~~\n" + hint);
  check_refusal(ConfiguredWorkplace(), {"train", "tiny.yaml", "train.steps=ma\u202Eny"}, 2,
                "command line: train.steps=" + escaped + ": " + found + hint);
}

TEST_CASE("values outside of the domain of a key are refused with one that is inside") {
  const ConfiguredWorkplace work;
  struct Case {
    Arguments overrides;
    std::string message;  // behind the first override
  };
  for (const Case& given : {
           Case{{"decoding.beam_size=0"},
                "expected a whole number from 1 to 1000, found \"0\"\n"
                "hint: write for example 1, the default"},
           Case{{"train.ema_decay=1"},
                "expected a number in [0, 1), found \"1\"\n"
                "hint: write for example 0, the default"},
           Case{{"model.positions=rotary", "model.d_model=6"},
                "`positions: rotary` needs an even head width, found 3\n"
                "hint: set `d_head` to 4"},
       }) {
    Arguments command = {"train", "tiny.yaml"};
    command.insert(command.end(), given.overrides.begin(), given.overrides.end());
    check_refusal(work, command, 2, "command line: " + given.overrides[0] + ": " + given.message);
  }
}

TEST_CASE("token batches smaller than a training sentence are refused before training") {
  const TextWorkplace work;
  work.write("train.en", "a very big house\na cat\n");
  check_refusal(work, {"train", "text.yaml", "train.batch_tokens=4"}, 3,
                work.at("train.en") +
                    ":1: found 5 tokens with <eos>, expected at most 4 (train.batch_tokens)\n"
                    "hint: set train.batch_tokens to 5 or more; data.max_tokens leaves long "
                    "training pairs out");
}

TEST_CASE("heads that do not divide the width are refused") {
  const ConfiguredWorkplace work("num_heads: 2", "num_heads: 3");
  check_refusal(work, {"train", "tiny.yaml"}, 2,
                "tiny.yaml:9:3: `d_model` is 16, not a multiple of `num_heads` (3)\n"
                "    d_model: 16\n"
                "    ^~~~~~~\n"
                "hint: set `d_model` to 15 or 18");
}

TEST_CASE("sequences longer than the positions are refused") {
  const ConfiguredWorkplace work("max_length: 8", "max_length: 4");
  check_refusal(work, {"train", "tiny.yaml"}, 2,
                "tiny.yaml:4:3: `max_length` is 4, and with `<bos>` or `<eos>` 5 tokens; "
                "`model.max_length` is 4\n"
                "    max_length: 4\n"
                "    ^~~~~~~~~~\n"
                "hint: set `model.max_length` to 5 or more");
}

TEST_CASE("a mistake in an override is reported as it was typed") {
  const ConfiguredWorkplace work;
  check_refusal(work, {"train", "tiny.yaml", "model.d_modl=8"}, 2,
                "command line: model.d_modl=8: unknown key `d_modl` in `model`\n"
                "hint: did you mean `d_model`?");
}

TEST_CASE("a missing config file is reported by name") {
  const Workplace work;
  check_refusal(work, {"train", "nowhere.yaml"}, 2,
                "nowhere.yaml: cannot be read: No such file or directory\n"
                "hint: check the path and its permissions");
}

TEST_CASE("a missing data file is reported by name") {
  const TextWorkplace work;
  std::filesystem::remove(work / "valid.en");
  check_refusal(
      work, {"train", "text.yaml"}, 3,
      work.at("valid.en") +
          ": cannot be read: No such file or directory\n"
          "hint: check the path and its permissions; a relative path starts at the folder "
          "of the config file, on the command line at the working folder (the key is "
          "data.validation_target)");
}

TEST_CASE("files with different numbers of lines are reported with both numbers") {
  const TextWorkplace work;
  work.write("train.en", "a house\na cat\na tree\n");
  const Outcome refused = work.run({"train", "text.yaml"});
  CHECK(refused.code == 3);
  CHECK(refused.err.starts_with("tapestry: error: " + work.at("train.de") + ": 2 lines, but " +
                                work.at("train.en") +
                                " has 3: line n of one must be the "
                                "translation of line n of the other, and line 3 is not\nhint: "));
  CHECK_FALSE(std::filesystem::exists(work / "runs"));
}

TEST_CASE("a sentence longer than the positions is refused before a run directory is made") {
  const TextWorkplace work;
  work.write("valid.en", "a dog that is very old\n");
  const std::string message =
      work.at("valid.en") +
      ":1: found 7 tokens with <eos>, expected at most 6 (model.max_length)\n"
      "hint: set model.max_length to 7 or more; data.max_tokens leaves long training pairs out";
  check_refusal(work, {"train", "text.yaml"}, 3, message);
  check_refusal(work, {"gradcheck", "text.yaml"}, 3, message);
}

TEST_CASE("--fresh does not move the old run if the data have a mistake") {
  const TextWorkplace work;
  REQUIRE(work.run({"train", "text.yaml"}).code == 0);
  std::filesystem::remove(work / "train.de");
  const auto before = work.contents();
  CHECK(work.run({"train", "text.yaml", "--fresh"}).code == 3);
  CHECK(work.contents() == before);
}

TEST_CASE("evaluate accepts other sentences, with the vocabulary of the model") {
  const TextWorkplace work;
  REQUIRE(work.run({"train", "text.yaml"}).code == 0);
  work.write("valid.en", "a cat\n");
  const Outcome evaluated = work.run({"evaluate", "runs/text"});
  CHECK(evaluated.code == 0);
  CHECK(contains(evaluated.out, "validation  1 held-out pairs: "));
  CHECK(evaluated.err.empty());
  work.write("train.en", "the big house and all of its cats\na big cat\n");
  const Outcome changed = work.run({"evaluate", "runs/text"});
  CHECK(changed.code == 0);
  CHECK(changed.out == evaluated.out);
  CHECK(changed.err.empty());
}

TEST_CASE("evaluate accepts moved data files, and other files to score") {
  const TextWorkplace work;
  REQUIRE(work.run({"train", "text.yaml"}).code == 0);
  const Outcome before = work.run({"evaluate", "runs/text"});
  std::filesystem::rename(work / "train.de", work / "moved.de");
  const Outcome moved = work.run({"evaluate", "runs/text", "data.train_source=moved.de"});
  CHECK(moved.out == before.out);
  CHECK(moved.err.empty());

  work.write("more.de", "ein haus\nein haus\n");
  work.write("more.en", "a house\na house\n");
  const Outcome more = work.run({"evaluate", "runs/text", "data.train_source=moved.de",
                                 "data.test_source=more.de", "data.test_target=more.en"});
  CHECK(more.code == 0);
  CHECK(contains(more.out, "\ntest        2 held-out pairs: "));
  check_refusal(work, {"evaluate", "runs/text", "data.train_source=moved.de", "data.test_source="},
                2,
                "command line: data.test_source=: found no file, expected one\n"
                "hint: write data.test_source=FILE");
  check_refusal(work, {"evaluate", "runs/text", "data.tst_source=more.de"}, 2,
                "command line: data.tst_source=more.de: unknown key `tst_source` in `data`\n"
                "hint: did you mean `test_source`?");
  check_refusal(work, {"evaluate", "runs/text", "data.train_source=nowhere"}, 3,
                work.at("nowhere") +
                    ": cannot be read: No such file or directory\n"
                    "hint: check the path and its permissions; a relative path starts at the "
                    "folder of the config file, on the command line at the working folder (the key "
                    "is data.train_source)");
}

TEST_CASE("evaluate needs no training files, and reports missing held-out files") {
  const TextWorkplace work;
  REQUIRE(work.run({"train", "text.yaml"}).code == 0);
  const Outcome before = work.run({"evaluate", "runs/text"});
  std::filesystem::remove(work / "train.de");
  const Outcome without = work.run({"evaluate", "runs/text"});
  CHECK(without.code == 0);
  CHECK(without.out == before.out);
  CHECK(without.err.empty());

  std::filesystem::rename(work / "valid.en", work / "test.en");
  std::filesystem::copy(work / "valid.de", work / "test.de");
  const Outcome test_only =
      work.run({"evaluate", "runs/text", "data.test_source=test.de", "data.test_target=test.en"});
  CHECK(test_only.code == 0);
  CHECK_FALSE(contains(test_only.out, "validation"));
  CHECK(contains(test_only.out, "\ntest        1 held-out pairs: "));
  CHECK(test_only.err == "tapestry: warning: " + work.at("valid.en") +
                             ": cannot be read: No such file or directory; there is no validation "
                             "set\n");
  const Outcome nothing = work.run({"evaluate", "runs/text"});
  CHECK(nothing.code == 3);
  CHECK(nothing.out.empty());
  CHECK(contains(nothing.err, work.at("valid.en") + ": cannot be read"));
  CHECK_FALSE(contains(nothing.err, "train.de"));
}

TEST_CASE("training and resuming need the training files") {
  const TextWorkplace work;
  REQUIRE(work.run({"train", "text.yaml"}).code == 0);
  std::filesystem::remove(work / "train.de");
  for (const Arguments& command : {Arguments{"train", "--resume", "runs/text", "train.steps=6"},
                                   {"train", "text.yaml", "train.run_dir=runs/other"}}) {
    const Outcome refused = work.run(command);
    CHECK(refused.code == 3);
    CHECK(contains(refused.err, " (the key is data.train_source)\n"));
  }
}

TEST_CASE("every command that examines a run accepts moved data files") {
  const TextWorkplace work;
  REQUIRE(work.run({"train", "text.yaml"}).code == 0);
  std::filesystem::create_directory(work / "moved");
  std::filesystem::rename(work / "train.de", work / "moved/train.de");
  for (const Arguments& command : {Arguments{"check", "runs/text"},
                                   {"gradcheck", "runs/text", "--coordinates", "1"},
                                   {"attention", "runs/text"}}) {
    CAPTURE(command[0]);
    CHECK(work.run(command).code == 0);
    Arguments moved = command;
    moved.emplace_back("data.train_source=moved/train.de");
    CHECK(work.run(moved).code == 0);
  }
  CHECK(work.run({"train", "--resume", "runs/text", "train.steps=6",
                  "data.train_source=moved/train.de"})
            .code == 0);
  CHECK(work.run({"attention", "runs/text"}).code == 0);
  check_refusal(work, {"attention", "runs/text", "--text", "ein haus", "data.train_source=x"}, 2,
                "command line: data.train_source=x: a text that is given needs no other data\n"
                "hint: leave it or --text out");
}

TEST_CASE("a file in the place of the run directory is refused") {
  const ConfiguredWorkplace work;
  work.write("taken", "text");
  const std::string message =
      "taken: could not create the folder: File exists\n"
      "hint: move the file of that name away or write elsewhere";
  check_refusal(work, {"train", "tiny.yaml", "train.run_dir=taken"}, 5, message);
  check_refusal(work, {"train", "tiny.yaml", "train.run_dir=taken/run"}, 5, message);
  check_refusal(work, {"train", "tiny.yaml", "train.run_dir=taken", "--fresh"}, 5, message);
}

TEST_CASE("an invalid run directory is refused before training") {
  const ConfiguredWorkplace work;
  check_refusal(
      work, {"train", "tiny.yaml", "train.run_dir=~/x"}, 2,
      "command line: train.run_dir=~/x: expected a path, found ~/x, whose ~ only a shell expands\n"
      "hint: write the whole path of the home directory; on a command line, $HOME/... "
      "instead of ~/...");
  const std::string name(300, 'x');
  const Outcome refused = work.run({"train", "tiny.yaml", "train.run_dir=" + name});
  CHECK(refused.code == 2);
  CHECK(refused.err.ends_with(
      ": expected a path of at most 4000 bytes with names of at most 255, found 300 bytes with a "
      "name of 300\nhint: choose a shorter name\n"));
  std::filesystem::create_directory(work / "photos");
  work.write("photos/a.jpg", "mine");
  check_refusal(work, {"train", "tiny.yaml", "train.run_dir=photos"}, 2,
                "photos: holds other files, such as a.jpg, and is not the directory of a run, "
                "expected a new or an empty one\nhint: choose another train.run_dir");
  const Outcome root = work.run({"train", "tiny.yaml", "--dry-run", "train.run_dir=/"});
  CHECK(root.code == 2);
  CHECK(root.err.starts_with("tapestry: error: /: holds other files, such as "));
  std::filesystem::create_directory(work / "empty");
  work.write("empty/.gitkeep", "");
  CHECK(work.run({"train", "tiny.yaml", "train.run_dir=empty", "train.steps=1"}).code == 0);
}

TEST_CASE("a config file with a name that cannot be stored is refused before training") {
  const ConfiguredWorkplace work;
  const std::string yaml = test::read_text(work / "tiny.yaml");
  for (const std::string name : {"a\nb.yaml", "a\x1B[31m.yaml", "a\xFF.yaml"}) {
    CAPTURE(name);
    work.write(name, yaml);
    const auto before = work.contents();
    const Outcome refused = work.run({"train", name});
    CHECK(refused.code == 2);
    CHECK(contains(refused.err, "the run directory is named after the config file: expected a "));
    CHECK(contains(refused.err,
                   "\nhint: rename the file, or name a directory with "
                   "train.run_dir=DIR\n"));
    CHECK(work.contents() == before);
    CHECK(work.run({"train", name, "train.run_dir=runs/named", "train.steps=1", "--fresh"}).code ==
          0);
    CHECK(work.run({"train", "--resume", "runs/named", "train.steps=2"}).code == 0);
  }
}

TEST_CASE("a config in a folder with a name that cannot be stored is refused before training") {
  const test::TextWorkplace work;
  struct Name {
    std::string name, escaped, found;
  };
  for (const Name& bad : {Name{"a\x1B", "a\\x1B", "control character U+001B"},
                          Name{"a\nb", "a\\nb", "control character U+000A"},
                          Name{"caf\xE9", "caf\\xE9", "byte 0xe9, which is not UTF-8"}}) {
    CAPTURE(bad.escaped);
    std::filesystem::create_directory(work / bad.name);
    for (const auto& entry : std::filesystem::directory_iterator(work.path())) {
      if (entry.is_regular_file()) {
        std::filesystem::copy_file(entry.path(), work / bad.name / entry.path().filename());
      }
    }
    const Outcome refused = work.run({"train", bad.name + "/text.yaml"});
    CHECK(refused.code == 2);
    CHECK(contains(refused.err,
                   "/text.yaml: data.train_source: found " + bad.found + " in the path "));
    CHECK(contains(refused.err, "/" + bad.escaped + "/"));
    CHECK(contains(refused.err, "\nhint: rename the file, or the folder that it is in\n"));
    CHECK_FALSE(std::filesystem::exists(work / "runs"));
  }
}

TEST_CASE("the config of a run names its run, and a copy of it needs another directory") {
  const test::TrainedWorkplace work;
  std::filesystem::create_directory(work / "copies");
  std::filesystem::copy_file(work / "runs/tiny/config.yaml", work / "copies/mine.yaml");
  check_refusal(work, {"train", "copies/mine.yaml"}, 2,
                "copies/mine.yaml: is a copy of the config of a run and names the directory of "
                "that run, runs/tiny, expected another one\n"
                "hint: name a directory with train.run_dir=DIR, or delete run_dir from the copy");
  CHECK(work.run({"train", "copies/mine.yaml", "train.run_dir=runs/mine"}).code == 0);
  std::filesystem::rename(work / "runs/tiny", work / "moved");
  const Outcome resumed = work.run({"train", "--resume", "moved/config.yaml", "train.steps=13"});
  CHECK(resumed.code == 0);
  CHECK(resumed.out.starts_with("resuming moved at step 12 of 13\n"));
  CHECK_FALSE(std::filesystem::exists(work / "runs/tiny"));
}

TEST_CASE("files of the user are not overwritten by those of a run") {
  const ConfiguredWorkplace work;
  work.write("config.yaml", "mine");
  for (const char* fresh : {"train.seed=1", "--fresh"}) {
    check_refusal(work, {"train", "tiny.yaml", "train.run_dir=.", fresh}, 2,
                  "./config.yaml: exists and is not part of a run; a run here would overwrite it\n"
                  "hint: choose another train.run_dir");
  }
  for (const std::string file : {"metrics.csv", "train.log"}) {
    std::filesystem::create_directory(work / file.substr(0, 5));
    work.write(file.substr(0, 5) + "/" + file, "mine");
    check_refusal(work, {"train", "tiny.yaml", "train.run_dir=" + file.substr(0, 5)}, 2,
                  file.substr(0, 5) + "/" + file +
                      ": exists and is not part of a run; a run here would overwrite it\n"
                      "hint: choose another train.run_dir");
  }
}

}  // namespace
}  // namespace tapestry
