// SPDX-License-Identifier: BSD-3-Clause
#include "train/config/explain.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/contains.h"
#include "tests/train/program.h"
#include "train/config/keys.h"
#include "train/config/load.h"

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

}  // namespace tapestry
