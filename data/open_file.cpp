#include "data/open_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "data/escape.h"

namespace tapestry {

namespace {

bool same_time(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

}  // namespace

OpenFile::OpenFile(const std::filesystem::path& path, const OpenFileKind& kind)
    : kind_(kind),
      name_(escaped(path.native())),
      // Without O_NONBLOCK, opening a pipe waits for its writer.
      descriptor_(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY)) {
  if (descriptor_ < 0 && errno == ENXIO) refuse_special_file();  // a socket
  if (descriptor_ < 0) refuse_unreadable();
  try {
    opened_ = status();
    require_regular();
    require_fits_memory();
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

OpenFile::~OpenFile() { ::close(descriptor_); }

struct stat OpenFile::status() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) refuse_unreadable();
  return status;
}

void OpenFile::require_regular() const {
  if (S_ISDIR(opened_.st_mode)) {
    throw UnopenedFile(fmt::format("{}: found a folder, expected {}", name_, kind_.expected),
                       "name a file in this folder");
  }
  if (!S_ISREG(opened_.st_mode)) refuse_special_file();
}

void OpenFile::require_fits_memory() const {
  const std::uint64_t memory = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                               static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  if (size() <= memory) return;
  throw DataError(fmt::format("{}: found {} bytes, expected at most {}, the memory of this machine",
                              name_, size(), memory),
                  kind_.part_of_it);
}

void OpenFile::require_unchanged(std::uint64_t bytes_read) const {
  const struct stat now = status();
  if (size() == bytes_read && now.st_size == opened_.st_size &&
      same_time(now.st_mtim, opened_.st_mtim)) {
    return;
  }
  throw DataError(fmt::format("{}: changed while it was read", name_),
                  "wait until the file is complete, then try again");
}

void OpenFile::refuse_unreadable() const {
  throw UnopenedFile(
      fmt::format("{}: cannot be read: {}", name_, std::generic_category().message(errno)),
      unreadable_hint);
}

void OpenFile::refuse_special_file() const {
  throw UnopenedFile(
      fmt::format("{}: found a pipe, socket or device, expected {}", name_, kind_.expected),
      kind_.to_a_file);
}

}  // namespace tapestry
