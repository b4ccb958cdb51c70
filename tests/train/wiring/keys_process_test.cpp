// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "autograd/instruction_set.h"
#include "tests/support/contains.h"
#include "tests/train/wiring/finished_runs.h"
#include "tests/train/wiring/keys_tasks.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/config/config.h"
#include "train/config/difference.h"
#include "train/config/load.h"

/// Tests settings of a process, which a resumed run does not take from its checkpoint.
/// run_keys_test.cpp tests that a resumed run keeps all other settings.
namespace tapestry {
namespace {

using namespace test;

const TaskCase task = one_case_of_each_kind.front();
const std::string run_dir = "runs/" + task.name();
const std::string config_file = task.name() + ".yaml";

/// A directory with a config that does not set train.threads.
struct ProcessWorkplace : TaskWorkplace {
  ProcessWorkplace() {
    std::string text = read_text(*this / config_file);
    const std::string threads = "threads: 1, ";
    text.erase(text.find(threads), threads.size());
    write(config_file, text);
  }

  Outcome start(const std::vector<std::string>& overrides) const {
    return with({"train", config_file}, overrides);
  }
  /// Resumes with the config of the checkpoint.
  Outcome resume(const std::vector<std::string>& overrides) const {
    return with({"train", "--resume", run_dir}, overrides);
  }
  /// Resumes with a config file.
  Outcome resume_with_config(const std::vector<std::string>& overrides) const {
    return with({"train", "--resume", config_file}, overrides);
  }

