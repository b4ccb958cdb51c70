#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/contains.h"
#include "tests/train/kind_configs.h"
#include "tests/train/refusal.h"

/// Commands that use the best checkpoint of a run, which is not its newest.
namespace tapestry {
namespace {

using test::Arguments;
using test::contains;
using test::KindWorkplace;
using test::Outcome;

/// Trains runs/NAME, whose last step makes the model worse. Returns the path of its best
/// checkpoint.
std::string train_beyond_the_best(const KindWorkplace& work, const std::string& name) {
  REQUIRE(work.run({"train", name + ".yaml"}).code == 0);
  REQUIRE(work.run({"train", "--resume", "runs/" + name, "train.steps=13",
                    "schedule.learning_rate=5", "--allow-change", "schedule.learning_rate"})
              .code == 0);
  const std::string inspected = work.run({"inspect", "runs/" + name}).out;
  REQUIRE(contains(inspected, "\n(the best of the run, whose newest is step 13)\n"));
  return inspected.substr(0, inspected.find(':'));
}

TEST_CASE("every command that uses the best instead of the newest checkpoint says so") {
  KindWorkplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  struct Case {
    std::string name;
    std::vector<Arguments> commands;  // whose second argument is the run
    std::string input = "";
  };
  const std::vector<Case> cases = {
      {"tiny",
       {{"translate", ""},
        {"evaluate", ""},
        {"evaluate", "", "--json"},
        {"errors", ""},
        {"attention", ""},
        {"attention", "", "--text", "a b"},
        {"explain", "", "a b"},
        {"check", ""},
        {"gradcheck", "", "--coordinates", "1"}},
       "a\n"},
      {"language", {{"generate", "", "a", "--tokens", "2"}}},
      {"classes", {{"classify", ""}}, "a\n"},
      {"tags", {{"tag", ""}}, "a\n"},
      {"masked", {{"fill", ""}}, "le _\n"},
  };
  for (const Case& given : cases) {
    const std::string best = train_beyond_the_best(work, given.name);
    for (Arguments arguments : given.commands) {
      CAPTURE(arguments);
      arguments[1] = "runs/" + given.name;
      const Outcome done = work.run(arguments, given.input);
      CHECK(done.choice ==
            "tapestry: using " + best + ", the best of the run, whose newest is step 13\n");
      CHECK(done.err.empty());
      CHECK_FALSE(done.out.empty());
      arguments[1] = best;
      CHECK(work.run(arguments, given.input).choice.empty());
    }
  }
}

TEST_CASE("score and a report name the best checkpoint if they use it instead of the newest") {
  KindWorkplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  const std::string best = train_beyond_the_best(work, "tiny");
  const std::string choice = "the best of the run, whose newest is step 13";
  const Outcome scored = work.run({"score", "runs/tiny"}, "a\tb\n");
  CHECK(scored.choice == "tapestry: using " + best + ", " + choice + "\n");
  CHECK(scored.err.starts_with("tapestry: 1 pairs, 2 tokens with <eos>: "));
  const Outcome file = work.run({"score", best}, "a\tb\n");
  CHECK(file.choice.empty());
  CHECK(file.out == scored.out);
  CHECK(file.err == scored.err);
  REQUIRE(work.run({"report", "runs/tiny"}).code == 0);
  CHECK(contains(test::read_text(work / "runs/tiny/report.html"), R"("choice":")" + choice + '"'));
}

}  // namespace
}  // namespace tapestry
