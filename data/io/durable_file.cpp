// SPDX-License-Identifier: BSD-3-Clause
#include "data/io/durable_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "data/io/error.h"
#include "data/io/utf8.h"

namespace tapestry {
namespace {

constexpr std::size_t chunk_size = 1 << 20;
constexpr int max_temporary_names = 100;
constexpr std::size_t max_shared_name = 200;  ///< bytes of the target's name in a temporary name
constexpr std::string_view temporary_mark = ".tmp-";

/// Beginning of the temporary names of a target, short enough that a name with its numbers does not
/// exceed NAME_MAX.
std::string temporary_prefix(const std::filesystem::path& target) {
  return fmt::format(".{}{}", target.filename().string().substr(0, max_shared_name),
                     temporary_mark);
}

std::string errno_text(int code) { return std::generic_category().message(code); }

std::filesystem::path parent_folder(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

std::string errno_hint(int code, const std::filesystem::path& folder) {
  switch (code) {
    case ENOSPC:
    case EDQUOT:
      return fmt::format("free space on the disk of {} or write to another disk",
                         escaped(folder.string()));
    case EACCES:
    case EPERM:
    case EROFS:
      return fmt::format("make {} writable or write elsewhere", escaped(folder.string()));
    case ENOENT:
    case ENOTDIR:
      return fmt::format("create the folder {}", escaped(folder.string()));
    case EEXIST:
      return "move the file with this name or write elsewhere";
    case EMFILE:
    case ENFILE:
      return "raise the limit on open files (ulimit -n)";
    case ENAMETOOLONG:
      return "choose a shorter name";
    case EFBIG:
      return "raise the limit on file sizes (ulimit -f)";
    default:
      return "check the disk";
  }
}

/// Throws OutputError for errno. `action` describes what was being done to `path`.
[[noreturn]] void throw_output_error(const std::filesystem::path& path, std::string_view action) {
  const int code = errno;
  throw OutputError(
      fmt::format("{}: could not {}: {}", escaped(path.string()), action, errno_text(code)),
      errno_hint(code, parent_folder(path)));
}

/// throws  OutputError if the type of the path cannot be determined, for example because no file
///         descriptors are left.
bool is_folder(FileSystem& files, const std::filesystem::path& path) {
  const FileDescriptor folder(files, retry_interrupted([&] {
                                return files.open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
                              }));
  if (!folder.is_open() && errno != ENOENT && errno != ENOTDIR) {
    throw_output_error(path, "open the folder");
  }
  return folder.is_open();
}

FileDescriptor open_folder(FileSystem& files, const std::filesystem::path& folder) {
  return {files, retry_interrupted([&] {
            return files.open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
          })};
}

/// Flushes the entries of a folder. Some file systems do not support this (EINVAL) and do not need
/// it.
bool flush_folder(FileSystem& files, const FileDescriptor& folder) {
  return retry_interrupted([&] { return files.fsync(folder.get()); }) == 0 || errno == EINVAL;
}

std::uint64_t total_size(Pieces pieces) {
  std::uint64_t size = 0;
  for (const auto piece : pieces) size += piece.size();
  return size;
}

/// Calls use(bytes) with the content in order. Joins pieces that are smaller than chunk_size bytes.
template <class Use>
void for_each_chunk(Pieces pieces, const Use& use) {
  std::vector<std::byte> joined;
  joined.reserve(std::min<std::uint64_t>(chunk_size, total_size(pieces)));
  for (const auto piece : pieces) {
    if (joined.size() + piece.size() > chunk_size && !joined.empty()) {
      use(std::span<const std::byte>(joined));
      joined.clear();
    }
    if (piece.size() >= chunk_size) {
      use(piece);
    } else {
      joined.insert(joined.end(), piece.begin(), piece.end());
    }
  }
  if (!joined.empty()) use(std::span<const std::byte>(joined));
}

bool lacks_inode(int code, const std::filesystem::path& folder, FileSystem& files) {
  return code == ENOSPC && files.free_inodes(folder.c_str()) == std::uint64_t{0};
}

// ---- Paths that a signal handler can read.

enum SlotState : int { unused, changing, ready };

struct PathSlot {
  std::atomic<int> state{unused};
  std::array<char, PATH_MAX> path{};
};

constexpr std::size_t max_slots = 16;  // processes write one or two files at a time
std::array<PathSlot, max_slots> path_slots;
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler reads it");

/// Returns the slot of the path, or max_slots if the path is too long or all slots are in use.
std::size_t claim_slot(const std::string& path) {
  std::size_t i = path.size() < PATH_MAX ? 0 : max_slots;
  for (int expected = unused; i < max_slots; ++i, expected = unused) {
    if (path_slots[i].state.compare_exchange_strong(expected, changing)) break;
  }
  if (i == max_slots) return i;
  std::memcpy(path_slots[i].path.data(), path.c_str(), path.size() + 1);
  path_slots[i].state = ready;
  return i;
}

void release_slot(std::size_t slot) {
  if (slot < max_slots) path_slots[slot].state = unused;
}

bool is_about_space(int code) {
  return code == ENOSPC || code == EDQUOT || code == EFBIG || code == EIO;
}

}  // namespace

void write_file_durably(const std::filesystem::path& path, std::string_view text,
                        FileSystem& files) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
  write_file_durably(path, Pieces(&bytes, 1), files);
}

void write_file_durably(const std::filesystem::path& path, Pieces pieces, FileSystem& files) {
  TemporaryFile temporary(path, files, total_size(pieces));
  temporary.reserve();
  for_each_chunk(pieces, [&](std::span<const std::byte> chunk) { temporary.write(chunk); });
  temporary.verify(pieces);
  temporary.commit();
}

TemporaryFile::TemporaryFile(std::filesystem::path target, FileSystem& files,
                             std::optional<std::uint64_t> size, std::string other_hint)
    : files_(files),
      target_(std::move(target)),
      size_(size),
      other_hint_(std::move(other_hint)),
      folder_(open_folder(files_, parent_folder(target_))),
      descriptor_(create()) {}

TemporaryFile::~TemporaryFile() {
  if (!committed_) {
    if (descriptor_.is_open()) descriptor_.close();
    files_.unlink(path_.c_str());
  }
  release_slot(slot_);
}

void TemporaryFile::remove_abandoned_files() const {
  const auto folder = parent_folder(target_);
  const std::string prefix = temporary_prefix(target_);
  std::vector<std::string> names;
  if (files_.list(folder.c_str(), names) != 0) return;
  for (const std::string& name : names) {
    if (!name.starts_with(prefix) || !is_temporary_name(name)) continue;
    try {
      remove_abandoned(folder / name, files_);
    } catch (const OutputError&) {  // ignored: the new file will have a different name
    }
  }
}

/// Opens and locks the first unused temporary name. The PID is not unique: containers often reuse
/// it. If another process deletes the file before it is locked, the next name is used.
FileDescriptor TemporaryFile::create() {
  if (!folder_.is_open()) fail("open its folder");
  remove_abandoned_files();
  for (int attempt = 0; attempt < max_temporary_names; ++attempt) {
    path_ = parent_folder(target_) /
            fmt::format("{}{}-{}", temporary_prefix(target_), ::getpid(), attempt);
    FileDescriptor file(files_, retry_interrupted([&] {
                          return files_.open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
                                             0666);
                        }));
    const int code = file.is_open() ? EEXIST : errno;
    if (file.is_open()) {
      slot_ = claim_slot(path_.native());        // not earlier, to keep files of other processes
      FileSystem& actual = posix_file_system();  // a simulated file system has no other processes
      struct stat status {};
      const bool is_taken = actual.lock(file.get()) != 0 && errno == EAGAIN;
      if (!is_taken && (actual.fstat(file.get(), status) != 0 || status.st_nlink > 0)) return file;
      release_slot(std::exchange(slot_, max_slots));
    }
    errno = code;
    if (code != EEXIST) break;
  }
  fail("create a temporary file");
}

