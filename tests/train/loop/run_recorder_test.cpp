#include "train/loop/run_recorder.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <set>
#include <string>

#include "tests/train/program.h"

namespace tapestry {
namespace {

using test::TrainedWorkplace;

/// The files and folders in the directory of a run that are there when it begins.
bool is_there_at_start(const std::string& name) {
  return name == ".lock" || name == "config.yaml" || name.starts_with("checkpoints");
}

std::set<std::string> files_of(const std::filesystem::path& run) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(run)) {
    const std::string name = entry.path().lexically_relative(run).string();
    if (!is_there_at_start(name) && name != "report.html") names.insert(name);
  }
  return names;
}

TEST_CASE("the files that a run creates are those that are counted before it begins") {
  const TrainedWorkplace work;
  TrainOptions options;
  CHECK(missing_files(work / "none", options) == 3);
  CHECK(files_of(work / "runs/tiny") ==
        std::set<std::string>{"events.jsonl", "metrics.csv", "train.log"});
  CHECK(missing_files(work / "runs/tiny", options) == 0);
  std::filesystem::remove(work / "runs/tiny/metrics.csv");
  CHECK(missing_files(work / "runs/tiny", options) == 1);
}

TEST_CASE("event files of TensorBoard are counted if they are written") {
  const TrainedWorkplace work;
  TrainOptions options;
  options.tensorboard = true;
  REQUIRE(work.run({"train", "tiny.yaml", "train.run_dir=board", "train.tensorboard=true"}).code ==
          0);
  CHECK(missing_files(work / "none", options) == files_of(work / "board").size());
  CHECK(missing_files(work / "board", options) == 0);
}

}  // namespace
}  // namespace tapestry
