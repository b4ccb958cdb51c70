#include "train/sweep/sweep_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "data/io/utf8.h"
#include "train/config/fields.h"
#include "train/platform/machine.h"

namespace tapestry {
namespace {

using Json = nlohmann::ordered_json;

/// Whether an override sets a setting of the process.
bool sets_process_setting(const std::string& override) {
  return is_process_setting(std::string_view(override).substr(0, override.find('=')));
}

/// The overrides of settings of the process, which a resumed run has to be given again.
std::vector<std::string> process_settings(const Sweep& sweep, std::size_t run) {
  std::vector<std::string> settings;
  for (const std::string& override : run_overrides(sweep, run)) {
    if (sets_process_setting(override) && !names_run_dir({override})) settings.push_back(override);
  }
  const bool has_threads = std::ranges::any_of(
      settings, [](const std::string& setting) { return setting.starts_with("train.threads="); });
  if (sweep.jobs > 1 && !has_threads) {
    const std::size_t threads = std::max<std::size_t>(read_cores().allowed / sweep.jobs, 1);
    settings.push_back(fmt::format("train.threads={}", threads));
  }
  return settings;
}

/// The overrides of all runs that are stored in checkpoints.
std::vector<std::string> stored_overrides(const Sweep& sweep) {
  std::vector<std::string> stored = sweep.overrides.fixed;
  std::erase_if(stored, sets_process_setting);
  return stored;
}

/// The values of a run as overrides.
std::vector<std::string> value_overrides(const Sweep& sweep, std::size_t run) {
  std::vector<std::string> overrides;
  for (std::size_t i = 0; i < sweep.overrides.axes.size(); ++i) {
    overrides.push_back(sweep.overrides.axes[i].key + "=" + sweep.runs[run][i]);
  }
  return overrides;
}

std::vector<std::string> joined(std::vector<std::string> first,
                                const std::vector<std::string>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace

std::string run_name(const Sweep& sweep, std::size_t run) {
  const std::size_t digits = std::max<std::size_t>(2, fmt::to_string(sweep.runs.size()).size());
  return fmt::format("run-{:0{}}", run + 1, digits);
}

std::filesystem::path run_folder(const Sweep& sweep, std::size_t run) {
  return sweep.folder / run_name(sweep, run);
}

std::string describe_run(const Sweep& sweep, std::size_t run) {
  std::string text = run_name(sweep, run);
  for (const std::string& value : value_overrides(sweep, run)) text += "  " + value;
  return escaped(text);
}

std::vector<std::string> run_overrides(const Sweep& sweep, std::size_t run) {
  return joined(sweep.overrides.fixed, value_overrides(sweep, run));
}

std::vector<std::string> run_arguments(const Sweep& sweep, std::size_t run, std::size_t last_step,
                                       bool resumes) {
  const std::string folder = run_folder(sweep, run).string();
  std::vector<std::string> arguments{"train", "--quiet"};
  if (sweep.halving > 0) {
    arguments.insert(arguments.end(), {"--until", fmt::to_string(last_step)});
  }
  if (resumes) {
    arguments.insert(arguments.end(), {"--resume", folder});
  } else {
    arguments.push_back(sweep.config);
    arguments = joined(std::move(arguments), run_overrides(sweep, run));
    arguments.push_back("train.run_dir=" + folder);
  }
  for (const std::string& setting : process_settings(sweep, run)) {
    if (std::ranges::find(arguments, setting) == arguments.end()) arguments.push_back(setting);
  }
  return arguments;
}

std::string sweep_plan_text(const Sweep& sweep, const Config& first) {
  const std::vector<std::string> stored = stored_overrides(sweep);
  Json runs = Json::array();
  for (std::size_t run = 0; run < sweep.runs.size(); ++run) {
    runs.push_back(joined(stored, value_overrides(sweep, run)));
  }
  const Json plan = {{"overrides", stored},
                     {"runs", std::move(runs)},
                     {"halving", sweep.halving},
                     {"config", dump_config(with_process_settings(first, Config()))}};
  return plan.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tapestry
