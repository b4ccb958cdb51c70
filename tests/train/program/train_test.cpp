// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>
#include <sys/stat.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "tests/train/program.h"
#include "train/checkpoint/arithmetic.h"
#include "train/checkpoint/metrics.h"

/// Tests `tapestry train`: new runs, their directories and output, dry runs and lengths in epochs.
namespace tapestry {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::check_rejected;
using test::check_words;
using test::contains;
using test::Outcome;
using test::split_lines;
using test::TinyWorkplace;
using test::TrainedWorkplace;

const std::string done_12 = "\ndone: 12 steps; next: tapestry evaluate runs/tiny\n";

// ---- Output

TEST_CASE("train prints its progress and writes config, checkpoints, metrics and log") {
  const TrainedWorkplace work;
  const Outcome& done = work.trained;
  CHECK(done.code == 0);
  CHECK(done.err.empty());
  CHECK(
      done.out.starts_with("data: 22 training pairs, 6 validation, 4 test; vocabularies of 9 and "
                           "9\nbatches: 6 per epoch, of 3.7 pairs and 12 tokens on average; "
                           "padding 1.4 %\nmodel: 6,"));
  check_words(done.out, {" tensors; threads: 1; " + arithmetic() + "; run directory runs/tiny\n",
                         "\nstep  4/12  epoch 1  ", "\nvalidation at step 6: loss "});
  CHECK(done.out.ends_with(done_12));
  CHECK(contains(work.read("runs/tiny/config.yaml"), "\n  steps: 12\n"));
  CHECK(work.has(work.checkpoint(12)));
  CHECK(split_lines(work.read("runs/tiny/metrics.csv")).size() == 1 + 3 + 2);
  CHECK(split_lines(work.read("runs/tiny/train.log")).size() == split_lines(done.out).size());
  // Training with the config in the run directory gives the same bytes.
  work.out("train runs/tiny/config.yaml train.run_dir=runs/again train.threads=2");
  CHECK(work.read(work.checkpoint(12, "runs/again")) == work.read(work.checkpoint(12)));
}

TEST_CASE("the end of a run names the best validation and its step, even after a resume") {
  const TrainedWorkplace work;
  work.out(
      "train tiny.yaml train.run_dir=best train.best_metric=token_accuracy "
      "train.validate_every=1 schedule.learning_rate=1 --until 6");
  const std::string out = work.out("train --resume best");
  double best = -1.0;
  std::uint64_t at = 0;
  for (const auto& [step, value] :
       validation_values(work.read("best/metrics.csv"), "token_accuracy")) {
    if (value <= best) continue;
    best = value;
    at = step;
  }
  const std::size_t end = out.find(fmt::format(
      "\nbest validation: token_accuracy {:.4f} at step {}\ndone: 12 steps; ", best, at));
  CHECK_MESSAGE(end != out.npos, out);
  CHECK_FALSE(contains(work.out("train tiny.yaml train.run_dir=none data.validation_size=0"),
                       "best validation"));
}

TEST_CASE("train warns if the run ends within its warm-up") {
  const TinyWorkplace work;
  const std::string warning = "warning: the warm-up of 13 steps is longer than the run of 12";
  for (const std::string way : {"schedule.kind=linear_warmup", "schedule.kind=inverse_sqrt",
                                "schedule.kind=cosine schedule.decay_steps=20"}) {
    CAPTURE(way);
    const std::string run = "train tiny.yaml --fresh " + way + " schedule.warmup_steps=";
    CHECK(contains(work.out(run + "13"), warning));
    CHECK_FALSE(contains(work.out(run + "12"), "warm-up"));
  }
}

TEST_CASE("paths in printed commands are quoted for the shell if necessary") {
  const TinyWorkplace work;
  const std::string run_dir = "my runs/it's", quoted = "'my runs/it'\\''s'";
  const test::CommandLine train = {"train", "tiny.yaml", "train.run_dir=" + run_dir};
  CHECK(work.out(train).ends_with("; next: tapestry evaluate " + quoted + "\n"));
  CHECK(contains(work.run(train).err, "`tapestry train --resume " + quoted + "`"));
  const Outcome stopped =
      work.run({"train", "--resume", run_dir, "train.steps=1000000", "train.max_time=1s"});
  CHECK(stopped.code == 124);
  CHECK(stopped.out.ends_with("; resume with: tapestry train --resume " + quoted + "\n"));
  work.write("my lines", "");
  CHECK(contains(work.run({"translate", run_dir, "my lines"}).err, "write < 'my lines'\n"));
}

std::vector<json> events_of(const std::string& text) {
  std::vector<json> events;
  for (const std::string& line : split_lines(text)) events.push_back(json::parse(line));
  return events;
}

TEST_CASE("train --json prints the events of a run as JSON lines") {
  const TinyWorkplace work;
  const auto events = events_of(work.out("train tiny.yaml --json"));
  const auto count = [&](const char* name) {
    return std::ranges::count_if(events, [&](auto& event) { return event.at("event") == name; });
  };
  CHECK(events.front()["event"] == "start");
  CHECK(events.front()["steps"] == 12);
  CHECK(count("step") == 3);
  CHECK(count("validation") == 2);
  CHECK(count("checkpoint") > 0);
  CHECK(events.back() == json{{"event", "end"}, {"step", 12}, {"exit_code", 0}});
  CHECK(events_of(work.out("train --resume runs/tiny --json")).back()["exit_code"] == 0);
  const Outcome failed = work.run(
      "train tiny.yaml --json train.run_dir=bad optimizer.kind=sgd "
      "schedule.learning_rate=1e30 optimizer.clip_norm=0");
  CHECK(failed.code == 6);
  CHECK(events_of(failed.out).back()["exit_code"] == 6);
  CHECK(contains(failed.err, "error: step "));
}

TEST_CASE("the printed training loss excludes label smoothing, like the validation loss") {
  const TinyWorkplace work;
  for (const std::string smoothing : {"0", "0.3"}) {
    CAPTURE(smoothing);
    const std::string out = work.out("train tiny.yaml --fresh train.label_smoothing=" + smoothing);
    const auto printed = [&](const std::string& line) {
      const std::size_t begin = out.find(" loss ", out.find("\n" + line));
      return std::stod(out.substr(begin + 6));
    };
    for (const std::string& row : split_lines(work.read("runs/tiny/metrics.csv"))) {
      if (!contains(row, ",train,")) continue;
      std::vector<std::string> fields;
      std::istringstream rest(row);
      for (std::string field; std::getline(rest, field, ',');) fields.push_back(field);
      const double loss = std::stod(fields.at(3)), perplexity = std::stod(fields.at(4));
      const double shown = printed(fmt::format("step {:>2}/12", fields.at(0)));
      CHECK(shown == doctest::Approx(std::log(perplexity)).epsilon(1e-3));
      CHECK((std::abs(loss - shown) > 0.01) == (smoothing != "0"));
    }
  }
}

TEST_CASE(
    "the error about a non-finite step has each finding on its own line, with the whole path") {
  const Outcome failed = TinyWorkplace().run(
      "train tiny.yaml 'train.run_dir=a; b' optimizer.kind=sgd schedule.learning_rate=1e30 "
      "optimizer.clip_norm=0");
  CHECK(failed.code == 6);
  check_words(failed.err, {"\n  first in ", "\n  input 1: ", "\n  see a; b/non-finite-step-",
                           "\n  the weights are from step "});
}

TEST_CASE("a quiet run prints only warnings and errors, but its log has all lines") {
  const TinyWorkplace work;
  CHECK(work.out("train tiny.yaml --quiet").empty());
  check_words(work.read("runs/tiny/train.log"),
              {"step 12/12  epoch 2  loss ", "done: 12 steps; next: "});
  CHECK(work.out("train --resume runs/tiny --quiet").empty());
  fs::remove(work / "runs/tiny/events.jsonl");
  fs::create_directory(work / "runs/tiny/events.jsonl");
  const Outcome warned = work.run("train --resume runs/tiny train.steps=20 --quiet");
  CHECK(warned.code == 0);
  CHECK(warned.out.empty());
  CHECK(contains(warned.err, "warning: runs/tiny/events.jsonl: could not be written: "));
  CHECK(split_lines(warned.err).size() == 1);
  check_rejected(work, "train tiny.yaml --quiet", 2, {"already contains a run"});
}

TEST_CASE("train warns if the learning rate is 0 before the last step") {
  const TinyWorkplace work;
  const std::string cosine = "train tiny.yaml --fresh schedule.kind=cosine ";
  CHECK_FALSE(contains(work.out(cosine), "the learning rate is 0"));
  CHECK(contains(work.out(cosine + "schedule.decay_steps=8"),
                 "\nwarning: the learning rate is 0 from step 8 to 12: "));
  CHECK_FALSE(contains(work.out(cosine + "schedule.decay_steps=8 schedule.min_learning_rate=1e-5"),
                       "the learning rate is 0"));
}

TEST_CASE("skipped data are reported at the start of a run and when it is resumed") {
  const test::TextWorkplace work;
  work.write("train.de", "ein haus\n\neine katze\n");
  work.write("train.en", "a house\n\na cat\n");
  const std::string note = "train: 1 of 3 pairs skipped: both lines are blank\n";
  // The vocabularies have the words ein, haus, eine, katze and a, house, cat, and four special
  // symbols each.
  CHECK(work.out("train text.yaml")
            .starts_with(note + "data: 2 training pairs, 1 validation, 0 test; vocabularies of 8 "
                                "and 7\n"));
  CHECK(contains(work.out("train --resume runs/text train.steps=3"), "\n" + note));
}

// ---- Run directories

TEST_CASE("a second run in the same directory is rejected; --fresh moves the old run aside") {
  const TrainedWorkplace work;
  check_rejected(work, "train tiny.yaml", 2,
                 {"runs/tiny: already contains a run, at step 12\n",
                  "`tapestry train --resume runs/tiny`", "--fresh"});
  const std::string old = work.read(work.checkpoint(12));
  work.out("train tiny.yaml --fresh train.steps=1");
  work.out("train tiny.yaml --fresh train.run_dir=runs/tiny/ train.steps=2");
  CHECK(work.read(work.checkpoint(12, "runs/tiny.old-1")) == old);
  CHECK(work.has(work.checkpoint(1, "runs/tiny.old-2")));
  CHECK(work.has(work.checkpoint(2)));
  CHECK_FALSE(work.has(work.checkpoint(12)));
  // --fresh does not require an old run.
  work.out("train tiny.yaml --fresh train.run_dir=new train.steps=1");
}

TEST_CASE("--fresh does not move the old run if the data cannot be used") {
  const test::TextWorkplace work;
  work.out("train text.yaml");
  fs::remove(work / "train.de");
  check_rejected(work, "train text.yaml --fresh", 3, {"data.train_source"});
}

TEST_CASE("a run directory that cannot be used is rejected before training") {
  const TinyWorkplace work;
  work.write("taken", "text");
  work.write("config.yaml", "mine");
  fs::create_directory(work / "photos");
  work.write("photos/a.jpg", "mine");
  fs::create_directory(work / "logs");
  work.write("logs/train.log", "mine");
  const std::string train = "train tiny.yaml train.run_dir=";
  const test::Words taken = {"taken: could not create the folder: File exists", "move the file"};
  check_rows(work, {{train + "taken", 5, taken},
                    {train + "taken/run", 5, taken},
                    {train + "taken --fresh", 5, taken},
                    {train + "~/x", 2, {"found ~/x, whose ~ only a shell expands", "$HOME"}},
                    {train + std::string(300, 'x'), 2, {"with a name of 300", "a shorter name"}},
                    {train + "taken/run/deep --dry-run", 5, taken},
                    {train + "taken --dry-run", 5, taken},
                    {train + "photos", 2, {"photos: contains other files, such as a.jpg"}},
                    {train + "/ --dry-run", 2, {"/: contains other files, such as "}},
                    {train + ".", 2, {"./config.yaml: exists and is not part of a run"}},
                    {train + ". --fresh", 2, {"./config.yaml: exists and is not part of a run"}},
                    {train + "logs", 2, {"logs/train.log: exists and is not part of a run"}}});
  fs::create_directory(work / "empty");
  work.write("empty/.gitkeep", "");
  work.out(train + "empty train.steps=1");
}

TEST_CASE("a pipe, folder or link in place of train.log is rejected without blocking") {
  const TrainedWorkplace work;
  const auto log = work / "runs/tiny/train.log";
  fs::remove(log);
  work.write("victim", "mine");
  for (const std::string found : {"a pipe, socket or device", "a folder", "a symbolic link"}) {
    if (found == "a folder") fs::create_directory(log);
    if (found == "a symbolic link") fs::create_symlink(work / "victim", log);
    if (found == "a pipe, socket or device") REQUIRE(::mkfifo(log.c_str(), 0600) == 0);
    const Outcome rejected = work.run("train --resume runs/tiny train.steps=20");
    CHECK(rejected.code == 5);
    CHECK(contains(rejected.err, "runs/tiny/train.log: found " + found + ", expected a regular"));
    fs::remove(log);
  }
  CHECK(work.read("victim") == "mine");
}

TEST_CASE("files of a run are not read through links") {
  const TrainedWorkplace work;
  work.write("secret", "step,secret\n1,2\n");
  for (const std::string name : {"metrics.csv", "events.jsonl", "train.log"}) {
    CAPTURE(name);
    fs::remove(work / "runs/tiny" / name);
    fs::create_symlink(work / "secret", work / "runs/tiny" / name);
    CHECK(contains(work.run("report runs/tiny").err, name + ": found a symbolic link"));
    CHECK_FALSE(contains(work.read("runs/tiny/report.html"), "secret"));
    fs::remove(work / "runs/tiny" / name);
  }
}

TEST_CASE("a config whose name, or whose folder's name, cannot be stored is rejected") {
  const test::TextWorkplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  struct Name {
    std::string name, escaped, found;
  };
  for (const auto& [name, escaped, found] :
       {Name{"a\x1B", "a\\x1B", "control character U+001B"},
        Name{"a\nb", "a\\nb", "control character U+000A"},
        Name{"caf\xE9", "caf\\xE9", "byte 0xe9, which is not UTF-8"}}) {
    const auto& shown = escaped;  // clang 14 cannot capture a structured binding
    CAPTURE(shown);
    fs::create_directory(work / name);
    for (const char* file : {"text.yaml", "train.de", "train.en", "valid.de", "valid.en"}) {
      fs::copy_file(work / file, work / name / file);
    }
    check_rejected(work, {"train", name + "/text.yaml"}, 2,
                   {"/text.yaml: data.train_source: found " + found + " in the path ",
                    "/" + escaped + "/", "rename the file or its folder"});
    work.write(name + ".yaml", test::tiny_yaml);
    check_rejected(work, {"train", name + ".yaml"}, 2,
                   {"the run directory is named after the config file", "train.run_dir=DIR"});
    work.out({"train", name + ".yaml", "train.run_dir=runs/named", "train.steps=1", "--fresh"});
    work.out("train --resume runs/named train.steps=2");
  }
}

TEST_CASE("a copy of the config of a run needs another run directory") {
  const TrainedWorkplace work;
  fs::create_directory(work / "copies");
  fs::copy_file(work / "runs/tiny/config.yaml", work / "copies/mine.yaml");
  check_rejected(work, "train copies/mine.yaml", 2,
                 {"copies/mine.yaml: is a copy of the config of a run", "train.run_dir=DIR"});
  work.out("train copies/mine.yaml train.run_dir=runs/mine");
  fs::rename(work / "runs/tiny", work / "moved");
  CHECK(work.out("train --resume moved/config.yaml train.steps=13")
            .starts_with("resuming moved at step 12 of 13\n"));
  CHECK_FALSE(work.has("runs/tiny"));
}

// ---- Dry runs

TEST_CASE("a dry run computes one step, estimates the whole run and writes nothing") {
  const TrainedWorkplace work;
  const auto before = work.contents();
  const std::string dry = work.out("train tiny.yaml --dry-run --fresh");
  check_words(dry, {"\nmemory: about ", "\ndry run: step 1 took ", "; 12 steps take about "});
  CHECK(dry.ends_with("; nothing was written to runs/tiny\n"));
  check_words(work.out("train --resume runs/tiny train.steps=20 --dry-run"),
              {"\ndry run: step 13 took ", "; 8 steps take about "});
  CHECK(work.contents() == before);
  // A dry run can try a config change in a directory that contains a run.
  const Outcome tried = work.run("train tiny.yaml --dry-run model.dropout=0.5");
  CHECK(tried.code == 0);
  check_words(tried.out, {"\ndry run: step 1 took ", "; nothing was written to runs/tiny\n"});
  check_words(tried.err, {"warning: runs/tiny already contains a run, at step 12", "--fresh"});
  CHECK(work.contents() == before);
  const std::string small = "data.num_symbols=2 data.max_length=1 data.validation_size=90";
  check_rows(work,
             {{"train tiny.yaml --dry-run model.d_model=3", 2, {"d_model"}},
              {"train tiny.yaml --dry-run train.run_dir=x " + small, 3, {"validation_size"}}});
}

// ---- Epochs

TEST_CASE(
    "a run set in epochs equals a run of the same number of steps, and can be resumed for more "
    "epochs") {
  const TinyWorkplace work;
  const std::string train = "train tiny.yaml schedule.kind=cosine schedule.warmup_steps=25% ";
  work.out(train + "train.run_dir=steps");
  work.out(train + "train.run_dir=epochs train.epochs=2");
  CHECK(work.read(work.checkpoint(12, "epochs")) == work.read(work.checkpoint(12, "steps")));
  CHECK(contains(work.read("epochs/config.yaml"), "\n  steps: 12\n  epochs: 0\n"));
  CHECK(
      work.out("train --resume epochs train.epochs=2").starts_with("epochs is finished: 12 of 12"));
  CHECK(contains(work.out("train tiny.yaml train.epochs=3 train.accumulate=4"),
                 "\ndone: 5 steps; "));  // 18 batches
  work.out("train tiny.yaml train.run_dir=more train.epochs=2");
  work.out("train --resume more train.epochs=3");
  work.out("train tiny.yaml train.run_dir=longer train.steps=18");
  CHECK(work.read(work.checkpoint(18, "more")) == work.read(work.checkpoint(18, "longer")));
}

// ---- Profiles

using test::Words;

/// The lines of the table, from its title to its last row; the log has one line after it.
Words profile_in(const std::string& text) {
  Words lines;
  for (const std::string& line : test::split_lines(text)) {
    if (contains(line, " seconds by operation; ") || !lines.empty()) lines.push_back(line);
  }
  if (!lines.empty()) lines.pop_back();
  return lines;
}

TEST_CASE("--profile prints the table of operations at the end of the run, even with --resume") {
  const test::TrainedWorkplace work;
  CHECK(profile_in(work.trained.out).empty());
  const Words table = profile_in(work.out("train --resume runs/tiny train.steps=14 --profile"));
  const std::string text = work.read("runs/tiny/train.log");
  for (const std::string& line : table) CHECK(contains(text, "  " + line + "\n"));
  std::string names;
  for (const std::string& line : table) names += line.substr(0, line.find("  ")) + "\n";
  check_words(names, {"\nlinear\n", "\noptimizer step\n", "\nsaving\n", "\neverything else\n"});
}

}  // namespace
}  // namespace tapestry
