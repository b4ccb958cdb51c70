// SPDX-License-Identifier: BSD-3-Clause
#include "train/checkpoint/run_lock.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <tuple>

#include "tests/support/contains.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/error_text.h"
#include "train/base/error.h"
#include "train/checkpoint/run_directory.h"

namespace tapestry {
namespace {

using test::contains;
using test::error_text;
using test::FaultyFileSystem;
using test::TemporaryFolder;

/// A child process that holds the lock of a folder until kill().
class Holder {
 public:
  explicit Holder(const std::filesystem::path& folder) {
    std::array<int, 2> ready{};
    REQUIRE(::pipe(ready.data()) == 0);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) hold(folder, ready[1]);
    char byte = 0;
    REQUIRE(::read(ready[0], &byte, 1) == 1);
    ::close(ready[0]);
    ::close(ready[1]);
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
  ~Holder() { kill(); }

  pid_t pid() const { return pid_; }

  void kill() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  [[noreturn]] static void hold(const std::filesystem::path& folder, int ready) {
    const RunLock lock(folder);
    if (::write(ready, "1", 1) == 1) ::pause();
    ::_exit(1);
  }

  pid_t pid_ = -1;
};

TEST_CASE("a second lock on a run directory is rejected with the pid of the holder") {
  const TemporaryFolder folder;
  const RunLock lock(folder.path());
  const auto rejection = [&](FileSystem& files) {
    return error_text<RunDirectoryInUse>([&] { RunLock(folder.path(), files); });
  };
  const std::string text = rejection(posix_file_system());
  CHECK(text.starts_with(folder.path().string() + ": "));
  CHECK(contains(text, "in use by pid " + std::to_string(::getpid()) + " on "));
  CHECK(contains(text, " since 20"));
  FaultyFileSystem files;
  files.failing_name = "pread";  // the text of .lock cannot be read
  CHECK(contains(rejection(files), "in use by another process"));
}

TEST_CASE("the destructor releases a lock and keeps the lock file") {
  const TemporaryFolder folder;
  { const RunLock lock(folder.path()); }
  CHECK(std::filesystem::exists(folder / ".lock"));
  CHECK_NOTHROW(RunLock(folder.path()));
}

TEST_CASE("a lock of another process is held until that process is killed") {
  const TemporaryFolder folder;
  Holder holder(folder.path());
  CHECK(contains(error_text<RunDirectoryInUse>([&] { const RunLock lock(folder.path()); }),
                 "in use by pid " + std::to_string(holder.pid())));
  holder.kill();
  CHECK_NOTHROW(RunLock(folder.path()));
}

TEST_CASE("a new holder replaces the whole text of the previous holder") {
  const TemporaryFolder folder;
  std::ofstream(folder / ".lock") << std::string(500, 'x');
  const RunLock lock(folder.path());
  std::ifstream file(folder / ".lock");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  CHECK(text.starts_with("pid "));
  CHECK(text.find('x') == text.npos);
}

TEST_CASE("a symbolic link as lock file is rejected, and its target is not changed") {
  const TemporaryFolder folder;
  std::ofstream(folder / "mine.txt") << "mine";
  std::filesystem::create_symlink("mine.txt", folder / ".lock");
  CHECK(contains(error_text<OutputError>([&] { RunLock(folder.path()); }), "symbolic link"));
  std::ifstream file(folder / "mine.txt");
  CHECK(std::string(std::istreambuf_iterator<char>(file), {}) == "mine");
}

TEST_CASE("a lock is held until its file is replaced") {
  const TemporaryFolder folder;
  RunLock lock(folder.path());
  CHECK_NOTHROW(lock.require_held());
  std::filesystem::remove(folder / ".lock");
  { const RunLock second(folder.path()); }
  CHECK_THROWS_AS(lock.require_held(), RunDirectoryInUse);
  FaultyFileSystem files;
  RunLock watched(folder.path(), files);
  files.failing_name = "fstat";
  CHECK_THROWS_AS(watched.require_held(), OutputError);
}

TEST_CASE("a deleted lock file is created and locked again, unless another process has locked it") {
  const TemporaryFolder folder;
  RunLock lock(folder.path());
  std::filesystem::remove(folder / ".lock");
  lock.require_held();
  CHECK_THROWS_AS(RunLock(folder.path()), RunDirectoryInUse);
  std::filesystem::remove(folder / ".lock");
  const Holder holder(folder.path());
  CHECK_THROWS_AS(lock.require_held(), RunDirectoryInUse);
}

TEST_CASE("copies of a RunDirectory share its lock, and require_lock() throws if it was lost") {
  const TemporaryFolder folder;
  RunDirectory directory(folder.path());
  CHECK_NOTHROW(directory.require_lock());
  directory.lock();
  const RunDirectory copy = directory;
  std::filesystem::remove(folder / ".lock");
  { const RunLock second(folder.path()); }
  CHECK_THROWS_AS(copy.require_lock(), RunDirectoryInUse);
}

TEST_CASE("failing to create a lock throws OutputError with a suitable hint") {
  const TemporaryFolder folder;
  CHECK_THROWS_AS(RunLock(folder / "none"), OutputError);
  for (const auto& [call, error, hint] :
       {std::tuple("open", ENOLCK, "where this user can write and lock"),
        {"lock", ENOLCK, "where this user can write and lock"},
        {"ftruncate", ENOLCK, "where this user can write and lock"},
        {"write", ENOLCK, "where this user can write and lock"},
        {"open", EMFILE, "ulimit -n"},
        {"open", ENOSPC, "free space on the disk"},
        {"open", EDQUOT, "free space on the disk"}}) {
    FaultyFileSystem files;
    files.failing_name = call;
    files.error = error;
    const std::string text = error_text<OutputError>([&] { RunLock(folder.path(), files); });
    CHECK(contains(text, "/.lock: could not "));
    CHECK(contains(text, hint));
  }
}

}  // namespace
}  // namespace tapestry
