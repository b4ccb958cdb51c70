#pragma once

#include <filesystem>
#include <sstream>
#include <string>

#include "tests/train/program.h"
#include "train/recording/event_log.h"

namespace tapestry::test {

/// The lines of the events.jsonl of a run directory that have this event.
inline std::string event_lines(const std::filesystem::path& run, const std::string& event) {
  std::istringstream lines(read_text(run / events_file_name));
  std::string found;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("\"event\":\"" + event + "\"") != line.npos) found += line + "\n";
  }
  return found;
}

}  // namespace tapestry::test
