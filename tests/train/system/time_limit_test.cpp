// SPDX-License-Identifier: BSD-3-Clause
#include "train/system/time_limit.h"

#include <doctest/doctest.h>

#include <chrono>

namespace tapestry {
namespace {

using namespace std::chrono_literals;

constexpr TimeLimit::Clock::time_point start{100h};

TEST_CASE("without a limit, or with a limit of 0, time is never up") {
  CHECK_FALSE(TimeLimit().is_up(start));
  CHECK_FALSE(TimeLimit(start, 0s).is_up(start + 1000h));
  CHECK_FALSE(TimeLimit(start, 0s).save_deadline());
}

TEST_CASE("time is up if the longest iteration and the longest save would exceed the limit") {
  TimeLimit limit(start, 10s);
  const auto is_up_at = [&](std::chrono::milliseconds time) {
    return !limit.is_up(start + time - 1ms) && limit.is_up(start + time);
  };
  CHECK(is_up_at(10s));
  CHECK(limit.save_deadline() == start + 10s);
  for (const auto iteration : {1s, 3s, 2s}) limit.add_iteration(iteration);
  CHECK(is_up_at(7s));
  for (const auto save : {2s, 1s}) limit.update_save_time(save);
  CHECK(is_up_at(5s));
  CHECK(limit.save_deadline() == start + 8s);
  limit.update_save_time(1s, true);  // the last save waits for the save in progress
  CHECK(is_up_at(3s));
  CHECK(limit.save_deadline() == start + 6s);
  limit.update_save_time(1s);
  CHECK(is_up_at(5s));
}

}  // namespace
}  // namespace tapestry
