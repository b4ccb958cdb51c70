#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cmath>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/contains.h"
#include "tests/train/refusal.h"
#include "train/checkpoint/checkpoint_file.h"

/// What the program does where a run, a checkpoint or a stream cannot be used as asked.
namespace tapestry {
namespace {

using test::Arguments;
using test::check_refusal;
using test::contains;
using test::Outcome;
using test::TextWorkplace;
using test::TrainedWorkplace;
using test::Workplace;

TEST_CASE("--resume refuses paths that are no runs") {
  const TrainedWorkplace work;
  std::filesystem::create_directory(work / "empty");
  const std::string hint =
      ", expected the directory of a run\n"
      "hint: name a run directory such as runs/copy, or start a run: tapestry train CONFIG";
  check_refusal(work, {"train", "--resume", "empty"}, 4,
                "empty: holds no checkpoint to resume from" + hint);
  check_refusal(work, {"train", "--resume", "nowhere"}, 4, "nowhere: is no directory" + hint);
  check_refusal(work, {"train", "--resume", work.checkpoint(12)}, 4,
                work.checkpoint(12) + ": is no directory" + hint);
}

TEST_CASE("a missing checkpoint or run is reported by name") {
  const Workplace work;
  std::filesystem::create_directory(work / "empty");
  for (const char* command : {"evaluate", "translate", "inspect"}) {
    CAPTURE(command);
    check_refusal(work, {command, "nowhere"}, 4,
                  "nowhere: cannot be read: No such file or directory\n"
                  "hint: check the path and its permissions");
    check_refusal(work, {command, "empty"}, 4,
                  "empty: holds no checkpoint, expected a run directory or a checkpoint file\n"
                  "hint: train first: tapestry train CONFIG");
  }
}

TEST_CASE("a truncated checkpoint that was given by name is refused") {
  const TrainedWorkplace work;
  const auto size = std::filesystem::file_size(work / work.checkpoint(12));
  std::filesystem::resize_file(work / work.checkpoint(12), 1000);
  for (const char* command : {"evaluate", "translate", "inspect"}) {
    CAPTURE(command);
    check_refusal(work, {command, work.checkpoint(12)}, 4,
                  work.checkpoint(12) +
                      ": the checkpoint is truncated: found 1000 bytes, expected " +
                      std::to_string(size) +
                      "\nhint: copy the file again, or use an older "
                      "checkpoint");
  }
}

TEST_CASE("a file that is no checkpoint is refused") {
  const TrainedWorkplace work;
  const Outcome refused = work.run({"inspect", "tiny.yaml"});
  CHECK(refused.code == 4);
  CHECK(refused.err.starts_with("tapestry: error: tiny.yaml: "));
  CHECK(refused.err.find("\nhint: ") != std::string::npos);
}

TEST_CASE("inspect gives mean and standard deviation of every array of floats") {
  const TrainedWorkplace work;
  const std::string out = work.run({"inspect", "runs/tiny"}).out;
  const ArrayStore snapshot = read_checkpoint(work / work.checkpoint(12));
  for (const char* path :
       {"parameters/encoder.norm.weight", "optimizer/first_moment/output.bias"}) {
    double mean = 0.0, variance = 0.0;
    const auto values = snapshot.get<float>(path);
    for (const float value : values) mean += value / static_cast<double>(values.size());
    for (const float value : values) {
      variance += (value - mean) * (value - mean) / static_cast<double>(values.size());
    }
    const std::size_t begin = out.find(path);
    const std::string line = out.substr(begin, out.find('\n', begin) - begin);
    CHECK(
        contains(line, fmt::format(" mean {:+.3e}  deviation {:.3e}", mean, std::sqrt(variance))));
    double squares = 0.0;
    std::vector<std::size_t> counts(10);
    const auto [low, high] = std::ranges::minmax(values);
    for (const float value : values) {
      squares += double{value} * value;
      const double place = 10 * (double{value} - low) / (double{high} - low);
      ++counts[std::min<std::size_t>(9, static_cast<std::size_t>(place))];
    }
    std::string histogram;
    for (const std::size_t count : counts) {
      const std::size_t most = std::ranges::max(counts);
      histogram += static_cast<char>('0' + (9 * count + most - 1) / most);
    }
    CHECK(line.ends_with(fmt::format("  norm {:.3e}  {:+.2e} [{}] {:+.2e}", std::sqrt(squares), low,
                                     histogram, high)));
  }
}

TEST_CASE("if the newest checkpoint is damaged, the one before is used with a warning") {
  const TrainedWorkplace work;
  const std::string whole = test::read_text(work / work.checkpoint(12));
  std::filesystem::resize_file(work / work.checkpoint(12), 1000);
  const std::string damage = work.checkpoint(12) +
                             ": the checkpoint is truncated: found 1000 bytes, expected " +
                             std::to_string(whole.size());
  const Outcome inspected = work.run({"inspect", "runs/tiny"});
  CHECK(inspected.code == 0);
  CHECK(inspected.err ==
        "tapestry: warning: " + damage + "; another checkpoint of the run is used\n");

  const Outcome resumed = work.run({"train", "--resume", "runs/tiny"});
  CHECK(resumed.code == 0);
  CHECK(resumed.out.starts_with("warning: " + damage +
                                "; an older checkpoint is used\nresuming runs/tiny at step 10 of "
                                "12\n"));
  CHECK(test::read_text(work / work.checkpoint(12)) == whole);
}

TEST_CASE("if the best checkpoint is damaged, the newest is used with a warning") {
  const TrainedWorkplace work;
  const Outcome worse =
      work.run({"train", "--resume", "runs/tiny", "train.steps=13", "schedule.learning_rate=5",
                "--allow-change", "schedule.learning_rate"});
  REQUIRE(worse.code == 0);
  const Outcome best = work.run({"evaluate", "runs/tiny"});
  const std::string choice = "(the best of the run, whose newest is step 13)\n";
  REQUIRE(best.out.starts_with(work.checkpoint(12) + ", step 12 " + choice));
  CHECK(contains(work.run({"inspect", "runs/tiny"}).out, "\n" + choice + "digest "));
  std::filesystem::resize_file(work / work.checkpoint(12), 0);
  const Outcome newest = work.run({"evaluate", "runs/tiny"});
  CHECK(newest.code == 0);
  CHECK(newest.out.starts_with(work.checkpoint(13) + ", step 13\n"));
  CHECK(newest.err.starts_with("tapestry: warning: " + work.checkpoint(12) + ": "));
}

TEST_CASE("a run whose newest checkpoint is a dangling link is resumed from an older one") {
  const TrainedWorkplace work;
  const std::string whole = test::read_text(work / work.checkpoint(12));
  std::filesystem::remove(work / work.checkpoint(12));
  std::filesystem::create_symlink("none", work / work.checkpoint(12));
  const std::string reason = work.checkpoint(12) + ": cannot be read: No such file or directory";
  const Outcome inspected = work.run({"inspect", "runs/tiny"});
  CHECK(inspected.code == 0);
  CHECK(inspected.err ==
        "tapestry: warning: " + reason + "; another checkpoint of the run is used\n");
  const Outcome resumed = work.run({"train", "--resume", "runs/tiny"});
  CHECK(resumed.code == 0);
  CHECK(resumed.out.starts_with("warning: " + reason + "; an older checkpoint is used\n"));
  CHECK(std::filesystem::is_regular_file(
      std::filesystem::symlink_status(work / work.checkpoint(12))));
  CHECK(test::read_text(work / work.checkpoint(12)) == whole);
}

TEST_CASE("a run whose newest checkpoint is a folder or a pipe is resumed from an older one") {
  for (const std::string kind : {"folder", "pipe"}) {
    CAPTURE(kind);
    const TrainedWorkplace work;
    const std::filesystem::path newest = work / work.checkpoint(12);
    std::filesystem::remove(newest);
    if (kind == "folder") {
      std::filesystem::create_directory(newest);
    } else {
      REQUIRE(::mkfifo(newest.c_str(), 0600) == 0);
    }
    const Outcome inspected = work.run({"inspect", "runs/tiny"});
    CHECK(inspected.code == 0);
    CHECK(inspected.err.starts_with("tapestry: warning: " + work.checkpoint(12) + ": "));
    CHECK(inspected.err.ends_with("; another checkpoint of the run is used\n"));
    const Outcome resumed = work.run({"train", "--resume", "runs/tiny"});
    CHECK(contains(resumed.out, "\nresuming runs/tiny at step 10 of 12\n"));
  }
}

TEST_CASE("a checkpoint of another run or step is refused, one of the run is used") {
  const TrainedWorkplace work;
  const std::string config = test::read_text(work / "runs/tiny/config.yaml");
  REQUIRE(work.run({"train", "tiny.yaml", "train.run_dir=other", "model.d_model=32"}).code == 0);
  std::filesystem::copy_file(work / "other/checkpoints/step-00000012.h5",
                             work / work.checkpoint(12),
                             std::filesystem::copy_options::overwrite_existing);
  const Outcome resumed = work.run({"train", "--resume", "runs/tiny"});
  CHECK(resumed.code == 0);
  CHECK(contains(resumed.out,
                 "warning: " + work.checkpoint(12) + ": found a checkpoint of the run "));
  CHECK(contains(resumed.out, "\nresuming runs/tiny at step 10 of 12\n"));
  const std::string id_line = config.substr(0, config.find('\n') + 1);
  CHECK(id_line.starts_with("# run id: "));
  const std::string config_now = test::read_text(work / "runs/tiny/config.yaml");
  CHECK(config_now.starts_with(id_line));
  CHECK(contains(config_now, "\n  d_model: 16\n"));

  std::filesystem::rename(work / work.checkpoint(12),
                          work / "runs/tiny/checkpoints/step-00009999.h5");
  const Outcome evaluated = work.run({"evaluate", "runs/tiny"});
  CHECK(evaluated.code == 0);
  CHECK(contains(evaluated.err,
                 "found the checkpoint of step 12, expected step 9999, after which "
                 "the file is named; another checkpoint of the run is used\n"));
}

TEST_CASE("the folder of checkpoints can be given for its run") {
  const TrainedWorkplace work;
  const Outcome inspected = work.run({"inspect", "runs/tiny/checkpoints"});
  CHECK(inspected.code == 0);
  CHECK(inspected.out == work.run({"inspect", "runs/tiny"}).out);
  const Outcome resumed =
      work.run({"train", "--resume", "runs/tiny/checkpoints/", "train.steps=13"});
  CHECK(resumed.code == 0);
  CHECK(resumed.out.starts_with("resuming runs/tiny at step 12 of 13\n"));
}

TEST_CASE("a run whose checkpoints are all damaged is refused and unchanged") {
  const TrainedWorkplace work;
  for (const auto& entry : std::filesystem::directory_iterator(work / "runs/tiny/checkpoints")) {
    std::filesystem::resize_file(entry.path(), 1000);
  }
  const auto before = work.contents();
  const Outcome refused = work.run({"train", "--resume", "runs/tiny", "train.steps=20"});
  CHECK(refused.code == 4);
  CHECK(refused.err.starts_with("tapestry: error: runs/tiny/checkpoints: found "));
  CHECK(work.contents() == before);
}

TEST_CASE("commands refuse a checkpoint of another shape with both shapes") {
  const TrainedWorkplace work;
  const ArrayStore original = read_checkpoint(work / work.checkpoint(12));
  ArrayStore altered;
  for (const auto& [path, array] : original) {
    if (path != "parameters/output.bias") altered.put(path, array);
  }
  altered.put<float>("parameters/output.bias", std::vector<float>(5), {5});
  write_checkpoint(work / work.checkpoint(12), altered);
  const std::string message =
      ": parameters/output.bias: found float32 (5), expected float32 (9)\n"
      "hint: use the config and the program that wrote the checkpoint";
  for (const char* command : {"evaluate", "translate"}) {
    check_refusal(work, {command, work.checkpoint(12)}, 4, work.checkpoint(12) + message);
  }
  check_refusal(work, {"train", "--resume", "runs/tiny", "train.steps=20"}, 4,
                work.checkpoint(12) + message);
}

TEST_CASE("a line that is too long is reported after the translations of the lines before it") {
  const TrainedWorkplace work;
  const std::string good = work.run({"translate", "runs/tiny"}, "a\n").out;
  const Outcome refused =
      work.run({"translate", "runs/tiny", "--long-lines", "stop"}, "a\na b c d e a b c\na\n");
  CHECK(refused.code == 3);
  CHECK(refused.out == good);
  CHECK(refused.err ==
        "tapestry: error: standard input:2: found 9 tokens with <eos>, expected at most 8 "
        "(model.max_length)\n"
        "hint: cut the line, or train a model with a larger model.max_length\n");
}

TEST_CASE("a line that is not UTF-8 is reported") {
  const TextWorkplace work;
  REQUIRE(work.run({"train", "text.yaml"}).code == 0);
  check_refusal(work, {"translate", "runs/text"}, 3,
                "standard input:1: byte 3 (0xFF) is not UTF-8\n"
                "hint: convert the text to UTF-8, for example: iconv -f ISO-8859-1 -t UTF-8",
                "a \xFF\n");
}

TEST_CASE("input that cannot be read is a data error") {
  const TrainedWorkplace work;
  const Outcome refused =
      work.run({"translate", "runs/tiny"}, test::Streams{.in = work.path().string()});
  CHECK(refused.code == 3);
  CHECK(refused.err ==
        "tapestry: error: standard input: cannot be read: Is a directory\n"
        "hint: give it text, one sentence a line, such as `< FILE`\n");
}

}  // namespace
}  // namespace tapestry
