#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/contains.h"
#include "tests/train/kind_configs.h"
#include "tests/train/refusal.h"
#include "train/checkpoint/checkpoint_file.h"

/// `tapestry replay`.
namespace tapestry {
namespace {

using doctest::Approx;
using test::check_refusal;
using test::contains;
using test::KindWorkplace;
using test::Outcome;
using test::TrainedWorkplace;

/// Replays a step of runs/tiny into out.h5, which is read and deleted.
ArrayStore replayed(const TrainedWorkplace& work, const std::string& step, Outcome& done) {
  auto before = work.contents();
  done = work.run({"replay", "runs/tiny", "--step", step, "--output", "out.h5"});
  CHECK_MESSAGE(done.code == 0, done.err);
  ArrayStore snapshot = read_checkpoint(work / "out.h5");
  std::filesystem::remove(work / "out.h5");
  CHECK(work.contents() == before);
  return snapshot;
}

TEST_CASE("a replayed step gives the weights of the next checkpoint, bit by bit") {
  const TrainedWorkplace work;
  Outcome done;
  const ArrayStore step = replayed(work, "12", done);
  CHECK(contains(done.out, "step 12: loss "));
  CHECK(
      done.out.ends_with("\nthe weights after the step are those of runs/tiny/checkpoints/"
                         "step-00000012.h5, bit by bit\n"));
  CHECK(contains(done.err,
                 "computing steps 11 to 12 again, from runs/tiny/checkpoints/"
                 "step-00000010.h5"));
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

TEST_CASE("a replayed step has the output of each operation and its gradient") {
  const TrainedWorkplace work;
  Outcome done;
  const ArrayStore step = replayed(work, "7", done);
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
  CHECK(step.get<float>(outputs + last)[0] ==
        Approx(step.get_scalar<double>("train/loss")).epsilon(1e-6));
  CHECK(step.get<float>(gradients + last)[0] == 1.0F);
  CHECK(work.run({"replay", "runs/tiny", "--step", "7", "--no-activations", "--output", "few.h5"})
            .code == 0);
  const ArrayStore few = read_checkpoint(work / "few.h5");
  CHECK(few.size() == step.size() - 2 * count);
  for (const auto& [path, array] : few) CHECK(step.at(path) == array);
}

TEST_CASE("a replayed step has the batches of the original step") {
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
  CHECK(step.get_scalar<double>("train/loss") * static_cast<double>(targets) >=
        step.get_scalar<double>("train/nll_sum") * 0.5);
}

TEST_CASE("steps before the first checkpoint are computed from the initial values") {
  const TrainedWorkplace work;
  Outcome first, again;
  const ArrayStore step = replayed(work, "3", first);
  CHECK(contains(first.err, "computing steps 1 to 3 again, from the initial values"));
  CHECK(replayed(work, "3", again) == step);
  CHECK(step.get_scalar<std::uint64_t>("train/step") == 3);
}

TEST_CASE("every kind of run is replayed to the bits of its last checkpoint") {
  const KindWorkplace work;
  for (const auto& kind : test::kind_configs) {
    CAPTURE(kind.name);
    REQUIRE(work.run({"train", kind.name + ".yaml"}).code == 0);
    const Outcome done = work.run({"replay", "runs/" + kind.name, "--step", "12"});
    CHECK_MESSAGE(done.code == 0, done.err);
    CHECK(contains(done.out, "written: replay-step-00000012.h5\n"));
    CHECK(contains(done.out, ", bit by bit\n"));
    const ArrayStore step = read_checkpoint(work / "replay-step-00000012.h5");
    CHECK(step.contains("batches/0/pixels") == (kind.name == "images"));
    std::filesystem::remove(work / "replay-step-00000012.h5");
  }
}

TEST_CASE("a step that is not finite is recorded") {
  const TrainedWorkplace work;
  REQUIRE(work.run({"train", "tiny.yaml", "train.run_dir=nan", "optimizer.kind=sgd",
                    "optimizer.clip_norm=0", "schedule.kind=constant", "schedule.warmup_steps=0",
                    "schedule.learning_rate=1e30", "train.save_every=1"})
              .code == 6);
  std::uint64_t last = 0;
  for (const auto& entry : std::filesystem::directory_iterator(work / "nan/checkpoints")) {
    const std::string name = entry.path().stem().string();
    last = std::max<std::uint64_t>(last, std::stoull(name.substr(name.find('-') + 1)));
  }
  REQUIRE(last > 0);
  const std::string bad = std::to_string(last + 1);
  const Outcome done = work.run({"replay", "nan", "--step", bad, "--output", "bad.h5"});
  CHECK_MESSAGE(done.code == 0, done.err);
  CHECK(contains(done.out, "; not finite: the weights are unchanged\n"));
  CHECK(read_checkpoint(work / "bad.h5").get_scalar<std::uint64_t>("train/updated") == 0);
  if (last + 2 > 12) return;
  const Outcome beyond =
      work.run({"replay", "nan", "--step", std::to_string(last + 2), "--output", "b2.h5"});
  CHECK(beyond.code == 6);
  CHECK(contains(beyond.err, "replay this step, with --step " + bad));
  CHECK(!std::filesystem::exists(work / "b2.h5"));
}

TEST_CASE("steps that the run has left out because they are not finite are left out again") {
  const TrainedWorkplace work;
  const auto checkpoint = [&](const char* step) {
    return work / (std::string("nan/checkpoints/step-000000") + step + ".h5");
  };
  REQUIRE(work.run({"train", "tiny.yaml", "train.run_dir=nan", "train.batch_size=1",
                    "train.on_nan=skip", "train.max_nan_steps=100", "train.steps=4",
                    "train.save_every=100", "train.keep_last=100"})
              .code == 0);
  // From here on, steps with the last symbol of the source overflow.
  ArrayStore poisoned = read_checkpoint(checkpoint("04"));
  const auto bytes = poisoned.mutable_bytes("parameters/source_embedding.weight");
  constexpr float huge = 3e38F;
  for (std::size_t i = 1; i <= 16; ++i) {
    std::memcpy(bytes.data() + bytes.size() - i * sizeof huge, &huge, sizeof huge);
  }
  write_checkpoint(checkpoint("04"), poisoned);
  REQUIRE(work.run({"train", "--resume", "nan", "train.steps=20"}).code == 0);
  std::vector<std::string> skipped;  // numbers of steps
  std::istringstream history(read_checkpoint(checkpoint("20")).get_text("train/history"));
  for (std::string line; std::getline(history, line);) {
    const std::size_t at = line.find(" at step ");
    if (!line.ends_with("which is skipped") || at == line.npos) continue;
    skipped.push_back(std::to_string(std::stoul(line.substr(at + 9))));
  }
  REQUIRE(skipped.size() > 2);
  REQUIRE(skipped.size() < 16);
  const Outcome done = work.run({"replay", "nan", "--step", "20", "--output", "last.h5"});
  CHECK_MESSAGE(done.code == 0, done.err);
  CHECK(contains(done.err, "computing steps 5 to 20 again"));
  CHECK_FALSE(contains(done.err, "warning"));
  CHECK(contains(done.out, ", bit by bit\n"));
  const Outcome bad = work.run({"replay", "nan", "--step", skipped.back(), "--output", "bad.h5"});
  CHECK_MESSAGE(bad.code == 0, bad.err);
  CHECK(contains(bad.out, "; not finite: the weights are unchanged\n"));
}

TEST_CASE("a run that changed between the checkpoint and the step causes a warning") {
  const TrainedWorkplace work;
  REQUIRE(work.run({"train", "tiny.yaml", "train.run_dir=kept", "train.keep_last=100"}).code == 0);
  REQUIRE(work.run({"train", "--resume", "kept", "train.steps=20", "model.dropout=0.1",
                    "--allow-change", "model.dropout"})
              .code == 0);
  const auto warnings = [&](const std::string& step) {
    const Outcome done = work.run({"replay", "kept", "--step", step, "--output", "o.h5"});
    CHECK_MESSAGE(done.code == 0, done.err);
    std::filesystem::remove(work / "o.h5");
    return done.err;
  };
  const std::string change = ": step 12: changed model.dropout";
  CHECK(contains(warnings("14"), "the replay is with the config before" + change));
  CHECK(!contains(warnings("16"), "changed"));  // from step 15
  CHECK(!contains(warnings("12"), "changed"));
  for (std::uint64_t step = 1; step < 20; ++step) {
    std::string path = work.checkpoint(step);
    std::filesystem::remove(work / path.replace(0, std::string("runs/tiny").size(), "kept"));
  }
  CHECK(contains(warnings("3"), "the replay is with the config after" + change));
}

TEST_CASE("mistakes on the command line of replay are refused") {
  const TrainedWorkplace work;
  const std::string help = "\nhint: see `tapestry replay --help`";
  check_refusal(work, {"replay", "--step", "3"}, 2, "command line: RUN is required" + help);
  check_refusal(work, {"replay", "runs/tiny"}, 2, "command line: --step is required" + help);
  check_refusal(work, {"replay", "runs/tiny", "--step", "13"}, 2,
                "command line: --step: found 13, expected a step of the run, which has 12\n"
                "hint: give a smaller step");
  check_refusal(work, {"replay", "runs/tiny", "--step", "3", "--output", "tiny.yaml"}, 2,
                "command line: tiny.yaml exists, expected the name of a new file\n"
                "hint: choose another name with --output, or delete the file");
  check_refusal(work, {"replay", "nothing", "--step", "3"}, 4,
                "nothing: found no checkpoint, expected the directory of a run\n"
                "hint: name a run directory; `tapestry runs` lists them");
  check_refusal(work, {"replay", "runs/tiny", "model.d_model=8", "--step", "3"}, 2,
                "command line: model.d_model=8: expected only data files and keys of decoding "
                "after runs/tiny, such as data.test_text=more.txt: a trained model keeps its "
                "config\nhint: leave it out, or name a config file");
}

}  // namespace
}  // namespace tapestry
