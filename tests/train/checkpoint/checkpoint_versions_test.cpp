// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/source_folder.h"
#include "tests/train/program.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_file.h"

/// Checkpoints of older format versions, stored in tests/regressions.
namespace tapestry {
namespace {

using test::Outcome;
using test::Workplace;

const std::filesystem::path folder = test::source_folder() / "tests/regressions";

/// A stored checkpoint, and losses computed by the program that wrote it.
struct StoredFile {
  std::string name;
  std::string held_out_loss;  ///< first digits
  std::string next_loss;      ///< training loss at step 640, first digits
};

const std::vector<StoredFile> stored_files = {{"checkpoint_format_1.h5", "0.36", "0.6"},
                                              {"checkpoint_format_2.h5", "0.36", "0.6"},
                                              {"checkpoint_format_3.h5", "0.36", "0.6"},
                                              {"checkpoint_format_3_no_libhdf5.h5", "0.23", "0.5"}};

/// A workplace with a run directory that contains a stored checkpoint.
struct OldRun : Workplace {
  explicit OldRun(const std::string& file) {
    std::filesystem::create_directories(*this / "runs/old/checkpoints");
    std::filesystem::copy_file(folder / file, *this / "runs/old" / name_at(600));
  }
  static std::string name_at(int step) {
    return "checkpoints/step-00000" + std::to_string(step) + ".h5";
  }
  ArrayStore snapshot(int step) const {
    return read_checkpoint(*this / "runs/old" / name_at(step));
  }
};

TEST_CASE("runs with checkpoints of every format version can be evaluated and resumed") {
  for (const auto& [file, held_out_loss, next_loss] : stored_files) {
    const auto& shown = file;  // clang 14 cannot capture structured bindings
    CAPTURE(shown);
    const OldRun run(file);
    const Outcome scores = run.run({"evaluate", "runs/old", "--examples", "0"});
    CHECK(scores.code == 0);
    CHECK(scores.out.find("12 held-out pairs: loss " + held_out_loss) != std::string::npos);
    CHECK(run.run({"translate", "runs/old"}, "a a c c\nc d\n").out == "a a c c\nc d\n");

    const ArrayStore before = run.snapshot(600);
    const Outcome resumed = run.run({"train", "--resume", "runs/old", "train.steps=640"});
    CAPTURE(resumed.err);
    REQUIRE(resumed.code == 0);
    CHECK(resumed.out.find("resuming runs/old at step 600 of 640") != std::string::npos);

    const ArrayStore after = run.snapshot(640);
    CHECK(saved_step(after) == 640);
    CHECK(after.get_scalar<std::uint64_t>("optimizer/steps") == 640);
    CHECK(after.get_scalar<std::uint64_t>("train/epoch") == 91);  // 14 batches each, 2 to a step
    CHECK(after.get_scalar<double>("train/best_loss") ==
          before.get_scalar<double>("train/best_loss"));
    const std::string metrics = after.get_text("train/metrics");
    CHECK(metrics.starts_with(before.get_text("train/metrics")));
    // The loss would be near 1 if the weights or the moments of the optimizer were lost.
    CHECK(metrics.find("\n640,92,train," + next_loss) != std::string::npos);
    if (before.contains("arithmetic")) continue;
    CHECK(resumed.out.find("changed arithmetic") == std::string::npos);
    CHECK(after.get_text("train/history").empty());
  }
}

}  // namespace
}  // namespace tapestry
