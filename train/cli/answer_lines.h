#pragma once

#include "train/cli/command.h"
#include "train/tasks/task.h"

namespace tapestry {

/// The command `tapestry NAME RUN`: standard input to standard output, a line out for each line in,
/// in order, by a model whose task has that LineCommand. Many lines are answered at once, but each
/// as it comes where it is typed.
///
/// The command throws  UsageError if the task of the model has another command or none; DataError,
///                     behind the answers to the lines before, if a line is no text or is refused.
///
/// line_command  must outlive the command
Command make_line_command(const LineCommand& line_command);

}  // namespace tapestry
