#include <doctest/doctest.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "layers/basic_layers.h"
#include "layers/parameters.h"
#include "optim/adam.h"
#include "tests/support/contains.h"
#include "tests/train/kind_configs.h"
#include "tests/train/refusal.h"
#include "train/checkpoint/parameter_file.h"

/// `inspect` of a file of parameters, and `--json` of evaluate, inspect and check, and `--threads`
/// of all commands that apply models.
namespace tapestry {
namespace {

using nlohmann::json;
using test::Arguments;
using test::check_refusal;
using test::contains;
using test::KindWorkplace;
using test::Outcome;

struct ScoredWorkplace : KindWorkplace {
  ScoredWorkplace() {
    write("tiny.yaml", test::tiny_yaml);
    REQUIRE(run({"train", "tiny.yaml"}).code == 0);
  }

  json parsed(Arguments arguments, int code = 0) const {
    arguments.push_back("--json");
    const Outcome done = run(arguments);
    CHECK(done.code == code);
    CHECK(done.err.empty());
    return json::parse(done.out);
  }
};

TEST_CASE("evaluate --json has the scores and examples that evaluate prints") {
  const ScoredWorkplace work;
  const json scores = work.parsed({"evaluate", "runs/tiny", "--examples", "2"});
  const std::string text = work.run({"evaluate", "runs/tiny", "--examples", "2"}).out;
  const std::string model = scores.at("model");
  CHECK(text.starts_with(model));
  CHECK(model.ends_with(", step " + std::to_string(scores.at("step").get<int>())));
  for (const char* set : {"validation", "test"}) {
    CAPTURE(set);
    const json& of = scores.at(set);
    char line[250];
    std::snprintf(line, sizeof(line),
                  "%-10s  %d held-out pairs: loss %.4f  perplexity %.3f  tokens %.2f %%"
                  "  exact match %.2f %%  BLEU %.2f  chrF %.2f\n",
                  set, of.at("examples").get<int>(), of.at("loss").get<double>(),
                  of.at("perplexity").get<double>(), 100 * of.at("accuracy").get<double>(),
                  100 * of.at("exact_match").get<double>(), of.at("bleu").get<double>(),
                  of.at("chrf").get<double>());
    CHECK(contains(text, line));
    CHECK(of.at("labels").get<int>() > of.at("examples").get<int>());
    CHECK(of.at("unknown_tokens") == 0.0);
  }
  const json& signatures = scores.at("signatures");
  CHECK(signatures.at("bleu") == "BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0");
  CHECK(signatures.at("chrf") ==
        "chrF2|nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0");
  for (const json& signature : signatures) {
    CHECK(contains(text, "\nsignature   " + signature.get<std::string>() + "\n"));
  }
  REQUIRE(scores.at("examples").size() == 2);
  CHECK(contains(text, "input     " + scores.at("examples")[1].at("input").get<std::string>() +
                           "\noutput    "));
  for (const char* key : {"output", "expected"}) CHECK(scores.at("examples")[0].contains(key));
}

TEST_CASE("a missing set is null in JSON, and so are scores that are no numbers") {
  const ScoredWorkplace work;
  REQUIRE(work.run({"train", "classes.yaml"}).code == 0);
  const json scores = work.parsed({"evaluate", "runs/classes"});
  CHECK(scores.at("test").is_null());
  CHECK(scores.at("signatures") == json::object());
  CHECK(scores.at("validation").at("accuracy").is_number());
}

TEST_CASE("inspect lists the parameters of a file that save_parameters has written") {
  const KindWorkplace work;
  Parameters parameters(DType::float32, 1);
  const Linear layer(Scope(parameters) / "head", 3, 2);
  const Adam adam(parameters.list());
  save_parameters(parameters, adam, work / "own.h5");
  const Outcome listed = work.run({"inspect", "own.h5"});
  CHECK(listed.code == 0);
  CHECK(listed.out.starts_with(
      "own.h5: parameters of a custom program (save_parameters), 8 arrays, 0.0 MB, written by "));
  CHECK(contains(listed.out, "\nparameters/head.weight "));
  CHECK(contains(listed.out, "\noptimizer/first_moment/head.bias "));
  CHECK_FALSE(contains(listed.out, "config"));
  const json parsed = json::parse(work.run({"inspect", "own.h5", "--json"}).out);
  CHECK(parsed.at("step").is_null());
  CHECK(parsed.at("config").is_null());
  CHECK(parsed.at("history") == "");
  CHECK(parsed.at("arrays").size() == 8);
}

TEST_CASE("inspect --json has every array, and the texts") {
  const ScoredWorkplace work;
  const json listed = work.parsed({"inspect", "runs/tiny"});
  const std::string text = work.run({"inspect", "runs/tiny"}).out;
  CHECK(contains(text, listed.at("checkpoint").get<std::string>() + ": step " +
                           std::to_string(listed.at("step").get<int>()) + ", " +
                           std::to_string(listed.at("arrays").size()) + " arrays, "));
  CHECK(contains(text, "digest of all numbers: " + listed.at("digest").get<std::string>() + "\n"));
  CHECK(text.ends_with("\nconfig:\n" + listed.at("config").get<std::string>()));
  bool has_value = false, has_mean = false;
  for (const json& array : listed.at("arrays")) {
    CHECK(contains(text, "\n" + array.at("name").get<std::string>() + " "));
    CHECK(array.at("shape").is_array());
    if (array.at("name") == "train/step") {
      has_value = array.at("value") == listed.at("step") && array.at("type") == "uint64";
    }
    has_mean = has_mean || (array.contains("mean") && array.at("deviation").get<double>() > 0.0);
    if (!array.contains("mean")) continue;
    CHECK(array.at("norm").get<double>() >= 0.0);
    std::size_t values = 0;
    for (const json& count : array.at("histogram").at("counts")) values += count.get<std::size_t>();
    std::size_t expected = 1;
    for (const json& extent : array.at("shape")) expected *= extent.get<std::size_t>();
    CHECK(values == expected);
  }
  CHECK(has_value);
  CHECK(has_mean);
}

TEST_CASE("check --json has the status of each check") {
  const ScoredWorkplace work;
  const json result = work.parsed({"check", "tiny.yaml"});
  CHECK(result.at("model") == "tiny.yaml, initial values");
  const std::string text = work.run({"check", "tiny.yaml"}).out;
  CHECK(contains(text, std::to_string(result.at("passed").get<int>()) + " of " +
                           std::to_string(result.at("run").get<int>()) + " checks passed"));
  int passed = 0;
  for (const json& check : result.at("checks")) {
    passed += check.at("status") == "passed" ? 1 : 0;
    CHECK(contains(text, check.at("name").get<std::string>()));
    CHECK(check.at("details").is_string());
  }
  CHECK(passed == result.at("passed"));
}

TEST_CASE("train.threads above 1024 is refused") {
  const ScoredWorkplace work;
  const Outcome refused = work.run({"train", "tiny.yaml", "train.threads=1025"});
  CHECK(refused.code == 2);
  CHECK(contains(refused.err, "expected a whole number from 0 to 1024, found \"1025\""));
}

TEST_CASE("the number of threads changes no answer, and is limited") {
  const ScoredWorkplace work;
  REQUIRE(work.run({"train", "classes.yaml"}).code == 0);
  REQUIRE(work.run({"train", "tags.yaml"}).code == 0);
  REQUIRE(work.run({"train", "masked.yaml"}).code == 0);
  REQUIRE(work.run({"train", "language.yaml"}).code == 0);
  for (const Arguments& arguments : std::vector<Arguments>{
           {"evaluate", "runs/tiny"},
           {"errors", "runs/tiny"},
           {"attention", "runs/tiny"},
           {"gradcheck", "runs/tiny"},
           {"translate", "runs/tiny"},
           {"classify", "runs/classes"},
           {"tag", "runs/tags"},
           {"fill", "runs/masked"},
           {"generate", "runs/language", "a", "--tokens", "9"},
       }) {
    CAPTURE(arguments[0]);
    Arguments one = arguments, many = arguments;
    one.insert(one.end(), {"--threads", "1"});
    many.insert(many.end(), {"--threads", "1025"});
    const std::set<std::string> line_commands = {"translate", "classify", "tag", "fill"};
    const std::string input = line_commands.contains(arguments[0]) ? "a b\n" : "";
    const Outcome done = work.run(one, input);
    CHECK(done.code == 0);
    CHECK(done.out == work.run(arguments, input).out);
    check_refusal(
        work, many, 2,
        "command line: --threads: expected a whole number from 0 to 1024, found \"1025\"\n"
        "hint: see `tapestry " +
            arguments[0] + " --help`",
        input);
  }
}

}  // namespace
}  // namespace tapestry
