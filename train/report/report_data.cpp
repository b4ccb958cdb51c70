// SPDX-License-Identifier: BSD-3-Clause
#include "train/report/report_data.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "data/io/durable_file.h"
#include "data/io/error.h"
#include "data/io/utf8.h"
#include "train/base/error.h"
#include "train/base/format.h"
#include "train/base/program.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/open_run.h"
#include "train/checkpoint/run_directory.h"
#include "train/config/difference.h"
#include "train/config/keys.h"
#include "train/config/known_keys.h"
#include "train/config/load.h"
#include "train/models/held_out_results.h"
#include "train/models/run_data.h"
#include "train/models/trained_model.h"
#include "train/recording/event_log.h"
#include "train/recording/weights.h"
#include "train/report/curve.h"
#include "train/report/html_page.h"
#include "train/report/report_json.h"
#include "train/tasks/task.h"
#include "train/tasks/task_data.h"

namespace tapestry {

using Json = nlohmann::ordered_json;

/// The data of a run as JSON, and the config and history that comparisons with other runs need.
struct ReportData::Run {
  std::string path;  ///< path as the user specified it, escaped
  std::string name;  ///< last component of the path
  std::optional<Config> config;
  RunHistory history;
  std::vector<std::string> notes;
  Json json;
};

namespace {

// ---- Configs

/// The configs with default values of process settings, such as train.threads and train.run_dir,
/// which do not affect results.
std::vector<Config> without_process_settings(std::span<const Config> configs) {
  std::vector<Config> compared;
  for (const Config& config : configs) compared.push_back(with_process_settings(config, Config{}));
  return compared;
}

/// The keys whose values differ, in file order, each with its YAML value in every run. Ignores
/// process settings.
Json differences_json(std::span<const Config> configs) {
  Json differences = Json::array();
  if (configs.empty()) return differences;
  const std::vector<Config> compared = without_process_settings(configs);
  std::map<std::string, std::vector<std::string>> values;
  for (std::size_t i = 1; i < compared.size(); ++i) {
    for (const ConfigDifference& difference : compare_configs(compared.front(), compared[i])) {
      auto [found, is_new] = values.try_emplace(difference.key);
      if (is_new) found->second.assign(compared.size(), difference.checkpoint);
      found->second[i] = difference.current;
    }
  }
  for (const ConfigKey& key : config_keys()) {
    const auto found = values.find(key.path());
    if (found != values.end()) {
      differences.push_back({{"key", found->first}, {"values", found->second}});
    }
  }
  return differences;
}

/// The keys whose values differ from the defaults, in file order.
std::vector<std::string> changed_keys(const Config& config) {
  std::vector<std::string> keys;
  for (const ConfigDifference& difference : compare_configs(Config{}, config)) {
    keys.push_back(difference.key);
  }
  return keys;
}

/// Groups of two or more configs that differ only in train.seed, as indices. Leaves out configs
/// with a seed that the group already has.
std::vector<std::vector<std::size_t>> seed_groups(std::span<const Config> configs) {
  std::vector<Config> compared = without_process_settings(configs);
  for (Config& config : compared) config.train.seed = 0;
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < compared.size(); ++i) {
    const auto same = [&](std::size_t other) {
      return compare_configs(compared[other], compared[i]).empty();
    };
    const auto group = std::ranges::find_if(groups, same, [](const auto& g) { return g.front(); });
    if (group == groups.end()) {
      groups.push_back({i});
      continue;
    }
    const auto same_seed = [&](std::size_t other) {
      return configs[other].train.seed == configs[i].train.seed;
    };
    if (std::ranges::none_of(*group, same_seed)) group->push_back(i);
  }
  std::erase_if(groups, [](const auto& group) { return group.size() < 2; });
  return groups;
}

// ---- Reading a run

std::string last_component(const std::string& path) {
  const auto full = std::filesystem::path(path).lexically_normal();
  const auto last = full.has_filename() ? full.filename() : full.parent_path().filename();
  return escaped(last.empty() || last == "." ? path : last.string());
}

/// A note if this program does not have the model kind of a config; otherwise nullopt.
std::optional<std::string> note_on_unknown_kind(std::string_view config) {
  const auto kind = unknown_model_kind(config);
  if (!kind) return std::nullopt;
  return fmt::format(
      "model.kind `{}` is unknown to this program\nhint: use the program that wrote the run",
      escaped(*kind));
}

/// Reads the config of a run directory. If it cannot be read, adds a note and returns nullopt.
std::optional<Config> read_run_config(const RunDirectory& directory,
                                      std::vector<std::string>& notes) {
  const std::string file = (directory.path() / "config.yaml").string();
  try {
    const std::string text = read_config_file(file);
    if (auto note = note_on_unknown_kind(text)) {
      notes.push_back(std::move(*note));
      return std::nullopt;
    }
    return parse_config(text, file);
  } catch (const UserError& error) {
    notes.push_back(fmt::format("config: {}", error.what()));
    return std::nullopt;
  }
}

/// Reads the config of a checkpoint. If its kind of model is unknown, adds a note unless `notes`
/// has it, and returns nullopt.
std::optional<Config> saved_run_config(const ArrayStore& snapshot,
                                       std::vector<std::string>& notes) {
  if (auto note = note_on_unknown_kind(snapshot.get_text("config"))) {
    if (std::ranges::find(notes, *note) == notes.end()) notes.push_back(std::move(*note));
    return std::nullopt;
  }
  return saved_config(snapshot);
}

/// Opens the checkpoint of a run directory. If no checkpoint can be used, adds a note and returns
/// nullopt.
std::optional<OpenedCheckpoint> open_checkpoint(const std::string& path,
                                                const RunDirectory& directory,
                                                std::vector<std::string>& notes) {
  std::error_code ignored;
  const bool is_run = std::filesystem::exists(directory.path() / "config.yaml", ignored);
  if (is_run && directory.steps().empty()) {
    notes.emplace_back(
        "the run has no checkpoint yet: model, weights, examples and attention are left out\n"
        "hint: write the report again after the first save");
    return std::nullopt;
  }
  try {
    return open_run(path);
  } catch (const CheckpointError& error) {
    if (!is_run) throw;
    notes.push_back(
        fmt::format("model, weights, examples and attention are left out: {}", error.what()));
    return std::nullopt;
  }
}

/// The scores of the last `tapestry evaluate`; null if they are missing. If they cannot be read,
/// adds a note and returns null.
Json read_evaluation(const RunDirectory& directory, std::vector<std::string>& notes) try {
  const auto text = read_run_file(directory.path() / evaluation_file_name);
  if (!text) return nullptr;
  Json json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (json.is_object()) return json;
  notes.push_back(
      fmt::format("{}: found no JSON object: test scores are left out\n"
                  "hint: run `{} evaluate` again",
                  evaluation_file_name, program_name()));
  return nullptr;
} catch (const UserError& error) {
  notes.emplace_back(error.what());
  return nullptr;
}

/// Adds the metrics of a checkpoint if the run directory has no metrics.
void add_saved_history(const ArrayStore& snapshot, const std::string& place, RunHistory& history) {
  const auto is_of_metrics = [](const NamedCurve& curve) { return curve.name == "loss"; };
  if (std::ranges::none_of(history.curves, is_of_metrics)) {
    auto saved = metric_curves(snapshot.get_text("train/metrics"), place + ": train/metrics");
    history.curves.insert(history.curves.begin(), std::make_move_iterator(saved.begin()),
                          std::make_move_iterator(saved.end()));
  }
}

/// Replaces the curves of metrics.csv with the current metrics, since the file is written only with
/// the next checkpoint.
void use_current_metrics(const std::string& csv, RunHistory& history) {
  std::vector<NamedCurve> curves = metric_curves(csv, "metrics");
  for (NamedCurve& curve : history.curves) {
    const auto same = [&](const NamedCurve& other) {
      return other.name == curve.name && other.validation == curve.validation;
    };
    if (std::ranges::none_of(curves, same)) curves.push_back(std::move(curve));
  }
  history.curves = std::move(curves);
}

/// Adds weights, held-out results and attention of the trained model.
void add_model(const OpenedCheckpoint& opened, const Corpus* corpus, const ReportOptions& options,
               Json& json, std::vector<std::string>& notes) {
  const TrainedModel trained = load_model(opened.arrays);
  json["weights"] = weights_json(weights_by_block(trained.model->parameters));
  std::optional<Corpus> loaded;
  try {
    if (corpus == nullptr) {
      loaded = load_corpus_for(trained, DataUse::scores);
      require_fitting_examples(*loaded, trained.config);
      corpus = &*loaded;
    }
    json.update(held_out_json(trained, *corpus, options, notes));
  } catch (const UserError& error) {
    notes.push_back(fmt::format("held-out examples and attention are left out: {}", error.what()));
  }
}

}  // namespace

