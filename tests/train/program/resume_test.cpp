// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <filesystem>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "autograd/instruction_set.h"
#include "tests/train/limits.h"
#include "tests/train/program.h"
#include "train/checkpoint/arithmetic.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/checkpoint/run_directory.h"

/// Tests how the program resumes a run, and which changes are allowed.
namespace tapestry {
namespace {

namespace fs = std::filesystem;
using test::check_rejected;
using test::check_words;
using test::contains;
using test::Outcome;
using test::TinyWorkplace;
using test::TrainedWorkplace;
using test::Workplace;

std::string history(const Workplace& work, const std::string& checkpoint) {
  return read_checkpoint(work / checkpoint).get_text("train/history");
}

// ---- The run and its last step

TEST_CASE("a run is resumed by its directory, by its config or by both, in any order") {
  std::string expected;
  for (const char* way :
       {"train --resume runs/tiny train.steps=14", "train tiny.yaml --resume train.steps=14",
        "train --resume tiny.yaml train.steps=14",
        "train --resume train.steps=14 tiny.yaml runs/tiny",
        "train runs/tiny tiny.yaml train.steps=14 --resume"}) {
    CAPTURE(way);
    const TrainedWorkplace work;
    CHECK(work.out(way).starts_with(
        "resuming runs/tiny at step 12 of 14\nchanged train.steps: 12 -> 14\ndata: "));
    const std::string end = work.read(work.checkpoint(14));
    if (expected.empty()) expected = end;
    CHECK(end == expected);
    CHECK(history(work, work.checkpoint(14)).empty());
  }
}

TEST_CASE("a run resumed for more steps equals a run with this number of steps from the start") {
  const TrainedWorkplace work;
  const std::string out =
      work.out("train --resume runs/tiny train.steps=20 train.threads=2 train.max_time=1m");
  check_words(out, {"\ndata: 22 training pairs, 6 validation, 4 test; vocabularies of ",
                    " tensors; threads: 2; " + arithmetic() + "; run directory runs/tiny\n",
                    "the largest step of 4 x 5 x 5 tokens"});
  CHECK(out.ends_with("\ndone: 20 steps; next: tapestry evaluate runs/tiny\n"));
  CHECK(contains(work.read("runs/tiny/config.yaml"), "\n  steps: 20\n"));
  CHECK(test::split_lines(work.read("runs/tiny/train.log")).size() ==
        test::split_lines(work.trained.out + out).size());
  work.out("train tiny.yaml train.steps=20 train.run_dir=at-once");
  CHECK(work.read(work.checkpoint(20)) == work.read(work.checkpoint(20, "at-once")));
  CHECK(work.read("runs/tiny/metrics.csv") == work.read("at-once/metrics.csv"));
}

TEST_CASE("train --until saves and stops after a step, and the run can be resumed") {
  const TrainedWorkplace work;
  CHECK(contains(work.out("train tiny.yaml train.run_dir=parts --until 5"),
                 "stopped by --until and saved at step 5; resume with: "));
  CHECK(contains(work.out("train --resume parts --until 3"), "saved at step 5"));
  work.out("train --resume parts");
  for (const std::string file : {"/metrics.csv", "/checkpoints/step-00000012.h5"}) {
    CHECK(work.read("parts" + file) == work.read("runs/tiny" + file));
  }
}

TEST_CASE(
    "resuming a finished run changes none of its files, not even temporary files or the lock") {
  const TrainedWorkplace work;
  work.write("runs/tiny/checkpoints/.step-00000013.h5.tmp-1-0", "of a crash");
  const auto lock_before = fs::last_write_time(work / "runs/tiny/.lock");
  const auto before = work.contents();
  CHECK(work.out("train tiny.yaml --resume") ==
        "runs/tiny is finished: 12 of 12 steps; to continue, set a larger train.steps=N\n");
  CHECK(work.contents() == before);
  CHECK(fs::last_write_time(work / "runs/tiny/.lock") == lock_before);
  CHECK(contains(work.out("train --resume runs/tiny train.steps=10"),
                 "it has done 12 steps, and train.steps is 10"));
  const Outcome unused = work.run(
      "train --resume runs/tiny train.best_metric=bleu --allow-change train.best_metric "
      "train.log_every=1");
  CHECK(unused.code == 0);
  check_words(unused.err, {"warning: train.best_metric: loss -> bleu has no effect",
                           "warning: train.log_every: ", "has no effect"});
  CHECK(work.contents() == before);
}

TEST_CASE("a run whose validations all score 0 advises another best_metric") {
  const std::string out =
      TinyWorkplace().out("train tiny.yaml train.best_metric=exact_match train.steps=2");
  CHECK(contains(out, "best validation: exact_match 0.0000 at step "));
  CHECK(contains(out, "choose another train.best_metric"));
}

TEST_CASE("a finished run whose learning rate is 0 continues with the printed options") {
  const TinyWorkplace work;
  work.out("train tiny.yaml schedule.kind=cosine schedule.warmup_steps=1");
  const std::string options = " schedule.decay_steps=N --allow-change schedule.decay_steps\n";
  std::string longer = options.substr(0, options.size() - 1);
  longer.replace(longer.find('N'), 1, "14");
  CHECK(contains(work.out("train --resume runs/tiny"), "train.steps=N with" + options));
  CHECK(contains(work.out("train --resume runs/tiny train.steps=14" + longer), "step 14/14"));
}

TEST_CASE("a run that was killed between its last checkpoint and its end is completed") {
  const TrainedWorkplace work;
  const std::string log = work.read("runs/tiny/train.log"), last = work.checkpoint(12);
  const std::string checkpoint = work.read(last), metrics = work.read("runs/tiny/metrics.csv");
  const auto steps = RunDirectory(work / "runs/tiny").steps();
  const std::vector<std::string> leftovers{"runs/tiny/.report.html.tmp-1-0",
                                           "runs/tiny/checkpoints/.step-00000012.h5.tmp-1-0",
                                           work.checkpoint(1)};
  for (const std::string& name : leftovers) work.write(name, "of a killed process");
  work.write("runs/tiny/report.html", "in progress");
  work.write("runs/tiny/train.log", log.substr(0, log.find("done: ") - 21));
  CHECK(contains(work.out("runs"), "stopped"));
  const std::string completed = work.out("train --resume runs/tiny train.report_every=1");
  check_words(completed, {"resuming runs/tiny at step 12 of 12", "\ndone: 12 steps; next: "});
  for (const std::string& name : leftovers) CHECK_FALSE(work.has(name));
  CHECK(RunDirectory(work / "runs/tiny").steps() == steps);
  CHECK(contains(work.read("runs/tiny/report.html"), "<html"));
  CHECK(contains(work.out("runs"), "finished"));
  CHECK(work.read(last) == checkpoint);
  CHECK(work.read("runs/tiny/metrics.csv") == metrics);
  CHECK(contains(work.run("train --resume runs/tiny").out, "runs/tiny is finished: "));
}

TEST_CASE("edits of config.yaml in a run are ignored with a warning that shows how to apply them") {
  const TrainedWorkplace work;
  const std::string file = "runs/tiny/config.yaml", text = work.read(file);
  const auto edit = [&](const std::vector<std::pair<std::string, std::string>>& keys) {
    std::string edited = text;
    for (const auto& [key, value] : keys) {
      edited = std::regex_replace(edited, std::regex("\n  " + key + ": [^\n]*"),
                                  "\n  " + key + ": " + value);
    }
    work.write(file, edited);
  };
  edit({{"dropout", "0.375"}, {"steps", "14"}, {"num_heads", "4"}});
  const Outcome finished = work.run("train --resume runs/tiny");
  CHECK(finished.code == 0);
  CHECK(contains(finished.out, "is finished: 12 of 12"));
  check_words(finished.err, {"warning: runs/tiny/config.yaml is not used", "\n  train.steps ",
                             "  train.steps=14\n", " 0.375 ",
                             "  model.dropout=0.375 --allow-change model.dropout\n",
                             "\n  model.num_heads ", "start a new run"});
  // The arguments that the warning suggests apply the edits.
  const std::string out = work.run(
                                  "train --resume runs/tiny train.steps=14 model.dropout=0.375 "
                                  "--allow-change model.dropout")
                              .out;
  check_words(out, {"runs/tiny/config.yaml is not used", "model.num_heads", "done: 14 steps"});
  CHECK_FALSE(contains(out, "\n  train.steps"));
  CHECK(contains(work.read(file), "dropout: 0.375"));
  // The run has overwritten the edited file.
  CHECK_FALSE(contains(work.out("train --resume runs/tiny train.steps=15"), "not used"));
  work.write(file, "model: {d_model: }\n");
  check_words(work.run("train --resume runs/tiny train.steps=16").out,
              {"runs/tiny/config.yaml is not used", "has an error: ", "done: 16 steps"});
}

TEST_CASE("a new or resumed run that cannot save a checkpoint does not begin a step") {
  const TrainedWorkplace work;
  const auto bytes = fs::file_size(work / work.checkpoint(12));
  const test::ResourceLimit limit(RLIMIT_FSIZE, bytes / 4);
  for (const char* way :
       {"train --resume runs/tiny train.steps=14", "train tiny.yaml train.run_dir=runs/other"}) {
    const test::Outcome rejected = work.run(way);
    CHECK(rejected.code == 5);
    CHECK(contains(rejected.err, "checkpoints/probe: could not reserve space: File too large"));
    CHECK_FALSE(contains(rejected.out, "step 1/"));
    CHECK_FALSE(contains(rejected.out, "step 13/"));
  }
}

TEST_CASE("a run directory renamed to bytes that are not UTF-8 can be resumed and listed") {
  const TrainedWorkplace work;
  fs::rename(work / "runs/tiny", work / "r\xfcn");
  for (const int steps : {13, 14}) {
    work.out(fmt::format("train --resume r\xfcn train.steps={}", steps));
  }
  CHECK(contains(work.out("runs ."), "r\\xFCn"));
  CHECK(contains(work.read("r\xfcn/config.yaml"), R"(run_dir: "r\\xFCn")"));
}

// ---- Changed configs

TEST_CASE("a changed config is compared key by key with the checkpoint") {
  const TrainedWorkplace work;
  check_rejected(work,
                 "train tiny.yaml --resume train.steps=20 model.d_model=32 model.dropout=0.4 "
                 "train.seed=2",
                 2,
                 {"runs/tiny: the config differs from the checkpoint in keys that affect the run\n"
                  "  key            checkpoint  config  to change it\n"
                  "  model.d_model  16          32      start a new run\n"
                  "  model.dropout  0.2         0.4     --allow-change model.dropout\n"
                  "  train.seed     1           2       start a new run\n"});
  check_rejected(work, "train --resume runs/tiny train.run_dir=other", 2,
                 {"  train.run_dir  \"runs/tiny\"  \"other\"  a run is resumed in its own dir"});
}

TEST_CASE("a change with --allow-change is recorded in the history of later checkpoints") {
  const TrainedWorkplace work;
  const std::string change = "changed model.dropout: 0.2 -> 0.4\n", line = "step 12: " + change;
  CHECK(contains(work.out("train --resume runs/tiny train.steps=14 train.keep_last=9 "
                          "model.dropout=0.4 --allow-change model.dropout"),
                 "\nwarning: " + change));
  CHECK(history(work, work.checkpoint(14)) == line);
  CHECK(contains(work.out("inspect " + work.checkpoint(14)), "\nhistory:\n" + line));
  // A resumed run keeps the change.
  work.out("train --resume runs/tiny train.steps=15");
  CHECK(history(work, work.checkpoint(15)) == line);
  check_rejected(work, "train tiny.yaml --resume train.steps=16", 2, {"model.dropout"});
  // Without the newer checkpoints, the run is finished at step 12 and its history does not contain
  // the change.
  for (const auto& entry : fs::directory_iterator(work / "runs/tiny/checkpoints")) {
    if (entry.path() != work / work.checkpoint(12)) fs::resize_file(entry, 100);
  }
  const Outcome finished = work.run("train --resume runs/tiny");
  CHECK(finished.code == 0);
  CHECK(contains(finished.out, "runs/tiny is finished: 12 of 12 steps"));
  check_words(finished.err,
              {"; an older checkpoint is used\n", "runs/tiny/config.yaml is not used",
               "  train.steps=15\n", "  model.dropout=0.4 --allow-change model.dropout\n"});
  work.out("train --resume runs/tiny train.steps=15");
  CHECK_FALSE(contains(work.out("inspect " + work.checkpoint(15)), "\nhistory:\n"));
}

/// A workplace with a run of 10 steps, which ends within the second epoch. An epoch has 6 batches
/// of 4.
struct BegunWorkplace : TinyWorkplace {
  BegunWorkplace() { out("train tiny.yaml train.steps=10 train.log_every=1"); }

