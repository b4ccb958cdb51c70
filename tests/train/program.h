// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <doctest/doctest.h>
#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "tests/support/contains.h"
#include "tests/support/temporary_folder.h"

/// Runs the built program like a user, and checks its output and files.
namespace tapestry::test {

/// Absolute path of the built program.
const char* program_path();

using Arguments = std::vector<std::string>;

/// The arguments of a command, as a list or as a user types them: words separated by blanks. A word
/// in single quotes may contain blanks or be empty.
struct CommandLine {
  CommandLine(const char* typed) : CommandLine(std::string(typed)) {}
  CommandLine(const std::string& typed);
  CommandLine(Arguments list) : words(std::move(list)) {}
  CommandLine(std::initializer_list<std::string> list) : words(list) {}

  /// The command line, for messages of failed checks.
  std::string text() const;

  Arguments words;
};

/// Exit code and output of a run of the program.
struct Outcome {
  int code;  ///< exit code; -n if signal n killed it
  std::string out, err;
  /// The first line of standard error if it says that the best checkpoint is used instead of the
  /// newest; `err` has the rest. Most tests do not depend on which step of a short run is the best.
  std::string choice = "";
};

std::string read_text(const std::filesystem::path& path);
void write_text(const std::filesystem::path& path, const std::string& text);

/// The lines of a text, without line ends.
std::vector<std::string> split_lines(const std::string& text);

/// The files of the standard streams of a process, as absolute paths. An empty path closes the
/// stream.
struct Streams {
  std::string in = "/dev/null";
  std::string out = "/dev/null";
  std::string err = "/dev/null";
  int out_descriptor = -1;  ///< used instead of `out` unless negative
  int in_descriptor = -1;   ///< used instead of `in` unless negative
};

/// A process that runs the program in a working folder.
class Process {
 public:
  Process(const std::filesystem::path& folder, const CommandLine& command, const Streams& streams);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process();

  void send(int signal) const;

  /// Process id; valid until wait().
  pid_t id() const { return pid_; }

  /// Waits for the end of the process. Returns Outcome::code.
  int wait();

 private:
  pid_t pid_ = -1;
};

/// A folder where a user works with the program.
class Workplace {
 public:
  std::filesystem::path operator/(const std::string& name) const { return work_ / name; }
  const std::filesystem::path& path() const { return work_.path(); }
  std::string at(const std::string& name) const { return (work_ / name).string(); }

  void write(const std::string& name, const std::string& text) const {
    write_text(work_ / name, text);
  }
  std::string read(const std::string& name) const { return read_text(work_ / name); }
  bool has(const std::string& name) const { return std::filesystem::exists(work_ / name); }

  /// Runs the program to its end.
  Outcome run(const CommandLine& command, const std::string& input = "") const;

  /// Runs the program with the given streams. The outcome does not contain its output.
  Outcome run(const CommandLine& command, Streams streams) const;

  /// Standard output of a command that has to succeed without a warning.
  std::string out(const CommandLine& command, const std::string& input = "") const;

  /// A file for the output of a process, outside the workplace.
  std::filesystem::path stream(const std::string& name) const { return streams_ / name; }

  /// Contents of all files of the workplace, by relative path. Does not follow links. Leaves out
  /// lock files, which only record the last holder of the lock.
  std::map<std::string, std::string> contents() const;

 private:
  TemporaryFolder work_, streams_;
};

using Words = std::vector<std::string>;

/// Checks that a text has all of the key words.
void check_words(const std::string& text, const Words& words);

/// Checks that a command ends with this exit code, prints an error with the key words and a hint,
/// prints nothing on standard output, and changes no file.
void check_rejected(const Workplace& work, const CommandLine& command, int code, const Words& words,
                    const std::string& input = "");

/// A command line, its exit code, and the key words in its output, or in its error message if the
/// code is not 0.
struct CommandRow {
  CommandLine command;
  int code;
  Words words;
  std::string input = "";
};

/// Checks each row. Rows with a code other than 0 must pass check_rejected().
void check_rows(const Workplace& work, const std::vector<CommandRow>& rows);

/// A config that trains a poor model of a copy task within milliseconds.
extern const std::string tiny_yaml;

/// A workplace with tiny.yaml.
struct TinyWorkplace : Workplace {
  TinyWorkplace() { write("tiny.yaml", tiny_yaml); }

  /// The path of the checkpoint of a step of a run.
  static std::string checkpoint(std::uint64_t step, const std::string& run = "runs/tiny");
};

/// A workplace with tiny.yaml and its finished run in runs/tiny. The run is trained once, then
/// copied.
struct TrainedWorkplace : TinyWorkplace {
  TrainedWorkplace();

  Outcome trained;
};

/// A workplace with text.yaml, a translation task of text files without a test set.
struct TextWorkplace : Workplace {
  TextWorkplace();
};

}  // namespace tapestry::test
