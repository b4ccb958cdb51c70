// SPDX-License-Identifier: BSD-3-Clause
#include "train/config/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "data/io/file.h"
#include "train/config/domain.h"
#include "train/config/error.h"
#include "train/config/fields.h"
#include "train/config/reader.h"
#include "train/config/rules.h"
#include "train/config/steps.h"
#include "train/config/yaml_text.h"

namespace tapestry {
namespace {

using Folder = std::optional<std::filesystem::path>;

/// The working directory, the base of relative paths in overrides; nullopt if it was deleted.
Folder working_folder() {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::current_path(error);
  return error ? Folder() : Folder(std::move(folder));
}

/// If train.steps and train.epochs are both set, uses the key from the command line. Reports an
/// error if both keys come from the config file or both from the command line.
void choose_length(Config& config, const Origins& origins, Diagnostics& errors) {
  const auto steps = origins.find("train.steps"), epochs = origins.find("train.epochs");
  if (steps == origins.end() || epochs == origins.end() || config.train.epochs == 0) return;
  if (steps->second.in_override != epochs->second.in_override) {
    if (steps->second.in_override) config.train.epochs = 0;
    return;
  }
  errors.add(epochs->second.place, "`epochs` and `steps` both set the length of the run",
             "remove one of them");
}

/// Whether a path is in a folder; false if `folder` is empty.
bool is_inside(const std::string& path, const std::filesystem::path& folder) {
  if (folder.empty()) return false;
  const auto rest = std::filesystem::path(path).lexically_relative(folder);
  return !rest.empty() && *rest.begin() != "..";
}

/// Replaces the folder `from` at the start of `path` by `to`.
std::string move_path(const std::string& path, const std::filesystem::path& from,
                      const std::filesystem::path& to) {
  const auto rest = std::filesystem::path(path).lexically_relative(from);
  return (to / rest).lexically_normal().string();
}

/// Rebases paths of data files in the config file to data.folder: paths relative to
/// `text_folder`, and paths inside `before`, the data.folder that the file itself sets.
void move_to_data_folder(Config& config, const Origins& origins, const Folder& text_folder,
                         const std::filesystem::path& before) {
  const std::filesystem::path folder = config.data.folder;
  if (folder.empty()) return;
  for_each_field(config, [&](Field& field) {
    if (!field.domain.is_file() || field.section != "data") return;
    const auto origin = origins.find(field.path());
    if (origin == origins.end() || origin->second.in_override) return;
    const std::vector<bool>& relative = origin->second.relative;
    std::size_t number = 0;
    for_each_path(field.value, [&](std::string& path) {
      if (number < relative.size() && relative[number]) {
        path = move_path(path, *text_folder, folder);
      } else if (is_inside(path, before)) {
        path = move_path(path, before, folder);
      }
      ++number;
    });
  });
}

/// Relative paths in the text are resolved against `text_folder`, in overrides against
/// `override_folder`.
ConfigWithOrigins read_config(std::string_view text, const std::string& name,
                              const Folder& text_folder, const std::vector<std::string>& overrides,
                              const Folder& override_folder, bool files_required = true) {
  Config config;
  Diagnostics errors;
  YamlText yaml(name, text, errors);
  // After a syntax error, keys may be missing, and rules would report false contradictions.
  const bool complete = errors.empty();

  ConfigReader reader(config, errors);
  reader.read(yaml, text_folder);
  const std::filesystem::path data_folder_of_text = config.data.folder;
  for (const std::string& override : overrides) reader.read(override, override_folder);
  move_to_data_folder(config, reader.origins(), text_folder, data_folder_of_text);
  choose_length(config, reader.origins(), errors);
  resolve_percentages(config);
  if (complete) check_rules(config, reader.origins(), errors, files_required);
  errors.throw_if_any();
  return {std::move(config), reader.origins()};
}

constexpr FileKind config_kind{
    .expected = "a config file",
    .special_hint = "give the path of a YAML file, such as configs/copy.yaml",
    .too_large_hint = "check that this file is meant to be a config",
    .unreadable_hint = "check the path and its permissions",
    .max_bytes = max_config_size};

/// Whether the file is the config.yaml in a run directory.
bool is_config_of_run(const std::filesystem::path& path) {
  std::error_code ignored;
  return path.filename() == "config.yaml" &&
         std::filesystem::is_directory(path.parent_path() / "checkpoints", ignored);
}

/// Sets train.run_dir to the directory of the run that the file belongs to, unless an override sets
/// it. Replaces an empty value by the default.
void set_run_dir(Config& config, const std::string& path,
                 const std::vector<std::string>& overrides) {
  std::string& run_dir = config.train.run_dir;
  if (!names_run_dir(overrides) && is_config_of_run(path)) {
    const std::filesystem::path run = std::filesystem::path(path).parent_path();
    run_dir = run.empty() ? "." : run.string();
  }
  if (!run_dir.empty()) return;
  run_dir = default_run_dir(path);
  const Parsed parsed = Domain(RunPath()).parse(run_dir);
  if (const auto* error = std::get_if<Diagnostic>(&parsed)) {
    throw ConfigError(
        {{.place = {.file = path},
          .message = "the run directory is named after the config file: " + error->message,
          .hint = "rename the file, or name a directory with train.run_dir=DIR"}});
  }
}

}  // namespace

Config parse_config(std::string_view text, const std::string& name,
                    const std::vector<std::string>& overrides) {
  return read_config(text, name, {}, overrides, working_folder()).config;
}

Config load_config(const std::string& path, const std::vector<std::string>& overrides) {
  return load_config_with_origins(path, overrides).config;
}

ConfigWithOrigins load_config_with_origins(const std::string& path,
                                           const std::vector<std::string>& overrides,
                                           bool files_required) {
  const std::string text = read_config_file(path);
  const Folder here = working_folder();
  const std::filesystem::path folder = (here.value_or("/") / path).parent_path();
  ConfigWithOrigins read = read_config(text, path, folder, overrides, here, files_required);
  set_run_dir(read.config, path, overrides);
  return read;
}

std::string dump_config(const Config& config) {
  std::string text;
  std::string_view section;
  for (const Field& field : fields_of(config)) {
    // Omits custom keys of other kinds, so that a program without them can open runs of built-in
    // kinds.
    if (field.custom && !field.in_use()) continue;
    if (field.section != section) text += fmt::format("{}:\n", field.section);
    section = field.section;
    text += fmt::format("  {}: {}\n", field.key, field.printed());
  }
  return text;
}

std::string default_run_dir(const std::string& path) {
  return (std::filesystem::path("runs") / std::filesystem::path(path).stem()).string();
}

bool names_run_dir(const std::vector<std::string>& overrides) {
  return std::ranges::any_of(overrides, [](const std::string& override) {
    return override.starts_with("train.run_dir=");
  });
}

std::string read_config_file(const std::string& path) try {
  const OpenFile file(path, config_kind);
  // Does not rely on the size of the file: the file may be growing, and files in /proc have size 0.
  std::string text(max_config_size + 1, '\0');
  text.resize(file.read_at(0, std::as_writable_bytes(std::span(text))));
  if (text.size() > max_config_size) {
    throw FileError(file.name(), fmt::format("found more than {} bytes", max_config_size),
                    config_kind.too_large_hint);
  }
  return text;
} catch (const FileError& error) {
  std::error_code ignored;
  const auto of_run = std::filesystem::path(path) / "config.yaml";
  const bool is_run = std::filesystem::is_regular_file(of_run, ignored);
  throw ConfigError({{{.file = path},
                      error.reason(),
                      is_run ? fmt::format("did you mean {}?", of_run.string()) : error.hint()}});
}

}  // namespace tapestry
