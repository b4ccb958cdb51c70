#include "tests/durability/random_runs/reference.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "tests/support/contains.h"

namespace tapestry::random_runs {
namespace {

using test::contains;

/// The process ends here with this exit code and a message.
struct Ended {
  int code;
  std::string error;
};

struct Killed {
  int signal;
};

/// The rules of a process, in the order in which the program follows them.
class Simulation {
 public:
  Simulation(const Sequence& sequence, const Process& process, Values& values,
             const Outcome& outcome, Disk& disk)
      : sequence_(sequence),
        process_(process),
        values_(values),
        outcome_(outcome),
        disk_(disk),
        left_(process.events) {}

  Expected run() {
    try {
      expected_.code = process_.resume ? resume() : start();
    } catch (const Ended& end) {
      expected_.code = end.code;
      expected_.error = end.error;
    } catch (const Killed& kill) {
      expected_.code = -kill.signal;
    }
    return expected_;
  }

 private:
  void say(std::string event) { expected_.events.push_back(std::move(event)); }

  // ---- Events.

  bool happen(Moment moment, std::uint64_t at) {
    const auto found = std::ranges::find_if(
        left_, [&](const Event& event) { return event.moment == moment && event.at == at; });
    if (found == left_.end()) return false;
    const Event event = *found;
    left_.erase(found);
    switch (event.action) {
      case Action::stop_twice:
        throw Killed{event.signal};
      case Action::kill:
        throw Killed{9};
      case Action::stop:
        if (stop_signal_ != 0) throw Killed{event.signal};
        stop_signal_ = event.signal;
        return false;
      case Action::save_signal:
        save_requested_ = true;
        return false;
      case Action::time_is_up:
        time_is_up_ = process_.limits_time;
        return false;
      case Action::other_process:
        run_other();
        return false;
      case Action::fail:
        return true;
    }
    return false;
  }

  void run_other() {
    expected_.runs_other = true;
    if (!outcome_.other) return;
    Process other = *process_.other;
    other.data = process_.data;
    other.lock_is_held = process_.lock_is_held || locked_;
    expected_.other = std::make_shared<Expected>(
        Simulation(sequence_, other, values_, *outcome_.other, disk_).run());
    expected_.cleans_up |= expected_.other->cleans_up;
  }

  // ---- The beginning.

  bool has_checkpoints() const { return !disk_.checkpoints.empty() || !disk_.damaged.empty(); }

  std::vector<std::uint64_t> checkpoint_steps() const {
    std::vector<std::uint64_t> steps(disk_.damaged.begin(), disk_.damaged.end());
    for (const auto& [step, state] : disk_.checkpoints) steps.push_back(step);
    std::ranges::sort(steps);
    return steps;
  }

  static Settings overridden(Settings settings, const std::vector<SettingText>& overrides) {
    for (const auto& [key, value] : overrides) {
      if (key == "model.dropout") settings.more_dropout = value == "0.3";
      if (key == "train.on_nan") {
        settings.on_nan = value == "stop"   ? OnNan::stop
                          : value == "skip" ? OnNan::skip
                                            : OnNan::rollback;
      }
      const std::pair<const char*, std::uint64_t Settings::*> numbers[] = {
          {"train.steps", &Settings::steps},
          {"train.log_every", &Settings::log_every},
          {"train.validate_every", &Settings::validate_every},
          {"train.save_every", &Settings::save_every},
          {"train.keep_last", &Settings::keep_last},
          {"train.patience", &Settings::patience},
          {"train.max_nan_steps", &Settings::max_nan_steps}};
      for (const auto& [name, member] : numbers) {
        if (key == name) settings.*member = std::stoull(value);
      }
    }
    return settings;
  }

  void take_lock() {
    happen(Moment::lock, 0);
    if (process_.lock_is_held) throw Ended{7, "the run directory is in use by"};
    locked_ = true;
  }

