#pragma once

namespace tapestry {

/// How the program ends; 128 + n after signal n, once the run has been saved.
enum class ExitCode : int {
  done = 0,
  bug = 1,    ///< our own
  usage = 2,  ///< command line or config
  data = 3,
  checkpoint = 4,
  output = 5,   ///< something could not be written
  numeric = 6,  ///< NaN, infinity, divergence
  in_use = 7,   ///< another process works in the run directory
  memory = 8,
  out_of_time = 124,  ///< train.max_time is up and the run is saved; timeout(1) ends with it too
  check_failed = 1,   ///< gradcheck found a wrong gradient, or check a property that fails
};

inline constexpr int signal_exit_base = 128;

}  // namespace tapestry
