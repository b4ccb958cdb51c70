#pragma once

#include <string>
#include <vector>

#include "train/cli/command.h"

namespace tapestry {

/// make_line_command() for a LineCommand whose tasks decode: with options of search, sampling and
/// output.
///
/// line_command  must outlive the command
Command make_translate_command(const LineCommand& line_command);

/// The kinds whose tasks have a LineCommand that decodes.
std::vector<std::string> kinds_that_decode();

extern const Command score_command;

}  // namespace tapestry
