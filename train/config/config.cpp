#include "train/config/config.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include "train/config/error.h"
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

  // The size is known only once everything has been read: the file may be growing.
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

}  // namespace tapestry
