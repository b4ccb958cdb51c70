// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/train/kinds.h"
#include "train/checks/check.h"

/// Tests `tapestry check` and `tapestry gradcheck`; tests/train/checks tests the checks.
namespace tapestry {
namespace {

using nlohmann::json;
using test::contains;
using test::Outcome;
using test::TinyWorkplace;
using test::TrainedWorkplace;

std::ptrdiff_t count_lines(const std::string& text, const std::string& status) {
  return std::ranges::count_if(test::split_lines(text),
                               [&](const std::string& line) { return line.starts_with(status); });
}

TEST_CASE("check prints a line for each check, and the number of checks that passed") {
  const TinyWorkplace work;
  const std::string out = work.out("check tiny.yaml model.norm=post");
  CHECK(out.starts_with("tiny.yaml, initial values\nok      causality     d(logits at t)/"));
  CHECK(out.ends_with("\n10 of 10 checks passed\n"));
  CHECK(count_lines(out, "") == 12);
  CHECK(contains(out, "gradients of 3 + 3 examples add up to the gradients of 6 "));
  CHECK(contains(out, " threads (float32, 22 examples)\n"));
  CHECK(contains(work.out("check tiny.yaml data.train_size=40 train.dtype=float64"),
                 " threads (float64, 32 examples)\n"));
  std::string list = "Checks:";
  for (const Check& check : all_checks()) {
    list += fmt::format("\n  {:<14}{}", check.name, check.meaning);
  }
  CHECK(contains(work.out("check --help"), list));

  const json result = json::parse(work.out("check tiny.yaml model.norm=post --json"));
  CHECK(result.at("model") == "tiny.yaml, initial values");
  CHECK(result.at("passed") == 10);
  CHECK(result.at("run") == 10);
  for (const json& check : result.at("checks")) {
    CHECK(check.at("status") == "passed");
    CHECK(contains(out, check.at("name").get<std::string>()));
    CHECK(check.at("details").is_string());
  }
}

TEST_CASE("the check of overfitting continues while the loss of a narrow model falls") {
  const TinyWorkplace work;
  const std::string out = work.out("check tiny.yaml model.d_model=4 model.d_ff=4");
  CHECK(contains(out, "ok      overfitting   loss of 6 examples from "));
  const std::size_t steps = out.find(" steps", out.find("overfitting"));
  CHECK(std::stoul(out.substr(out.rfind(' ', steps - 1) + 1)) > 600);
}

TEST_CASE("check of a trained run skips the initial loss") {
  const std::string out = TrainedWorkplace().out("check runs/tiny");
  CHECK(contains(out, "\nskipped initial loss  the model is trained; its loss is "));
  CHECK(out.ends_with("\n9 of 9 checks passed\n"));
}

TEST_CASE("a failed check is printed on a separate line and gives exit code 1") {
  const Outcome failed = TinyWorkplace().run("check tiny.yaml model.layer_norm_epsilon=1e30");
  CHECK(failed.code == 1);
  CHECK(failed.err.empty());
  CHECK(contains(failed.out, "\nFAILED  overfitting   loss of 6 examples from "));
  const auto passed = count_lines(failed.out, "ok      "),
             wrong = count_lines(failed.out, "FAILED");
  REQUIRE(passed + wrong + count_lines(failed.out, "skipped ") == 10);
  CHECK(failed.out.ends_with(fmt::format("\n{} of {} checks passed\n", passed, passed + wrong)));
}

TEST_CASE("gradcheck prints a line for each tensor and output and finds no wrong gradient") {
  const TinyWorkplace work;
  const std::string out = work.out("gradcheck tiny.yaml model.tie_embeddings=none");
  CHECK(out.starts_with("tiny.yaml, initial values with random offsets, float64, 3 examples\n"));
  test::check_words(
      out, {"\ngradients of the loss ", "\ngradients of the logits ",
            "\nencoder.layers.0.self_attn.q_proj.weight ", "\nsource (token vectors) ",
            "\nnot distinguishable from zero (zero, or below the rounding error):\n"
            "  encoder.layers.0.self_attn.k_proj.bias (of loss): norm ",
            "\n104 gradients: 98 agree, 6 too small, 0 wrong, 0 inconclusive; worst relative "});
  CHECK(work.contents().size() == 1);
}

TEST_CASE("gradcheck checks the trained values of a run directory or a checkpoint") {
  const TrainedWorkplace work;
  const Outcome run = work.run("gradcheck runs/tiny --coordinates 2");
  CHECK(run.code == 0);
  CHECK(run.out.starts_with("runs/tiny/checkpoints/step-"));
  CHECK(contains(run.out, " 0 wrong"));
  CHECK(work.out("gradcheck " + work.checkpoint(12) + " --coordinates 2 --directions 1")
            .starts_with(work.checkpoint(12) + ", step 12, float64, "));
}

TEST_CASE(
    "gradcheck checks 8 coordinates and 3 directions of each tensor, with seed 1, by default") {
  const TinyWorkplace work;
  const auto rows = [&](const std::string& options) {
    const json report = json::parse(work.out("gradcheck tiny.yaml --json " + options));
    CHECK(report.at("verdict") == "agrees");
    return report.at("rows");
  };
  const json usual = rows("");
  for (const json& row : usual) {
    CHECK(row.at("coordinates") == json{{"checked", 8}, {"inconclusive", 0}});
    CHECK(row.at("directions") == json{{"checked", 3}, {"inconclusive", 0}});
  }
  CHECK(rows("--seed 1 --coordinates 8 --directions 3") == usual);
  CHECK(rows("--seed 2")[0].at("worst_relative_error") != usual[0].at("worst_relative_error"));
  for (const json& row : rows("--coordinates 0 --directions 1")) {
    CHECK(row.at("coordinates").at("checked") == 0);
    CHECK(row.at("directions").at("checked") == 1);
  }
}

TEST_CASE("gradcheck rejects model keys for a trained model, and options with nothing to check") {
  test::check_rows(TrainedWorkplace(),
                   {{"gradcheck runs/tiny model.d_model=8", 2, {"model.d_model=8", "keeps its"}},
                    {"gradcheck runs/tiny model.d_model=16", 2, {"keeps its config"}},
                    {"gradcheck runs/tiny more", 2, {"more: expected only data files"}},
                    {"gradcheck tiny.yaml --coordinates 0 --directions 0", 2, {"nothing is left"}},
                    {"gradcheck tiny.yaml --coordinates -1", 2, {"--coordinates"}},
                    {"gradcheck", 2, {"MODEL is required"}}});
}

}  // namespace
}  // namespace tapestry
