#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace tapestry {

/// The share of one process in work that several processes divide, such as the scores of a
/// validation set. By default one process does everything.
struct WorkShare {
  std::size_t index = 0;  ///< of this process, in [0, count)
  std::size_t count = 1;  ///< number of processes

  /// Does `work` and returns its results in all processes, in the order of their indices. To be
  /// called by all of them.
  std::function<std::vector<std::string>(const std::function<std::string()>& work)> all_gather =
      [](const std::function<std::string()>& work) { return std::vector<std::string>{work()}; };
};

}  // namespace tapestry
