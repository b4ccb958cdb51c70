#include "data/text_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "data/error.h"
#include "data/escape.h"
#include "data/line_reader.h"

namespace tapestry {

namespace fs = std::filesystem;

namespace {

constexpr const char* unreadable_hint =
    "check the path and its permissions; a relative path starts at the folder of the config file";

/// A file that is open for reading. What it is gets asked of the open file, never of its name,
/// which may lead elsewhere a moment later.
class OpenFile {
 public:
  explicit OpenFile(const fs::path& path) : name_(escaped(path.native())) {
    // Without O_NONBLOCK, opening a pipe waits for its writer.
    descriptor_ = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (descriptor_ >= 0) return;
    if (errno == ENXIO) refuse_special_file();  // a socket
    refuse_unreadable();
  }
  ~OpenFile() { ::close(descriptor_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int descriptor() const { return descriptor_; }
  const std::string& name() const { return name_; }

  /// Size and time of the last change of what must be a regular file.
  struct stat status() const {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0) refuse_unreadable();
    if (S_ISDIR(status.st_mode)) {
      throw DataError(fmt::format("{}: found a folder, expected a text file", name_),
                      "name a file in this folder");
    }
    if (!S_ISREG(status.st_mode)) refuse_special_file();
    return status;
  }

 private:
  [[noreturn]] void refuse_unreadable() const {
    throw DataError(
        fmt::format("{}: cannot be read: {}", name_, std::generic_category().message(errno)),
        unreadable_hint);
  }

  [[noreturn]] void refuse_special_file() const {
    throw DataError(fmt::format("{}: found a pipe, socket or device, expected a text file", name_),
                    "write the text to a file first: it is read more than once");
  }

  std::string name_;
  int descriptor_;
};

void check_fits_memory(const OpenFile& file, std::uint64_t bytes) {
  const std::uint64_t memory = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                               static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  if (bytes <= memory) return;
  throw DataError(fmt::format("{}: found {} bytes, expected at most {}, the memory of this machine",
                              file.name(), bytes, memory),
                  "train on a part of the text, such as its first lines: head -n 1000000");
}

bool same_time(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

std::uint64_t size_of(const struct stat& status) {
  return static_cast<std::uint64_t>(status.st_size);
}

bool has_changed(const struct stat& before, const struct stat& after, std::uint64_t bytes_read) {
  return size_of(before) != bytes_read || size_of(after) != bytes_read ||
         !same_time(before.st_mtim, after.st_mtim);
}

/// Stops after `bytes`: a file that grows faster than it is read has no end.
std::vector<std::string> read_lines(LineReader& reader, std::uint64_t bytes) {
  std::vector<std::string> lines;
  while (reader.bytes_read() <= bytes) {
    auto line = reader.next();
    if (!line) break;
    lines.push_back(*std::move(line));
  }
  return lines;
}

}  // namespace

TextFile read_text_file(const fs::path& path) {
  const OpenFile file(path);
  const struct stat before = file.status();
  check_fits_memory(file, size_of(before));
  LineReader reader(file.descriptor(), file.name(), unreadable_hint);
  TextFile text;
  text.lines = read_lines(reader, size_of(before));
  text.bytes = reader.bytes_read();
  text.digest = reader.digest();
  if (has_changed(before, file.status(), text.bytes)) {
    throw DataError(fmt::format("{}: changed while it was read", file.name()),
                    "wait until the file is complete, then try again");
  }
  if (text.lines.empty()) {
    throw DataError(
        fmt::format("{}: found an empty file, expected one sentence a line", file.name()),
        "name the file with the sentences");
  }
  return text;
}

}  // namespace tapestry
