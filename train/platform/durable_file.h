#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "train/platform/file_system.h"

namespace tapestry {

/// Writes a file so that after a crash at any moment, power loss included, the path holds either
/// all the old bytes or all the new ones.
///
/// The bytes go to a temporary file `.NAME.tmp-PID-N` in the same folder, which is reserved,
/// written, flushed, read back (through the page cache), closed, renamed to `path`; then the folder
/// is flushed. A symbolic link at `path` is replaced, not followed.
///
/// throws  OutputError with the bytes needed and free. The temporary file is gone and `path` as it
///         was, but for one case the message names: the folder could not be flushed after the
///         rename, so the new bytes are in place and may be lost with the power.
void write_file_durably(const std::filesystem::path& path, std::span<const std::byte> bytes,
                        FileSystem& files = posix_file_system());

/// Finds out whether a file of this size could be written into a folder now, by making a temporary
/// file of the size and deleting it. Where the file system cannot reserve space, the size is not
/// looked at. throws OutputError with the bytes needed and free.
void probe_folder(const std::filesystem::path& folder, std::uint64_t bytes,
                  FileSystem& files = posix_file_system());

/// Whether a file name is one that write_file_durably gives to its temporary files. Without a
/// writer at work such a file is left from a crash.
bool is_temporary_name(std::string_view name);

/// Creates a folder and what is missing above it, and flushes each new entry to the disk.
/// A folder that exists already is fine. throws OutputError.
void create_folder_durably(const std::filesystem::path& folder,
                           FileSystem& files = posix_file_system());

/// Deletes a file; one that is gone already is fine. throws OutputError.
void remove_file(const std::filesystem::path& path, FileSystem& files = posix_file_system());

/// A regular file opened for reading. Opening never waits, not even for a named pipe.
class InputFile {
 public:
  /// throws  InputError if there is no such file, it is not a regular file or may not be read.
  explicit InputFile(const std::filesystem::path& path, FileSystem& files = posix_file_system());

  /// Bytes in the file when it was opened.
  std::uint64_t size() const { return size_; }

  /// Fills `bytes` from the file, starting at `offset`. throws InputError, also at an early end.
  void read_at(std::uint64_t offset, std::span<std::byte> bytes);

 private:
  std::filesystem::path path_;
  FileSystem& files_;
  FileDescriptor descriptor_;
  std::uint64_t size_ = 0;
};

/// The bytes of a regular file of at most `max_bytes`. throws InputError.
std::vector<std::byte> read_file(const std::filesystem::path& path, std::uint64_t max_bytes,
                                 FileSystem& files = posix_file_system());

}  // namespace tapestry
