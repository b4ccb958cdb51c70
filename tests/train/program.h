#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"
#include "tests/train/program_path.h"

/// The built program as a user meets it.
namespace tapestry::test {

/// How a run of the program ended, and what it said.
struct Outcome {
  int code;  ///< exit code; -n if signal n killed it
  std::string out, err;
  /// The first line of standard error if it says that the best checkpoint is used and not the
  /// newest; `err` is what follows it. Which step of a short run is its best is no matter of most
  /// tests.
  std::string choice = "";

  void split_choice() {
    const std::size_t end = err.find('\n');
    if (!err.starts_with("tapestry: using ") || end == err.npos) return;
    choice = err.substr(0, end + 1);
    err.erase(0, end + 1);
  }
};

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// Where the standard streams of a process begin and end; relative to nothing but the machine. One
/// that is empty is closed.
struct Streams {
  std::string in = "/dev/null";
  std::string out = "/dev/null";
  std::string err = "/dev/null";
  int out_descriptor = -1;  ///< in place of `out`, unless negative
  int in_descriptor = -1;   ///< in place of `in`, unless negative
};

/// A process of the program in a working folder.
class Process {
 public:
  Process(const std::filesystem::path& folder, std::vector<std::string> arguments,
          const Streams& streams) {
    arguments.insert(arguments.begin(), "tapestry");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);

    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
    add_stream(actions, STDIN_FILENO, streams.in, O_RDONLY);
    add_stream(actions, STDOUT_FILENO, streams.out, O_WRONLY | O_CREAT | O_TRUNC);
    add_stream(actions, STDERR_FILENO, streams.err, O_WRONLY | O_CREAT | O_TRUNC);
    if (streams.out_descriptor >= 0) {
      ::posix_spawn_file_actions_adddup2(&actions, streams.out_descriptor, STDOUT_FILENO);
    }
    if (streams.in_descriptor >= 0) {
      ::posix_spawn_file_actions_adddup2(&actions, streams.in_descriptor, STDIN_FILENO);
    }
    const int error = ::posix_spawn(&pid_, program_path(), &actions, nullptr, argv.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (error != 0) throw std::runtime_error(std::string("could not start ") + program_path());
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    if (pid_ < 0) return;
    send(SIGKILL);
    wait();
  }

  void send(int signal) const { ::kill(pid_, signal); }

  /// While it runs.
  pid_t id() const { return pid_; }

  /// As Outcome::code.
  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  static void add_stream(posix_spawn_file_actions_t& actions, int number, const std::string& path,
                         int flags) {
    if (path.empty()) {
      ::posix_spawn_file_actions_addclose(&actions, number);
    } else {
      ::posix_spawn_file_actions_addopen(&actions, number, path.c_str(), flags, 0666);
    }
  }

  pid_t pid_ = -1;
};

/// A folder in which a user works with the program.
class Workplace {
 public:
  std::filesystem::path operator/(const std::string& name) const { return work_ / name; }
  const std::filesystem::path& path() const { return work_.path(); }

  void write(const std::string& name, const std::string& text) const {
    write_text(work_ / name, text);
  }

  /// Runs the program to its end.
  Outcome run(const std::vector<std::string>& arguments, const std::string& input = "") const {
    write_text(streams_ / "in", input);
    return run(arguments, Streams{.in = streams_ / "in"});
  }

  /// The same with other standard input, or with other output, which is then not in the outcome.
  Outcome run(const std::vector<std::string>& arguments, Streams streams) const {
    const bool kept = streams.out == Streams{}.out && streams.out_descriptor < 0;
    if (kept) streams.out = streams_ / "out";
    if (streams.err == Streams{}.err) streams.err = streams_ / "err";
    const int code = Process(work_.path(), arguments, streams).wait();
    Outcome outcome{code, kept ? read_text(streams.out) : "", read_text(streams_ / "err")};
    outcome.split_choice();
    return outcome;
  }

  /// A file for the output of a process, apart from the user's files.
  std::filesystem::path stream(const std::string& name) const { return streams_ / name; }

  /// What all files of the workplace hold, by their paths in it; links are not followed. A lock
  /// file only says who held the lock last, and is left out.
  std::map<std::string, std::string> contents() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(work_.path())) {
      const auto path = entry.path().lexically_relative(work_.path());
      if (path.filename() == ".lock") continue;
      const bool readable = std::filesystem::is_regular_file(entry.symlink_status());
      files[path.string()] = readable ? read_text(entry.path()) : "no file";
    }
    return files;
  }

 private:
  TemporaryFolder work_, streams_;
};

/// A config of a copy task that is learned, badly, within milliseconds.
inline const std::string tiny_yaml = R"(data:
  task: copy
  num_symbols: 5
  max_length: 4
  train_size: 22
  validation_size: 6
  test_size: 4
model:
  d_model: 16
  num_heads: 2
  num_encoder_layers: 1
  num_decoder_layers: 1
  d_ff: 32
  dropout: 0.2
  max_length: 8
schedule:
  kind: inverse_sqrt
  learning_rate: 0.01
  warmup_steps: 4
train:
  steps: 12
  batch_size: 4
  threads: 1
  log_every: 4
  validate_every: 6
  save_every: 5
  digest_every: 1
)";

/// A workplace with tiny.yaml and its finished run in runs/tiny.
struct TrainedWorkplace : Workplace {
  TrainedWorkplace() {
    write("tiny.yaml", tiny_yaml);
    trained = run({"train", "tiny.yaml"});
  }

  std::string checkpoint(std::uint64_t step) const {
    return "runs/tiny/checkpoints/step-" + std::string(step < 10 ? "0000000" : "000000") +
           std::to_string(step) + ".h5";
  }

  Outcome trained;
};

}  // namespace tapestry::test
