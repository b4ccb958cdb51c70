#include "tests/durability/random_runs/plan.h"

#include <fmt/format.h>

#include <csignal>
#include <initializer_list>
#include <random>
#include <utility>

namespace tapestry::random_runs {

std::string to_string(OnNan on_nan) {
  return on_nan == OnNan::stop ? "stop" : on_nan == OnNan::skip ? "skip" : "rollback";
}

std::vector<SettingText> to_text(const Settings& settings) {
  return {{"model.dropout", settings.more_dropout ? "0.3" : "0.1"},
          {"train.steps", std::to_string(settings.steps)},
          {"train.log_every", std::to_string(settings.log_every)},
          {"train.validate_every", std::to_string(settings.validate_every)},
          {"train.save_every", std::to_string(settings.save_every)},
          {"train.keep_last", std::to_string(settings.keep_last)},
          {"train.patience", std::to_string(settings.patience)},
          {"train.on_nan", to_string(settings.on_nan)},
          {"train.max_nan_steps", std::to_string(settings.max_nan_steps)}};
}

namespace {

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed) {}

  Sequence sequence() {
    Sequence sequence;
    sequence.images = chance(70);
    sequence.bad = sequence.images ? pick({0, 1, 1, 2}) : 0;
    sequence.base = {.steps = 4 + below(9),
                     .log_every = pick({1, 1, 1, 2, 3}),
                     .validate_every = pick({2, 3, 4}),
                     .save_every = pick({1, 2, 3, 5}),
                     .keep_last = pick({2, 2, 3}),
                     .patience = pick({0, 0, 1, 2}),
                     .max_nan_steps = pick({1, 2, 3, 20}),
                     .on_nan = sequence.bad == 0 ? OnNan::stop : on_nan(),
                     .more_dropout = false};
    settings_ = sequence.base;
    images_ = sequence.images;
    bad_ = sequence.bad;
    const std::size_t count = 1 + below(6);
    for (std::size_t i = 0; i < count; ++i) sequence.processes.push_back(process(i == 0));
    return sequence;
  }

 private:
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  bool chance(std::uint64_t percent) { return below(100) < percent; }
  std::uint64_t pick(std::initializer_list<std::uint64_t> values) {
    return values.begin()[below(values.size())];
  }
  OnNan on_nan() {
    return std::initializer_list<OnNan>{OnNan::stop, OnNan::skip, OnNan::rollback, OnNan::rollback}
        .begin()[below(4)];
  }

  Process process(bool first) {
    Process process;
    process.resume = first ? chance(3) : chance(94);
    process.with_config = process.resume && chance(30);
    process.threads = pick({0, 1, 1, 1, 2, 3});
    process.limits_time = chance(30);
    process.detects_anomaly = chance(15);
    process.allow_data = process.resume && chance(30);
    process.allow_dropout = process.resume && chance(30);
    process.changes_d_model = process.resume && chance(3);
    if (images_ && chance(10)) data_ = 1 - data_;
    process.data = data_;
    process.lock_is_held = chance(4);
    process.damages_newest = !first && chance(6);
    if (!first && chance(45)) change_settings(process);
    if (chance(75)) add_events(process);
    return process;
  }

  void change_settings(Process& process) {
    const std::size_t changes = 1 + below(3);
    for (std::size_t i = 0; i < changes; ++i) {
      const SettingText changed = change();
      std::erase_if(process.overrides,
                    [&](const SettingText& override) { return override.key == changed.key; });
      process.overrides.push_back(changed);
    }
  }

  SettingText change() {
    switch (below(bad_ == 0 ? 7 : 9)) {
      case 0:
      case 1:
        settings_.steps += below(5);
        return {"train.steps", std::to_string(settings_.steps)};
      case 2:
        return {"train.log_every", std::to_string(pick({1, 2, 3}))};
      case 3:
        return {"train.validate_every", std::to_string(pick({1, 2, 3, 4}))};
      case 4:
        return {"train.save_every", std::to_string(pick({1, 2, 3, 5}))};
      case 5:
        return chance(50) ? SettingText{"train.keep_last", std::to_string(pick({2, 3, 4}))}
                          : SettingText{"model.dropout", chance(70) ? "0.3" : "0.1"};
      case 6:
        return {"train.patience", std::to_string(pick({0, 1, 2, 3}))};
      case 7:
        return {"train.on_nan", to_string(on_nan())};
      default:
        return {"train.max_nan_steps", std::to_string(pick({1, 2, 4, 20}))};
    }
  }

  void add_events(Process& process) {
    const std::size_t count = 1 + below(4);
    for (std::size_t i = 0; i < count; ++i) add_event(process);
  }

  void add_event(Process& process) {
    const std::uint64_t step = 1 + below(settings_.steps);
    const Moment line = chance(75)   ? Moment::log_line
                        : chance(60) ? Moment::validation_line
                                     : Moment::nan_line;
    const int signal = std::initializer_list<int>{SIGTERM, SIGINT, SIGHUP}.begin()[below(3)];
    const Moment saving =
        std::initializer_list<Moment>{Moment::metrics_rename, Moment::checkpoint_rename,
                                      Moment::checkpoint_stored}
            .begin()[below(3)];
    const std::uint64_t save = 1 + below(4);
    switch (below(12)) {
      case 0:
      case 1:
        process.events.push_back({line, step, Action::stop, signal});
        break;
      case 2:
      case 3:
        process.events.push_back({line, step, Action::save_signal});
        break;
      case 4:
        process.events.push_back({line, step, Action::time_is_up});
        break;
      case 5:
        process.events.push_back({line, step, Action::kill});
        break;
      case 6:
        process.events.push_back({saving, save, Action::kill});
        break;
      case 7:
      case 8:
        fail_saves(process,
                   saving == Moment::checkpoint_stored ? Moment::checkpoint_rename : saving, save);
        break;
      case 9:
        process.events.push_back(
            {Moment::config_rename, 0, chance(50) ? Action::kill : Action::fail});
        break;
      case 10:
        add_other(process, chance(50) ? Moment::lock : line, step);
        break;
      default:
        process.events.push_back({line, step, Action::stop_twice, signal});
    }
  }

