#include "autograd/profiler.h"

#include <doctest/doctest.h>

#include <sstream>

using namespace tapestry;

namespace {

const Profile example{.seconds = 4.0,
                      .rows = {{.name = "linear",
                                .phase = Phase::backward,
                                .calls = 1234,
                                .seconds = 2.0,
                                .flops = 250e9,
                                .bytes = 30e9},
                               {.name = "scaled_dot_product_attention",
                                .phase = Phase::inference,
                                .calls = 7,
                                .seconds = 1.0,
                                .flops = 50e9,
                                .bytes = 0.5e9},
                               {.name = "linear",
                                .phase = Phase::forward,
                                .calls = 1234,
                                .seconds = 0.75,
                                .flops = 100e9,
                                .bytes = 12e6},
                               {.name = "everything else",
                                .phase = Phase::other,
                                .calls = 0,
                                .seconds = 0.25,
                                .flops = 0.0,
                                .bytes = 0.0}}};

}  // namespace

TEST_CASE("a profile is a table with shares, speeds and sums, and dashes for missing figures") {
  CHECK(to_string(example) ==
        "4.000 seconds by operation; each row excludes the time of nested rows\n"
        "what                         phase         calls     seconds   share   GFLOP/s         GB"
        "     GB/s\n"
        "linear                       backward       1234       2.000  50.0 %     125.0     30.000"
        "     15.0\n"
        "scaled_dot_product_attention inference         7       1.000  25.0 %      50.0      0.500"
        "      0.5\n"
        "linear                       forward        1234       0.750  18.8 %     133.3      0.012"
        "      0.0\n"
        "everything else              other             -       0.250   6.2 %         -          -"
        "        -\n"
        "in all  forward 18.8 %  backward 50.0 %  inference 25.0 %  other 6.2 %  GFLOP/s 100.0\n"
        "GFLOP/s: matrix products; GB: by shapes, each input and output once, shared or not\n");
}

TEST_CASE("no line of a profile is longer than 100 characters, even after a day of 100 cores") {
  Profile day = example;
  day.seconds = 86400.0;
  for (ProfileRow& row : day.rows) {
    row.seconds = 86400.0;
    row.calls = 999'999'999;
    row.flops = 86400.0 * 10e12;
    row.bytes = 86400.0 * 1e12;
  }
  std::istringstream table(to_string(day));
  for (std::string line; std::getline(table, line);) {
    CAPTURE(line);
    CHECK(line.size() <= 100);
  }
}

TEST_CASE("a profile of 0 seconds has no shares") {
  const std::string text = to_string({.seconds = 0.0, .rows = {example.rows.back()}});
  CHECK(text.find("other 0.0 %  GFLOP/s -\n") != std::string::npos);
}
