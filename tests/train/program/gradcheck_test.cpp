#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/contains.h"
#include "tests/train/program.h"

/// `tapestry gradcheck` on the three kinds of model it takes, and what it prints.
namespace tapestry {
namespace {

using nlohmann::json;
using test::contains;
using test::Outcome;
using test::TrainedWorkplace;
using test::Workplace;

TEST_CASE("gradcheck prints a line for each tensor and output and finds no wrong gradient") {
  const Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  const Outcome done = work.run({"gradcheck", "tiny.yaml", "model.tie_embeddings=none"});
  CHECK(done.code == 0);
  CHECK(done.err.empty());
  CHECK(
      done.out.starts_with("tiny.yaml, initial values with random offsets, float64, 3 examples\n"));
  CHECK(contains(done.out, "\ngradients of the loss "));
  CHECK(contains(done.out, "\ngradients of the logits "));
  CHECK(contains(done.out, "\nencoder.layers.0.self_attn.q_proj.weight "));
  CHECK(contains(done.out, "\nsource (token vectors) "));
  CHECK(contains(done.out,
                 "\nnot distinguishable from zero (zero, or below the rounding error):\n"
                 "  encoder.layers.0.self_attn.k_proj.bias (of loss): norm "));
  CHECK(
      contains(done.out,
               "\n104 gradients: 98 agree, 6 too small, 0 wrong, 0 inconclusive; worst relative "));
  CHECK(work.contents().size() == 1);
}

TEST_CASE("gradcheck takes a run directory and a checkpoint, with their trained values") {
  const TrainedWorkplace work;
  const Outcome run = work.run({"gradcheck", "runs/tiny", "--coordinates", "2"});
  CHECK(run.code == 0);
  CHECK(run.out.starts_with("runs/tiny/checkpoints/step-"));
  CHECK(contains(run.out, " 0 wrong"));
  const Outcome file = work.run({"gradcheck", "runs/tiny/checkpoints/step-00000012.h5",
                                 "--coordinates", "2", "--directions", "1"});
  CHECK(file.code == 0);
  CHECK(file.out.starts_with("runs/tiny/checkpoints/step-00000012.h5, step 12, float64, "));
}

TEST_CASE("gradcheck --json prints one object with every figure") {
  const Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  const Outcome done =
      work.run({"gradcheck", "tiny.yaml", "--json", "--coordinates=1", "--directions=2"});
  CHECK(done.code == 0);
  const json report = json::parse(done.out);
  CHECK(report.at("model") == "tiny.yaml, initial values");
  CHECK(report.at("verdict") == "agrees");
  CHECK(report.at("first_wrong").is_null());
  const json& row = report.at("rows").at(0);
  CHECK(row.at("output") == "loss");
  CHECK(row.at("verdict") == "agrees");
  CHECK(row.at("shape").size() == 2);
  CHECK(row.at("coordinates") == json{{"checked", 1}, {"inconclusive", 0}});
  CHECK(row.at("gradient_norm").get<double>() > 0.0);
  CHECK(row.at("worst_relative_error").get<double>() < 1e-6);
}

TEST_CASE("gradcheck checks 8 coordinates and 3 directions of a tensor with seed 1") {
  const Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  const auto rows = [&](const std::vector<std::string>& options) {
    std::vector<std::string> arguments{"gradcheck", "tiny.yaml", "--json"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return json::parse(work.run(arguments).out).at("rows");
  };
  const json usual = rows({});
  for (const json& row : usual) {
    CHECK(row.at("coordinates") == json{{"checked", 8}, {"inconclusive", 0}});
    CHECK(row.at("directions") == json{{"checked", 3}, {"inconclusive", 0}});
  }
  CHECK(rows({"--seed", "1", "--coordinates", "8", "--directions", "3"}) == usual);
  const json other = rows({"--seed", "2"});
  // The model is the same, and the weight of the loss +-1 in all cases.
  CHECK(other[0].at("gradient_norm").get<double>() ==
        doctest::Approx(usual[0].at("gradient_norm").get<double>()).epsilon(1e-12));
  CHECK(other[0].at("worst_relative_error") != usual[0].at("worst_relative_error"));
  for (const json& row : rows({"--coordinates", "0", "--directions", "1"})) {
    CHECK(row.at("coordinates").at("checked") == 0);
    CHECK(row.at("directions").at("checked") == 1);
  }
}

TEST_CASE("gradcheck refuses overrides of a trained model") {
  const TrainedWorkplace work;
  for (const char* override : {"model.d_model=8", "model.d_model=7", "model.d_model=16", "more"}) {
    const Outcome refused = work.run({"gradcheck", "runs/tiny", override});
    CHECK(refused.code == 2);
    CHECK(refused.out.empty());
    CHECK(refused.err ==
          "tapestry: error: command line: " + std::string(override) +
              ": expected only data files and keys of decoding after runs/tiny, such as "
              "data.test_text=more.txt: a trained model keeps its config\n"
              "hint: leave it out, or name a config file\n");
  }
}

TEST_CASE("gradcheck refuses 0 coordinates together with 0 directions") {
  const Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  const Outcome refused =
      work.run({"gradcheck", "tiny.yaml", "--coordinates", "0", "--directions", "0"});
  CHECK(refused.code == 2);
  CHECK(refused.out.empty());
  CHECK(
      refused.err ==
      "tapestry: error: command line: --coordinates 0 --directions 0: nothing is left to compare\n"
      "hint: give one of them 1 or more\n");
}

TEST_CASE("gradcheck refuses an invalid number of coordinates") {
  const Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  CHECK(work.run({"gradcheck", "tiny.yaml", "--coordinates", "-1"}).code == 2);
  CHECK(work.run({"gradcheck"}).code == 2);
}

}  // namespace
}  // namespace tapestry
