// SPDX-License-Identifier: BSD-3-Clause
#include "train/system/time_limit.h"

#include <algorithm>

namespace tapestry {

void TimeLimit::add_iteration(Clock::duration taken) {
  max_iteration_time_ = std::max(max_iteration_time_, taken);
}

void TimeLimit::update_save_time(Clock::duration taken, bool in_flight) {
  max_save_time_ = std::max(max_save_time_, taken);
  in_flight_ = in_flight;
}

bool TimeLimit::is_up(Clock::time_point now) const {
  if (limit_ == std::chrono::seconds(0)) return false;
  return now - started_ + max_iteration_time_ + time_to_save() >= limit_;
}

std::optional<TimeLimit::Clock::time_point> TimeLimit::save_deadline() const {
  if (limit_ == std::chrono::seconds(0)) return std::nullopt;
  return started_ + limit_ - time_to_save();
}

}  // namespace tapestry
