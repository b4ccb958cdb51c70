// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "tests/train/kinds.h"
#include "tests/train/program.h"
#include "train/checkpoint/checkpoint_file.h"

/// Tests `tapestry replay` and `tapestry diff`.
namespace tapestry {
namespace {

using doctest::Approx;
using test::check_words;
using test::contains;
using test::Outcome;
using test::TrainedWorkplace;

/// Replays a step of a run. Reads the output file, then deletes it.
ArrayStore replayed(const test::Workplace& work, const std::string& step, Outcome& done,
                    const std::string& run = "runs/tiny") {
  const auto before = work.contents();
  done = work.run("replay " + run + " --output out.h5 --step " + step);
  REQUIRE_MESSAGE(done.code == 0, done.err);
  ArrayStore snapshot = read_checkpoint(work / "out.h5");
  std::filesystem::remove(work / "out.h5");
  CHECK(work.contents() == before);
  return snapshot;
}

TEST_CASE("a replayed step gives the weights of the next checkpoint, bit for bit") {
  const TrainedWorkplace work;
  Outcome done;
  const ArrayStore step = replayed(work, "12", done);
  CHECK(contains(done.out, "step 12: loss "));
  CHECK(done.out.ends_with(" equal " + work.checkpoint(12) + ", bit for bit\n"));
  CHECK(contains(done.err, "computing steps 11 to 12 again, from " + work.checkpoint(10)));
  const ArrayStore after = read_checkpoint(work / work.checkpoint(12));
  CHECK(step.get_scalar<std::uint64_t>("train/step") == 12);
  CHECK(step.get_scalar<std::uint64_t>("train/updated") == 1);
  CHECK(step.get_text("run_id") == after.get_text("run_id"));
  std::size_t parameters = 0;
  double squares = 0.0;
  for (const auto& [path, array] : step) {
    if (path.starts_with("gradients/")) {
      for (const float g : step.get<float>(path)) squares += double{g} * double{g};
    }
    if (!path.starts_with("parameters/")) continue;
    ++parameters;
    const auto before = step.get<float>(path);
    const auto update = step.get<float>("updates/" + path.substr(path.find('/') + 1));
    const auto expected = after.get<float>(path);
    for (std::size_t i = 0; i < before.size(); ++i) {
      CHECK(before[i] + update[i] == Approx(expected[i]).epsilon(1e-5));
    }
  }
  CHECK(parameters > 10);
  const double norm = step.get_scalar<double>("train/gradient_norm");
  CHECK(std::sqrt(squares) == Approx(norm));
  CHECK(step.get_scalar<double>("train/clip_factor") == Approx(std::min(1.0, 1.0 / norm)));
}

TEST_CASE("a replay file contains the batches, and the output and gradient of each operation") {
  const TrainedWorkplace work;
  Outcome done;
  const ArrayStore step = replayed(work, "7", done);
  CHECK(step.get_scalar<std::uint64_t>("train/epoch") == 1);
  CHECK(step.get_scalar<std::uint64_t>("train/batch") == 0);
  const auto lengths = step.get<std::uint64_t>("batches/0/target_lengths");
  std::uint64_t targets = 0;
  for (const std::uint64_t length : lengths) targets += length;
  CHECK(targets == step.get_scalar<std::uint64_t>("train/target_tokens"));
  CHECK(step.at("batches/0/source").shape[0] == lengths.size());
  CHECK(step.at("batches/0/labels").shape == step.at("batches/0/input").shape);
  CHECK(step.get<std::uint64_t>("batches/0/examples").size() == lengths.size());
  CHECK(!step.contains("batches/1/source"));

  const std::string outputs = "activations/0/", gradients = "activation_gradients/0/";
  std::size_t count = 0;
  std::string last;
  for (const auto& [path, array] : step) {
    if (!path.starts_with(outputs)) continue;
    ++count;
    last = path.substr(outputs.size());
    REQUIRE(step.contains(gradients + last));
    CHECK(step.at(gradients + last).shape == array.shape);
  }
  CHECK(count > 20);
  CHECK(step.contains(outputs + "00000.source_embedding.embedding"));
  // The last operation is the loss.
  const double loss = step.get_scalar<double>("train/loss");
  CHECK(step.get<float>(outputs + last)[0] == Approx(loss).epsilon(1e-6));
  CHECK(step.get<float>(gradients + last)[0] == 1.0F);
  work.run("replay runs/tiny --step 7 --no-activations --output few.h5");
  const ArrayStore few = read_checkpoint(work / "few.h5");
  CHECK(few.size() == step.size() - 2 * count);
  for (const auto& [path, array] : few) CHECK(step.at(path) == array);
}

TEST_CASE("a replay records a step with a non-finite loss") {
  const TrainedWorkplace work;
  REQUIRE(work.run("train tiny.yaml train.run_dir=nan optimizer.kind=sgd optimizer.clip_norm=0 "
                   "schedule.kind=constant schedule.warmup_steps=0 schedule.learning_rate=1e30 "
                   "train.save_every=1")
              .code == 6);
  std::uint64_t last = 0;
  while (work.has(work.checkpoint(last + 1, "nan"))) ++last;
  REQUIRE(last > 0);
  Outcome done;
  const ArrayStore step = replayed(work, std::to_string(last + 1), done, "nan");
  CHECK(contains(done.out, "; not finite: the weights are unchanged\n"));
  CHECK(step.get_scalar<std::uint64_t>("train/updated") == 0);
  if (last + 2 > 12) return;
  const Outcome beyond = work.run(fmt::format("replay nan --step {} --output b.h5", last + 2));
  CHECK(beyond.code == 6);
  CHECK(contains(beyond.err, fmt::format("replay this step, with --step {}", last + 1)));
  CHECK_FALSE(work.has("b.h5"));
}

TEST_CASE("steps that the run skipped because of non-finite values are skipped again") {
  const TrainedWorkplace work;
  REQUIRE(work.run("train tiny.yaml train.run_dir=nan train.batch_size=1 train.on_nan=skip "
                   "train.max_nan_steps=100 train.steps=4 train.save_every=100 train.keep_last=100")
              .code == 0);
  // After step 4, steps whose source contains the last symbol overflow.
  ArrayStore poisoned = read_checkpoint(work / work.checkpoint(4, "nan"));
  const auto bytes = poisoned.mutable_bytes("parameters/source_embedding.weight");
  constexpr float huge = 3e38F;
  for (std::size_t i = 1; i <= 16; ++i) {
    std::memcpy(bytes.data() + bytes.size() - i * sizeof huge, &huge, sizeof huge);
  }
  write_checkpoint(work / work.checkpoint(4, "nan"), poisoned);
  REQUIRE(work.run("train --resume nan train.steps=20").code == 0);
  std::vector<std::string> skipped;  // the numbers of the skipped steps
  const ArrayStore end = read_checkpoint(work / work.checkpoint(20, "nan"));
  for (const std::string& line : test::split_lines(end.get_text("train/history"))) {
    const std::size_t at = line.find(" at step ");
    if (!line.ends_with("which is skipped") || at == line.npos) continue;
    skipped.push_back(std::to_string(std::stoul(line.substr(at + 9))));
  }
  REQUIRE(skipped.size() > 2);
  REQUIRE(skipped.size() < 16);
  Outcome done;
  replayed(work, "20", done, "nan");
  CHECK(contains(done.err, "computing steps 5 to 20 again"));
  CHECK_FALSE(contains(done.err, "warning"));
  CHECK(contains(done.out, ", bit for bit\n"));
  replayed(work, skipped.back(), done, "nan");
  CHECK(contains(done.out, "; not finite: the weights are unchanged\n"));
}

/// A workplace with the run `kept`. The run keeps all checkpoints, and its config changes after
/// steps 12 and 16.
struct ChangedRun : TrainedWorkplace {
  ChangedRun() {
    out("train tiny.yaml train.run_dir=kept train.keep_last=100 train.save_every=4 "
        "schedule.kind=cosine schedule.decay_steps=30");
    out("train --resume kept train.steps=16 model.dropout=0.1 train.batch_size=8 "
        "schedule.learning_rate=0.003 --allow-change model.dropout --allow-change "
        "train.batch_size --allow-change schedule.learning_rate");
    out("train --resume kept train.steps=20 optimizer.kind=sgd data.train_size=40 --allow-change "
        "optimizer.kind --allow-change data.train_size");
  }
  /// Removes all checkpoints except the last and the checkpoint of `step`.
  void keep(std::uint64_t step) const {
    for (std::uint64_t each = 1; each < 20; ++each) {
      if (each != step) std::filesystem::remove(*this / checkpoint(each, "kept"));
    }
  }
};

TEST_CASE("a replay computes each step with the config that the run had at that step") {
  // from  the step of the checkpoint that a replay starts from; 0: the initial values
  for (const std::uint64_t from : {0, 4, 12, 16}) {
    CAPTURE(from);
    const ChangedRun work;
    work.keep(from);
    for (const std::uint64_t step : {3, 12, 13, 16, 17, 19, 20}) {
      if (step <= from) continue;
      CAPTURE(step);
      Outcome done;
      const ArrayStore replay = replayed(work, std::to_string(step), done, "kept");
      CHECK_FALSE(contains(done.err, "warning"));
      const std::string config = replay.get_text("config");
      CHECK(contains(config, step <= 12 ? "batch_size: 4\n" : "batch_size: 8\n"));
      CHECK(contains(config, step <= 16 ? "train_size: 22\n" : "train_size: 40\n"));
      if (step == 20) CHECK(contains(done.out, ", bit for bit\n"));
    }
  }
}

TEST_CASE("a replay whose weights differ from the recorded digests ends with exit code 1") {
  const ChangedRun work;
  work.keep(4);
  // Writes a wrong value into the history of the newest checkpoint.
  const ArrayStore last = read_checkpoint(work / work.checkpoint(20, "kept"));
  const std::string history = last.get_text("train/history");
  REQUIRE(contains(history, "train.batch_size: 4 -> 8"));
  ArrayStore changed;
  for (const auto& [name, array] : last) {
    if (name != "train/history") changed.put(name, StoredArray(array));
  }
  changed.put_text("train/history", std::regex_replace(history, std::regex("4 -> 8"), "4 -> 2"));
  write_checkpoint(work / work.checkpoint(20, "kept"), changed);
  for (const auto& [step, code] : {std::pair("12", 0), {"13", 1}}) {
    const Outcome done =
        work.run(fmt::format("replay kept --step {} --output step-{}.h5", step, step));
    CHECK(done.code == code);
    if (code == 1) check_words(done.err, {"the weights after step 13 differ from the run"});
  }
}

TEST_CASE("replay rejects invalid command lines") {
  check_rows(TrainedWorkplace(),
             {{"replay --step 3", 2, {"RUN is required"}},
              {"replay runs/tiny", 2, {"--step is required"}},
              {"replay runs/tiny --step 13", 2, {"found 13, expected a step", "which has 12"}},
              {"replay runs/tiny --step 3 --output tiny.yaml", 2, {"tiny.yaml exists"}},
              {"replay nothing --step 3", 4, {"nothing: found no checkpoint", "tapestry runs"}},
              {"replay runs/tny --step 3", 4, {"did you mean runs/tiny?"}},
              {"watch runs/tny", 4, {"did you mean runs/tiny?"}},
              {"evaluate runs/tny", 4, {"did you mean runs/tiny?"}},
              {"evaluate tiny", 4, {"did you mean runs/tiny?"}},
              {"evaluate tny", 4, {"did you mean runs/tiny?"}},
              {"evaluate tiny.yaml", 4, {"found a config file", "did you mean runs/tiny?"}},
              {"report tiny.yaml", 4, {"found a config file", "did you mean runs/tiny?"}},
              {"watch tiny.yaml", 4, {"did you mean runs/tiny?"}},
              {"train --resume tiny", 4, {"did you mean runs/tiny?"}},
              {"train --resume runs/tny", 4, {"did you mean runs/tiny?"}},
              {"plan runs/tiny", 2, {"did you mean runs/tiny/config.yaml?"}},
              {"plan tny.yaml", 2, {"did you mean tiny.yaml?"}},
              {"replay runs/tiny model.d_model=8 --step 3", 2, {"keeps its config"}}});
}

// ---- diff

/// Flips one bit of an element of a float32 array in a checkpoint. Bit 0 is the lowest bit, and bit
/// 31 is the sign.
void flip_bit(const std::filesystem::path& path, const std::string& name, std::size_t element,
              std::size_t bit = 0) {
  const ArrayStore before = read_checkpoint(path);
  ArrayStore after;
  for (const auto& [each, array] : before) {
    StoredArray copy = array;
    if (each == name) copy.bytes.at(4 * element + bit / 8) ^= std::byte{1} << (bit % 8);
    after.put(each, std::move(copy));
  }
  write_checkpoint(path, after);
}

struct TwoRuns : test::TinyWorkplace {
  TwoRuns() {
    for (const std::string run : {"a", "b"}) train(run, "train.save_every=4");
  }
  void train(const std::string& run, const std::string& more) const {
    REQUIRE(this->run("train tiny.yaml train.run_dir=" + run + " " + more).code == 0);
  }
  /// The output of `diff` for two runs that differ.
  std::string diff(const std::string& runs) const {
    const Outcome done = run("diff " + runs);
    CHECK(done.code == 1);
    return done.out;
  }
};

TEST_CASE("diff names the first step and tensor in which two runs differ, even by one bit") {
  const TwoRuns work;
  CHECK(work.out("diff a b") ==
        "events.jsonl: the parameters are equal up to step 12\n"
        "step 6: all numbers are equal\nstep 8: all numbers are equal\n"
        "step 12: all numbers are equal\n");
  const std::string weight = "parameters/decoder.layers.0.ff.linear1.weight";
  flip_bit(work / work.checkpoint(8, "b"), weight, 16 * 3 + 5);
  const std::string changed = work.diff("a b");
  check_words(changed, {"step 6: all numbers are equal\nstep 8: 1 array differs\n",
                        "  " + weight + ": 1 of 512 elements differ, the first at [3, 5]: ",
                        "  b/checkpoints/step-00000008.h5: this tensor has changed after step 8"});
  CHECK_FALSE(contains(changed, "step 12: "));
  CHECK_FALSE(contains(changed, "  a/checkpoints"));
  CHECK(changed.ends_with("\nfirst difference: step 8, " + weight + "\n"));
  CHECK(contains(work.diff(work.checkpoint(8, "a") + " " + work.checkpoint(8, "b")), weight));
}

/// Trains run b again. After step 8, flips the sign of a value in the first moment of output.bias,
/// so that only this tensor differs after step 9. Removes the checkpoint of step 8.
struct OneBitAtStepNine : TwoRuns {
  OneBitAtStepNine() {
    std::filesystem::remove_all(*this / "b");
    train("b", "train.save_every=4 --until 8");
    flip_bit(*this / checkpoint(8, "b"), "optimizer/first_moment/output.bias", 2, 31);
    REQUIRE(run("train --resume b").code == 0);
    std::filesystem::remove(*this / checkpoint(8, "b"));
  }
};

TEST_CASE("diff and replay name the step and tensor of a one-bit change between checkpoints") {
  const OneBitAtStepNine work;
  const std::string exact = work.diff("a b");
  check_words(exact, {"events.jsonl: the parameters are equal up to step 8\n"
                      "events.jsonl: step 9: 1 tensor differs: output.bias\n"
                      "step 6: all numbers are equal\nstep 12: "});
  CHECK(exact.ends_with("\nfirst difference: step 9, output.bias\n"));
  CHECK_FALSE(contains(exact, "has changed after"));

  // A replay shows whether the config and data reproduce the run. Run b is not reproducible.
  const Outcome good = work.run("replay a --step 10 --output a.h5");
  CHECK_MESSAGE(good.code == 0, good.err);
  const Outcome bad = work.run("replay b --step 10 --output b.h5");
  CHECK(bad.code == 1);
  check_words(bad.err, {"warning: the weights after step 9 differ from the run", "output.bias"});
  CHECK_FALSE(contains(bad.err, "after step 10"));

  // Digests are not compared if they have different tensor names.
  const std::string events = work.read("b/events.jsonl");
  work.write("b/events.jsonl", std::regex_replace(events, std::regex("output.bias"), "offset"));
  const Outcome other = work.run("replay b --step 10 --output c.h5");
  CHECK(contains(other.err, "events.jsonl is not compared"));
  CHECK_FALSE(contains(other.err, "differ from the run"));

  // Without digests, diff can only compare the checkpoints before and after the change.
  std::filesystem::remove(work / "a/events.jsonl");
  check_words(work.diff("a b"), {"events.jsonl: the runs have no digests of the same tensors and",
                                 "\nfirst difference: in steps 7 to 12, parameters/",
                                 "\nhint: train both runs with train.digest_every=1 "});
}

TEST_CASE(
    "if only some steps have digests, diff prints the range of steps with the first difference") {
  const TwoRuns work;
  for (const std::string run : {"a", "b"}) {
    work.train(run, "train.digest_every=3 train.save_every=12 --fresh");
  }
  std::string events = work.read("b/events.jsonl");
  const std::string begin = R"({"step":9,"event":"digests","digests":[")";
  char& digit = events.at(events.find(begin) + begin.size());
  digit = digit == '0' ? '1' : '0';
  work.write("b/events.jsonl", events);
  check_words(work.run("diff a b").out,
              {"events.jsonl: the parameters are equal up to step 6\n",
               "\nfirst difference: in steps 7 to 9, ", "train.digest_every=1 "});
}

TEST_CASE("diff compares runs without a common checkpoint by their metrics and digests") {
  const TwoRuns work;
  for (const int step : {6, 8, 12}) std::filesystem::remove(work / work.checkpoint(step, "a"));
  std::filesystem::copy(work / work.checkpoint(12, "b"), work / work.checkpoint(7, "a"));
  const std::string equal = work.out("diff a b");
  check_words(
      equal, {"equal up to step 12", "checkpoints: the runs have no checkpoints of the same step"});
  work.write("a/metrics.csv", work.read("a/metrics.csv") + "more\n");
  CHECK(contains(work.diff("a b"), "first difference in metrics.csv"));
  work.write("a/metrics.csv", work.read("b/metrics.csv"));
  work.write("a/events.jsonl", "");
  const Outcome none = work.run("diff a b");
  CHECK(none.code == 4);
  CHECK(contains(none.err, "no step with checkpoints or digests in both runs"));
}

TEST_CASE("diff names config keys, metrics and parameters of runs with different seeds") {
  const TwoRuns work;
  work.train("c", "train.seed=5");
  check_words(work.diff("a c"),
              {"first difference in metrics.csv:\n  4,1,train,", "config: train.seed: 1 and 5\n",
               "events.jsonl: step 1: ", "\n  parameters/", "more; --all lists them\n",
               "\nfirst difference: step 1, target_embedding.weight\n"});
  CHECK(contains(work.diff("a c --all"), "\n  optimizer/"));
  // The checkpoints of step 1 also differ. The digests name the first tensor in the order of the
  // model.
  for (const std::string run : {"e", "f"}) {
    work.train(run, "train.save_every=1 train.keep_last=12 train.seed=" + std::to_string(run[0]));
  }
  CHECK(work.diff("e f").ends_with("\nfirst difference: step 1, target_embedding.weight\n"));
  work.train("d", "model.d_ff=48");
  CHECK(contains(work.diff("a d --all"), "shapes (32) and (48)"));
  check_rejected(work, "diff a missing", 4, {"missing"});
  check_rejected(work, "diff a", 2, {"is required"});
}

}  // namespace
}  // namespace tapestry
