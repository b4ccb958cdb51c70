#include "train/commands/other_data.h"

#include <fmt/format.h>

#include "train/config/listing.h"
#include "train/refuse_option.h"
#include "train/resume_policy.h"

namespace tapestry {
namespace {

bool is_data_file(const std::string& key) {
  return key.starts_with("data.") && change_rule(key) == ChangeRule::free;
}

}  // namespace

Config with_other_data(const std::string& path, const Config& trained,
                       const std::vector<std::string>& overrides) {
  if (overrides.empty()) return trained;
  Config config = parse_config(dump_config(trained), "config of the checkpoint", overrides);
  for (const ConfigDifference& change : compare_configs(trained, config)) {
    if (is_data_file(change.key)) continue;
    refuse_option(fmt::format("{}={}", change.key, change.now),
                  fmt::format("found an override of {}, expected none but files of data: a trained "
                              "model keeps the config it was trained with",
                              path),
                  "leave it out, or name a config file");
  }
  return config;
}

}  // namespace tapestry