void TemporaryFile::reserve() {
  if (!size_ || *size_ == 0) return;
  const int result = retry_interrupted([&] { return files_.fallocate(descriptor_.get(), *size_); });
  if (result != 0 && errno != EOPNOTSUPP && errno != ENOSYS) fail("reserve space");
}

void TemporaryFile::write(std::span<const std::byte> bytes) {
  flushed_ = false;
  while (!bytes.empty()) {
    const ssize_t written = retry_interrupted(
        [&] { return files_.write(descriptor_.get(), bytes.data(), bytes.size()); });
    const bool possible = written > 0 && std::cmp_less_equal(written, bytes.size());
    if (!possible && written >= 0) errno = EIO;
    if (!possible) fail("write");
    const auto count = static_cast<std::size_t>(written);
    written_ += count;
    bytes = bytes.subspan(count);
  }
}

void TemporaryFile::flush() {
  if (flushed_) return;
  if (retry_interrupted([&] { return files_.fsync(descriptor_.get()); }) != 0) fail("flush");
  flushed_ = true;
}

void TemporaryFile::verify(Pieces written) {
  flush();
  std::vector<std::byte> found(std::min<std::uint64_t>(chunk_size, written_));
  std::uint64_t offset = 0;
  for_each_chunk(written, [&](std::span<const std::byte> rest) {
    while (!rest.empty()) {
      const std::size_t wanted = std::min(found.size(), rest.size());
      const ssize_t got = retry_interrupted(
          [&] { return files_.pread(descriptor_.get(), found.data(), wanted, offset); });
      if (got < 0) fail("read back");
      const auto count = static_cast<std::size_t>(got);
      if (count == 0 || std::memcmp(found.data(), rest.data(), count) != 0) reject_disk(offset);
      offset += count;
      rest = rest.subspan(count);
    }
  });
}

void TemporaryFile::commit() {
  flush();
  // Keeps the lock until the file is renamed.
  const FileDescriptor locked(posix_file_system(), ::fcntl(descriptor_.get(), F_DUPFD_CLOEXEC, 0));
  // close() releases the file even if a signal interrupts it, and the data are already flushed.
  if (descriptor_.close() != 0 && errno != EINTR) fail("close");
  if (files_.rename(path_.c_str(), target_.c_str()) != 0) fail("rename the temporary file");
  committed_ = true;
  if (!flush_folder(files_, folder_)) fail("flush its folder after the new file was put in place");
}

