#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

/// What happens to one run of the program over its life: processes, one after another, each with
/// its command line and with the events that befall it.
namespace tapestry::random_runs {

/// How a process treats steps that are not finite; `train.on_nan`.
enum class OnNan { stop, skip, rollback };
std::string to_string(OnNan on_nan);

/// The config keys that a run may change freely when it is resumed, and that checkpoints keep.
struct Settings {
  std::uint64_t steps = 10, log_every = 1, validate_every = 3, save_every = 4, keep_last = 2;
  std::uint64_t patience = 0, max_nan_steps = 3;
  OnNan on_nan = OnNan::stop;
  bool more_dropout = false;  ///< model.dropout 0.3 instead of 0.1: only with permission

  bool operator==(const Settings&) const = default;
};

/// The keys of Settings as `section.key`, in the order of a config, and their values as text.
struct SettingText {
  std::string key, value;
};
std::vector<SettingText> to_text(const Settings& settings);

/// The moments of a process at which an event can happen.
enum class Moment {
  log_line,           ///< the line of metrics of step `at` has been printed
  validation_line,    ///< the line of the validation at step `at`
  nan_line,           ///< the warning about step `at`, which is not finite
  config_rename,      ///< config.yaml is about to get its name
  metrics_rename,     ///< metrics.csv of the `at`-th save of this process is about to get its name
  checkpoint_rename,  ///< the same for the checkpoint
  checkpoint_stored,  ///< that checkpoint has its name, older ones have not been removed yet
  lock                ///< the process is about to lock the run directory
};

enum class Action {
  stop,          ///< `signal` arrives
  stop_twice,    ///< and again at once
  save_signal,   ///< SIGUSR1
  kill,          ///< SIGKILL
  time_is_up,    ///< the clock leaps by more than train.max_time
  fail,          ///< the rename fails, the disk being full
  other_process  ///< `Process::other` runs from its start to its end
};

struct Event {
  Moment moment;
  std::uint64_t at = 0;
  Action action;
  int signal = 0;
};

struct Process {
  bool resume = false;
  bool with_config = false;  ///< resume: the config file is named, and not the run directory
  std::vector<SettingText> overrides{};
  bool allow_dropout = false, allow_data = false;
  bool changes_d_model = false;
  std::uint64_t threads = 1;  ///< 0: not given, all cores
  bool limits_time = false, detects_anomaly = false;
  std::size_t data = 0;         ///< version of the training file
  bool lock_is_held = false;    ///< by another program, all the time
  bool damages_newest = false;  ///< the newest checkpoint is cut short before the process starts
  std::vector<Event> events{};
  std::shared_ptr<Process> other{};  ///< of Action::other_process
};

/// Batches of images in an epoch of that version of the training file.
inline std::uint64_t batches_per_epoch(std::size_t data) { return data == 0 ? 5 : 3; }

/// A run and the kind of data it learns from.
struct Sequence {
  bool images = false;  ///< images, some of which overflow; else pairs of symbols
  std::size_t bad = 0;  ///< how many images overflow: 0, 1 or 2
  Settings base{};      ///< of the config file
  std::vector<Process> processes{};
};

/// The sequence of that number; equal numbers give equal sequences.
Sequence random_sequence(std::uint64_t seed);

/// Simpler sequences to try in place of one that fails.
std::vector<Sequence> simpler(const Sequence& sequence);

/// The sequence as a person reads it.
std::string describe(const Sequence& sequence);

}  // namespace tapestry::random_runs
