// SPDX-License-Identifier: BSD-3-Clause
#include "train/cli/open_trained.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "data/io/utf8.h"
#include "train/base/program.h"
#include "train/checkpoint/resume.h"
#include "train/config/domain.h"
#include "train/config/error.h"
#include "train/config/load.h"
#include "train/models/trained_model.h"
#include "train/system/standard_streams.h"
#include "train/tasks/task.h"

namespace tapestry {
namespace {

/// The hint for an override that a trained model does not accept. Names the override or option that
/// was probably meant.
std::string hint_for_fixed_key(const std::string& override, const DataOptions& data) {
  constexpr std::string_view threads = "train.threads=";
  if (override.starts_with(threads)) {
    return "write --threads " + override.substr(threads.size());
  }
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(override, ignored)) {
    return "leave it out, or name a config file";
  }
  std::vector<std::string> keys;
  for (const std::string_view key : data_source(data).kind.keys) {
    if (key.starts_with("data.test_") && key != "data.test_size") keys.emplace_back(key);
  }
  if (keys.size() == 1) return fmt::format("did you mean {}={}?", keys[0], escaped(override));
  for (std::string& key : keys) key += "=FILE";
  return fmt::format("write {}", fmt::join(keys, " "));
}

/// Rejects an override that sets neither a data file nor a key of the section decoding. Unknown
/// keys are reported by parse_config().
///
/// data  options of the trained model
void require_changeable(const std::string& override, const std::string& path,
                        const DataOptions& data) {
  const std::size_t equals = override.find('=');
  const std::string key = override.substr(0, equals);
  const auto rule = change_rule(key);
  if (key.starts_with("decoding.") && equals != override.npos) return;
  const bool is_data_file = key.starts_with("data.") && rule == ChangeRule::free;
  if (equals == override.npos || (rule && !is_data_file)) {
    reject_option(
        override,
        fmt::format("expected only data files, such as data.test_text=more.txt, and decoding "
                    "keys after {}: a trained model keeps its config",
                    path),
        hint_for_fixed_key(override, data));
  }
  if (key == "data.subword_file" || key == "data.target_subword_file") {
    reject_option(override, "a trained model keeps the subwords that it was trained with",
                  "leave it out, or name a config file");
  }
  if (rule && equals + 1 == override.size()) {
    reject_option(override, "found no file, expected one", fmt::format("write {}FILE", override));
  }
}

}  // namespace

bool is_run_or_checkpoint(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) || path.extension() == ".h5";
}

OpenedModel open_trained(const std::string& path, const std::vector<std::string>& overrides) {
  auto [file, snapshot, choice] = open_run(path);
  TrainedModel found = load_model(snapshot);
  found.config = with_other_data(path, found.config, overrides);
  found.config.data.training.cache_folder = file.parent_path().parent_path() / "cache";
  found.config.data.training.cache_is_read_only = true;
  std::string place = fmt::format("{}, step {}", file.string(), found.step);
  return {.trained = std::move(found),
          .origin = {.place = std::move(place), .choice = std::move(choice)}};
}

void announce(const ModelOrigin& origin) {
  if (!origin.choice.empty()) inform("using " + origin.in_words());
}

TrainedModel open_and_announce(const std::string& path) {
  auto [trained, origin] = open_trained(path);
  announce(origin);
  return std::move(trained);
}

std::vector<std::string> kinds_that_decode() {
  std::vector<std::string> kinds;
  for (const Task* task : all_tasks()) {
    if (task->answers().command() != nullptr && task->answers().command()->decodes) {
      kinds.emplace_back(task->kind().name);
    }
  }
  return kinds;
}

void require_kind(const TrainedModel& trained, const std::vector<std::string>& kinds,
                  std::string_view command) {
  const std::string& kind = trained.config.model_kind;
  if (std::ranges::find(kinds, kind) != kinds.end()) return;
  const Task& task = find_task(trained.config);
  const LineCommand* const answers = task.answers().command();
  const char* const fitting = answers != nullptr             ? answers->name
                              : task.traits().generates_text ? "generate"
                                                             : "evaluate";
  reject_option(command,
                fmt::format("the model is of kind {}, expected {}", kind, list_in_words(kinds)),
                fmt::format("`{} {} RUN` is the command for this model", program_name(), fitting));
}

Config with_other_data(const std::string& path, const Config& trained,
                       const std::vector<std::string>& overrides) {
  if (overrides.empty()) return trained;
  for (const std::string& override : overrides) require_changeable(override, path, trained.data);
  Config config = parse_config(dump_config(trained), "config of the checkpoint", overrides);
  data_source(config.data).check_other_files(trained.data, config.data);
  return config;
}

}  // namespace tapestry
