#include "data/io/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <new>
#include <system_error>

#include "data/io/escape.h"

namespace tapestry {
namespace {

constexpr FileKind binary_kind{.expected = "a file",
                               .pipe_hint = "copy it to a file first: it is read more than once",
                               .too_large_hint = "train on a part of it"};

bool same_time(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/// Reads until `bytes` is full or the file ends; returns the number of bytes read.
std::size_t fill(const OpenFile& file, std::span<std::byte> bytes) {
  std::size_t count = 0, read = 0;
  do {
    read = read_some(file.descriptor(), bytes.subspan(count), file.name(), unreadable_hint);
    count += read;
  } while (read > 0);
  return count;
}

}  // namespace

OpenFile::OpenFile(const std::filesystem::path& path, const FileKind& kind)
    : kind_(kind),
      name_(escaped(path.native())),
      // Without O_NONBLOCK, opening a pipe blocks until a writer opens it.
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
                  kind_.too_large_hint);
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
      kind_.pipe_hint);
}

std::size_t read_some(int descriptor, std::span<std::byte> bytes, const std::string& name,
                      const std::string& hint) {
  ssize_t count = 0;
  do {
    count = ::read(descriptor, bytes.data(), bytes.size());
  } while (count < 0 && errno == EINTR);
  if (count >= 0) return static_cast<std::size_t>(count);
  throw DataError(
      fmt::format("{}: cannot be read: {}", name, std::generic_category().message(errno)), hint);
}

Xxh3::Xxh3() : state_(XXH3_createState()) {
  if (!state_) throw std::bad_alloc();
  XXH3_64bits_reset(state_.get());
}

void Xxh3::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

void Xxh3::add(const void* bytes, std::size_t count) {
  if (count > 0) XXH3_64bits_update(state_.get(), bytes, count);
}

std::uint64_t Xxh3::value() const { return XXH3_64bits_digest(state_.get()); }

BinaryFile read_binary_file(const std::filesystem::path& path) {
  const OpenFile file(path, binary_kind);
  BinaryFile result{.bytes = std::vector<std::byte>(file.size()), .digest = 0};
  file.require_unchanged(fill(file, result.bytes));
  Xxh3 hash;
  hash.add(result.bytes.data(), result.bytes.size());
  result.digest = hash.value();
  return result;
}

}  // namespace tapestry
