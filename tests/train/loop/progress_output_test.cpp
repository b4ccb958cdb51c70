#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "train/config/text.h"
#include "train/loop/progress_output.h"

namespace tapestry {
namespace {

using Json = nlohmann::json;

std::string printed(const std::function<void(ProgressOutput&)>& report) {
  char* bytes = nullptr;
  std::size_t size = 0;
  std::FILE* const file = ::open_memstream(&bytes, &size);
  report(*make_json_output(file));
  std::fclose(file);
  std::string text(bytes, size);
  std::free(bytes);
  return text;
}

TEST_CASE("each event of a run is a JSON object in a line") {
  const std::string text = printed([](ProgressOutput& out) {
    out.start({.run_dir = "runs/a",
               .kind = "seq2seq",
               .first_step = 3,
               .total_steps = 9,
               .parameters = 100});
    out.message("two\nlines");
    out.message("warning: slow");
  });
  CHECK(text ==
        "{\"event\":\"start\",\"run_dir\":\"runs/a\",\"kind\":\"seq2seq\",\"first_step\":3,"
        "\"steps\":9,\"parameters\":100}\n"
        "{\"event\":\"message\",\"warning\":false,\"text\":\"two\\nlines\"}\n"
        "{\"event\":\"message\",\"warning\":true,\"text\":\"slow\"}\n");
  CHECK(printed([](ProgressOutput& out) {
          out.checkpoint(7, "a\xff/b");
          out.end(7, 130);
        }) ==
        "{\"event\":\"checkpoint\",\"step\":7,\"file\":\"a\ufffd/b\"}\n"
        "{\"event\":\"end\",\"step\":7,\"exit_code\":130}\n");
}

TEST_CASE("numbers that are not finite are null in JSON lines") {
  const Json step = Json::parse(printed([](ProgressOutput& out) {
    CHECK_FALSE(out.shows_step());
    out.metrics("text", {.step = 5, .epoch = 1, .loss = std::nan(""), .target_tokens = 12},
                {.targets_per_second = std::numeric_limits<double>::infinity()});
  }));
  CHECK(step["event"] == "step");
  CHECK(step["step"] == 5);
  CHECK(step["loss"].is_null());
  CHECK(step["targets"] == 12);
  CHECK(step["targets_per_second"].is_null());
  const Json validation = Json::parse(printed([](ProgressOutput& out) {
    out.validation("text", {.step = 5, .text = "", .scores = {{"bleu", 12.5}}, .best = true});
  }));
  CHECK(validation["scores"] == Json{{"bleu", 12.5}});
  CHECK(validation["best"] == true);
}

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

TEST_CASE("a live line has bar, step, smoothed loss, best score, speed, time, memory and curve") {
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

TEST_CASE("a bar shows the share of the steps that is done") {
  CHECK(progress_bar(0, 100) == "[----------]");
  CHECK(progress_bar(99, 100) == "[#########-]");
  CHECK(progress_bar(100, 100) == "[##########]");
  CHECK(progress_bar(0, 0) == "[##########]");
}

TEST_CASE("a sparkline is between the smallest and the largest value") {
  CHECK(sparkline(std::vector<double>{7, 0, 1, 6}, 10) == "█▁▂▇");
  CHECK(sparkline(std::vector<double>{8, 6, 0, 0}, 2) == "█▁");
  CHECK(sparkline(std::vector<double>{1, 1, 1}, 10) == "▁▁▁");
  CHECK(sparkline(std::vector<double>{0, std::nan(""), 7}, 10) == "▁ █");
  CHECK(sparkline(std::vector<double>{1}, 10).empty());
  CHECK(sparkline(std::vector<double>{1, 2}, 1).empty());
}

TEST_CASE("the smoothed loss is an exponential mean without a bias to 0") {
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
