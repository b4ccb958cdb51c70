// SPDX-License-Identifier: BSD-3-Clause
#include "train/loop/live_line.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "train/config/text.h"

namespace tapestry {
namespace {

LiveValues values() {
  LiveValues values{.step = 250,
                    .total_steps = 1000,
                    .loss = 1.25,
                    .time_left = "0:01:20",
                    .speed = "31,672 tokens/s",
                    .best = BestScore{.metric = "loss", .value = 1.5},
                    .resident_bytes = 120'000'000};
  for (int i = 0; i < 40; ++i) values.past.push_back(40 - i);
  return values;
}

TEST_CASE("a live line shows bar, step, smoothed loss, best score, speed, time, memory and curve") {
  CHECK(live_line(values(), 200, true) ==
        "[##--------]  step 250/1000  loss 1.2500  best loss 1.5000  31,672 tokens/s  0:01:20 "
        "left  120 MB  " +
            sparkline(values().past, 24));
  LiveValues first = values();
  first.best.reset();
  first.past.resize(7);
  first.resident_bytes = 0;
  CHECK(live_line(first, 200, true) ==
        "[##--------]  step 250/1000  loss 1.2500  31,672 tokens/s  0:01:20 left");
}

TEST_CASE("the least important parts are left out of a narrow line") {
  CHECK(live_line(values(), 200, false) ==
        "[##--------]  step 250/1000  loss 1.2500  best loss 1.5000  31,672 tokens/s  0:01:20 "
        "left  120 MB");
  CHECK(live_line(values(), 100, true) == live_line(values(), 200, false));
  CHECK(live_line(values(), 79, true) ==
        "[##--------]  step 250/1000  loss 1.2500  best loss 1.5000  0:01:20 left");
  CHECK(live_line(values(), 60, true) == "[##--------]  step 250/1000  loss 1.2500  0:01:20 left");
  CHECK(live_line(values(), 45, true) == "step 250/1000  loss 1.2500  0:01:20 left");
  CHECK(live_line(values(), 39, true) == "step 250/1000  loss 1.2500");
  CHECK(live_line(values(), 20, true) == "step 250/1000");
  CHECK(live_line(values(), 5, true) == "step ");
  for (std::size_t columns = 1; columns < 160; ++columns) {
    CHECK(count_characters(live_line(values(), columns, true)) <= columns);
  }
}

TEST_CASE("a bar shows the share of completed steps") {
  CHECK(progress_bar(0, 100) == "[----------]");
  CHECK(progress_bar(99, 100) == "[#########-]");
  CHECK(progress_bar(0, 0) == "[##########]");
}

TEST_CASE("a sparkline is scaled from the smallest to the largest value") {
  CHECK(sparkline(std::vector<double>{7, 0, 1, 6}, 10) == "█▁▂▇");
  CHECK(sparkline(std::vector<double>{8, 6, 0, 0}, 2) == "█▁");
  CHECK(sparkline(std::vector<double>{1, 1, 1}, 10) == "▁▁▁");
  CHECK(sparkline(std::vector<double>{0, std::nan(""), 7}, 10) == "▁ █");
  CHECK(sparkline(std::vector<double>{1}, 10).empty());
  CHECK(sparkline(std::vector<double>{1, 2}, 1).empty());
}

TEST_CASE("the smoothed loss is an exponential mean without a bias toward 0") {
  LossHistory history;
  CHECK(history.smoothed() == 0.0);
  history.add(2.0);
  CHECK(history.smoothed() == 2.0);
  history.add(4.0);
  CHECK(history.smoothed() == doctest::Approx((0.95 * 2 + 4) / 1.95));
  for (int i = 0; i < 1000; ++i) history.add(1.0);
  CHECK(history.smoothed() == doctest::Approx(1.0));
}

TEST_CASE("the parts of a loss history are means of equal numbers of steps") {
  LossHistory history;
  for (int i = 0; i < 63; ++i) history.add(i);
  CHECK(history.parts().size() == 63);
  history.add(63);
  REQUIRE(history.parts().size() == 32);
  CHECK(history.parts()[0] == 0.5);
  CHECK(history.parts()[31] == 62.5);
  history.add(100);
  CHECK(history.parts().size() == 32);
  history.add(102);
  CHECK(history.parts().back() == 101);
  for (int i = 0; i < 100'000; ++i) history.add(1);
  CHECK(history.parts().size() >= 32);
  CHECK(history.parts().size() < 64);
}

}  // namespace
}  // namespace tapestry