  /// Resumes the run to `steps` with an allowed change.
  std::string change(const std::string& steps, const std::string& override) const {
    return out("train --resume runs/tiny train.steps=" + steps + " " + override +
               " --allow-change " + override.substr(0, override.find('=')));
  }
};

TEST_CASE(
    "--allow-change permits changes of batch size, data size and optimizer, and prints them") {
  struct Change {
    std::string override, history;
    bool new_epoch, new_state;
  };
  const std::vector<Change> changes = {
      {"train.batch_size=8", "train.batch_size: 4 -> 8", true, false},
      {"train.batch_tokens=25", "train.batch_tokens: 0 -> 25", true, false},
      {"data.train_size=40", "data.train_size: 22 -> 40", true, false},
      {"optimizer.kind=adamw", "optimizer.kind: adam -> adamw", false, false},
      {"optimizer.kind=sgd", "optimizer.kind: adam -> sgd", false, true},
      {"optimizer.weight_decay=0.1", "optimizer.weight_decay: 0 -> 0.1", false, false}};
  const std::string end = TinyWorkplace::checkpoint(20), metrics = "runs/tiny/metrics.csv";
  for (const Change& change : changes) {
    CAPTURE(change.override);
    const BegunWorkplace at_once, in_parts;
    check_rejected(at_once, "train --resume runs/tiny train.steps=20 " + change.override, 2,
                   {"  --allow-change "});
    CHECK(contains(at_once.change("20", change.override), "\nwarning: changed " + change.history));
    std::string history = "step 10: changed " + change.history + "\n";
    if (change.new_state) history += "step 10: the optimizer state is reset\n";
    if (change.new_epoch) history += "step 10: continues with the first batch of an epoch\n";
    CHECK(contains(at_once.out("inspect " + end), "\nhistory:\n" + history));

    // If resumed once more, the run ends with the same bytes.
    in_parts.change("13", change.override);
    in_parts.out("train --resume runs/tiny train.steps=20");
    CHECK(in_parts.read(end) == at_once.read(end));
    CHECK(in_parts.read(metrics) == at_once.read(metrics));
    if (change.override != "train.batch_size=8") continue;
    // 10 steps with 6 batches per epoch, then 3 batches of 8 pairs per epoch.
    check_words(at_once.read(metrics),
                {"\n10,2,train,", "\n11,3,train,", "\n13,3,train,", "\n14,4,train,",
                 "\n16,4,train,", "\n17,5,train,", "\n20,6,train,"});
  }
}

/// A workplace with a finished run of 12 steps whose learning rate decays to 0.
struct DecayedWorkplace : TinyWorkplace {
  DecayedWorkplace() {
    std::string text = test::tiny_yaml;
    write("tiny.yaml", text.replace(text.find("inverse_sqrt"), 12, "cosine"));
    out("train tiny.yaml");
  }
};

TEST_CASE("a run whose learning rate has decayed to 0 needs a new decay_steps to continue") {
  const DecayedWorkplace rejected;
  for (const char* run : {"tiny.yaml", "runs/tiny"}) {
    check_rejected(rejected, std::string("train train.steps=16 --resume ") + run, 2,
                   {"raised from 12 to 16", "reaches 0 at step 12",
                    "schedule.decay_steps=16 --allow-change schedule.decay_steps",
                    "schedule.min_learning_rate"});
  }
  std::string expected;
  for (const std::string way :
       {"runs/tiny train.steps=16 schedule.decay_steps=16",
        "runs/tiny train.steps=16 schedule.decay_steps=100%", "tiny.yaml train.steps=16"}) {
    CAPTURE(way);
    const DecayedWorkplace work;
    work.out("train train.log_every=2 --allow-change schedule.decay_steps --resume " + way);
    CHECK(history(work, work.checkpoint(16)) ==
          "step 12: changed schedule.decay_steps: 12 -> 16\n");
    const std::string metrics = work.read("runs/tiny/metrics.csv");
    if (expected.empty()) expected = metrics;
    CHECK(metrics == expected);
    CHECK(contains(metrics, "\n14,"));
  }
  const std::string minimum =
      " schedule.min_learning_rate=0.001 --allow-change schedule.min_learning_rate";
  rejected.out("train --resume runs/tiny train.steps=14" + minimum);
  rejected.out("train --resume runs/tiny train.steps=15");

  // A run that stops before the end of its decay can be resumed up to that end.
  const TinyWorkplace within;
  within.out("train tiny.yaml schedule.kind=cosine schedule.decay_steps=14");
  within.out("train --resume runs/tiny train.steps=14");
  check_rejected(within, "train --resume runs/tiny train.steps=15", 2, {"decay"});
}

TEST_CASE(
    "a resumed run warns about changed kernels or a changed revision, and records the change") {
  const std::string same = fmt::format("kernels {}, matmul tapestry", kernels_in_use());
  for (const std::string& before : {std::string("kernels mmx, matmul tapestry"), same}) {
    CAPTURE(before);
    const TrainedWorkplace work;
    ArrayStore other;
    for (const auto& [path, array] : read_checkpoint(work / work.checkpoint(12))) {
      if (path != "arithmetic") other.put(path, array);
    }
    other.put_text("arithmetic", before);  // as in checkpoints written before revisions existed
    write_checkpoint(work / work.checkpoint(12), other);
    check_words(work.out("train --resume runs/tiny train.steps=13"),
                {"\nwarning: changed arithmetic: " + before + " -> ",
                 ", revision 4; results will differ from a run "});
    CHECK(history(work, work.checkpoint(13)).starts_with("step 12: changed arithmetic: "));
  }
}

}  // namespace
}  // namespace tapestry