 private:
  Outcome with(std::vector<std::string> arguments,
               const std::vector<std::string>& overrides) const {
    arguments.insert(arguments.end(), overrides.begin(), overrides.end());
    return run(arguments);
  }
};

/// Extracts "threads: 3" from the line that describes the model.
std::string threads_in(const Outcome& done) {
  const std::size_t at = done.out.find("; threads: ");
  REQUIRE_MESSAGE(at != std::string::npos, done.err);
  return done.out.substr(at + 2, done.out.find(';', at + 2) - at - 2);
}

TEST_CASE("a resumed run uses the number of threads of its new process") {
  const ProcessWorkplace work;
  const Outcome plain = work.start({"train.steps=1", "train.threads=0", "train.run_dir=plain"});
  const std::string all_cores = threads_in(plain);
  const std::string other = all_cores == "threads: 3" ? "5" : "3";

  CHECK(threads_in(work.start({"train.steps=1", "train.threads=" + other})) == "threads: " + other);
  CHECK(threads_in(work.resume({"train.steps=2"})) == all_cores);
  CHECK(threads_in(work.resume({"train.steps=3", "train.threads=" + other})) ==
        "threads: " + other);
  CHECK(threads_in(work.resume_with_config({"train.steps=4"})) == all_cores);
  CHECK(threads_in(work.resume_with_config({"train.steps=5", "train.threads=" + other})) ==
        "threads: " + other);
  const Outcome last = work.resume({"train.steps=6"});
  CHECK(threads_in(last) == all_cores);
  CHECK_FALSE(contains(last.out, "changed train.threads"));
}

/// Unsets the environment variable `name` during the lifetime of the object, because the variable
/// would override the resumed setting.
class WithoutVariable {
 public:
  explicit WithoutVariable(const char* name) : name_(name) {
    if (const char* value = std::getenv(name)) value_ = value;
    ::unsetenv(name);
  }
  ~WithoutVariable() {
    if (value_) ::setenv(name_, value_->c_str(), 1);
  }
  WithoutVariable(const WithoutVariable&) = delete;
  WithoutVariable& operator=(const WithoutVariable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> value_;
};

/// The arithmetic that the run's newest checkpoint records.
std::string arithmetic_of(const ProcessWorkplace& work, const char* checkpoint) {
  const auto path = work / (run_dir + "/checkpoints/" + checkpoint);
  return read_checkpoint(path).get_text("arithmetic");
}

TEST_CASE("a run uses train.kernels, and a resumed run keeps its kernels") {
  if (std::ranges::find(compiled_kernels(), "baseline") == compiled_kernels().end()) return;
  const WithoutVariable automatic("TAPESTRY_KERNELS");
  const ProcessWorkplace work;
  const Outcome plain = work.start({"train.steps=4", "train.kernels=baseline"});
  CHECK(contains(plain.out, "; kernels baseline, matmul "));
  CHECK(arithmetic_of(work, "step-00000004.h5").starts_with("kernels baseline, "));
  const Outcome kept = work.resume({"train.steps=5"});
  CHECK(contains(kept.out, "; kernels baseline, matmul "));
  CHECK_FALSE(contains(kept.out, "changed arithmetic"));
  const std::string widest(compiled_kernels().back());
  if (widest == "baseline" || !processor_can_execute(widest)) return;
  const Outcome other = work.resume({"train.steps=6", "train.kernels=" + widest});
  CHECK(contains(other.out, "warning: changed arithmetic: kernels baseline, "));
  CHECK(arithmetic_of(work, "step-00000006.h5").starts_with("kernels " + widest));
  CHECK(work.start({"train.steps=1", "train.run_dir=new"}).code == 0);
}

TEST_CASE("a run uses train.matmul, and a resumed run keeps its library") {
  const WithoutVariable automatic("TAPESTRY_MATMUL");
  const ProcessWorkplace work;
  const Outcome plain = work.start({"train.steps=4", "train.matmul=openblas"});
  CHECK(contains(plain.out, ", matmul OpenBLAS "));
  CHECK(contains(arithmetic_of(work, "step-00000004.h5"), ", matmul OpenBLAS "));
  const Outcome kept = work.resume({"train.steps=5"});
  CHECK(contains(kept.out, ", matmul OpenBLAS "));
  CHECK_FALSE(contains(kept.out, "changed arithmetic"));
  const Outcome other = work.resume({"train.steps=6", "train.matmul=tapestry"});
  CHECK(contains(other.out, "warning: changed arithmetic: "));
  CHECK(contains(arithmetic_of(work, "step-00000006.h5"), ", matmul tapestry"));
}

/// Makes the next steps of the run overflow.
void poison_newest(const Workplace& work) {
  const Finished run = finished(work, run_dir, {});
  const auto& [step, checkpoint] = *run.checkpoints.rbegin();
  ArrayStore poisoned;
  for (const auto& [path, array] : checkpoint) {
    const bool chosen = path == "parameters/encoder.norm.weight";
    if (chosen) {
      const std::vector<double> huge(array.bytes.size() / sizeof(double), 1e308);
      poisoned.put<double>(path, huge, array.shape);
    } else {
      poisoned.put(path, array);
    }
  }
  write_checkpoint(work / fmt::format("{}/checkpoints/step-{:08}.h5", run_dir, step), poisoned);
}

TEST_CASE("a resumed run uses the train.detect_anomaly of its new process") {
  const std::string found_by_operation = "a value is not finite, expected";
  const std::string found_by_loss = "the loss is ";
  const std::string detect = "train.detect_anomaly=true";
  const ProcessWorkplace with, without;
  REQUIRE(with.start({"train.steps=1", detect}).code == 0);
  REQUIRE(without.start({"train.steps=1"}).code == 0);
  poison_newest(with);
  poison_newest(without);
  const auto check = [](const Outcome& outcome, const std::string& by) {
    CHECK(outcome.code == 6);
    CHECK_MESSAGE(contains(outcome.err, "step 2: " + by), outcome.err);
  };
  check(with.resume({"train.steps=2"}), found_by_loss);
  check(with.resume_with_config({"train.steps=2"}), found_by_loss);
  check(without.resume({"train.steps=2", detect}), found_by_operation);
  check(without.resume_with_config({"train.steps=2", detect}), found_by_operation);
}

TEST_CASE("a resumed run uses the train.max_time of its new process") {
  const ProcessWorkplace work;
  const std::string limit = "train.max_time=1s";
  CHECK(work.start({"train.steps=1000000000", "train.log_every=1000000",
                    "train.validate_every=1000000", "train.save_every=1000000", limit})
            .code == 124);
  // Without a limit, the same run ends at its last step.
  const Outcome ended = work.resume({"train.steps=1"});
  CHECK(contains(ended.out, " is finished: it has done "));
  CHECK(work.resume({"train.steps=1000000000", limit}).code == 124);
}

TEST_CASE("a checkpoint stores no process settings") {
  const ProcessWorkplace work;
  const std::vector<std::string> settings = {"train.threads=3", "train.bucket_size=2",
                                             "train.max_time=1h", "train.detect_anomaly=true",
                                             "train.run_dir=" + run_dir};
  const auto stored = [&](std::uint64_t step) {
    const auto path = work / fmt::format("{}/checkpoints/step-{:08}.h5", run_dir, step);
    return parse_config(read_checkpoint(path).get_text("config"), "checkpoint");
  };
  const auto differences = [](const Config& a, const Config& b) {
    std::set<std::string> keys;
    for (const ConfigDifference& difference : compare_configs(a, b)) keys.insert(difference.key);
    return keys;
  };
  std::vector<std::string> one_step = settings;
  one_step.emplace_back("train.steps=1");
  REQUIRE(work.start(one_step).code == 0);
  const Config of_run = work.config(task, one_step);
  std::set<std::string> keys;
  for (const std::string& setting : settings) keys.insert(setting.substr(0, setting.find('=')));
  CHECK(differences(stored(1), of_run) == keys);
  // config.yaml has the settings of the last process.
  CHECK(contains(read_text(work / (run_dir + "/config.yaml")), "\n  threads: 3\n"));
  REQUIRE(work.resume({"train.steps=2"}).code == 0);
  CHECK(differences(stored(2), stored(1)) == std::set<std::string>{"train.steps"});
  const std::string config_now = read_text(work / (run_dir + "/config.yaml"));
  CHECK(contains(config_now, "\n  threads: 0\n"));
  CHECK(contains(config_now, "\n  max_time: 0s\n"));
  CHECK(contains(config_now, "\n  detect_anomaly: false\n"));
}

}  // namespace
}  // namespace tapestry