void TemporaryFile::reject_disk(std::uint64_t offset) const {
  throw OutputError(fmt::format("{}: the disk did not return the bytes that were written, from "
                                "byte {} of {}",
                                escaped(target_.string()), offset, written_),
                    "this disk is not reliable: write to another disk" + other_hint_);
}

/// Throws OutputError for errno. Adds the numbers of needed or written bytes and of free bytes if a
/// full disk may be the reason.
void TemporaryFile::fail(std::string_view action) const {
  const int code = errno;
  const auto folder = parent_folder(target_);
  const bool no_inode = lacks_inode(code, folder, files_);
  const bool space = is_about_space(code) && !no_inode && !committed_;
  throw OutputError(
      fmt::format("{}: could not {}: {}{}", escaped(target_.string()), action,
                  output_error_text(code, folder, files_), space ? space_text(folder) : ""),
      output_error_hint(code, folder, files_) + other_hint_);
}

std::string TemporaryFile::space_text(const std::filesystem::path& folder) const {
  std::uint64_t free = 0;
  const bool known = files_.free_bytes(folder.c_str(), free) == 0;
  return fmt::format(" ({} bytes {}, {} free)", size_.value_or(written_),
                     size_ ? "needed" : "written", known ? fmt::to_string(free) : "unknown");
}

std::string output_error_text(int code, const std::filesystem::path& folder, FileSystem& files) {
  return errno_text(code) +
         (lacks_inode(code, folder, files) ? " (no inode is left for another file)" : "");
}

std::string output_error_hint(int code, const std::filesystem::path& folder, FileSystem& files) {
  return lacks_inode(code, folder, files) ? inode_hint(folder) : errno_hint(code, folder);
}

std::string inode_hint(const std::filesystem::path& folder) {
  return fmt::format("delete files on the disk of {} or write to another disk",
                     escaped(folder.string()));
}

void probe_folder(const std::filesystem::path& folder, std::uint64_t bytes, FileSystem& files) {
  TemporaryFile(folder / "probe", files, bytes).reserve();
}

bool is_temporary_name(std::string_view name) {
  const std::size_t mark = name.rfind(temporary_mark);
  if (!name.starts_with('.') || mark == name.npos || mark < 2) return false;
  const std::string_view numbers = name.substr(mark + temporary_mark.size());
  const std::size_t dash = numbers.find('-');
  const auto is_number = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
  };
  return dash != numbers.npos && is_number(numbers.substr(0, dash)) &&
         is_number(numbers.substr(dash + 1));
}

bool remove_abandoned(const std::filesystem::path& temporary, FileSystem& files) {
  const FileDescriptor file(files, retry_interrupted([&] {
                              return files.open(temporary.c_str(),
                                                O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
                            }));
  if (file.is_open() && files.lock(file.get()) != 0) return false;
  remove_file(temporary, files);
  return true;
}

void remove_own_temporaries() {
  for (const PathSlot& slot : path_slots) {
    if (slot.state == ready) ::unlink(slot.path.data());
  }
}

void create_folder_durably(const std::filesystem::path& folder, FileSystem& files) {
  if (is_folder(files, folder)) return;
  const auto parent = parent_folder(folder);
  create_folder_durably(parent, files);
  if (files.mkdir(folder.c_str(), 0777) != 0) {
    const int code = errno;
    if (code != EEXIST || !is_folder(files, folder)) {  // no other process has created the folder
      errno = code;
      throw_output_error(folder, "create the folder");
    }
  }
  const FileDescriptor above = open_folder(files, parent);
  if (!above.is_open() || !flush_folder(files, above)) {
    throw_output_error(folder, "flush its parent folder");
  }
}

void require_creatable_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::path existing = folder, missing;
  while (std::filesystem::symlink_status(existing, error).type() ==
         std::filesystem::file_type::not_found) {
    const std::filesystem::path parent = parent_folder(existing);
    if (parent == existing) break;
    missing = std::exchange(existing, parent);
  }
  const auto type = std::filesystem::status(existing, error).type();
  if (type == std::filesystem::file_type::none) return;  // creating the folder reports the reason
  const bool is_file = type != std::filesystem::file_type::directory;
  if (!is_file && ::access(existing.c_str(), W_OK | X_OK) == 0) return;
  if (!is_file && missing.empty()) {
    const int code = errno;
    throw OutputError(fmt::format("{}: could not write to the folder: {}", escaped(folder.string()),
                                  errno_text(code)),
                      errno_hint(code, folder));
  }
  if (is_file) errno = EEXIST;
  throw_output_error(is_file ? existing : missing, "create the folder");
}

void remove_file(const std::filesystem::path& path, FileSystem& files) {
  if (files.unlink(path.c_str()) != 0 && errno != ENOENT)
    throw_output_error(path, "delete the file");
}

}  // namespace tapestry
