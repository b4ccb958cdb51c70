#pragma once

#include <cstddef>
#include <string>
#include <vector>

/// The commands of the program. Each returns the exit code of a good end and throws what
/// run_program turns into the others.
namespace tapestry {

struct TrainArguments {
  std::string config;                  ///< a config file; empty with `resume`
  std::vector<std::string> overrides;  ///< section.key=value
  std::string resume;                  ///< a run directory; empty for a new run
  bool fresh = false;                  ///< move a run that is in the way aside
};
int train_command(const TrainArguments& arguments);

struct EvaluateArguments {
  std::string run;           ///< a run directory or a checkpoint
  std::size_t examples = 5;  ///< inputs to show with the model's outputs
};
int evaluate_command(const EvaluateArguments& arguments);

/// Standard input to standard output, one sentence a line.
int translate_command(const std::string& run);

struct GradcheckArguments {
  std::string config;
  std::vector<std::string> overrides;
};
int gradcheck_command(const GradcheckArguments& arguments);

int inspect_command(const std::string& run);

}  // namespace tapestry
