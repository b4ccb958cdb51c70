#include "tests/durability/random_runs/observed.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "train/base/error.h"
#include "train/checkpoint/array_store.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/checkpoint/run_directory.h"
#include "train/cli/program.h"

// The program is run in a forked child. This file defines some functions of the C library in its
// own way, so that events can happen at the moments in which the program calls them. Checkpoints
// are written by a thread of their own: training waits for it whenever it looks at the clock, so
// that an event has always happened by the same step.
namespace tapestry::random_runs {
namespace {

/// Seconds that a clock of this process is ahead.
std::atomic<std::time_t> leap{0};

/// Threads that have not ended and that something will wait for: those that write a checkpoint,
/// since kernels detach theirs and batches are too small to be prepared on another thread.
std::atomic<int> joinable_threads{0};

bool is_main_thread() { return ::gettid() == ::getpid(); }

/// Whether the main thread has not taken a signal yet that was sent to it alone.
bool main_thread_has_pending_signal() {
  std::ifstream status(fmt::format("/proc/self/task/{}/status", ::getpid()));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("SigPnd:")) return line.find_first_not_of("0", 8) != line.npos;
  }
  return false;
}

/// Sends a signal to the main thread, as the system does for a signal to the process, and returns
/// when it has been taken.
void send_signal(int signal) {
  ::syscall(SYS_tgkill, ::getpid(), ::getpid(), signal);
  while (!is_main_thread() && main_thread_has_pending_signal()) ::sched_yield();
}

void wait_for_writer() {
  if (!is_main_thread()) return;
  while (joinable_threads > 0) ::sched_yield();
}

/// The events of the process that this is; none in the parent.
class Events {
 public:
  void arm(const std::vector<Event>& events) { left_ = events; }

  /// Lets happen what is meant for this moment. Returns whether the caller has to fail.
  bool happen(Moment moment, std::uint64_t at) {
    for (std::size_t i = 0; i < left_.size(); ++i) {
      if (left_[i].moment != moment || left_[i].at != at) continue;
      const Event event = left_[i];
      left_.erase(left_.begin() + static_cast<std::ptrdiff_t>(i));
      return carry_out(event);
    }
    return false;
  }

  void line(std::string_view text) {
    unsigned long long step = 0;
    const std::string line(text);
    if (std::sscanf(line.c_str(), "step %llu/", &step) == 1) happen(Moment::log_line, step);
    if (std::sscanf(line.c_str(), "validation at step %llu:", &step) == 1) {
      happen(Moment::validation_line, step);
    }
    if (std::sscanf(line.c_str(), "warning: step %llu:", &step) == 1) {
      happen(Moment::nan_line, step);
    }
  }

  bool before_rename(std::string_view target) {
    if (target.ends_with("/config.yaml")) return happen(Moment::config_rename, 0);
    if (target.ends_with("/metrics.csv")) return happen(Moment::metrics_rename, ++saves_);
    if (target.ends_with(".h5")) return happen(Moment::checkpoint_rename, saves_);
    return false;
  }

  void after_rename(std::string_view target) {
    if (target.ends_with(".h5")) happen(Moment::checkpoint_stored, saves_);
  }

 private:
  static bool carry_out(const Event& event) {
    switch (event.action) {
      case Action::stop:
        send_signal(event.signal);
        break;
      case Action::stop_twice:
        send_signal(event.signal);
        send_signal(event.signal);
        break;
      case Action::save_signal:
        send_signal(SIGUSR1);
        break;
      case Action::kill:
        std::raise(SIGKILL);
        break;
      case Action::time_is_up:
        leap = 7200;
        break;
      case Action::other_process:
        std::raise(SIGSTOP);  // the parent runs it meanwhile
        break;
      case Action::fail:
        errno = ENOSPC;
        return true;
    }
    return false;
  }

  std::vector<Event> left_;
  std::uint64_t saves_ = 0;
};

Events& events() {
  static Events events;
  return events;
}

/// Standard output that is looked at line by line.
ssize_t write_line(void* /*cookie*/, const char* bytes, std::size_t count) {
  static std::string pending;
  pending.append(bytes, count);
  for (std::size_t end = pending.find('\n'); end != pending.npos; end = pending.find('\n')) {
    const std::string line = pending.substr(0, end + 1);
    pending.erase(0, end + 1);
    if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) return -1;
    events().line(std::string_view(line).substr(0, end));
  }
  return static_cast<ssize_t>(count);
}

