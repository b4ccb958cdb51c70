#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tests/durability/random_runs/observed.h"
#include "tests/durability/random_runs/reference.h"

/// What a process has printed and left on the disk beside what the model of a run expects.
namespace tapestry::random_runs {

/// The lines of standard output that say what a run did, in a short form.
std::vector<std::string> events_of(const Outcome& outcome);

/// The differences between a run directory and the model of it, in words; empty if there are none.
/// What is new about values is learned.
std::vector<std::string> differences(const Disk& expected, const std::filesystem::path& run,
                                     bool may_have_temporaries, Values& values);

}  // namespace tapestry::random_runs
