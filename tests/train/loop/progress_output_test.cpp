#include "train/loop/progress_output.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

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

}  // namespace
}  // namespace tapestry
