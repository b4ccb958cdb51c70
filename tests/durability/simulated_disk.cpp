// SPDX-License-Identifier: BSD-3-Clause
#include "tests/durability/simulated_disk.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace tapestry::test {
namespace {

using Kind = DiskChange::Kind;

int failure(int code) {
  errno = code;
  return -1;
}

}  // namespace

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == path.npos ? "." : path.substr(0, slash);
}

void apply(const DiskChange& change, DiskContent& content) {
  switch (change.kind) {
    case Kind::put_name:
      content.names[change.path] = change.entry.value();
      break;
    case Kind::drop_name:
      content.names.erase(change.path);
      break;
    case Kind::write: {
      Bytes& file = content.files[change.file];
      file.resize(std::max<std::size_t>(file.size(), change.offset + change.bytes.size()));
      std::ranges::copy(change.bytes, file.begin() + static_cast<std::ptrdiff_t>(change.offset));
      break;
    }
    case Kind::flush_file:
    case Kind::flush_folder:
      break;
  }
}

void SimulatedDisk::make(DiskChange change) {
  apply(change, now_);
  changes_.push_back(std::move(change));
}

const Entry* SimulatedDisk::find(const std::string& path) const {
  static const Entry top{.is_folder = true};
  if (path == ".") return &top;
  const auto found = now_.names.find(path);
  return found == now_.names.end() ? nullptr : &found->second;
}

int SimulatedDisk::create(const std::string& path, int flags) {
  const Entry* folder = find(folder_of(path));
  if ((flags & O_CREAT) == 0 || folder == nullptr) return failure(ENOENT);
  while (now_.files.contains(next_file_)) ++next_file_;
  now_.files[next_file_];
  make({.kind = Kind::put_name, .path = path, .entry = Entry{.file = next_file_}});
  return 0;
}

int SimulatedDisk::open(const char* path, int flags, mode_t /*mode*/) {
  if (find(path) != nullptr && (flags & O_EXCL) != 0) return failure(EEXIST);
  if (find(path) == nullptr && create(path, flags) != 0) return -1;
  const Entry entry = *find(path);
  if ((flags & O_DIRECTORY) != 0 && !entry.is_folder) return failure(ENOTDIR);
  if ((flags & O_TRUNC) != 0) throw std::logic_error("a save must not truncate a file in place");
  open_[next_descriptor_] = {.path = path, .entry = entry};
  return next_descriptor_++;
}

ssize_t SimulatedDisk::write(int fd, const void* bytes, std::size_t count) {
  OpenFile& file = open_.at(fd);
  const auto* first = static_cast<const std::byte*>(bytes);
  const std::size_t taken = std::min(count, max_write_bytes);
  make({.kind = Kind::write,
        .file = file.entry.file,
        .offset = file.position,
        .bytes = {first, first + taken}});
  file.position += taken;
  return static_cast<ssize_t>(taken);
}

ssize_t SimulatedDisk::pread(int fd, void* bytes, std::size_t count, std::uint64_t offset) {
  const Bytes& file = now_.files.at(open_.at(fd).entry.file);
  if (offset >= file.size()) return 0;
  const std::size_t given = std::min<std::size_t>(count, file.size() - offset);
  std::memcpy(bytes, file.data() + offset, given);
  return static_cast<ssize_t>(given);
}

int SimulatedDisk::fstat(int fd, struct stat& status) {
  const Entry entry = open_.at(fd).entry;
  status = {};
  status.st_mode = entry.is_folder ? S_IFDIR : S_IFREG;
  if (!entry.is_folder) status.st_size = static_cast<off_t>(now_.files.at(entry.file).size());
  return 0;
}

int SimulatedDisk::fsync(int fd) {
  const OpenFile& file = open_.at(fd);
  if (file.entry.is_folder) {
    if (!ignores_folder_flushes) make({.kind = Kind::flush_folder, .path = file.path});
  } else if (!ignores_file_flushes) {
    make({.kind = Kind::flush_file, .file = file.entry.file});
  }
  return 0;
}

int SimulatedDisk::fallocate(int fd, std::uint64_t size) {
  const std::size_t file = open_.at(fd).entry.file;
  const std::size_t old = now_.files.at(file).size();
  if (size > old)
    make({.kind = Kind::write, .file = file, .offset = old, .bytes = Bytes(size - old)});
  return 0;
}

int SimulatedDisk::ftruncate(int /*fd*/, std::uint64_t /*size*/) {
  throw std::logic_error("a save must not truncate a file");
}

int SimulatedDisk::lock(int /*fd*/) { return 0; }

int SimulatedDisk::close(int fd) { return open_.erase(fd) == 1 ? 0 : failure(EBADF); }

int SimulatedDisk::rename(const char* from, const char* to) {
  const Entry* entry = find(from);
  if (entry == nullptr || find(folder_of(to)) == nullptr) return failure(ENOENT);
  make({.kind = Kind::put_name, .path = to, .entry = *entry});
  make({.kind = Kind::drop_name, .path = from});
  return 0;
}

int SimulatedDisk::unlink(const char* path) {
  if (find(path) == nullptr) return failure(ENOENT);
  make({.kind = Kind::drop_name, .path = path});
  return 0;
}

int SimulatedDisk::mkdir(const char* path, mode_t /*mode*/) {
  if (find(path) != nullptr) return failure(EEXIST);
  if (find(folder_of(path)) == nullptr) return failure(ENOENT);
  make({.kind = Kind::put_name, .path = path, .entry = Entry{.is_folder = true}});
  return 0;
}

int SimulatedDisk::list(const char* folder, std::vector<std::string>& names) {
  if (find(folder) == nullptr) return failure(ENOENT);
  const std::string inside = std::string(folder) + '/';
  for (const auto& [path, entry] : now_.names) {
    if (folder_of(path) == folder) names.push_back(path.substr(inside.size()));
  }
  return 0;
}

int SimulatedDisk::free_bytes(const char* /*path*/, std::uint64_t& bytes) {
  bytes = std::uint64_t{1} << 40;
  return 0;
}

}  // namespace tapestry::test
