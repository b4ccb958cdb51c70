// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "train/config/config.h"
#include "train/config/difference.h"
#include "train/config/keys.h"
#include "train/config/load.h"

namespace tapestry {

TEST_CASE("every key is listed once, with its domain, its default and its meaning") {
  std::map<std::string, ConfigKey> keys;
  for (const ConfigKey& key : config_keys()) CHECK(keys.emplace(key.path(), key).second);
  const ConfigKey& width = keys.at("model.d_model");
  CHECK(width.expected == "a whole number from 1 to 65536");
  CHECK(width.default_value == "128");
  CHECK(width.meaning.starts_with("embedding dimension"));
  CHECK(width.used_with.empty());
  CHECK(keys.at("optimizer.momentum").used_with == "optimizer.kind: sgd");
}

TEST_CASE("a dumped config has every key and parses to the same config") {
  Config config;
  config.data.task = "parallel_text";
  config.data.pairs.train_source = "a \"quoted\" \\ path: ä #1";
  config.data.pairs.train_target = "./~";
  config.data.pairs.validation_source = "null";
  config.data.pairs.validation_target = " 010 ";
  config.data.words.lowercase = true;
  config.model.dropout = 0.1 + 0.2;
  config.model.norm = NormPlacement::post;
  config.model.layer_norm_epsilon = 5e-324;
  config.optimizer.kind = OptimizerKind::sgd;
  config.optimizer.momentum = 1.0 / 3.0;
  config.schedule.kind = ScheduleKind::cosine;
  config.schedule.warmup_steps = 7;
  config.train.seed = 18446744073709551615u;
  config.train.dtype = DType::float64;
  const std::string text = dump_config(config);
  CHECK(compare_configs(config, parse_config(text, "dump")).empty());
  CHECK(dump_config(parse_config(text, "dump")) == text);
  CHECK(std::count(text.begin(), text.end(), '\n') ==
        static_cast<std::ptrdiff_t>(config_keys().size() + 6));
}

TEST_CASE("two configs are compared key by key") {
  Config before;
  Config now;
  CHECK(compare_configs(before, now).empty());
  now.model.d_model = 256;
  now.train.run_dir = "elsewhere";
  before.optimizer.kind = OptimizerKind::adamw;
  const std::vector<ConfigDifference> differences = compare_configs(before, now);
  REQUIRE(differences.size() == 3);
  CHECK(differences[0].key == "model.d_model");
  CHECK(differences[0].checkpoint == "128");
  CHECK(differences[0].current == "256");
  CHECK(differences[1].key == "optimizer.kind");
  CHECK(differences[1].checkpoint == "adamw");
  CHECK(differences[1].current == "adam");
  CHECK(differences[2].key == "train.run_dir");
  CHECK(differences[2].current == "\"elsewhere\"");
}

}  // namespace tapestry
