#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/contains.h"
#include "tests/train/kind_configs.h"
#include "train/checks/check.h"

/// What `tapestry check` prints and returns.
namespace tapestry {
namespace {

using Arguments = std::vector<std::string>;
using test::contains;
using test::Outcome;
using test::TrainedWorkplace;
using test::Workplace;

TEST_CASE("check prints a line for each check, and the number that passed") {
  const Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  const Outcome done = work.run({"check", "tiny.yaml", "model.norm=post"});
  CHECK(done.code == 0);
  CHECK(done.err.empty());
  CHECK(done.out.starts_with("tiny.yaml, initial values\nok      causality     d(logits at t)/"));
  CHECK(done.out.ends_with("\n10 of 10 checks passed\n"));
  CHECK(std::ranges::count(done.out, '\n') == 12);
}

TEST_CASE("check --help describes each check") {
  const Outcome help = Workplace().run({"check", "--help"});
  CHECK(help.code == 0);
  std::string list = "Checks:";
  for (const Check& check : all_checks()) {
    list += fmt::format("\n  {:<14}{}", check.name, check.meaning);
  }
  CHECK(contains(help.out, list));
  CHECK(contains(help.out, "\n  threads       any number of threads gives the same bits\n"));
}

TEST_CASE("check of a trained run skips the initial loss") {
  const TrainedWorkplace work;
  const Outcome done = work.run({"check", "runs/tiny"});
  CHECK(done.code == 0);
  CHECK(contains(done.out, "\nskipped initial loss  the model is trained; its loss is "));
  CHECK(done.out.ends_with("\n9 of 9 checks passed\n"));
}

TEST_CASE("a failed check is a line of its own and exit code 1") {
  const Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  const Outcome failed = work.run({"check", "tiny.yaml", "model.layer_norm_epsilon=1e30"});
  CHECK(failed.code == 1);
  CHECK(failed.err.empty());
  CHECK(contains(failed.out, "\nFAILED  overfitting   loss of 6 examples from "));
  const auto lines_with = [&](const std::string& status) {
    std::size_t count = 0;
    for (auto at = failed.out.find("\n" + status); at != std::string::npos;
         at = failed.out.find("\n" + status, at + 1)) {
      ++count;
    }
    return count;
  };
  const std::size_t passed = lines_with("ok      "), wrong = lines_with("FAILED  ");
  REQUIRE(passed + wrong + lines_with("skipped ") == 10);
  CHECK(failed.out.ends_with(fmt::format("\n{} of {} checks passed\n", passed, passed + wrong)));
}

TEST_CASE("a check that a model may be unable to pass is skipped with the reason") {
  const test::KindWorkplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  const auto overfitting = [&](const Arguments& arguments) {
    Arguments all{"check"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    all.emplace_back("model.layer_norm_epsilon=1e30");  // with which nothing is learned
    const std::string out = work.run(all).out;
    const std::size_t status = out.rfind('\n', out.find("overfitting   loss of 6 ")) + 1;
    const std::string line = out.substr(status, out.find('\n', status) - status);
    const std::size_t reason = line.find(": ");
    return line.substr(0, line.find(' ')) +
           (reason == std::string::npos ? "" : line.substr(reason));
  };
  CHECK(overfitting({"tiny.yaml", "model.positions=none"}) == "skipped: it has no positions");
  CHECK(overfitting({"tiny.yaml", "model.attention=parameter_free", "model.num_heads=1"}) ==
        "skipped: its attention has no parameters");
  CHECK(overfitting({"classes.yaml", "model.positions=alibi"}) ==
        "skipped: with alibi, an encoder knows distances but no directions");
  CHECK(overfitting({"language.yaml", "model.positions=alibi"}) == "FAILED");
}

TEST_CASE("check pads each side that a kind of model reads, up to its positions") {
  const test::KindWorkplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  const auto columns = [&](const std::string& config, const char* more = "train.seed=1") {
    const std::string out = work.run({"check", config, more}).out;
    const std::size_t end = out.find(" more columns");
    const std::size_t begin = out.rfind("; ", end) + 2;
    return out.substr(begin, end - begin);
  };
  CHECK(columns("tiny.yaml") == "3 + 3");
  CHECK(columns("tiny.yaml", "model.max_length=6") == "1 + 1");
  CHECK(columns("language.yaml") == "0 + 2");  // 6 tokens of 8
  CHECK(columns("masked.yaml") == "0 + 3");
  CHECK(columns("classes.yaml") == "3 + 0");
}

TEST_CASE("check uses six sentences, for threads up to 32, in the precision of the run") {
  const Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  const std::string few = work.run({"check", "tiny.yaml"}).out;
  CHECK(contains(few, "gradients of 3 + 3 examples add up to those of 6 "));
  CHECK(contains(few, " threads (float32, 22 examples)\n"));
  CHECK(contains(work.run({"check", "tiny.yaml", "data.train_size=40", "train.dtype=float64"}).out,
                 " threads (float64, 32 examples)\n"));
}

TEST_CASE("check allows tied embeddings a larger initial loss, by their width") {
  const Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  const auto tolerance = [&](const char* tied) {
    const std::string out = work.run({"check", "tiny.yaml", tied}).out;
    const std::size_t begin = out.find("ln(9) is 2.197, tolerance ");
    return out.substr(begin, out.find('\n', begin) - begin);
  };
  CHECK(tolerance("model.tie_embeddings=none") == "ln(9) is 2.197, tolerance 1.5");
  // 1.5 + ln(1 + exp(sqrt(16)) / 9)
  CHECK(tolerance("model.tie_embeddings=target") == "ln(9) is 2.197, tolerance 3.46");
}

}  // namespace
}  // namespace tapestry
