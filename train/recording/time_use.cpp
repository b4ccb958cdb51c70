// SPDX-License-Identifier: BSD-3-Clause
#include "train/recording/time_use.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <ctime>
#include <numeric>

#include "autograd/kernels/parallel.h"
#include "train/base/format.h"
#include "train/recording/event_log.h"

namespace tapestry {
namespace {

using Json = nlohmann::ordered_json;

/// The time in UTC with microseconds, since two processes may start within a second.
std::string utc_now() {
  timespec now{};  // std::chrono::system_clock overflows in the year 2262
  ::clock_gettime(CLOCK_REALTIME, &now);
  std::string text = format_time(now.tv_sec);
  if (text.ends_with('Z')) text.insert(text.size() - 1, fmt::format(".{:06}", now.tv_nsec / 1000));
  return text;
}

std::optional<double> optional_seconds(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional(json.get<double>());
}

ProcessTime read_process_time(std::uint64_t step, const Json& json) {
  ProcessTime time{.step = step,
                   .started = json.at("started").get<std::string>(),
                   .seconds = json.at("seconds").get<double>(),
                   .processor_seconds = optional_seconds(json.at("processor_seconds")),
                   .other_seconds = optional_seconds(json.at("other_seconds")),
                   .threads = json.at("threads").get<std::size_t>(),
                   .cores = json.at("cores").get<std::size_t>(),
                   .positions = json.at("positions").get<std::uint64_t>(),
                   .padding = json.at("padding").get<std::uint64_t>()};
  for (std::size_t i = 0; i < time_part_names.size(); ++i) {
    time.parts[i] = json.at("parts").at(std::string(time_part_names[i])).get<double>();
  }
  return time;
}

}  // namespace

void TimeUse::add(const Batch& batch) {
  const auto count = [&](std::size_t length, const std::vector<std::size_t>& lengths) {
    const std::uint64_t positions = std::uint64_t{batch.rows} * length;
    positions_ += positions;
    padding_ += positions - std::accumulate(lengths.begin(), lengths.end(), std::uint64_t{0});
  };
  if (batch.source_length > 0) count(batch.source_length, batch.source_lengths);
  if (target_positions(batch.target_length) > 0) count(batch.target_length, batch.target_lengths);
}

double TimeUse::seconds(TimePart part) const {
  return std::chrono::duration<double>(times_[static_cast<std::size_t>(part)]).count();
}

TimeRecorder::TimeRecorder() : started_text_(utc_now()) {}

void TimeRecorder::add(EventLog& log, std::uint64_t step, const TimeUse& use) {
  last_event_ = Clock::now();
  Json own, others;  // processor times; null if unknown
  const auto now = read_processor_time();
  if (now && processor_before_) {
    const double own_seconds = now->own - processor_before_->own;
    own = json_number(own_seconds);
    // Clamped to 0, since the two clocks are read at different times and the system's clock is
    // coarse.
    others = json_number(std::max(0.0, now->all - processor_before_->all - own_seconds));
  }
  Json parts = Json::object();
  for (std::size_t i = 0; i < time_part_names.size(); ++i) {
    parts[std::string(time_part_names[i])] = json_number(use.seconds(static_cast<TimePart>(i)));
  }
  log.add(step, "time",
          {{"started", started_text_},
           {"seconds", json_number(std::chrono::duration<double>(last_event_ - started_).count())},
           {"processor_seconds", std::move(own)},
           {"other_seconds", std::move(others)},
           {"threads", kernels::num_threads()},
           {"cores", read_cores().allowed},
           {"positions", use.positions()},
           {"padding", use.padding()},
           {"parts", std::move(parts)}});
}

void TimeRecorder::add_if_due(EventLog& log, std::uint64_t step, const TimeUse& use) {
  if (Clock::now() - last_event_ >= between_events) add(log, step, use);
}

std::vector<ProcessTime> read_process_times(std::string_view events) {
  std::vector<ProcessTime> processes;
  read_events(events, "time", [&](std::uint64_t step, const Json& json) {
    ProcessTime time = read_process_time(step, json);
    const bool continues = !processes.empty() && processes.back().started == time.started;
    if (continues) processes.pop_back();
    processes.push_back(std::move(time));
  });
  return processes;
}

void add_speed(EventLog& log, std::uint64_t step, const StepSpeed& speed) {
  log.add(step, "speed",
          {{"time", format_time(std::time(nullptr))},
           {"step_seconds", json_number(speed.seconds_per_step)},
           {"target_tokens_per_second", json_number(speed.targets_per_second)}});
}

}  // namespace tapestry
