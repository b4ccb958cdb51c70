#include <doctest/doctest.h>

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/contains.h"
#include "tests/train/refusal.h"

/// Dry runs, lengths in epochs, changes of batches, data and optimizer on resume, and
/// what `inspect` says of models and checkpoints.
namespace tapestry {
namespace {

using nlohmann::json;
using test::Arguments;
using test::check_refusal;
using test::contains;
using test::Outcome;
using test::read_text;
using test::TrainedWorkplace;
using test::Workplace;

/// A workplace with tiny.yaml: 22 examples in batches of 4, which are 6 batches.
struct TinyWorkplace : Workplace {
  TinyWorkplace() { write("tiny.yaml", test::tiny_yaml); }

  void succeed(const Arguments& arguments) const {
    const Outcome done = run(arguments);
    CHECK_MESSAGE(done.code == 0, done.err);
  }
};

// ---- Dry runs.

TEST_CASE("a dry run computes one step, estimates the whole run and writes nothing") {
  const TinyWorkplace work;
  const auto before = work.contents();
  const Outcome done = work.run({"train", "tiny.yaml", "--dry-run"});
  CHECK(done.code == 0);
  CHECK(done.err.empty());
  CHECK(contains(done.out, "\nmemory: about "));
  CHECK(contains(done.out, "\ndry run: step 1 took "));
  CHECK(contains(done.out, "; 12 steps take about "));
  CHECK(done.out.ends_with("; nothing was written to runs/tiny\n"));
  CHECK(work.contents() == before);
}

TEST_CASE("a dry run of a resumed run computes its next step and changes nothing") {
  const TrainedWorkplace work;
  const auto before = work.contents();
  const Outcome done = work.run({"train", "--resume", "runs/tiny", "train.steps=20", "--dry-run"});
  CHECK(done.code == 0);
  CHECK(contains(done.out, "\ndry run: step 13 took "));
  CHECK(contains(done.out, "; 8 steps take about "));
  CHECK(work.contents() == before);
}

TEST_CASE("a dry run fails as the run would") {
  const TrainedWorkplace work;
  CHECK(work.run({"train", "tiny.yaml", "--dry-run"}).code == 2);  // there is a run
  CHECK(work.run({"train", "tiny.yaml", "--dry-run", "--fresh"}).code == 0);
  CHECK(work.run({"train", "tiny.yaml", "--dry-run", "model.d_model=3"}).code == 2);
  CHECK(work.run({"train", "tiny.yaml", "--dry-run", "train.run_dir=x", "data.num_symbols=2",
                  "data.max_length=1", "data.validation_size=90"})
            .code == 3);
}

// ---- Epochs.

TEST_CASE("a run of epochs equals a run of as many steps, and can be resumed for more epochs") {
  const TinyWorkplace work;
  work.succeed({"train", "tiny.yaml", "train.run_dir=steps"});
  work.succeed({"train", "tiny.yaml", "train.run_dir=epochs", "train.epochs=2"});
  const std::string at_12 = "/checkpoints/step-00000012.h5";
  CHECK(read_text(work / ("epochs" + at_12)) == read_text(work / ("steps" + at_12)));
  CHECK(contains(read_text(work / "epochs/config.yaml"), "\n  steps: 12\n  epochs: 0\n"));

  const Outcome finished = work.run({"train", "--resume", "epochs", "train.epochs=2"});
  CHECK(finished.code == 0);
  CHECK(finished.out.starts_with("epochs is finished: 12 of 12 steps"));

  work.succeed({"train", "--resume", "epochs", "train.epochs=3"});
  work.succeed({"train", "tiny.yaml", "train.run_dir=longer", "train.steps=18"});
  const std::string at_18 = "/checkpoints/step-00000018.h5";
  CHECK(read_text(work / ("epochs" + at_18)) == read_text(work / ("longer" + at_18)));
}

TEST_CASE("each accumulated batch counts as a batch of its epoch") {
  const TinyWorkplace work;
  const Outcome done = work.run({"train", "tiny.yaml", "train.epochs=3", "train.accumulate=4"});
  CHECK(done.code == 0);
  CHECK(contains(done.out, "\ndone: 5 steps; "));  // 18 batches
}

TEST_CASE("epochs may have a warm-up that is longer than the default of train.steps") {
  const TinyWorkplace work;
  const Outcome dry = work.run({"train", "tiny.yaml", "--dry-run", "train.epochs=4000",
                                "schedule.kind=cosine", "schedule.warmup_steps=20000"});
  CHECK_MESSAGE(dry.code == 0, dry.err);
  const Outcome none_left = work.run({"train", "tiny.yaml", "--dry-run", "train.epochs=3000",
                                      "schedule.kind=cosine", "schedule.warmup_steps=20000"});
  CHECK(none_left.code == 2);
}

TEST_CASE("epochs and steps together are refused") {
  const TinyWorkplace work;
  check_refusal(work, {"train", "tiny.yaml", "train.steps=3", "train.epochs=2"}, 2,
                "command line: train.epochs=2: `epochs` and `steps` both give the length of the "
                "run\nhint: remove one of them");
}

// ---- Changes on resume.

const std::string end = "runs/tiny/checkpoints/step-00000020.h5";

/// Begins tiny.yaml with 10 steps, which end within the second epoch.
struct BegunWorkplace : TinyWorkplace {
  BegunWorkplace() { succeed({"train", "tiny.yaml", "train.steps=10", "train.log_every=1"}); }

