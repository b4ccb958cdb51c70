#include "train/report/profile_tree.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

namespace tapestry {
namespace {

ProfileRow row(const char* name, Phase phase, double seconds) {
  return {.name = name, .phase = phase, .calls = 3, .seconds = seconds, .flops = 2e9, .bytes = 1e9};
}

const Profile profile{
    .seconds = 10.0,
    .rows = {row("linear", Phase::backward, 4.0), row("linear", Phase::forward, 2.0),
             row("layer_norm", Phase::forward, 1.0), row("linear", Phase::inference, 0.75),
             row("validation and decoding", Phase::other, 0.5),
             row("optimizer step", Phase::other, 1.0), row("saving", Phase::other, 0.25),
             row("everything else", Phase::other, 0.5)}};

const ProfilePart& part(const ProfilePart& whole, const std::string& name) {
  const auto found = std::ranges::find(whole.parts, name, &ProfilePart::name);
  REQUIRE(found != whole.parts.end());
  return *found;
}

TEST_CASE("the rows of a printed profile are parsed") {
  const auto rows = parse_profile_rows(to_string(profile));
  REQUIRE(rows.size() == profile.rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CHECK(rows[i].name == profile.rows[i].name);
    CHECK(rows[i].phase == profile.rows[i].phase);
    CHECK(rows[i].calls == profile.rows[i].calls);
    CHECK(rows[i].seconds == doctest::Approx(profile.rows[i].seconds));
  }
}

TEST_CASE("a name as wide as its column is parsed") {
  const std::string name(40, 'x');
  const Profile wide{.seconds = 1.0, .rows = {row(name.c_str(), Phase::forward, 1.0)}};
  const auto rows = parse_profile_rows(to_string(wide));
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].name == name);
}

TEST_CASE("lines that are no rows of a profile are skipped") {
  CHECK(parse_profile_rows("").empty());
  CHECK(parse_profile_rows("\n\n  \n").empty());
  CHECK(parse_profile_rows("forward 3 1.000 1.0 % - - -").empty());  // no name
  CHECK(parse_profile_rows("linear sideways 3 1.000 1.0 % - - -").empty());
  CHECK(parse_profile_rows("linear forward 3 long 1.0 % - - -").empty());
}

TEST_CASE("a profile is divided into steps, validations and saves") {
  const ProfilePart run = profile_tree(profile.rows);
  CHECK(run.seconds == doctest::Approx(10.0));
  const ProfilePart& steps = part(run, "training steps");
  CHECK(steps.seconds == doctest::Approx(8.0));
  CHECK(part(steps, "backward").seconds == doctest::Approx(4.0));
  const ProfilePart& forward = part(steps, "forward");
  CHECK(forward.seconds == doctest::Approx(3.0));
  CHECK(forward.parts.front().name == "linear");  // the longest
  CHECK(part(steps, "optimizer step").parts.empty());
  const ProfilePart& validations = part(run, "validation and reports");
  CHECK(validations.seconds == doctest::Approx(1.25));
  CHECK(part(validations, "inference").seconds == doctest::Approx(0.75));
  CHECK(part(run, "saving").seconds == doctest::Approx(0.25));
  CHECK(part(run, "everything else").seconds == doctest::Approx(0.5));
}

TEST_CASE("the page gets a profile with its parts") {
  const auto json = profile_json(profile_tree(profile.rows));
  CHECK(json["name"] == "run");
  CHECK(json["seconds"] == 10.0);
  CHECK(json["parts"][0]["name"] == "training steps");
  CHECK(json["parts"][0]["parts"][0]["parts"][0]["seconds"] == 4.0);
}

}  // namespace
}  // namespace tapestry
