// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "data/io/file.h"

namespace tapestry {

/// The content of a file as consecutive parts.
using Pieces = std::span<const std::span<const std::byte>>;

/// Writes a file atomically and durably: after a crash at any time, including power loss, `path`
/// holds either the complete old or the complete new content.
///
///  1. Create a temporary file `.NAME.tmp-PID-N` in the same folder, and reserve its space.
///  2. Write it, flush it, and read it back (through the page cache).
///  3. Close it, rename it to `path`, and flush the folder.
///
/// A symbolic link at `path` is replaced, not followed.
///
/// throws  OutputError; if the disk is full or a quota or file size limit is reached, the message
///         states the needed and the free bytes. The temporary file is deleted and `path` is
///         unchanged, with one exception, which the message names: if the folder could not be
///         flushed after the rename, the new content is in place but may be lost in a power
///         failure.
void write_file_durably(const std::filesystem::path& path, std::string_view text,
                        FileSystem& files = posix_file_system());

/// Writes content in several pieces of any size. Small pieces are joined, so that each system call
/// writes about 1 MiB or more.
void write_file_durably(const std::filesystem::path& path, Pieces pieces,
                        FileSystem& files = posix_file_system());

/// The new content of a file before it is renamed to its target: `.NAME.tmp-PID-N` in the folder of
/// the target. After a crash at any time, the target is either unchanged or has the complete new
/// content.
///
/// The file is locked while the object exists. Temporary files without a lock were left behind by
/// processes that have ended; the constructor deletes such files of the same target.
///
/// All functions throw OutputError. If the disk is full or a quota or file size limit is reached,
/// the message states the written bytes (the needed bytes, if `size` is known) and the free bytes.
/// After an error the target is unchanged, except as described for commit(), and the destructor
/// deletes the temporary file.
class TemporaryFile {
 public:
  /// Creates the file, for reading and writing.
  ///
  /// target      the path that commit() replaces; its folder must exist
  /// size        the number of bytes to be written, if it is known
  /// other_hint  text to append to the hints of errors, such as ", or set KEY"
  explicit TemporaryFile(std::filesystem::path target, FileSystem& files = posix_file_system(),
                         std::optional<std::uint64_t> size = {}, std::string other_hint = {});
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  /// Reserves space for `size` bytes, so that a full disk is detected before anything is written;
  /// does nothing if the size is not known or the file system cannot reserve space.
  void reserve();

  /// Appends bytes. Makes at least one system call, so callers should join small pieces.
  void write(std::span<const std::byte> bytes);

  /// Flushes the file to the disk, then reads it back (through the page cache) and compares it with
  /// `written`.
  void verify(Pieces written);

  /// Flushes the file, closes it, renames it to the target and flushes the folder. Call it once. If
  /// only flushing the folder fails, the message says so: the new content is in place but may be
  /// lost in a power failure.
  void commit();

 private:
  void remove_abandoned_files() const;
  FileDescriptor create();
  void flush();
  [[noreturn]] void reject_disk(std::uint64_t offset) const;
  [[noreturn]] void fail(std::string_view action) const;
  std::string space_text(const std::filesystem::path& folder) const;

  FileSystem& files_;
  std::filesystem::path target_;
  std::optional<std::uint64_t> size_;
  std::string other_hint_;
  std::uint64_t written_ = 0;
  FileDescriptor folder_;
  std::filesystem::path path_;
  bool flushed_ = false;
  bool committed_ = false;
  std::size_t slot_ = 0;       ///< index of the path for remove_own_temporaries()
  FileDescriptor descriptor_;  ///< last member, because create() uses all other members
};

/// Checks whether a file of this size could be written into a folder now, by creating a temporary
/// file of that size and deleting it. The size is not checked if the file system cannot reserve
/// space.
///
/// throws  OutputError with the numbers of needed and free bytes
void probe_folder(const std::filesystem::path& folder, std::uint64_t bytes,
                  FileSystem& files = posix_file_system());

/// Reason why a file could not be created or written in a folder: the text of the errno value
/// `code`. The text says so if ENOSPC means that no inodes are left.
std::string output_error_text(int code, const std::filesystem::path& folder,
                              FileSystem& files = posix_file_system());

/// Hint for the error that output_error_text() describes.
std::string output_error_hint(int code, const std::filesystem::path& folder,
                              FileSystem& files = posix_file_system());

/// Hint of an OutputError about a folder on a file system with too few free inodes.
std::string inode_hint(const std::filesystem::path& folder);

/// Whether a file name has the form of a TemporaryFile name. If no process is writing, such a file
/// was left behind by a crash.
bool is_temporary_name(std::string_view name);

/// Deletes a temporary file unless a process is writing it. Returns whether it is deleted.
/// throws  OutputError
bool remove_abandoned(const std::filesystem::path& temporary,
                      FileSystem& files = posix_file_system());

/// Deletes the temporary files that this process is writing. Async-signal-safe, for signal handlers
/// that end the process.
void remove_own_temporaries();

/// Creates a folder and its missing parents, and flushes each new entry to the disk. An existing
/// folder is not an error. throws OutputError.
void create_folder_durably(const std::filesystem::path& folder,
                           FileSystem& files = posix_file_system());

/// Checks that a folder exists or could be created, without creating it. throws OutputError.
void require_creatable_folder(const std::filesystem::path& folder);

/// Deletes a file; a missing file is not an error. throws OutputError.
void remove_file(const std::filesystem::path& path, FileSystem& files = posix_file_system());

}  // namespace tapestry