  /// Resumes to `steps` with a change that is allowed.
  Outcome change(const std::string& steps, const std::string& override) const {
    const std::string key = override.substr(0, override.find('='));
    return run({"train", "--resume", "runs/tiny", "train.steps=" + steps, override,
                "--allow-change", key});
  }
};

TEST_CASE("batch size, data size and optimizer may change with permission, which is printed") {
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
  for (const Change& change : changes) {
    CAPTURE(change.override);
    const BegunWorkplace at_once, in_parts;
    const Outcome refused =
        at_once.run({"train", "--resume", "runs/tiny", "train.steps=20", change.override});
    CHECK(refused.code == 2);
    CHECK(contains(refused.err, "  --allow-change "));
    const Outcome done = at_once.change("20", change.override);
    CHECK_MESSAGE(done.code == 0, done.err);
    CHECK(contains(done.out, "\nwarning: changed " + change.history + "\n"));

    std::string history = "step 10: changed " + change.history + "\n";
    if (change.new_state) history += "step 10: the state of the optimizer starts anew\n";
    if (change.new_epoch) history += "step 10: continues with the first batch of an epoch\n";
    CHECK(contains(at_once.run({"inspect", end}).out, "\nhistory:\n" + history));

    // Resumed once more, the run ends with the same bytes.
    CHECK(in_parts.change("13", change.override).code == 0);
    in_parts.succeed({"train", "--resume", "runs/tiny", "train.steps=20"});
    CHECK(read_text(in_parts / end) == read_text(at_once / end));
    CHECK(read_text(in_parts / "runs/tiny/metrics.csv") ==
          read_text(at_once / "runs/tiny/metrics.csv"));
  }
}

TEST_CASE("batches of another size begin with a new epoch, which uses every example once") {
  const BegunWorkplace work;
  CHECK(work.change("20", "train.batch_size=8").code == 0);
  const std::string metrics = read_text(work / "runs/tiny/metrics.csv");
  // 10 steps of 6 batches an epoch, then 3 batches of 8 an epoch.
  for (const char* row : {"\n10,2,train,", "\n11,3,train,", "\n13,3,train,", "\n14,4,train,",
                          "\n16,4,train,", "\n17,5,train,", "\n20,6,train,"}) {
    CAPTURE(row);
    CHECK(contains(metrics, row));
  }
}

TEST_CASE("after a fallback to an older checkpoint, the history is that of the checkpoint") {
  const TrainedWorkplace work;
  const Arguments resume = {"train", "--resume", "runs/tiny"};
  CHECK(work.run({"train", "--resume", "runs/tiny", "train.steps=20", "train.keep_last=9",
                  "model.dropout=0.5", "--allow-change", "model.dropout"})
            .code == 0);
  CHECK(contains(work.run({"inspect", work.checkpoint(20)}).out, "\nhistory:\n"));
  for (const auto& entry : std::filesystem::directory_iterator(work / "runs/tiny/checkpoints")) {
    if (entry.path() != work / work.checkpoint(12)) std::filesystem::resize_file(entry, 100);
  }
  // The older checkpoint is the end of a run of 12 steps.
  const Outcome finished = work.run(resume);
  CHECK(finished.code == 0);
  CHECK(contains(finished.out, "runs/tiny is finished: 12 of 12 steps"));
  CHECK(contains(finished.err, "; an older checkpoint is used\n"));
  CHECK(contains(finished.err,
                 "tapestry: warning: train.steps is 12, as in the older checkpoint, and no longer "
                 "20; to have as many again, add train.steps=20\n"));
  const Outcome done = work.run({"train", "--resume", "runs/tiny", "train.steps=15"});
  CHECK(done.code == 0);
  CHECK_FALSE(contains(work.run({"inspect", work.checkpoint(15)}).out, "\nhistory:\n"));
}

// ---- --json.

std::vector<json> events_of(const std::string& text) {
  std::vector<json> events;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) events.push_back(json::parse(line));
  return events;
}

std::size_t count_events(const std::vector<json>& events, const std::string& name) {
  return static_cast<std::size_t>(
      std::ranges::count_if(events, [&](const auto& event) { return event.at("event") == name; }));
}

TEST_CASE("train --json prints the events of a run as JSON lines") {
  const TinyWorkplace work;
  const Outcome done = work.run({"train", "tiny.yaml", "--json"});
  CHECK(done.code == 0);
  CHECK(done.err.empty());
  const auto events = events_of(done.out);
  CHECK(events.front()["event"] == "start");
  CHECK(events.front()["steps"] == 12);
  CHECK(count_events(events, "step") == 3);
  CHECK(count_events(events, "validation") == 2);
  CHECK(count_events(events, "checkpoint") > 0);
  CHECK(events.back() == json{{"event", "end"}, {"step", 12}, {"exit_code", 0}});

  const auto finished = events_of(work.run({"train", "--resume", "runs/tiny", "--json"}).out);
  CHECK(finished.back()["exit_code"] == 0);

  const Outcome failed =
      work.run({"train", "tiny.yaml", "--json", "train.run_dir=bad", "optimizer.kind=sgd",
                "schedule.learning_rate=1e30", "optimizer.clip_norm=0"});
  CHECK(failed.code == 6);
  CHECK(events_of(failed.out).back()["exit_code"] == 6);
  CHECK(contains(failed.err, "error: step "));
}

// ---- --quiet.

TEST_CASE("a quiet run prints nothing, and its log has all lines") {
  const TinyWorkplace work;
  const Outcome done = work.run({"train", "tiny.yaml", "--quiet"});
  CHECK(done.code == 0);
  CHECK(done.out.empty());
  CHECK(done.err.empty());
  const std::string log = read_text(work / "runs/tiny/train.log");
  CHECK(contains(log, "step 12/12  epoch 2  loss "));
  CHECK(contains(log, "done: 12 steps; next: "));
  const Outcome finished = work.run({"train", "--resume", "runs/tiny", "--quiet"});
  CHECK(finished.code == 0);
  CHECK(finished.out.empty());
  CHECK(finished.err.empty());
}

TEST_CASE("a quiet run prints warnings and errors on standard error") {
  const TrainedWorkplace work;
  std::filesystem::remove(work / "runs/tiny/events.jsonl");
  std::filesystem::create_directory(work / "runs/tiny/events.jsonl");
  const Outcome done = work.run({"train", "--resume", "runs/tiny", "train.steps=20", "--quiet"});
  CHECK(done.code == 0);
  CHECK(done.out.empty());
  CHECK(done.err.starts_with("tapestry: warning: runs/tiny/events.jsonl: could not be written: "));
  CHECK(std::ranges::count(done.err, '\n') == 1);
  const Outcome refused = work.run({"train", "tiny.yaml", "--quiet"});
  CHECK(refused.code == 2);
  CHECK(refused.out.empty());
  CHECK(contains(refused.err, "already contains a run"));
  check_refusal(work, {"train", "tiny.yaml", "--quiet", "--dry-run"}, 2,
                "command line: --dry-run excludes --quiet\nhint: see `tapestry train --help`");
}

// ---- train.log.

TEST_CASE("a pipe or folder in place of train.log is refused without blocking") {
  const TrainedWorkplace work;
  const auto log = work / "runs/tiny/train.log";
  const auto refuse = [&](const std::string& found) {
    const Outcome refused = work.run({"train", "--resume", "runs/tiny", "train.steps=20"});
    CHECK(refused.code == 5);
    CHECK(refused.err == "tapestry: error: runs/tiny/train.log: found " + found +
                             ", expected a regular file\nhint: delete it, or move it away\n");
    std::filesystem::remove(log);
  };
  std::filesystem::remove(log);
  REQUIRE(::mkfifo(log.c_str(), 0600) == 0);
  refuse("a pipe, socket or device, or a link to one");
  std::filesystem::create_symlink("/dev/full", log);
  refuse("a pipe, socket or device, or a link to one");
  std::filesystem::create_directory(log);
  refuse("a folder");
  CHECK(work.run({"train", "--resume", "runs/tiny", "train.steps=20"}).code == 0);
}

// ---- inspect.

TEST_CASE("a run and inspect summarize the model by blocks") {
  const TrainedWorkplace work;
  const std::string line = "; encoder.layers.0 ";
  CHECK(contains(work.trained.out, "\nblocks: "));
  CHECK(contains(work.trained.out, line));
  const std::string text = work.run({"inspect", "runs/tiny"}).out;
  CHECK(contains(text, "\nencoder.layers.0 "));
  CHECK(contains(text, "  (32, 16)\n"));
  CHECK(contains(text, " tensors, all trainable\n"));

  const json listed = json::parse(work.run({"inspect", "runs/tiny", "--json"}).out);
  const json& model = listed.at("model");
  std::size_t values = 0, tensors = 0;
  for (const json& array : listed.at("arrays")) {
    if (!array.at("name").get<std::string>().starts_with("parameters/")) continue;
    std::size_t size = 1;
    for (const json& extent : array.at("shape")) size *= extent.get<std::size_t>();
    values += size;
    ++tensors;
  }
  CHECK(model.at("parameters") == values);
  CHECK(model.at("trainable") == values);
  CHECK(model.at("frozen") == 0);
  CHECK(model.at("tensors") == tensors);
  std::size_t in_blocks = 0;
  for (const json& block : model.at("blocks")) {
    in_blocks += block.at("count").get<std::size_t>() * block.at("parameters").get<std::size_t>();
  }
  CHECK(in_blocks == values);
}

TEST_CASE("inspect of a run lists its checkpoints with size and validation loss") {
  const TrainedWorkplace work;
  const json listed = json::parse(work.run({"inspect", "runs/tiny", "--json"}).out);
  const json& checkpoints = listed.at("checkpoints");
  std::vector<std::string> files;
  std::size_t best = 0, newest = 0, validated = 0;
  for (const json& each : checkpoints) {
    const std::string path = each.at("checkpoint");
    CHECK(each.at("bytes") == std::filesystem::file_size(work / path));
    CHECK(std::filesystem::path(path) == work.checkpoint(each.at("step").get<std::uint64_t>()));
    best += each.at("best").get<bool>() ? 1 : 0;
    newest += each.at("newest").get<bool>() ? 1 : 0;
    if (each.at("newest").get<bool>()) CHECK(each.at("step") == 12);
    if (each.at("best").get<bool>()) CHECK(each.at("step") == listed.at("step"));
    if (each.at("validation_loss").is_null()) continue;
    ++validated;
    CHECK(contains(read_text(work / "runs/tiny/metrics.csv"),
                   std::to_string(each.at("step").get<int>()) + ",2,validation,") ==
          (each.at("step") == 12));
  }
  CHECK(checkpoints.size() >= 2);
  CHECK(best == 1);
  CHECK(newest == 1);
  CHECK(validated >= 1);
  const std::string text = work.run({"inspect", "runs/tiny"}).out;
  CHECK(contains(text, "checkpoint       size  validation loss\n"));
  CHECK(contains(text, "newest\n"));
  const json of_file = json::parse(work.run({"inspect", work.checkpoint(12), "--json"}).out);
  CHECK(of_file.at("checkpoints").empty());
}

}  // namespace
}  // namespace tapestry
