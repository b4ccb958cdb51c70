#include "train/config/config.h"

#include <filesystem>
#include <optional>
#include <system_error>

#include "train/config/error.h"
#include "train/config/file.h"
#include "train/config/reader.h"
#include "train/config/rules.h"
#include "train/config/yaml_document.h"

namespace tapestry {
namespace {

using Folder = std::optional<std::filesystem::path>;

std::filesystem::path working_folder() {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::current_path(error);
  if (!error) return folder;
  throw ConfigError({{.place = {.file = "the working folder"},
                      .message = "cannot be found out: " + error.message(),
                      .hint = "go to a folder that is there, with cd"}});
}

/// Relative paths in the text start at `of_text`, those in overrides at `of_overrides`.
Config read_config(std::string_view text, const std::string& name, const Folder& of_text,
                   const std::vector<std::string>& overrides, const Folder& of_overrides) {
  Config config;
  ProblemList problems;
  const YamlDocument document(name, text, problems);
  // What the rules would miss may stand behind a syntax error.
  const bool complete = problems.empty();

  ConfigReader reader(config, problems);
  reader.read(document, of_text);
  for (const std::string& override : overrides) reader.read(override, of_overrides);
  if (complete) check_rules(config, reader.origins(), problems);
  problems.throw_if_any();
  return config;
}

}  // namespace

Config with_process_settings(Config config, const TrainOptions& process) {
  config.train.threads = process.threads;
  config.train.run_dir = process.run_dir;
  config.train.max_time = process.max_time;
  config.train.detect_anomaly = process.detect_anomaly;
  return config;
}

Config parse_config(std::string_view text, const std::string& name,
                    const std::vector<std::string>& overrides) {
  const Folder here = overrides.empty() ? Folder() : working_folder();
  return read_config(text, name, {}, overrides, here);
}

Config load_config(const std::string& path, const std::vector<std::string>& overrides) {
  namespace fs = std::filesystem;
  const std::string text = read_config_file(path);
  const fs::path here = working_folder();
  const fs::path folder = (here / path).parent_path();
  Config config = read_config(text, path, folder, overrides, here);
  if (config.train.run_dir.empty()) {
    config.train.run_dir = (fs::path("runs") / fs::path(path).stem()).string();
  }
  return config;
}

}  // namespace tapestry
