#include "train/system/time_limit.h"

#include <algorithm>

namespace tapestry {

void TimeLimit::note_turn(Clock::duration taken) { longest_turn_ = std::max(longest_turn_, taken); }

void TimeLimit::note_save(Clock::duration taken) { longest_save_ = std::max(longest_save_, taken); }

bool TimeLimit::is_up(Clock::time_point now) const {
  if (limit_ == std::chrono::seconds(0)) return false;
  return now - started_ + longest_turn_ + longest_save_ >= limit_;
}

}  // namespace tapestry