/// A file without a name, for the output of a child.
class Output {
 public:
  Output() : fd_(::memfd_create("output", MFD_CLOEXEC)) {
    if (fd_ < 0) throw std::runtime_error("memfd_create failed");
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output() { ::close(fd_); }

  int fd() const { return fd_; }
  std::string text() const {
    std::string text;
    std::array<char, 4096> chunk{};
    while (true) {
      const ssize_t got = ::pread(fd_, chunk.data(), chunk.size(), static_cast<off_t>(text.size()));
      if (got <= 0) return text;
      text.append(chunk.data(), static_cast<std::size_t>(got));
    }
  }

 private:
  int fd_;
};

[[noreturn]] void run_child(const std::filesystem::path& folder, const Process& process,
                            std::vector<std::string> arguments, const Output& out,
                            const Output& err) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) std::signal(signal, SIG_DFL);
  const rlimit none{0, 0};
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::alarm(120);  // a process that hangs ends with SIGALRM
  ::setrlimit(RLIMIT_CORE, &none);
  if (::chdir(folder.c_str()) != 0) ::_exit(99);
  ::dup2(out.fd(), STDOUT_FILENO);
  ::dup2(err.fd(), STDERR_FILENO);
  stdout = ::fopencookie(nullptr, "w",
                         {.read = nullptr, .write = write_line, .seek = nullptr, .close = nullptr});
  events().arm(process.events);
  arguments.insert(arguments.begin(), "tapestry");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const int code = run_program(static_cast<int>(arguments.size()), argv.data());
  std::fflush(stdout);
  ::_exit(code);
}

std::vector<std::string> arguments_of(const Process& process) {
  std::vector<std::string> arguments{"train"};
  if (process.resume) arguments.emplace_back("--resume");
  arguments.emplace_back(process.resume && !process.with_config ? "run" : "config.yaml");
  for (const SettingText& override : process.overrides) {
    arguments.push_back(override.key + "=" + override.value);
  }
  if (process.changes_d_model) arguments.emplace_back("model.d_model=16");
  if (process.threads != 0) arguments.push_back(fmt::format("train.threads={}", process.threads));
  if (process.limits_time) arguments.emplace_back("train.max_time=1h");
  if (process.detects_anomaly) arguments.emplace_back("train.detect_anomaly=true");
  if (process.allow_dropout) arguments.emplace_back("--allow-change=model.dropout");
  if (process.allow_data) arguments.emplace_back("--allow-change=data.train_images");
  return arguments;
}

std::string settings_yaml(const Settings& settings) {
  std::string text;
  for (const SettingText& setting : to_text(settings)) {
    if (setting.key.starts_with("train.")) {
      text += fmt::format("  {}: {}\n", setting.key.substr(6), setting.value);
    }
  }
  return text;
}

std::string config_text(const Sequence& sequence) {
  const char* dropout = sequence.base.more_dropout ? "0.3" : "0.1";
  const std::string data_and_model =
      sequence.images ? fmt::format(
                            "data: {{task: images, train_images: train.csv, validation_images: "
                            "validation.csv, test_size: 0, pixel_maximum: 1}}\n"
                            "model: {{kind: vision_transformer, d_model: 8, num_heads: 2, "
                            "num_encoder_layers: 1, d_ff: 8, dropout: {}, max_length: 5, "
                            "positions: learned, patch_size: 4}}\n",
                            dropout)
                      : fmt::format(
                            "data: {{task: copy, num_symbols: 4, max_length: 3, train_size: 22, "
                            "validation_size: 5, test_size: 0}}\n"
                            "model: {{d_model: 8, num_heads: 2, num_encoder_layers: 1, "
                            "num_decoder_layers: 1, d_ff: 8, dropout: {}, max_length: 6}}\n",
                            dropout);
  return data_and_model +
         "schedule: {kind: inverse_sqrt, learning_rate: 0.02, warmup_steps: 4}\n"
         "train:\n  run_dir: run\n  batch_size: 4\n  divergence_window: 0\n" +
         (sequence.images ? "" : "  accumulate: 2\n  exact_match_sequences: 2\n") +
         settings_yaml(sequence.base);
}

