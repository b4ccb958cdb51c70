#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "train/config/config.h"

namespace tapestry {

TEST_CASE("every key is listed with its domain, its default and its meaning") {
  const std::vector<ConfigKey> keys = config_keys();
  const auto key = [&](const std::string& name) {
    return *std::find_if(keys.begin(), keys.end(),
                         [&](const ConfigKey& k) { return k.key == name; });
  };
  CHECK(key("d_model").section == "model");
  CHECK(key("d_model").expected == "a whole number from 1 to 65536");
  CHECK(key("d_model").default_value == "128");
  CHECK(key("d_model").meaning ==
        "embedding dimension, in features per token; a multiple of `num_heads` if `d_head` is 0");
  CHECK(key("d_model").used_with.empty());
  CHECK(key("momentum").used_with == "optimizer.kind: sgd");
}

TEST_CASE("no key is listed twice") {
  std::set<std::string> names;
  for (const ConfigKey& key : config_keys()) {
    CHECK_MESSAGE(names.insert(key.section + "." + key.key).second, key.key);
  }
}

TEST_CASE("a dumped config has every key and is parsed to the same config") {
  Config config;
  config.data.task = "parallel_text";
  config.data.pairs.train_source = "a \"quoted\" \\ path: ä #1";
  config.data.pairs.train_target = "~";
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

TEST_CASE("a dumped config is plain YAML") {
  const std::string text = dump_config(Config());
  CHECK(text.starts_with("data:\n  task: copy\n  folder: \"\"\n  num_symbols: 20\n"));
  CHECK(text.find("\nschedule:\n"
                  "  kind: constant\n"
                  "  learning_rate: 0.001\n"
                  "  warmup_steps: 0\n"
                  "  decay_steps: 0\n"
                  "  min_learning_rate: 0\n"
                  "decoding:\n") != std::string::npos);
  CHECK(text.ends_with("  run_dir: \"\"\n  dtype: float32\n"));
}

TEST_CASE("configs that differ are compared key by key") {
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
  CHECK(differences[0].now == "256");
  CHECK(differences[1].key == "optimizer.kind");
  CHECK(differences[1].checkpoint == "adamw");
  CHECK(differences[1].now == "adam");
  CHECK(differences[2].key == "train.run_dir");
  CHECK(differences[2].now == "\"elsewhere\"");
}

}  // namespace tapestry
