#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <filesystem>
#include <string>
#include <vector>

#include "autograd/instruction_set.h"
#include "tests/support/contains.h"
#include "tests/train/refusal.h"
#include "train/checkpoint/checkpoint_file.h"

/// How the program goes on with a run, and what may have changed since.
namespace tapestry {
namespace {

using test::Arguments;
using test::check_refusal;
using test::contains;
using test::Outcome;
using test::TextWorkplace;
using test::TrainedWorkplace;
using test::Workplace;

std::string history(const Workplace& work, const std::string& checkpoint) {
  return read_checkpoint(work / checkpoint).get_text("train/history");
}

TEST_CASE("a run is resumed by its directory, by its config or by both, in any order") {
  const std::vector<Arguments> ways = {
      {"train", "--resume", "runs/tiny", "train.steps=14"},
      {"train", "tiny.yaml", "--resume", "train.steps=14"},
      {"train", "--resume", "tiny.yaml", "train.steps=14"},
      {"train", "--resume", "train.steps=14", "tiny.yaml", "runs/tiny"},
      {"train", "runs/tiny", "tiny.yaml", "train.steps=14", "--resume"},
  };
  std::string expected;
  for (const Arguments& way : ways) {
    const TrainedWorkplace work;
    const Outcome resumed = work.run(way);
    CHECK(resumed.code == 0);
    CHECK(resumed.err.empty());
    CHECK(resumed.out.starts_with(
        "resuming runs/tiny at step 12 of 14\nchanged train.steps: 12 -> 14\ndata: "));
    const std::string end = test::read_text(work / work.checkpoint(14));
    if (expected.empty()) expected = end;
    CHECK(end == expected);
    CHECK(history(work, work.checkpoint(14)).empty());
  }
}

/// Files may be no larger than this while it is alive, in processes that it starts too.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(std::size_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit tight{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &tight);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST_CASE("a run that cannot save a checkpoint does not begin a step, new or resumed") {
  const TrainedWorkplace work;
  const auto bytes = std::filesystem::file_size(work / work.checkpoint(12));
  const FileSizeLimit limit(bytes / 4);
  for (const Arguments& way : {Arguments{"train", "--resume", "runs/tiny", "train.steps=14"},
                               Arguments{"train", "tiny.yaml", "train.run_dir=runs/other"}}) {
    const Outcome refused = work.run(way);
    CHECK(refused.code == 5);
    CHECK(contains(refused.err, "checkpoints/probe: could not reserve space: File too large"));
    CHECK_FALSE(contains(refused.out, "step 1/"));
    CHECK_FALSE(contains(refused.out, "step 13/"));
  }
}

TEST_CASE("a run directory may have a dot and an equals sign in its path") {
  const TrainedWorkplace work;
  std::filesystem::create_directory(work / "runs.d");
  std::filesystem::rename(work / "runs/tiny", work / "runs.d/lr=1");
  const Outcome resumed = work.run({"train", "--resume", "runs.d/lr=1"});
  CHECK(resumed.code == 0);
  CHECK(resumed.out.starts_with("runs.d/lr=1 is finished: 12 of 12 steps"));
}

TEST_CASE("a changed config is compared key by key with the checkpoint") {
  const TrainedWorkplace work;
  check_refusal(work,
                {"train", "tiny.yaml", "--resume", "train.steps=20", "model.d_model=32",
                 "model.dropout=0.4", "train.seed=2"},
                2,
                "runs/tiny: the config differs from the checkpoint in keys that affect the run\n"
                "  key            checkpoint  config  to change it\n"
                "  model.d_model  16          32      start a new run\n"
                "  model.dropout  0.2         0.4     --allow-change model.dropout\n"
                "  train.seed     1           2       start a new run\n"
                "hint: resume with the saved config, or follow the last column");
  check_refusal(work, {"train", "--resume", "runs/tiny", "train.run_dir=other"}, 2,
                "runs/tiny: the config differs from the checkpoint in keys that affect the run\n"
                "  key            checkpoint   config   to change it\n"
                "  train.run_dir  \"runs/tiny\"  \"other\"  a run is resumed in its own directory\n"
                "hint: resume with the saved config, or follow the last column");
}

TEST_CASE("a change with --allow-change is made and recorded") {
  const TrainedWorkplace work;
  const Outcome resumed = work.run({"train", "--resume", "runs/tiny", "train.steps=14",
                                    "model.dropout=0.4", "--allow-change", "model.dropout"});
  CHECK(resumed.code == 0);
  CHECK(contains(resumed.out, "\nwarning: changed model.dropout: 0.2 -> 0.4\n"));
  CHECK(history(work, work.checkpoint(14)) == "step 12: changed model.dropout: 0.2 -> 0.4\n");
  CHECK(contains(work.run({"inspect", work.checkpoint(14)}).out,
                 "\nhistory:\nstep 12: changed model.dropout: 0.2 -> 0.4\n"));
  // From now on the run has it, and its history goes with it.
  CHECK(work.run({"train", "--resume", "runs/tiny", "train.steps=15"}).code == 0);
  CHECK(history(work, work.checkpoint(15)) == "step 12: changed model.dropout: 0.2 -> 0.4\n");
  CHECK(work.run({"train", "tiny.yaml", "--resume", "train.steps=16"}).code == 2);
}

TEST_CASE("--allow-change needs --resume") {
  const TrainedWorkplace work;
  CHECK(work.run({"train", "tiny.yaml", "--allow-change", "model.dropout"}).code == 2);
}

/// A workplace with a finished run of 12 steps whose learning rate decays to 0.
struct DecayedWorkplace : Workplace {
  explicit DecayedWorkplace(const std::string& warmup = "4") {
    std::string text = test::tiny_yaml;
    text.replace(text.find("inverse_sqrt"), 12, "cosine");
    text.replace(text.find("warmup_steps: 4"), 15, "warmup_steps: " + warmup);
    write("tiny.yaml", text);
    REQUIRE(run({"train", "tiny.yaml"}).code == 0);
  }
};

TEST_CASE("a run that has decayed to 0 and gets more steps needs a new end of the decay") {
  const DecayedWorkplace work;
  const std::string refusal =
      "runs/tiny: train.steps is raised from 12 to 16, but the learning rate decays to 0 until "
      "step "
      "12 (schedule.decay_steps) and would stay 0\n"
      "hint: give the decay a new end, with schedule.decay_steps=16 --allow-change "
      "schedule.decay_steps, or a minimum above 0, with schedule.min_learning_rate=RATE "
      "--allow-change schedule.min_learning_rate";
  check_refusal(work, {"train", "tiny.yaml", "--resume", "train.steps=16"}, 2, refusal);
  check_refusal(work, {"train", "--resume", "runs/tiny", "train.steps=16"}, 2, refusal);
}

TEST_CASE("a run that has decayed continues on a cosine to the new end") {
  std::string expected;
  for (const Arguments& way :
       {Arguments{"--resume", "runs/tiny", "train.steps=16", "schedule.decay_steps=16"},
        Arguments{"--resume", "runs/tiny", "train.steps=16", "schedule.decay_steps=100%"},
        Arguments{"--resume", "tiny.yaml", "train.steps=16"}}) {
    const DecayedWorkplace work;
    Arguments words{"train", "train.log_every=2", "--allow-change", "schedule.decay_steps"};
    words.insert(words.end(), way.begin(), way.end());
    const Outcome resumed = work.run(words);
    CHECK(resumed.code == 0);
    CHECK(history(work, "runs/tiny/checkpoints/step-00000016.h5") ==
          "step 12: changed schedule.decay_steps: 12 -> 16\n");
    const std::string metrics = test::read_text(work / "runs/tiny/metrics.csv");
    if (expected.empty()) expected = metrics;
    CHECK(metrics == expected);
    // Steps 14 and 16 of a warm-up of 4 and a decay until 16: half a cosine over 12 steps.
    CHECK(contains(metrics, fmt::format("\n14,")));
  }
}

TEST_CASE("a run that has decayed to a minimum above 0 and gets more steps keeps that rate") {
  const DecayedWorkplace work;
  CHECK(
      work.run({"train", "--resume", "runs/tiny", "train.steps=14",
                "schedule.min_learning_rate=0.001", "--allow-change", "schedule.min_learning_rate"})
          .code == 0);
  CHECK(work.run({"train", "--resume", "runs/tiny", "train.steps=15"}).code == 0);
}

TEST_CASE("a run that stops within its decay can be resumed for the rest of it") {
  const Workplace work;
  std::string text = test::tiny_yaml;
  text.replace(text.find("inverse_sqrt"), 12, "cosine\n  decay_steps: 14");
  work.write("tiny.yaml", text);
  REQUIRE(work.run({"train", "tiny.yaml"}).code == 0);
  CHECK(work.run({"train", "--resume", "runs/tiny", "train.steps=14"}).code == 0);
  CHECK(work.run({"train", "--resume", "runs/tiny", "train.steps=15"}).code == 2);
}

TEST_CASE("a resumed run keeps the numbers of steps that its config gives as percentages") {
  const DecayedWorkplace work("25%");
  CHECK(contains(test::read_text(work / "runs/tiny/config.yaml"), "\n  warmup_steps: 3\n"));
  const Arguments more{"train",
                       "--resume",
                       "tiny.yaml",
                       "train.steps=16",
                       "schedule.min_learning_rate=0.001",
                       "--allow-change",
                       "schedule.min_learning_rate"};
  CHECK(work.run(more).code == 0);
  CHECK(contains(test::read_text(work / "runs/tiny/config.yaml"), "\n  warmup_steps: 3\n"));
  // On the command line a percentage is a new number, which needs permission.
  Arguments longer{"train", "--resume", "runs/tiny", "train.steps=20", "schedule.warmup_steps=25%"};
  const Outcome refused = work.run(longer);
  CHECK(refused.code == 2);
  CHECK(contains(refused.err, "schedule.warmup_steps  3           5  "));
  longer.insert(longer.end(), {"--allow-change", "schedule.warmup_steps"});
  CHECK(work.run(longer).code == 0);
}

TEST_CASE("a resumed run with other kernels warns and records it") {
  const TrainedWorkplace work;
  ArrayStore other;
  for (const auto& [path, array] : read_checkpoint(work / work.checkpoint(12))) {
    if (path != "arithmetic") other.put(path, array);
  }
  other.put_text("arithmetic", "kernels mmx, matmul tapestry");
  write_checkpoint(work / work.checkpoint(12), other);
  const Outcome resumed = work.run({"train", "--resume", "runs/tiny", "train.steps=13"});
  CHECK(resumed.code == 0);
  CHECK(contains(resumed.out, "\nwarning: changed arithmetic: kernels mmx, matmul tapestry -> "));
  CHECK(history(work, work.checkpoint(13)).starts_with("step 12: changed arithmetic: "));
}

TEST_CASE("a resumed run with another revision of arithmetic warns, though the kernels are equal") {
  const TrainedWorkplace work;
  ArrayStore other;
  for (const auto& [path, array] : read_checkpoint(work / work.checkpoint(12))) {
    if (path != "arithmetic") other.put(path, array);
  }
  const std::string before = fmt::format("kernels {}, matmul tapestry", kernels_in_use());
  other.put_text("arithmetic", before);  // as written before there were revisions
  write_checkpoint(work / work.checkpoint(12), other);
  const Outcome resumed = work.run({"train", "--resume", "runs/tiny", "train.steps=13"});
  CHECK(resumed.code == 0);
  CHECK(contains(resumed.out, "\nwarning: changed arithmetic: " + before + " -> " + before +
                                  ", revision 4; results will differ from a run "));
}

/// A workplace with a finished run of text.
struct TrainedOnText : TextWorkplace {
  TrainedOnText() { REQUIRE(run({"train", "text.yaml"}).code == 0); }

