#include "data/read_some.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "data/error.h"

namespace tapestry {

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

}  // namespace tapestry
