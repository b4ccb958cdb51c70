#include "train/checkpoint/run_directory.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/support/faulty_file_system.h"
#include "tests/support/temporary_folder.h"
#include "train/base/error.h"

namespace tapestry {
namespace {

using test::FaultyFileSystem;
using test::TemporaryFolder;

/// A child process that holds the lock of a folder until it is killed.
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

TEST_CASE("a second lock on a run directory is refused with the name of the holder") {
  const TemporaryFolder folder;
  const RunLock lock(folder.path());
  try {
    const RunLock second(folder.path());
    FAIL("locked twice");
  } catch (const RunDirectoryInUse& error) {
    const std::string message = error.what();
    CHECK(message.starts_with(folder.path().string() + ": the run directory is in use by pid " +
                              std::to_string(::getpid()) + " on "));
    CHECK(message.find(" since 20") != message.npos);
    CHECK_FALSE(error.hint().empty());
  }
}

TEST_CASE("a holder whose name cannot be read is reported as another process") {
  const TemporaryFolder folder;
  const RunLock lock(folder.path());
  FaultyFileSystem files;
  files.failing_name = "pread";
  CHECK_THROWS_WITH_AS(
      RunLock(folder.path(), files),
      (folder.path().string() + ": the run directory is in use by another process").c_str(),
      RunDirectoryInUse);
}

TEST_CASE("a lock is released with its owner, and its file remains") {
  const TemporaryFolder folder;
  { const RunLock lock(folder.path()); }
  CHECK(std::filesystem::exists(folder / ".lock"));
  CHECK_NOTHROW(RunLock(folder.path()));
}

TEST_CASE("a lock of another process is held until that process is killed") {
  const TemporaryFolder folder;
  Holder holder(folder.path());
  const std::string expected = "in use by pid " + std::to_string(holder.pid());
  try {
    const RunLock lock(folder.path());
    FAIL("locked twice");
  } catch (const RunDirectoryInUse& error) {
    CHECK(std::string(error.what()).find(expected) != std::string::npos);
  }
  holder.kill();
  CHECK_NOTHROW(RunLock(folder.path()));
}

TEST_CASE("a new holder overwrites the whole text of an old one") {
  const TemporaryFolder folder;
  std::ofstream(folder / ".lock") << std::string(500, 'x');
  const RunLock lock(folder.path());
  std::ifstream file(folder / ".lock");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  CHECK(text.starts_with("pid "));
  CHECK(text.find('x') == text.npos);
}

TEST_CASE("a lock file that is a symbolic link is refused and its target not written") {
  const TemporaryFolder folder;
  std::ofstream(folder / "mine.txt") << "mine";
  std::filesystem::create_symlink("mine.txt", folder / ".lock");
  CHECK_THROWS_WITH_AS(
      RunLock(folder.path()),
      (folder.path().string() + "/.lock: found a symbolic link, expected a file").c_str(),
      OutputError);
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

TEST_CASE("a lock whose file was deleted is locked again, unless another process has done so") {
  const TemporaryFolder folder;
  RunLock lock(folder.path());
  std::filesystem::remove(folder / ".lock");
  lock.require_held();
  CHECK_THROWS_AS(RunLock(folder.path()), RunDirectoryInUse);
  std::filesystem::remove(folder / ".lock");
  const Holder holder(folder.path());
  CHECK_THROWS_AS(lock.require_held(), RunDirectoryInUse);
}

TEST_CASE("a run directory is locked by all its names, and checked once it is locked") {
  const TemporaryFolder folder;
  RunDirectory directory(folder.path());
  CHECK_NOTHROW(directory.require_lock());
  directory.lock();
  const RunDirectory copy = directory;
  std::filesystem::remove(folder / ".lock");
  { const RunLock second(folder.path()); }
  CHECK_THROWS_AS(copy.require_lock(), RunDirectoryInUse);
}

TEST_CASE("a lock that cannot be made is an output error") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(RunLock(folder / "none"),
                       (folder.path().string() +
                        "/none/.lock: could not open the lock file: No such file or directory")
                           .c_str(),
                       OutputError);
  for (const auto& [call, action] : {std::pair("open", "open the lock file"),
                                     {"flock", "lock the run directory"},
                                     {"ftruncate", "write the lock file"},
                                     {"write", "write the lock file"}}) {
    FaultyFileSystem files;
    files.failing_name = call;
    files.error = ENOLCK;
    CHECK_THROWS_WITH_AS(
        RunLock(folder.path(), files),
        (folder.path().string() + "/.lock: could not " + action + ": No locks available").c_str(),
        OutputError);
  }
}

TEST_CASE("the hint for a lock that cannot be made names a limit of the system") {
  const TemporaryFolder folder;
  const auto hint = [&](int error) -> std::string {
    FaultyFileSystem files;
    files.failing_name = "open";
    files.error = error;
    try {
      const RunLock lock(folder.path(), files);
    } catch (const OutputError& failure) {
      return failure.hint();
    }
    return "";
  };
  CHECK(hint(EMFILE) == "raise the limit on open files (ulimit -n)");
  for (const int error : {ENOSPC, EDQUOT}) {
    CHECK(hint(error) ==
          "free space on the disk of " + folder.path().string() + " or write to another one");
  }
  CHECK(hint(EACCES) == "put the run directory on a disk that this user can write and lock");
}

}  // namespace
}  // namespace tapestry
