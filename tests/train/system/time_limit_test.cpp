#include "train/system/interruptions.h"

#include <doctest/doctest.h>

namespace tapestry {
namespace {

using namespace std::chrono_literals;

constexpr TimeLimit::Clock::time_point start{100h};

TEST_CASE("without a limit, or with one of 0, time is never up") {
  CHECK_FALSE(TimeLimit().is_up(start));
  CHECK_FALSE(TimeLimit(start, 0s).is_up(start + 1000h));
}

TEST_CASE("time is up at the limit") {
  const TimeLimit limit(start, 10s);
  CHECK_FALSE(limit.is_up(start + 9999ms));
  CHECK(limit.is_up(start + 10s));
}

TEST_CASE("time is up if the longest period and the longest save would exceed the limit") {
  TimeLimit limit(start, 10s);
  limit.note_turn(1s);
  limit.note_turn(3s);
  limit.note_turn(2s);
  CHECK_FALSE(limit.is_up(start + 6999ms));
  CHECK(limit.is_up(start + 7s));
  limit.note_save(2s);
  limit.note_save(1s);
  CHECK_FALSE(limit.is_up(start + 4999ms));
  CHECK(limit.is_up(start + 5s));
}

TEST_CASE("time is up earlier while a save is in progress") {
  TimeLimit limit(start, 10s);
  limit.note_turn(3s);
  limit.note_save(2s, true);
  CHECK_FALSE(limit.is_up(start + 2999ms));
  CHECK(limit.is_up(start + 3s));
  CHECK(limit.last_call() == start + 6s);
  limit.note_save(1s);
  CHECK_FALSE(limit.is_up(start + 4999ms));
  CHECK(limit.last_call() == start + 8s);
}

TEST_CASE("the last call leaves enough time for the longest save") {
  CHECK_FALSE(TimeLimit(start, 0s).last_call());
  TimeLimit limit(start, 10s);
  CHECK(limit.last_call() == start + 10s);
  limit.note_turn(3s);
  limit.note_save(2s);
  CHECK(limit.last_call() == start + 8s);
}

}  // namespace
}  // namespace tapestry