/// An image of 8 x 8 pixels whose class is its brighter half, or one that overflows.
std::string image_line(std::size_t number, bool overflows) {
  std::string line;
  for (std::size_t pixel = 0; pixel < 64; ++pixel) {
    const bool bright = (pixel < 32) == (number % 2 == 0);
    const bool negative = (pixel * 2654435761U >> 7 & 1U) != 0;
    line += overflows ? (negative ? "-3e38," : "3e38,")
                      : fmt::format("0.{},", (bright ? 5 : 0) + (number * 7 + pixel * 3) % 5);
  }
  return line + (number % 2 == 0 ? "top\n" : "bottom\n");
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// Version 0 has 20 images, version 1 has 12 with other values; four are a batch.
void write_training_images(const std::filesystem::path& path, std::size_t version,
                           std::size_t bad) {
  std::string text;
  for (std::size_t i = 0; i < 4 * batches_per_epoch(version); ++i) {
    const bool overflows = (bad > 0 && i == 7) || (bad > 1 && i == 10);
    text += image_line(i + version, overflows);
  }
  write_text(path, text);
}

constexpr const char* folder_prefix = "tapestry-random-runs-";

std::filesystem::path folder_of_folders() {
  const bool memory = std::filesystem::is_directory("/dev/shm") && ::access("/dev/shm", W_OK) == 0;
  return memory ? std::filesystem::path("/dev/shm") : std::filesystem::temp_directory_path();
}

/// An exclusive lock on the run directory, held by another program.
class HeldLock {
 public:
  explicit HeldLock(const std::filesystem::path& run) {
    std::filesystem::create_directories(run);
    fd_ = ::open((run / ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd_ < 0 || ::flock(fd_, LOCK_EX | LOCK_NB) != 0) throw std::runtime_error("cannot lock");
  }
  HeldLock(const HeldLock&) = delete;
  HeldLock& operator=(const HeldLock&) = delete;
  ~HeldLock() { ::close(fd_); }

 private:
  int fd_ = -1;
};

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace

Workplace::Workplace(const Sequence& sequence)
    : folder_(folder_of_folders(), fmt::format("{}{}-", folder_prefix, ::getpid())),
      images_(sequence.images),
      bad_(sequence.bad) {
  write_text(folder_ / "config.yaml", config_text(sequence));
  if (!images_) return;
  std::string validation;
  for (std::size_t i = 0; i < 6; ++i) validation += image_line(i + 30, false);
  write_text(folder_ / "validation.csv", validation);
}

void Workplace::cut_newest_checkpoint() const {
  const RunDirectory directory(run_directory());
  const auto path = directory.checkpoint_path(directory.steps().back());
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
}

void remove_folders_of_killed_tests() {
  for (const auto& entry : std::filesystem::directory_iterator(folder_of_folders())) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(folder_prefix)) continue;
    const pid_t owner = std::atoi(name.c_str() + std::string_view(folder_prefix).size());
    if (::kill(owner, 0) == 0 || errno != ESRCH) continue;
    std::error_code ignored;
    std::filesystem::remove_all(entry.path(), ignored);
  }
}

Outcome Workplace::run(const Process& process) {
  if (images_) write_training_images(folder_ / "train.csv", process.data, bad_);
  if (!process.lock_is_held) return start(process, false);
  const HeldLock lock(run_directory());
  return start(process, true);
}

Outcome Workplace::start(const Process& process, bool lock_is_held) {
  const Output out, err;
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) run_child(folder_.path(), process, arguments_of(process), out, err);
  Outcome outcome;
  int status = 0;
  while (::waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status)) {
    if (process.other)
      outcome.other = std::make_shared<Outcome>(start(*process.other, lock_is_held));
    ::kill(child, SIGCONT);
  }
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  outcome.lines = split_lines(out.text());
  outcome.error = err.text();
  return outcome;
}

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<MetricsRow> parse_metrics(const std::string& csv) {
  std::vector<MetricsRow> rows;
  for (const std::string& line : split_lines(csv)) {
    std::vector<std::string> fields;
    std::istringstream in(line);
    for (std::string field; std::getline(in, field, ',');) fields.push_back(field);
    if (fields.size() < 10 || fields[0] == "step") continue;
    rows.push_back({.step = std::stoull(fields[0]),
                    .epoch = std::stoull(fields[1]),
                    .training = fields[2] == "train",
                    .loss = std::stod(fields[3]),
                    .learning_rate = fields[7].empty() ? 0.0 : std::stod(fields[7]),
                    .targets = std::stoull(fields[9])});
  }
  return rows;
}