  /// One save, or several in a row.
  void fail_saves(Process& process, Moment moment, std::uint64_t first) {
    const std::uint64_t count = pick({1, 1, 2, 3});
    for (std::uint64_t i = 0; i < count; ++i) {
      process.events.push_back({moment, first + i, Action::fail});
    }
  }

  void add_other(Process& process, Moment moment, std::uint64_t step) {
    if (process.other) return;
    process.other = std::make_shared<Process>(Process{.resume = chance(80)});
    if (chance(50)) {
      process.other->events.push_back(
          {Moment::log_line, 1 + below(settings_.steps), Action::stop, SIGTERM});
    }
    process.events.push_back({moment, moment == Moment::lock ? 0 : step, Action::other_process});
  }

  std::mt19937_64 random_;
  Settings settings_;
  bool images_ = false;
  std::size_t bad_ = 0, data_ = 0;
};

std::string describe(const Event& event) {
  const char* moments[] = {"log line of step",          "validation line of step",
                           "nan line of step",          "config.yaml to be renamed",
                           "metrics of save",           "checkpoint of save",
                           "checkpoint stored by save", "lock"};
  const char* actions[] = {"signal",     "signal twice", "SIGUSR1",      "kill",
                           "time is up", "fails",        "other process"};
  return fmt::format("{} {}: {}{}", moments[static_cast<int>(event.moment)], event.at,
                     actions[static_cast<int>(event.action)],
                     event.signal == 0 ? "" : fmt::format(" {}", event.signal));
}

std::string describe(const Process& process, const std::string& indent) {
  std::string text = indent + (process.resume ? "train --resume" : "train") +
                     (process.resume && !process.with_config ? " run" : " config.yaml");
  for (const auto& [key, value] : process.overrides) text += fmt::format(" {}={}", key, value);
  const std::pair<bool, std::string> flags[] = {
      {process.changes_d_model, "model.d_model=16"},
      {process.threads != 0, fmt::format("train.threads={}", process.threads)},
      {process.limits_time, "train.max_time=1h"},
      {process.detects_anomaly, "train.detect_anomaly=true"},
      {process.allow_dropout, "--allow-change=model.dropout"},
      {process.allow_data, "--allow-change=data.train_images"},
      {process.data != 0, "[other data]"},
      {process.lock_is_held, "[lock held by another program]"},
      {process.damages_newest, "[newest checkpoint cut in half before]"}};
  for (const auto& [is_set, flag] : flags) {
    if (is_set) text += " " + flag;
  }
  text += "\n";
  for (const Event& event : process.events) {
    text += fmt::format("{}  {}\n", indent, describe(event));
  }
  if (process.other) text += describe(*process.other, indent + "    other: ");
  return text;
}

/// Calls `with` for copies of the process that lack one thing each.
void each_simpler(const Process& process, const auto& with) {
  for (std::size_t i = 0; i < process.events.size(); ++i) {
    Process less = process;
    less.events.erase(less.events.begin() + static_cast<std::ptrdiff_t>(i));
    with(less);
  }
  for (std::size_t i = 0; i < process.overrides.size(); ++i) {
    Process less = process;
    less.overrides.erase(less.overrides.begin() + static_cast<std::ptrdiff_t>(i));
    with(less);
  }
  for (bool Process::*flag :
       {&Process::with_config, &Process::allow_dropout, &Process::allow_data,
        &Process::changes_d_model, &Process::limits_time, &Process::detects_anomaly,
        &Process::lock_is_held, &Process::damages_newest}) {
    if (!(process.*flag)) continue;
    Process less = process;
    less.*flag = false;
    with(less);
  }
  if (process.other) {
    Process less = process;
    less.other.reset();
    std::erase_if(less.events,
                  [](const Event& event) { return event.action == Action::other_process; });
    with(less);
  }
  if (process.threads != 1) {
    Process less = process;
    less.threads = 1;
    with(less);
  }
}

}  // namespace

Sequence random_sequence(std::uint64_t seed) { return Generator(seed).sequence(); }

std::vector<Sequence> simpler(const Sequence& sequence) {
  std::vector<Sequence> simpler;
  for (std::size_t i = 0; i < sequence.processes.size(); ++i) {
    Sequence less = sequence;
    less.processes.erase(less.processes.begin() + static_cast<std::ptrdiff_t>(i));
    if (!less.processes.empty()) simpler.push_back(std::move(less));
  }
  for (std::size_t i = 0; i < sequence.processes.size(); ++i) {
    each_simpler(sequence.processes[i], [&](const Process& process) {
      Sequence less = sequence;
      less.processes[i] = process;
      simpler.push_back(std::move(less));
    });
  }
  if (sequence.bad > 0) {
    Sequence less = sequence;
    --less.bad;
    simpler.push_back(std::move(less));
  }
  return simpler;
}

std::string describe(const Sequence& sequence) {
  std::string text =
      sequence.images ? fmt::format("images, {} of them overflow;", sequence.bad) : "copy task;";
  for (const auto& [key, value] : to_text(sequence.base)) text += fmt::format(" {}={}", key, value);
  text += "\n";
  for (const Process& process : sequence.processes) text += describe(process, "  ");
  return text;
}

}  // namespace tapestry::random_runs
