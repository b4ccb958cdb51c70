#include "train/config/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <any>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "autograd/instruction_set.h"
#include "autograd/kernels/parallel.h"
#include "data/io/file.h"
#include "train/config/error.h"
#include "train/config/fields.h"
#include "train/config/reader.h"
#include "train/config/rules.h"
#include "train/config/steps.h"
#include "train/config/text.h"
#include "train/config/yaml_text.h"

namespace tapestry {
namespace {

using Folder = std::optional<std::filesystem::path>;

/// The working folder, at which relative paths in overrides start; nullopt if it has been deleted.
Folder working_folder() {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::current_path(error);
  return error ? Folder() : Folder(std::move(folder));
}

/// Chooses between train.steps and train.epochs: the command line replaces the file.
void choose_length(Config& config, const Origins& origins, Diagnostics& errors) {
  const auto steps = origins.find("train.steps"), epochs = origins.find("train.epochs");
  if (steps == origins.end() || epochs == origins.end() || config.train.epochs == 0) return;
  if (steps->second.in_override != epochs->second.in_override) {
    if (steps->second.in_override) config.train.epochs = 0;
    return;
  }
  errors.add(epochs->second.place, "`epochs` and `steps` both give the length of the run",
             "remove one of them");
}

/// Moves data files of the text to data.folder: those with relative paths, which were read as
/// starting at `of_text`, and those in the folder `before` that the text names itself.
void move_to_data_folder(Config& config, const Origins& origins, const Folder& of_text,
                         const std::filesystem::path& before) {
  const std::filesystem::path folder = config.data.folder;
  if (folder.empty()) return;
  for_each_field(config, [&](Field& field) {
    if (!field.domain.is_file() || field.section != "data") return;
    const auto origin = origins.find(field.path());
    if (origin == origins.end() || origin->second.in_override) return;
    std::size_t number = 0;
    for_each_path(field.value, [&](std::string& path) {
      const std::vector<bool>& all = origin->second.relative;
      const bool relative = number < all.size() && all[number];
      ++number;
      if (!relative && before.empty()) return;
      const std::filesystem::path rest =
          std::filesystem::path(path).lexically_relative(relative ? *of_text : before);
      const bool inside = relative || (!rest.empty() && *rest.begin() != "..");
      if (inside) path = (folder / rest).lexically_normal().string();
    });
  });
}

/// Relative paths in the text start at `of_text`, relative paths in overrides at `of_overrides`.
ConfigWithOrigins read_config(std::string_view text, const std::string& name, const Folder& of_text,
                              const std::vector<std::string>& overrides,
                              const Folder& of_overrides) {
  Config config;
  Diagnostics errors;
  YamlText yaml(name, text, errors);
  // After a syntax error keys may be missing, and the rules would report false contradictions.
  const bool complete = errors.empty();

  ConfigReader reader(config, errors);
  reader.read(yaml, of_text);
  const std::filesystem::path folder_of_text = config.data.folder;
  for (const std::string& override : overrides) reader.read(override, of_overrides);
  move_to_data_folder(config, reader.origins(), of_text, folder_of_text);
  choose_length(config, reader.origins(), errors);
  resolve_percentages(config);
  if (complete) check_rules(config, reader.origins(), errors);
  errors.throw_if_any();
  return {std::move(config), reader.origins()};
}

constexpr FileKind config_kind{
    .expected = "a config file",
    .special_hint = "give the path of a YAML file, such as configs/copy.yaml",
    .too_large_hint = "check that this file is meant to be a config",
    .unreadable_hint = "check the path and its permissions",
    .max_bytes = max_config_size};

/// Whether the file is the config.yaml in the directory of a run.
bool is_config_of_run(const std::filesystem::path& path) {
  std::error_code ignored;
  return path.filename() == "config.yaml" &&
         std::filesystem::is_directory(path.parent_path() / "checkpoints", ignored);
}

std::string used_with(const Use& use) {
  if (use.selector.empty()) return {};
  return fmt::format("{}: {}", use.selector, list_in_words(use.choices));
}

bool is_set(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

void apply_kernels(KernelChoice choice, std::string_view saved) {
  if (choice != KernelChoice::automatic) return use_kernels(choice_name(choice));
  if (!is_set("TAPESTRY_KERNELS")) {
    for (const std::string_view name : compiled_kernels()) {
      const bool was_used = saved.starts_with("kernels " + std::string(name) + ",");
      if (was_used && processor_can_execute(name)) return use_kernels(name);
    }
  }
  use_kernels("auto");
}

void apply_matmul(Matmul choice, std::string_view saved) {
  const bool follows = choice == Matmul::automatic && !is_set("TAPESTRY_MATMUL");
  use_matmul(follows && saved.find("matmul OpenBLAS") != saved.npos ? Matmul::openblas : choice);
}

}  // namespace

const CustomValue& Config::custom_value_or_default(std::string_view path) const {
  if (const auto found = custom.find(path); found != custom.end()) return found->second;
  std::vector<std::string> known;
  for (const std::vector<ConfigKind>* kinds : {&data_tasks(), &model_kinds()}) {
    for (const ConfigKind& kind : *kinds) {
      for (const CustomKey& key : kind.custom_keys) {
        if (key.path() == path) return key.initial();
        known.push_back(key.path());
      }
    }
  }
  if (known.empty()) {
    throw std::logic_error(fmt::format("{}: no registered kind has custom keys", path));
  }
  throw std::logic_error(fmt::format("{}: no registered kind has this key, expected one of {}",
                                     path, fmt::join(known, ", ")));
}

Config with_process_settings(Config config, const Config& process) {
  std::map<std::string, FieldValue> settings;
  for (const Field& field : fields_of(process)) {
    if (!field.rule.stored) settings[field.path()] = field.value;
  }
  for_each_field(config, [&](Field& field) {
    const auto setting = settings.find(field.path());
    if (setting != settings.end()) field.value = setting->second;
  });
  return config;
}

void apply_process_settings(const TrainOptions& options, std::string_view saved) {
  kernels::set_num_threads(options.threads);
  apply_kernels(options.kernels, saved);
  apply_matmul(options.matmul, saved);
}

Config parse_config(std::string_view text, const std::string& name,
                    const std::vector<std::string>& overrides) {
  return read_config(text, name, {}, overrides, working_folder()).config;
}

std::optional<std::string> unknown_model_kind(std::string_view text) {
  Diagnostics ignored;
  YamlText yaml("", text, ignored);
  for (const YamlEntry& section : yaml.sections()) {
    if (section.key != "model" || !section.value.IsMap()) continue;
    for (const YamlEntry& entry : yaml.entries(section.key, section.value)) {
      if (entry.key != "kind" || !entry.value.IsScalar()) continue;
      const std::string& name = entry.value.Scalar();
      const auto& kinds = model_kinds();
      if (std::ranges::find(kinds, name, &ConfigKind::name) == kinds.end()) return name;
    }
  }
  return std::nullopt;
}

Config load_config(const std::string& path, const std::vector<std::string>& overrides) {
  return load_config_with_origins(path, overrides).config;
}

ConfigWithOrigins load_config_with_origins(const std::string& path,
                                           const std::vector<std::string>& overrides) {
  namespace fs = std::filesystem;
  const std::string text = read_config_file(path);
  const Folder here = working_folder();
  const fs::path folder = (here.value_or("/") / path).parent_path();
  ConfigWithOrigins read = read_config(text, path, folder, overrides, here);
  Config& config = read.config;
  if (!names_run_dir(overrides) && is_config_of_run(path)) {
    const fs::path run = fs::path(path).parent_path();
    config.train.run_dir = run.empty() ? "." : run.string();
  }
  if (config.train.run_dir.empty()) {
    config.train.run_dir = default_run_dir(path);
    const Parsed parsed = Domain(RunPath()).parse(config.train.run_dir);
    if (const auto* error = std::get_if<Diagnostic>(&parsed)) {
      throw ConfigError(
          {{.place = {.file = path},
            .message = "the run directory is named after the config file: " + error->message,
            .hint = "rename the file, or name a directory with train.run_dir=DIR"}});
    }
  }
  return read;
}

KnownKeys load_known_keys(const std::string& path) {
  KnownKeys known;
  Diagnostics errors;
  YamlText yaml(path, read_config_file(path), errors);
  ConfigReader reader(known.config, errors);
  reader.read(yaml, {});
  for (const auto& [key, origin] : reader.origins()) {
    if (origin.valid) known.given.insert(key);
  }
  try {
    errors.throw_if_any();
  } catch (const ConfigError& error) {
    Diagnostic first = error.diagnostics().front();
    const std::size_t others = error.diagnostics().size() - 1;
    first.hint.clear();
    const std::string text = to_string(first);
    known.problem = text.substr(0, text.find('\n'));
    if (others > 0)
      known.problem += fmt::format(" ({} further problem{})", others, others == 1 ? "" : "s");
  }
  return known;
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
  // Not its size now: the file may be growing, and files of /proc have the size 0.
  std::string text(max_config_size + 1, '\0');
  text.resize(file.read_at(0, std::as_writable_bytes(std::span(text))));
  if (text.size() > max_config_size) {
    throw FileError(file.name(), fmt::format("found more than {} bytes", max_config_size),
                    config_kind.too_large_hint);
  }
  return text;
} catch (const FileError& error) {
  throw ConfigError({{{.file = path}, error.reason(), error.hint()}});
}

std::vector<ConfigKey> config_keys() {
  std::vector<ConfigKey> keys;
  for (const Field& field : fields_of(Config())) {
    keys.push_back({std::string(field.section), std::string(field.key), field.domain.expected(),
                    field.printed(), std::string(field.meaning), used_with(field.use),
                    field.rule.change, field.domain.words(), field.domain.is_path()});
  }
  return keys;
}

std::string dump_config(const Config& config) {
  std::string text;
  std::string_view section;
  for (const Field& field : fields_of(config)) {
    // So that a run of a built-in kind can be opened by a program that has no custom keys.
    if (field.custom && !field.use.in_use()) continue;
    if (field.section != section) text += fmt::format("{}:\n", field.section);
    section = field.section;
    text += fmt::format("  {}: {}\n", field.key, field.printed());
  }
  return text;
}

std::optional<UnstorablePath> find_unstorable_path(const Config& config) {
  std::optional<UnstorablePath> found;
  for (const Field& field : fields_of(config)) {
    if (!field.domain.is_path()) continue;
    for_each_path(field.value, [&](const std::string& path) {
      const auto bad = find_bad_character(path, false);
      if (bad && !found) found = {field.path(), path, bad->name};
    });
  }
  return found;
}

std::vector<ConfigDifference> compare_configs(const Config& checkpoint, const Config& now) {
  const std::vector<Field> before = fields_of(checkpoint), after = fields_of(now);
  std::vector<ConfigDifference> differences;
  for (std::size_t i = 0; i < after.size(); ++i) {
    std::string old_value = before[i].printed(), new_value = after[i].printed();
    if (old_value == new_value) continue;
    differences.push_back({after[i].path(), std::move(old_value), std::move(new_value)});
  }
  return differences;
}

}  // namespace tapestry
