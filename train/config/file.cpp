#include "train/config/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <system_error>

#include "train/config/error.h"

namespace tapestry {
namespace {

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