ReportData::ReportData(const ReportOptions& options) : options_(options) {}
ReportData::~ReportData() = default;

void ReportData::add(const std::string& path, const RunInProgress* now) {
  auto run = std::make_unique<Run>();
  run->path = escaped(path);
  run->name = last_component(path);
  std::error_code ignored;
  std::optional<OpenedCheckpoint> opened;
  Json evaluation;
  if (std::filesystem::is_directory(path, ignored)) {
    const RunDirectory directory = find_run(path);
    run->name = last_component(directory.path().string());
    if (options_.details) opened = open_checkpoint(path, directory, run->notes);
    run->history = read_run_history(directory.path());
    run->notes.insert(run->notes.end(), run->history.notes.begin(), run->history.notes.end());
    run->config = read_run_config(directory, run->notes);
    evaluation = read_evaluation(directory, run->notes);
    if (now != nullptr) use_current_metrics(now->metrics, run->history);
    if (!options_.details) {
      run->history.records.clear();
      run->history.log.clear();
      run->history.log_lines_left_out = 0;
      run->history.profile.clear();
    }
  } else {
    opened = open_run(path);
  }
  Json json = {{"name", run->name},
               {"path", run->path},
               {"in_progress", now != nullptr && !now->finished},
               {"evaluation", std::move(evaluation)}};
  if (opened) {
    const std::string file = escaped(opened->path.string());
    json["checkpoint"] = {{"file", file},
                          {"step", saved_step(opened->arrays)},
                          {"choice", opened->choice},
                          {"arithmetic", saved_arithmetic(opened->arrays)}};
    try {
      add_saved_history(opened->arrays, file, run->history);
      if (!run->config) run->config = saved_run_config(opened->arrays, run->notes);
      if (run->config)
        add_model(*opened, now != nullptr ? &now->corpus : nullptr, options_, json, run->notes);
    } catch (const UserError& error) {
      run->notes.push_back(fmt::format("the model is left out: {}", error.what()));
    }
  }
  if (run->config) {
    const Task& task = find_task(*run->config);
    json["kind"] = run->config->model_kind;
    json["has_two_stacks"] = task.traits().has_two_stacks();
    json["labels_tokens"] = labels_tokens(task);
    json["steps"] = run->config->train.steps;
    json["best_metric"] = run->config->train.best_metric;
    json["config"] = dump_config(*run->config);
    json["changed_keys"] = changed_keys(*run->config);
    json["targets"] = task.words(*run->config).targets;
  }
  if (run->config && run->config->train.label_smoothing > 0.0) {
    separate_label_smoothing(run->history.curves);
  }
  json["history"] = history_json(run->history, opened ? saved_history(opened->arrays) : "");
  json["time"] = time_json(run->history.processes);
  json["recording"] = recording_json(run->history.records);
  if (run->history.curves.empty()) {
    run->notes.emplace_back("no step has been logged and saved yet");
  }
  run->json = std::move(json);
  runs_.push_back(std::move(run));
}

