#pragma once

#include "train/cli/command.h"

namespace tapestry {

/// make_line_command() for a LineCommand whose tasks decode: with options of search, sampling and
/// output.
///
/// line_command  must outlive the command
Command make_translate_command(const LineCommand& line_command);

}  // namespace tapestry