namespace {

/// Of everything that the weights and the optimizer hold.
std::string compute_digest(const ArrayStore& snapshot) {
  XXH64_hash_t digest = 0;
  for (const auto& [path, array] : snapshot) {
    const bool value = path.starts_with("parameters/") || path.starts_with("buffers/") ||
                       path.starts_with("optimizer/");
    if (!value) continue;
    digest = XXH3_64bits_withSeed(path.data(), path.size(), digest);
    digest = XXH3_64bits_withSeed(array.bytes.data(), array.bytes.size(), digest);
  }
  return fmt::format("{:016x}", digest);
}

StoredState stored_state(const ArrayStore& snapshot) {
  const auto count = [&](const char* path) { return snapshot.get_scalar<std::uint64_t>(path); };
  return {.step = count("train/step"),
          .epoch = count("train/epoch"),
          .batch = count("train/batch"),
          .updates = count("optimizer/steps"),
          .targets = count("train/running_tokens"),
          .best_step = count("train/best_step"),
          .since_best = count("train/validations_since_best"),
          .nan_steps = count("train/nan_steps"),
          .scheduled_save = count("train/scheduled_save"),
          .best_loss = snapshot.get_scalar<double>("train/best_loss"),
          .values = compute_digest(snapshot),
          .history = split_lines(snapshot.get_text("train/history")),
          .metrics = parse_metrics(snapshot.get_text("train/metrics")),
          .config = snapshot.get_text("config")};
}

}  // namespace

std::map<std::uint64_t, StoredState> read_checkpoints(const std::filesystem::path& run,
                                                      std::vector<std::uint64_t>& damaged) {
  std::map<std::uint64_t, StoredState> states;
  const RunDirectory directory(run);
  for (const std::uint64_t step : directory.steps()) {
    try {
      states[step] = stored_state(read_checkpoint(directory.checkpoint_path(step)));
    } catch (const CheckpointError&) {
      damaged.push_back(step);
    }
  }
  return states;
}

}  // namespace tapestry::random_runs

// ---- In place of the C library's.

extern "C" {

int rename(const char* from, const char* to) noexcept {
  if (tapestry::random_runs::events().before_rename(to)) return -1;
  const auto result = static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
  if (result == 0) tapestry::random_runs::events().after_rename(to);
  return result;
}

int flock(int fd, int operation) noexcept {
  if ((operation & LOCK_EX) != 0) {
    tapestry::random_runs::events().happen(tapestry::random_runs::Moment::lock, 0);
  }
  return static_cast<int>(::syscall(SYS_flock, fd, operation));
}

/// What is lost with the power is tested elsewhere.
int fsync(int /*fd*/) { return 0; }

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  if (clock == CLOCK_MONOTONIC) tapestry::random_runs::wait_for_writer();
  const auto result = static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  if (clock == CLOCK_MONOTONIC) time->tv_sec += tapestry::random_runs::leap;
  return result;
}

/// The first function of a thread, and what it is given.
struct ThreadStart {
  void* (*routine)(void*);
  void* argument;
};

static void* run_thread(void* given) {
  const auto start = *static_cast<ThreadStart*>(given);
  delete static_cast<ThreadStart*>(given);
  void* const result = start.routine(start.argument);
  --tapestry::random_runs::joinable_threads;
  return result;
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*routine)(void*),
                   void* argument) noexcept {
  static const auto original =
      reinterpret_cast<decltype(&pthread_create)>(::dlsym(RTLD_NEXT, "pthread_create"));
  auto* const start = new ThreadStart{routine, argument};
  ++tapestry::random_runs::joinable_threads;
  const int code = original(thread, attributes, run_thread, start);
  if (code != 0) {
    --tapestry::random_runs::joinable_threads;
    delete start;
  }
  return code;
}

int pthread_detach(pthread_t thread) noexcept {
  static const auto original =
      reinterpret_cast<decltype(&pthread_detach)>(::dlsym(RTLD_NEXT, "pthread_detach"));
  --tapestry::random_runs::joinable_threads;
  return original(thread);
}

}  // extern "C"