  void refuse_to_replace_run() const {
    if (has_checkpoints()) throw Ended{2, "already contains a run, at step"};
  }

  void write_config() {
    expected_.cleans_up = true;
    if (happen(Moment::config_rename, 0)) throw Ended{5, "config.yaml: could not rename"};
    disk_.config = to_text(settings_);
    disk_.config->push_back({"train.threads", std::to_string(process_.threads)});
    disk_.config->push_back({"train.max_time", process_.limits_time ? "1h" : "0s"});
    disk_.config->push_back({"train.run_dir", "\"run\""});
    disk_.config->push_back({"train.detect_anomaly", process_.detects_anomaly ? "true" : "false"});
  }

  int start() {
    settings_ = overridden(sequence_.base, process_.overrides);
    refuse_to_replace_run();
    take_lock();
    refuse_to_replace_run();
    state_.data = process_.data;
    write_config();
    say_threads();
    return train();
  }

  /// The newest whole checkpoint, and what is to be done with it.
  struct Plan {
    State state;
    Settings settings;
    std::size_t num_damaged_newer = 0;  ///< checkpoints
  };

  Plan make_plan() const {
    if (disk_.checkpoints.empty()) {
      throw Ended{4, has_checkpoints() ? "all unusable, expected a whole one"
                                       : "expected the directory of a run"};
    }
    Plan plan{.state = disk_.checkpoints.rbegin()->second, .settings = {}};
    plan.num_damaged_newer = static_cast<std::size_t>(std::ranges::count_if(
        disk_.damaged, [&](std::uint64_t step) { return step > plan.state.step; }));
    plan.settings =
        overridden(process_.with_config ? sequence_.base : plan.state.settings, process_.overrides);
    const bool other_dropout = plan.settings.more_dropout != plan.state.settings.more_dropout;
    if (process_.changes_d_model || (other_dropout && !process_.allow_dropout)) {
      throw Ended{2, process_.changes_d_model ? "start a new run" : "--allow-change model.dropout"};
    }
    return plan;
  }

  static bool is_finished(const State& state, const Settings& settings) {
    return state.step >= settings.steps ||
           (settings.patience > 0 && state.since_best >= settings.patience);
  }

  int resume() {
    Plan plan = make_plan();
    if (!plan.state.validation_pending && is_finished(plan.state, plan.settings)) {
      say("finished");
      return 0;
    }
    const auto before = checkpoint_steps();
    take_lock();
    if (checkpoint_steps() != before) plan = make_plan();
    state_ = plan.state;
    settings_ = plan.settings;
    saved_step_ = state_.step;
    if (!finished()) revert_end_rows();
    const bool other_data = state_.data != process_.data;
    if (other_data && !process_.allow_data) {
      throw Ended{3, "--allow-change data.train_images"};
    }
    state_.data = process_.data;
    if (other_data && state_.position.batch >= batches_per_epoch(process_.data)) {
      state_.position = {.epoch = state_.position.epoch + 1, .batch = 0};
    }
    write_config();
    for (std::size_t i = 0; i < plan.num_damaged_newer; ++i) say("older checkpoint");
    say(fmt::format("resuming {} of {}", state_.step, settings_.steps));
    tell_changes(plan.state.settings, other_data);
    say_threads();
    return train();
  }

  void tell_changes(const Settings& before, bool other_data) {
    const auto then = to_text(before), now = to_text(settings_);
    std::string dropout;
    for (std::size_t i = 0; i < now.size(); ++i) {
      if (then[i].value == now[i].value) continue;
      const std::string change =
          fmt::format("changed {}: {} -> {}", now[i].key, then[i].value, now[i].value);
      if (now[i].key == "model.dropout") {
        dropout = change;
      } else {
        say(change);
      }
    }
    if (other_data) {
      say("warning changed data");
      note("data");
    }
    if (!dropout.empty()) {
      say("warning " + dropout);
      note("dropout");
    }
  }