  const std::string checkpoint = "runs/text/checkpoints/step-00000003.h5";
};

TEST_CASE("training files may move") {
  const TrainedOnText work;
  std::filesystem::create_directory(work / "elsewhere");
  std::filesystem::rename(work / "train.de", work / "elsewhere/renamed.de");
  const Outcome resumed = work.run({"train", "text.yaml", "--resume", "train.steps=3",
                                    "data.train_source=elsewhere/renamed.de"});
  CHECK(resumed.code == 0);
  CHECK(contains(resumed.out, "\nchanged data.train_source: "));
  CHECK(history(work, work.checkpoint).empty());
}

TEST_CASE("a changed training file is refused by name, unless that is allowed") {
  const TrainedOnText work;
  work.write("train.de", "ein haus\neine maus\n");
  const auto before = work.contents();
  const Outcome refused = work.run({"train", "--resume", "runs/text", "train.steps=3"});
  CHECK(refused.code == 3);
  CHECK(refused.err.starts_with("tapestry: error: " + work.at("train.de") +
                                " (data.train_source): found 19 bytes with digest "));
  CHECK(contains(refused.err, ", expected 20 bytes with digest "));
  CHECK(
      refused.err.ends_with("\nhint: restore the original files, or permit the change with "
                            "--allow-change data.train_source\n"));
  CHECK(work.contents() == before);

  const Outcome resumed = work.run(
      {"train", "--resume", "runs/text", "train.steps=3", "--allow-change", "data.train_source"});
  CHECK(resumed.code == 0);
  CHECK(
      contains(resumed.out, "\nwarning: changed " + work.at("train.de") + " (data.train_source)"));
  CHECK(history(work, work.checkpoint).starts_with("step 2: changed "));
  // The words that the model knows are still the old ones.
  CHECK(read_checkpoint(work / work.checkpoint).get_text("data/source_vocabulary").find("katze") !=
        std::string::npos);
  CHECK(work.run({"train", "--resume", "runs/text", "train.steps=4"}).code == 0);
}

TEST_CASE("an additional or missing data file is a change") {
  const TrainedOnText work;
  const Arguments with_test{"train",
                            "text.yaml",
                            "--resume",
                            "train.steps=3",
                            "data.test_source=valid.de",
                            "data.test_target=valid.en"};
  const Outcome refused = work.run(with_test);
  CHECK(refused.code == 3);
  CHECK(contains(refused.err, "valid.de (data.test_source): found "));
  CHECK(contains(refused.err, ", expected no such file, as the run began without one\n"));
  Arguments allowed = with_test;
  for (const char* key : {"data.test_source", "data.test_target"}) {
    allowed.insert(allowed.end(), {"--allow-change", key});
  }
  CHECK(work.run(allowed).code == 0);
  const Outcome less = work.run({"train", "text.yaml", "--resume", "train.steps=4"});
  CHECK(less.code == 3);
  CHECK(contains(less.err, "data.test_source: found no file, expected 9 bytes with digest "));
}

TEST_CASE("a run with fewer data than before continues with its next epoch") {
  const TrainedOnText work;
  work.write("train.de", "ein haus\n");
  work.write("train.en", "a house\n");
  const Outcome resumed =
      work.run({"train", "--resume", "runs/text", "train.steps=5", "--allow-change",
                "data.train_source", "--allow-change", "data.train_target"});
  CHECK(resumed.code == 0);
  CHECK(resumed.err.empty());
}

TEST_CASE("a finished run is unchanged, whatever leftovers and lock it has") {
  const TrainedWorkplace work;
  work.write("runs/tiny/checkpoints/.step-00000013.h5.tmp-1-0", "of a crash");
  const auto lock_before = std::filesystem::last_write_time(work / "runs/tiny/.lock");
  const auto before = work.contents();
  const Outcome finished = work.run({"train", "tiny.yaml", "--resume"});
  CHECK(finished.code == 0);
  CHECK(finished.out == "runs/tiny is finished: 12 of 12 steps; give more with train.steps=N\n");
  CHECK(work.contents() == before);
  CHECK(std::filesystem::last_write_time(work / "runs/tiny/.lock") == lock_before);
  CHECK(work.run({"train", "--resume", "runs/tiny", "train.steps=10"}).out ==
        "runs/tiny is finished: it has done 12 steps, and train.steps is 10; give more with "
        "train.steps=N\n");
}

TEST_CASE("a run that ended by train.patience is finished until the patience is increased") {
  const Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  const Arguments train{"train",
                        "tiny.yaml",
                        "train.validate_every=1",
                        "train.patience=1",
                        "optimizer.kind=sgd",
                        "schedule.learning_rate=1e-30"};
  const Outcome done = work.run(train);
  CHECK(done.code == 0);
  CHECK(done.out.ends_with(
      "\ndone: 2 steps, no new best in 1 validations; next: tapestry evaluate runs/tiny\n"));
  const Outcome again = work.run({"train", "--resume", "runs/tiny"});
  CHECK(again.code == 0);
  CHECK(again.out ==
        "runs/tiny is finished: 1 validations without improvement; to continue, raise "
        "train.patience=N\n");
  const Outcome more = work.run({"train", "--resume", "runs/tiny", "train.patience=2"});
  CHECK(more.out.starts_with("resuming runs/tiny at step 2 of 12\n"));
}

TEST_CASE("temporary files of crashes are removed at the next start") {
  const TrainedWorkplace work;
  const std::vector<std::string> leftovers = {"runs/tiny/checkpoints/.step-00000013.h5.tmp-1-0",
                                              "runs/tiny/.metrics.csv.tmp-17-3"};
  for (const std::string& name : leftovers) work.write(name, "of a crash");
  work.write("runs/tiny/.notes", "of the user");
  CHECK(work.run({"train", "--resume", "runs/tiny", "train.steps=13"}).code == 0);
  for (const std::string& name : leftovers) CHECK_FALSE(std::filesystem::exists(work / name));
  CHECK(std::filesystem::exists(work / "runs/tiny/.notes"));
}

TEST_CASE("a temporary file of a crash that cannot be deleted is a warning") {
  const TrainedWorkplace work;
  const std::string leftover = "runs/tiny/checkpoints/.step-00000013.h5.tmp-1-0";
  std::filesystem::create_directory(work / leftover);
  const Outcome resumed = work.run({"train", "--resume", "runs/tiny", "train.steps=13"});
  CHECK(resumed.code == 0);
  CHECK(resumed.out.find("warning: temporary file of a crash not deleted: " + leftover +
                         ": could not delete the file: Is a directory\n") != std::string::npos);
  CHECK(std::filesystem::exists(work / work.checkpoint(13)));
}

}  // namespace
}  // namespace tapestry
