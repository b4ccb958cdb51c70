#pragma once

#include <string>

namespace tapestry {

/// The name of the program in messages, help and hints, "tapestry" by default.
const std::string& program_name();

/// Sets program_name(); to be called at the start of a program, before it starts threads.
void set_program_name(std::string name);

}  // namespace tapestry