  void say_threads() {
    if (process_.threads != 0) say(fmt::format("threads {}", process_.threads));
  }

  // ---- Training.

  void note(const std::string& kind) {
    state_.history.push_back(fmt::format("step {}: {}", state_.step, kind));
  }

  bool finished() const { return is_finished(state_, settings_); }
  bool due(std::uint64_t every) const { return state_.step % every == 0; }

  int train() {
    if (settings_.on_nan == OnNan::rollback && !saved_step_ && !finished()) save_as_scheduled();
    while (state_.validation_pending || !finished()) {
      if (time_is_up_ || stop_signal_ != 0) return stop();
      if (state_.validation_pending) {
        finish_interrupted_turn();
      } else {
        turn();
      }
      if (state_.validation_pending) continue;  // it was cancelled
      if (std::exchange(save_requested_, false)) save_on_request();
    }
    save_at_the_end();
    say(state_.step < settings_.steps
            ? fmt::format("done {}, no new best in {}", state_.step, settings_.patience)
            : fmt::format("done {}", state_.step));
    return 0;
  }

  int stop() {
    save_at_the_end();
    say(time_is_up_ ? fmt::format("stopped by time at {}", state_.step)
                    : fmt::format("stopped by signal {} at {}", stop_signal_, state_.step));
    return time_is_up_ ? 124 : 128 + stop_signal_;
  }

  void save_at_the_end() {
    if (saved_step_ != state_.step) save(true);
  }

  enum class StepEnd { done, skipped, rolled_back };

  void turn() {
    const StepEnd end = step();
    if (end == StepEnd::rolled_back) return;
    if (end == StepEnd::done) {
      if (due(settings_.log_every)) {
        log();
      } else if (is_last_step()) {
        log_at_end();
      }
    }
    finish_turn();
  }

  void finish_turn() {
    state_.validation_pending = true;
    bool best = false;
    if (due(settings_.validate_every)) {
      if (stop_signal_ != 0) return;
      best = validate();
    } else if (is_last_step()) {
      begin_end_rows();
      if (stop_signal_ != 0) return;
      const std::uint64_t counted = state_.since_best;
      validate();
      state_.since_best = counted;
      state_.before_end->rows_end = state_.rows.size();
    }
    state_.validation_pending = false;
    if (best || due(settings_.save_every)) save_as_scheduled();
  }

  bool is_last_step() const { return state_.step >= settings_.steps; }

  void finish_interrupted_turn() {
    // The step before the next batch; a run has one batch for each step.
    const Position next = state_.position;
    epoch_ = next.batch == 0 ? next.epoch : next.epoch + 1;
    saved_step_.reset();
    finish_turn();
    if (!state_.validation_pending && saved_step_ != state_.step) save(finished());
  }

  void begin_end_rows() {
    if (state_.before_end) return;
    state_.before_end = StateBeforeEnd{.targets = state_.targets,
                                       .steps_since_log = state_.steps_since_log,
                                       .best_loss = state_.best_loss,
                                       .best_weights = state_.best_weights,
                                       .best_step = state_.best_step,
                                       .rows_begin = state_.rows.size(),
                                       .rows_end = state_.rows.size()};
  }

  void log_at_end() {
    begin_end_rows();
    log();
    state_.before_end->rows_end = state_.rows.size();
  }

  void revert_end_rows() {
    if (!state_.before_end) return;
    const StateBeforeEnd before = *std::exchange(state_.before_end, std::nullopt);
    state_.targets = before.targets;
    state_.steps_since_log = before.steps_since_log;
    state_.best_loss = before.best_loss;
    state_.best_weights = before.best_weights;
    state_.best_step = before.best_step;
    state_.rows.erase(state_.rows.begin() + static_cast<std::ptrdiff_t>(before.rows_begin),
                      state_.rows.begin() + static_cast<std::ptrdiff_t>(before.rows_end));
  }

