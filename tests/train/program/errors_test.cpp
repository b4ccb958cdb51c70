#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/contains.h"
#include "tests/train/kind_configs.h"
#include "tests/train/refusal.h"

/// `tapestry errors`.
namespace tapestry {
namespace {

using nlohmann::json;
using test::check_refusal;
using test::contains;
using test::Outcome;

std::vector<double> values(const json& findings, const char* name) {
  std::vector<double> all;
  for (const json& example : findings["examples"]) all.push_back(example[name].get<double>());
  return all;
}

TEST_CASE("errors lists held-out examples by decreasing loss") {
  const test::TrainedWorkplace work;
  const Outcome listed = work.run({"errors", "runs/tiny", "--examples", "2"});
  CHECK(listed.code == 0);
  CHECK(listed.err.empty());
  CHECK(contains(listed.out, "\ntest: the 2 of 4 pairs with the greatest loss\n"));
  CHECK(contains(listed.out, "\n1. example "));
  CHECK(contains(listed.out, "\n2. example "));
  CHECK_FALSE(contains(listed.out, "\n3. example "));
  CHECK(contains(listed.out, "\n   expected  "));

  const json by_mean = json::parse(work.run({"errors", "runs/tiny", "--json"}).out);
  CHECK(by_mean["set"] == "test");
  const auto losses = values(by_mean, "loss");
  REQUIRE(losses.size() == 4);
  CHECK(std::ranges::is_sorted(losses, std::ranges::greater()));
  const json by_sum = json::parse(work.run({"errors", "runs/tiny", "--by", "sum", "--json"}).out);
  CHECK(std::ranges::is_sorted(values(by_sum, "loss_sum"), std::ranges::greater()));

  // Together they are the loss that evaluate prints.
  const json scores = json::parse(work.run({"evaluate", "runs/tiny", "--json"}).out);
  double sum = 0, labels = 0;
  for (const double value : values(by_mean, "loss_sum")) sum += value;
  for (const double value : values(by_mean, "labels")) labels += value;
  CHECK(sum / labels == doctest::Approx(scores["test"]["loss"].get<double>()).epsilon(1e-6));
}

TEST_CASE("errors shows the examples of every kind of model") {
  const test::KindWorkplace work;
  for (const test::KindConfig& kind : test::kind_configs) {
    CAPTURE(kind.name);
    REQUIRE(work.run({"train", kind.name + ".yaml"}).code == 0);
    const Outcome listed =
        work.run({"errors", "runs/" + kind.name, "--set", "validation", "--examples", "3"});
    CHECK(listed.code == 0);
    CHECK(contains(listed.out, "validation: the 3 of " + std::to_string(kind.held_out) + " " +
                                   kind.examples + " with the greatest loss"));
    const bool shows_texts = contains(listed.out, "\n   expected  ");
    const bool shows_tokens = contains(listed.out, "\n   tokens    ");
    CHECK((shows_texts || shows_tokens));
  }
}

TEST_CASE("errors accepts other data, and needs a set that the run has") {
  const test::KindWorkplace work;
  REQUIRE(work.run({"train", "tags.yaml"}).code == 0);
  CHECK(contains(work.run({"errors", "runs/tags"}).out, "\nvalidation: the 10 of 11 sentences"));
  check_refusal(work, {"errors", "runs/tags", "--set", "test"}, 2,
                "command line: found no test examples, expected at least one\n"
                "hint: the run has another held-out set: --set validation");
  check_refusal(work, {"errors", "runs/tags", "--examples", "0"}, 2,
                "command line: --examples: expected a whole number from 1 to 1000000, found \"0\"\n"
                "hint: see `tapestry errors --help`");
}

}  // namespace
}  // namespace tapestry
