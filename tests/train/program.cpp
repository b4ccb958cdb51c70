// SPDX-License-Identifier: BSD-3-Clause
#include "tests/train/program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace tapestry::test {
namespace {

void add_stream(posix_spawn_file_actions_t& actions, int number, const std::string& path,
                int flags) {
  if (path.empty()) {
    ::posix_spawn_file_actions_addclose(&actions, number);
  } else {
    ::posix_spawn_file_actions_addopen(&actions, number, path.c_str(), flags, 0666);
  }
}

/// Moves the first line of standard error to `choice` if it says which checkpoint was chosen.
void split_choice(Outcome& outcome) {
  const std::size_t end = outcome.err.find('\n');
  if (!outcome.err.starts_with("tapestry: using ") || end == std::string::npos) return;
  outcome.choice = outcome.err.substr(0, end + 1);
  outcome.err.erase(0, end + 1);
}

}  // namespace

const char* program_path() { return TAPESTRY_PROGRAM; }

CommandLine::CommandLine(const std::string& typed) {
  bool quoted = false, inside = false;
  for (const char c : typed) {
    if (c == '\'') {
      quoted = !quoted;
    } else if (c == ' ' && !quoted) {
      inside = false;
      continue;
    }
    if (!std::exchange(inside, true)) words.emplace_back();
    if (c != '\'') words.back() += c;
  }
}

std::string CommandLine::text() const { return fmt::format("{}", fmt::join(words, " ")); }

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// ---- Process

Process::Process(const std::filesystem::path& folder, const CommandLine& command,
                 const Streams& streams) {
  Arguments arguments = command.words;
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

Process::~Process() {
  if (pid_ < 0) return;
  send(SIGKILL);
  wait();
}

void Process::send(int signal) const {
  if (pid_ > 0) ::kill(pid_, signal);
}

int Process::wait() {
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// ---- Workplace

Outcome Workplace::run(const CommandLine& command, const std::string& input) const {
  write_text(streams_ / "in", input);
  return run(command, Streams{.in = streams_ / "in"});
}

Outcome Workplace::run(const CommandLine& command, Streams streams) const {
  const bool kept = streams.out == Streams{}.out && streams.out_descriptor < 0;
  if (kept) streams.out = streams_ / "out";
  if (streams.err == Streams{}.err) streams.err = streams_ / "err";
  const int code = Process(work_.path(), command, streams).wait();
  Outcome outcome{code, kept ? read_text(streams.out) : "", read_text(streams_ / "err")};
  split_choice(outcome);
  return outcome;
}

std::string Workplace::out(const CommandLine& command, const std::string& input) const {
  const Outcome done = run(command, input);
  CHECK(done.code == 0);
  CHECK(done.err == "");
  return done.out;
}

std::map<std::string, std::string> Workplace::contents() const {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(work_.path())) {
    const auto path = entry.path().lexically_relative(work_.path());
    if (path.filename() == ".lock") continue;
    const bool readable = std::filesystem::is_regular_file(entry.symlink_status());
    files[path.string()] = readable ? read_text(entry.path()) : "no file";
  }
  return files;
}

// ---- Checks

void check_words(const std::string& text, const Words& words) {
  for (const std::string& word : words) CHECK_MESSAGE(contains(text, word), word, " in ", text);
}

void check_rejected(const Workplace& work, const CommandLine& command, int code, const Words& words,
                    const std::string& input) {
  CAPTURE(command.text());
  const auto before = work.contents();
  const Outcome rejected = work.run(command, input);
  CHECK(rejected.code == code);
  CHECK(rejected.err.starts_with("tapestry: error: "));
  CHECK(contains(rejected.err, "\nhint: "));
  check_words(rejected.err, words);
  CHECK(rejected.out.empty());
  CHECK_MESSAGE(work.contents() == before, "a file has changed");
}

void check_rows(const Workplace& work, const std::vector<CommandRow>& rows) {
  for (const auto& [command, code, words, input] : rows) {
    if (code != 0) {
      check_rejected(work, command, code, words, input);
      continue;
    }
    const auto shown = command.text();  // clang 14 cannot capture a structured binding
    CAPTURE(shown);
    check_words(work.out(command, input), words);
  }
}

// ---- Workplaces

const std::string tiny_yaml = R"(data:
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

std::string TinyWorkplace::checkpoint(std::uint64_t step, const std::string& run) {
  return fmt::format("{}/checkpoints/step-{:08}.h5", run, step);
}

TrainedWorkplace::TrainedWorkplace() {
  static const TinyWorkplace original;
  static const Outcome first = original.run("train tiny.yaml");
  trained = first;
  std::filesystem::copy(original / "runs", *this / "runs",
                        std::filesystem::copy_options::recursive);
}

TextWorkplace::TextWorkplace() {
  write("text.yaml", R"(data:
  task: parallel_text
  train_source: train.de
  train_target: train.en
  validation_source: valid.de
  validation_target: valid.en
model: {d_model: 8, num_heads: 1, num_encoder_layers: 1, num_decoder_layers: 1, d_ff: 8, max_length: 6}
train: {steps: 2, threads: 1}
)");
  write("train.de", "ein haus\neine katze\n");
  write("train.en", "a house\na cat\n");
  write("valid.de", "ein hund\n");
  write("valid.en", "a dog\n");
}

}  // namespace tapestry::test
