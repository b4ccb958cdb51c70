#include "data/io/file_system.h"

#include <doctest/doctest.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace tapestry {
namespace {

using test::TemporaryFolder;

TEST_CASE("free_bytes() is the free space of a disk, and fails for a missing path") {
  const TemporaryFolder folder;
  std::uint64_t bytes = 0;
  REQUIRE(posix_file_system().free_bytes(folder.path().c_str(), bytes) == 0);
  const std::uint64_t available = std::filesystem::space(folder.path()).available;
  CHECK(bytes > available / 2);
  CHECK(bytes / 2 < available);
  CHECK(posix_file_system().free_bytes((folder / "none").c_str(), bytes) == -1);
}

TEST_CASE("free_inodes() is that of the file system, and unknown for a missing path") {
  const TemporaryFolder folder;
  struct statvfs status {};
  REQUIRE(::statvfs(folder.path().c_str(), &status) == 0);
  const auto free = posix_file_system().free_inodes(folder.path().c_str());
  REQUIRE(free.has_value() == (status.f_files > 0));
  if (free) {  // other programs create and delete files meanwhile
    CHECK(*free > status.f_favail / 2);
    CHECK(*free / 2 <= status.f_favail);
  }
  errno = 0;
  CHECK_FALSE(posix_file_system().free_inodes((folder / "none").c_str()).has_value());
  CHECK(errno == ENOENT);
}

TEST_CASE("list() has all names of a folder except . and ..") {
  const TemporaryFolder folder;
  std::ofstream(folder / ".hidden") << "text";
  std::vector<std::string> names;
  REQUIRE(posix_file_system().list(folder.path().c_str(), names) == 0);
  CHECK(names == std::vector<std::string>{".hidden"});
  CHECK(posix_file_system().list((folder / "none").c_str(), names) == -1);
  CHECK(errno == ENOENT);
}

}  // namespace
}  // namespace tapestry
