#include "train/report/run_comparison.h"

#include <doctest/doctest.h>

namespace tapestry {
namespace {

Config with_seed(std::uint64_t seed, std::size_t d_model = 64) {
  Config config;
  config.train.seed = seed;
  config.model.d_model = d_model;
  return config;
}

TEST_CASE("differing keys are listed in file order with the values of all runs") {
  std::vector<Config> configs{with_seed(1), with_seed(1, 32), with_seed(3)};
  configs[2].train.threads = 7;  // settings of a process are not compared
  configs[2].train.run_dir = "elsewhere";
  const auto keys = differing_keys(configs);
  REQUIRE(keys.size() == 2);
  CHECK(keys[0].key == "model.d_model");
  CHECK(keys[0].values == std::vector<std::string>{"64", "32", "64"});
  CHECK(keys[1].key == "train.seed");
  CHECK(keys[1].values == std::vector<std::string>{"1", "1", "3"});
  CHECK(differing_keys({}).empty());
  CHECK(differing_keys(std::span(configs).first(1)).empty());
}

TEST_CASE("the changed keys of a config are those with other values than the defaults") {
  Config config;
  CHECK(changed_keys(config).empty());
  config.train.steps += 1;
  config.model.d_model *= 2;
  CHECK(changed_keys(config) == std::vector<std::string>{"model.d_model", "train.steps"});
}

TEST_CASE("runs that differ in the seed only are a group") {
  const std::vector<Config> configs{with_seed(1),    with_seed(1, 32), with_seed(2),
                                    with_seed(1),    with_seed(2, 32), with_seed(3),
                                    with_seed(1, 16)};
  // The config at index 3 is the same as at 0, and not another sample.
  CHECK(seed_groups(configs) == std::vector<std::vector<std::size_t>>{{0, 2, 5}, {1, 4}});
  CHECK(seed_groups({}).empty());
  CHECK(seed_groups(std::vector<Config>(3, with_seed(1))).empty());
}

}  // namespace
}  // namespace tapestry