std::vector<std::string> ReportData::notes() const {
  std::vector<std::string> all;
  for (const auto& run : runs_) {
    for (const std::string& note : run->notes) {
      all.push_back(fmt::format("{}: {}", run->path, note));
    }
  }
  return all;
}

Json ReportData::json() const {
  // Runs with the same name are shown by their paths.
  std::map<std::string, std::size_t> names;
  for (const auto& run : runs_) ++names[run->name];
  Json runs = Json::array();
  std::vector<Config> configs;
  constexpr std::size_t min_points = 100;
  const std::size_t per_run = options_.curve_points / std::max<std::size_t>(runs_.size(), 1);
  const std::size_t points = std::min(options_.curve_points, std::max(per_run, min_points));
  for (const auto& run : runs_) {
    Json json = run->json;
    json["curves"] = Json::array();
    for (const NamedCurve& curve : run->history.curves) {
      json["curves"].push_back(curve_json(curve, points));
    }
    if (names[run->name] > 1) json["name"] = run->path;
    json["notes"] = run->notes;
    runs.push_back(std::move(json));
    if (run->config) configs.push_back(*run->config);
  }
  Json differences = Json::array(), groups = Json::array();
  if (configs.size() == runs_.size()) {  // all configs are known
    differences = differences_json(configs);
    for (const std::vector<std::size_t>& group : seed_groups(configs)) {
      std::vector<const RunHistory*> histories;
      for (const std::size_t i : group) histories.push_back(&runs_[i]->history);
      groups.push_back({{"runs", group},
                        {"t_975", json_number(student_t_975(group.size() - 1))},
                        {"curves", mean_curves_json(histories, points)}});
    }
  }
  return {{"program", fmt::format("tapestry {}", program_version)},
          {"time", format_time(std::time(nullptr))},
          {"details", options_.details},
          {"runs", std::move(runs)},
          {"differences", std::move(differences)},
          {"groups", std::move(groups)}};
}

std::size_t write_report(const ReportData& data, const std::filesystem::path& path) {
  const std::string page = html_page(data.json());
  write_file_durably(path, page);
  return page.size();
}

void write_report(const RunDirectory& directory, const RunInProgress& run) {
  ReportData data({});
  data.add(directory.path().string(), &run);
  write_report(data, directory.path() / report_file_name);
}

}  // namespace tapestry