  StepEnd step() {
    const Position from = state_.position;
    const StepData data = values_.at(state_.data, from);
    epoch_ = from.epoch + 1;
    state_.position = data.next;
    if (!data.finite) return meet_non_finite();
    const std::string name =
        fmt::format("{} {} {} {} {} {}", state_.weights, state_.step, from.epoch, from.batch,
                    settings_.more_dropout, state_.data);
    state_.weights = fmt::format("{:016x}", XXH3_64bits(name.data(), name.size()));
    ++state_.step;
    ++state_.updates;
    if (settings_.on_nan != OnNan::rollback) state_.nan_steps = 0;
    state_.targets += data.targets;
    ++state_.steps_since_log;
    return StepEnd::done;
  }

  StepEnd meet_non_finite() {
    const std::uint64_t at = state_.step + 1;
    const std::string found =
        process_.detects_anomaly ? "a value is not finite" : "the loss is nan";
    ++state_.nan_steps;
    disk_.reports.insert(at);
    if (settings_.on_nan == OnNan::stop) throw Ended{6, fmt::format("step {}: {}", at, found)};
    if (state_.nan_steps > settings_.max_nan_steps) {
      throw Ended{6, fmt::format("{} consecutive steps", state_.nan_steps)};
    }
    say(fmt::format("nan {}: {}", at, found));
    happen(Moment::nan_line, at);
    if (settings_.on_nan == OnNan::rollback) {
      roll_back();
      return StepEnd::rolled_back;
    }
    note("skip");
    ++state_.step;
    return StepEnd::skipped;
  }

  /// To the last scheduled checkpoint; where that is not there, to the newest one.
  void roll_back() {
    auto target = disk_.checkpoints.find(state_.scheduled_save);
    if (disk_.damaged.contains(state_.scheduled_save)) say("another checkpoint");
    if (target == disk_.checkpoints.end()) {
      if (disk_.checkpoints.empty()) throw Ended{6, "there is no checkpoint to go back to"};
      target = std::prev(disk_.checkpoints.end());
    }
    const Position behind = state_.position;
    const std::uint64_t in_a_row = state_.nan_steps;
    const std::size_t data = state_.data;
    state_ = target->second;
    revert_end_rows();
    state_.position = behind;
    state_.nan_steps = in_a_row;
    state_.data = data;
    saved_step_ = state_.step;
    note("back");
    say(fmt::format("back {}", state_.step));
  }

  void log() {
    state_.rows.push_back({.step = state_.step,
                           .epoch = epoch_,
                           .training = true,
                           .targets = state_.targets,
                           .weights = state_.steps_since_log == 1 ? state_.weights : ""});
    state_.targets = 0;
    state_.steps_since_log = 0;
    say(fmt::format("log {}/{} epoch {}", state_.step, settings_.steps, epoch_));
    happen(Moment::log_line, state_.step);
  }

  bool validate() {
    const Validation seen = next_validation();
    const auto known = values_.validation_loss.find(state_.weights);
    const double loss = known != values_.validation_loss.end() ? known->second : seen.loss;
    // Four decimals are printed: where they do not tell, the program may say what is best.
    const bool certain = std::abs(loss - state_.best_loss) > 2e-4;
    const bool best = certain ? loss < state_.best_loss : seen.best;
    ++state_.since_best;
    if (best) {
      state_.best_loss = loss;
      state_.best_weights = state_.weights;
      state_.best_step = state_.step;
      state_.since_best = 0;
    }
    if (state_.before_end && due(settings_.validate_every)) {
      state_.before_end->best_loss = state_.best_loss;
      state_.before_end->best_weights = state_.best_weights;
      state_.before_end->best_step = state_.best_step;
    }
    state_.rows.push_back({.step = state_.step,
                           .epoch = epoch_,
                           .training = false,
                           .targets = 0,
                           .weights = state_.weights});
    say(fmt::format("validation {}{}", state_.step, best ? " best" : ""));
    happen(Moment::validation_line, state_.step);
    return best;
  }

