#include "train/config/config.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include "train/config/error.h"
#include "train/config/fields.h"
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
                      .message = "cannot be determined: " + error.message(),
                      .hint = "change to an existing folder with cd"}});
}

/// Relative paths in the text start at `of_text`, relative paths in overrides at `of_overrides`.
Config read_config(std::string_view text, const std::string& name, const Folder& of_text,
                   const std::vector<std::string>& overrides, const Folder& of_overrides) {
  Config config;
  ProblemList problems;
  const YamlDocument document(name, text, problems);
  // After a syntax error keys may be missing, and the rules would report false contradictions.
  const bool complete = problems.empty();

  ConfigReader reader(config, problems);
  reader.read(document, of_text);
  for (const std::string& override : overrides) reader.read(override, of_overrides);
  if (complete) check_rules(config, reader.origins(), problems);
  problems.throw_if_any();
  return config;
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int number) : number_(number) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int get() const { return number_; }

 private:
  int number_;
};

[[noreturn]] void refuse(const std::string& path, std::string message, std::string hint) {
  throw ConfigError({{{.file = path}, std::move(message), std::move(hint)}});
}

[[noreturn]] void refuse_for_errno(const std::string& path, int error) {
  refuse(path, fmt::format("cannot be read: {}", std::generic_category().message(error)),
         "check the path and its permissions");
}

[[noreturn]] void refuse_size(const std::string& path) {
  refuse(path, fmt::format("is larger than {} bytes", kLargestConfig),
         "check that this file is meant to be a config");
}

[[noreturn]] void refuse_kind(const std::string& path, std::string_view kind) {
  refuse(path, fmt::format("expected a file, found {}", kind),
         "give the path of a YAML file, such as configs/copy.yaml");
}

void check_kind(const std::string& path, mode_t mode) {
  if (S_ISREG(mode)) return;
  refuse_kind(path, S_ISDIR(mode) ? "a folder" : S_ISFIFO(mode) ? "a pipe" : "a device or socket");
}

std::string used_with(const Use& use) {
  if (use.selector.empty()) return {};
  return fmt::format("{}: {}", use.selector, list_in_words(use.choices));
}

/// Every value of `config` as YAML text, in file order.
std::vector<std::string> printed_values(const Config& config) {
  std::vector<std::string> values;
  for_each_field(config, [&](const Field&, const auto& value, const auto& domain) {
    values.push_back(domain.print(value));
  });
  return values;
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

std::string read_config_file(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (file.get() < 0 && errno == ENXIO) refuse_kind(path, "a device or socket");
  if (file.get() < 0) refuse_for_errno(path, errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) refuse_for_errno(path, errno);
  check_kind(path, status.st_mode);

  // The size is not known in advance: the file may be growing.
  std::string text;
  char block[16384];
  while (const ssize_t got = ::read(file.get(), block, sizeof block)) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse_for_errno(path, errno);
    text.append(block, static_cast<std::size_t>(got));
    if (text.size() > kLargestConfig) refuse_size(path);
  }
  return text;
}

std::vector<ConfigKey> config_keys() {
  std::vector<ConfigKey> keys;
  const Config defaults;
  for_each_field(defaults, [&](const Field& field, const auto& value, const auto& domain) {
    keys.push_back({std::string(field.section), std::string(field.key), domain.expected(),
                    domain.print(value), std::string(field.meaning), used_with(field.use)});
  });
  return keys;
}

std::string dump_config(const Config& config) {
  std::string text;
  std::string_view section;
  for_each_field(config, [&](const Field& field, const auto& value, const auto& domain) {
    if (field.section != section) text += fmt::format("{}:\n", field.section);
    section = field.section;
    text += fmt::format("  {}: {}\n", field.key, domain.print(value));
  });
  return text;
}

std::vector<ConfigDifference> compare_configs(const Config& checkpoint, const Config& now) {
  const std::vector<std::string> before = printed_values(checkpoint);
  const std::vector<std::string> after = printed_values(now);
  std::vector<ConfigDifference> differences;
  std::size_t index = 0;
  for_each_field(now, [&](const Field& field, const auto&, const auto&) {
    const std::size_t i = index++;
    if (before[i] != after[i]) differences.push_back({field.path(), before[i], after[i]});
  });
  return differences;
}

}  // namespace tapestry
