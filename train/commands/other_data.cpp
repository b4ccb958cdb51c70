#include "train/commands/other_data.h"

#include <fmt/format.h>

#include "train/refuse_option.h"
#include "train/resume_policy.h"

namespace tapestry {
namespace {

/// A key that does not exist is left to parse_config(), which knows those that do.
void require_data_file(const std::string& override, const std::string& path) {
  const std::size_t equals = override.find('=');
  const std::string key = override.substr(0, equals);
  const auto rule = change_rule(key);
  const bool is_data_file = key.starts_with("data.") && rule == ChangeRule::free;
  if (equals == override.npos || (rule && !is_data_file)) {
    refuse_option(override,
                  fmt::format("expected nothing beside {} but files of data, such as "
                              "data.test_text=more.txt: a trained model keeps the config it was "
                              "trained with",
                              path),
                  "leave it out, or name a config file");
  }
  if (rule && equals + 1 == override.size()) {
    refuse_option(override, "found no file, expected one", fmt::format("write {}FILE", override));
  }
}

/// Test images are cut from those to learn from before validation images are. Where they need not
/// be any more, other images would be cut for validation, and the model has learnt most of them.
void require_same_cut(const DataOptions& before, const DataOptions& now) {
  const bool cut_first = before.task == TaskKind::images && before.test_images.empty() &&
                         before.test_size > 0 && !now.test_images.empty();
  if (!cut_first || !now.validation_images.empty() || now.validation_size == 0) return;
  refuse_option("data.test_images",
                "the run holds images for validation out of data.train_images behind those for the "
                "test, which are others without these",
                "name the images to score as data.validation_images");
}

}  // namespace

Config with_other_data(const std::string& path, const Config& trained,
                       const std::vector<std::string>& overrides) {
  if (overrides.empty()) return trained;
  for (const std::string& override : overrides) require_data_file(override, path);
  Config config = parse_config(dump_config(trained), "config of the checkpoint", overrides);
  require_same_cut(trained.data, config.data);
  return config;
}

}  // namespace tapestry
