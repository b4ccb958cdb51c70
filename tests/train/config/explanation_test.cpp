// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "tests/support/contains.h"
#include "tests/support/source_folder.h"
#include "tests/train/program.h"
#include "train/config/error.h"
#include "train/config/fields.h"
#include "train/config/keys.h"
#include "train/config/load.h"
#include "train/config/rules.h"

namespace tapestry {
namespace {

using test::contains;

const ExplainedKey& find(const std::vector<ExplainedKey>& keys, const std::string& path) {
  const auto found =
      std::ranges::find_if(keys, [&](const ExplainedKey& each) { return each.key.path() == path; });
  REQUIRE(found != keys.end());
  return *found;
}

struct ConfigFile : test::Workplace {
  ConfigFile() {
    write("small.yaml",
          "model:\n  d_model: 64\nschedule:\n  kind: linear_warmup\n  warmup_steps: 25%\n");
  }
  std::string path() const { return (*this / "small.yaml").string(); }
};

}  // namespace

TEST_CASE("config explain prints each key with its value and origin") {
  const ConfigFile file;
  const auto keys = explain_config(file.path(), {"train.steps=200", "model.d_ff=96"});
  CHECK(keys.size() == config_keys().size());
  CHECK(find(keys, "model.d_model").value == "64");
  CHECK(find(keys, "model.d_model").origin == file.path() + ":2");
  CHECK(find(keys, "model.d_ff").value == "96");
  CHECK(find(keys, "model.d_ff").origin == "command line");
  CHECK(find(keys, "model.num_heads").value == "4");
  CHECK(find(keys, "model.num_heads").origin == "default");
  CHECK(find(keys, "schedule.warmup_steps").value == "50");
  CHECK(find(keys, "schedule.warmup_steps").percent == 25.0);
  CHECK_FALSE(find(keys, "schedule.kind").percent.has_value());
  CHECK(find(keys, "schedule.warmup_steps").in_use);
  CHECK_FALSE(find(keys, "optimizer.momentum").in_use);
  CHECK(find(keys, "optimizer.beta1").in_use);
}

TEST_CASE("the output of config explain is a config with the same values") {
  const ConfigFile file;
  const std::vector<std::string> overrides = {"train.steps=200", "model.d_ff=96"};
  const std::string yaml = to_yaml(explain_config(file.path(), overrides));
  CHECK(dump_config(parse_config(yaml, "explained.yaml")) ==
        dump_config(load_config(file.path(), overrides)));
  CHECK(contains(yaml, "\n  d_model: 64"));
  CHECK(contains(yaml, "# " + file.path() + ":2; default 128\n"));
  CHECK(contains(yaml,
                 "# number of attention heads (a whole number from 1 to 1024)\n  num_heads: 4"));
  CHECK(contains(yaml, "given as 25% of train.steps; default 0\n"));
  CHECK(contains(yaml, "not used, only with optimizer.kind: sgd\n  # momentum: 0"));
}

namespace {

/// Checks that the output of config explain for a file is a config with the same values.
void check_round_trip(const std::string& path, const std::vector<std::string>& overrides = {}) {
  const std::string yaml = to_yaml(explain_config(path, overrides));
  const test::Workplace folder;
  folder.write("explained.yaml", yaml);
  const std::string again = to_yaml(explain_config(folder.at("explained.yaml"), {}));
  const auto values = [](const std::string& text) {
    std::string lines;
    for (const std::string& line : test::split_lines(text)) {
      const std::size_t comment = line.find('#');
      if (comment > 2 && comment != line.npos) lines += line.substr(0, comment) + "\n";
    }
    return lines;
  };
  CHECK(values(again) == values(yaml));
}

}  // namespace

TEST_CASE("config explain prints a config for every shipped config, even without data files") {
  for (const auto& file : std::filesystem::directory_iterator(test::source_folder() / "configs")) {
    if (file.path().extension() != ".yaml") continue;
    CAPTURE(file.path().string());
    check_round_trip(file.path().string());
  }
}

TEST_CASE("config explain prints a config for random values of every kind of model") {
  const ConfigFile file;
  std::mt19937 random(1);
  const auto pick = [&](const std::vector<std::string>& words) {
    return words[std::uniform_int_distribution<std::size_t>(0, words.size() - 1)(random)];
  };
  int valid = 0;
  for (int i = 0; i < 1000; ++i) {
    std::vector<std::string> overrides;
    const std::string kind = pick(find_field("model.kind")->domain.words());
    const std::string task = pick(data_tasks_for(kind));
    overrides = {"model.kind=" + kind, "data.task=" + task, "train.epochs=" + pick({"0", "3"}),
                 "schedule.warmup_steps=" + pick({"10", "5%"})};
    for (const ConfigKey& key : config_keys()) {
      if (key.choices.empty() || key.path() == "model.kind" || key.path() == "data.task") continue;
      if (pick({"change", "", "", ""}) == "change") {
        overrides.push_back(key.path() + "=" + pick(key.choices));
      }
    }
    try {
      explain_config(file.path(), overrides);
    } catch (const ConfigError&) {
      continue;  // contradictory values
    }
    ++valid;
    CAPTURE(kind);
    CAPTURE(task);
    check_round_trip(file.path(), overrides);
  }
  CHECK(valid > 50);
}

}  // namespace tapestry