  /// What the program says of a validation.
  struct Validation {
    double loss = 0.0;
    bool best = false;
  };

  /// The next one that it has printed.
  Validation next_validation() {
    while (next_line_ < outcome_.lines.size()) {
      const std::string& line = outcome_.lines[next_line_++];
      Validation seen;
      if (std::sscanf(line.c_str(), "validation at step %*u: loss %lf", &seen.loss) != 1) continue;
      seen.best = contains(line, "(best so far)");
      return seen;
    }
    return {};
  }

  // ---- Saving.

  void save_as_scheduled() {
    const std::uint64_t scheduled = std::exchange(state_.scheduled_save, state_.step);
    const std::uint64_t in_a_row = state_.nan_steps;
    if (settings_.on_nan == OnNan::rollback) state_.nan_steps = 0;
    if (save(finished())) return;
    state_.scheduled_save = scheduled;
    state_.nan_steps = in_a_row;
  }

  void save_on_request() {
    if (saved_step_ != state_.step) save(finished());
    if (saved_step_ == state_.step) say(fmt::format("saved {}", state_.step));
  }

  bool save(bool last) {
    ++saves_;
    if (happen(Moment::metrics_rename, saves_)) return fail_to_save(last);
    disk_.metrics = state_.rows;
    if (happen(Moment::checkpoint_rename, saves_)) return fail_to_save(last);
    state_.settings = settings_;
    disk_.checkpoints[state_.step] = state_;
    disk_.damaged.erase(state_.step);
    happen(Moment::checkpoint_stored, saves_);
    remove_old_checkpoints();
    failed_saves_ = 0;
    saved_step_ = state_.step;
    return true;
  }

  bool fail_to_save(bool last) {
    ++failed_saves_;
    if (last || failed_saves_ == 3) throw Ended{5, "could not rename the temporary file"};
    say(fmt::format("not saved {}", failed_saves_));
    return false;
  }

  void remove_old_checkpoints() {
    auto old = checkpoint_steps();
    std::erase_if(old, [&](std::uint64_t step) { return step > state_.step; });
    old.resize(old.size() - std::min<std::size_t>(old.size(), settings_.keep_last));
    for (const std::uint64_t step : old) {
      const bool best = std::isfinite(state_.best_loss) && step == state_.best_step;
      const bool best_before = state_.before_end && std::isfinite(state_.before_end->best_loss) &&
                               step == state_.before_end->best_step;
      if (best || best_before || step == state_.scheduled_save) continue;
      disk_.checkpoints.erase(step);
      disk_.damaged.erase(step);
    }
  }

  const Sequence& sequence_;
  const Process& process_;
  Values& values_;
  const Outcome& outcome_;
  Disk& disk_;
  std::vector<Event> left_;
  Expected expected_;

  State state_;
  Settings settings_;
  std::uint64_t epoch_ = 1, saves_ = 0, failed_saves_ = 0;
  std::optional<std::uint64_t> saved_step_;
  int stop_signal_ = 0;
  bool save_requested_ = false, time_is_up_ = false, locked_ = false;
  std::size_t next_line_ = 0;
};

}  // namespace

StepData Values::at(std::size_t data, Position position) const {
  for (const StepData& step : steps[data]) {
    if (step.from.epoch == position.epoch && step.from.batch == position.batch) return step;
  }
  throw std::runtime_error(fmt::format("no step of epoch {}, batch {} of data {} is known",
                                       position.epoch, position.batch, data));
}

Expected simulate(const Sequence& sequence, const Process& process, Values& values,
                  const Outcome& outcome, Disk& disk) {
  return Simulation(sequence, process, values, outcome, disk).run();
}

}  // namespace tapestry::random_runs
