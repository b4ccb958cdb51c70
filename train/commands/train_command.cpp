#include "train/commands/commands.h"
#include "train/commands/resume_run.h"
#include "train/commands/start_run.h"

namespace tapestry {

int train_command(const TrainArguments& arguments) {
  const auto started = TimeLimit::Clock::now();
  return arguments.resume ? resume_run(arguments, started) : start_run(arguments, started);
}

}  // namespace tapestry
