#pragma once

#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>

namespace tapestry {

/// The work crashed, or took more than it was given.
class NotContained : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Does work in a process of its own, which may crash, hang or want all memory without harm to this
/// one: for libraries that do not survive every file made to harm them. The process sees everything
/// as it is here; nothing that it changes is seen here.
///
/// work      returns what is to be known of it, at most 64 KB; an exception's message comes back as
///           a std::runtime_error
/// seconds   of processor time it may take, and ten times that on the clock
/// bytes     of memory it may take beyond what this process has
/// throws    NotContained, naming what happened; std::system_error if no process can be started
std::string run_contained(const std::function<std::string()>& work, unsigned seconds,
                          std::size_t bytes);

}  // namespace tapestry
