// SPDX-License-Identifier: BSD-3-Clause
#include "train/report/report_data.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <ranges>
#include <set>
#include <string>

#include "tests/support/contains.h"
#include "tests/train/kinds.h"
#include "tests/train/run_files.h"
#include "train/base/error.h"
#include "train/checkpoint/metrics.h"
#include "train/config/config.h"
#include "train/config/load.h"
#include "train/tasks/data_source.h"

/// Tests the data of reports on trained runs.
namespace tapestry {
namespace {

using Json = nlohmann::ordered_json;
using test::contains;
using test::Points;

/// The points of a curve of a report.
Points curve_of(const Json& curves, const std::string& name, bool validation) {
  for (const Json& curve : curves) {
    if (curve["name"] != name || curve["validation"] != validation) continue;
    Points points;
    std::uint64_t step = 0;
    for (std::size_t i = 0; i < curve["steps"].size(); ++i) {
      points[step += curve["steps"][i].get<std::uint64_t>()] = curve["values"][i];
    }
    return points;
  }
  FAIL("there is no curve ", name);
  return {};
}

void check_equal(const Points& a, const Points& b) {
  REQUIRE(a.size() == b.size());
  for (const auto& [step, value] : a) {
    CHECK(value == doctest::Approx(b.at(step)).epsilon(1e-5));
  }
}

std::vector<std::uint64_t> steps_of(const Points& points) {
  const auto steps = std::views::keys(points);
  return {steps.begin(), steps.end()};
}

Json report_of(const std::vector<std::filesystem::path>& runs, const ReportOptions& options = {}) {
  ReportData data(options);
  for (const auto& run : runs) data.add(run.string());
  return data.json();
}

bool has_note(const Json& run, const std::string& part) {
  return std::ranges::any_of(
      run["notes"], [&](const Json& note) { return contains(note.get<std::string>(), part); });
}

TEST_CASE("the data of a run match its files") {
  const test::TrainedWorkplace work;
  const auto path = work / "runs/tiny";
  const Json json = report_of({path});
  REQUIRE(json["runs"].size() == 1);
  const Json& run = json["runs"][0];
  CHECK(run["name"] == "tiny");
  CHECK(run["kind"] == "seq2seq");
  CHECK(run["has_two_stacks"] == true);
  CHECK(run["steps"] == 12);
  CHECK(run["notes"].empty());
  CHECK(steps_of(curve_of(run["curves"], "target_tokens_per_second", false)) ==
        std::vector<std::uint64_t>{4, 8, 12});
  CHECK(run["history"]["processes"].size() == 1);
  CHECK(run["history"]["changes"].empty());
  CHECK_FALSE(run["history"]["log"].empty());

  REQUIRE(run["recording"]["samples"].size() == 2);
  CHECK(run["recording"]["samples"][0]["steps"] == Json{6, 12});
  CHECK(run["recording"]["samples"][0]["outputs"].size() == 2);
  const Json& block = run["recording"]["blocks"][0];
  for (const char* name : {"steps", "update_ratio", "gradient_norm", "weight_norm", "weights"}) {
    CHECK(block[name].size() == 2);
    CHECK_FALSE(block[name][1].is_null());
  }
  CHECK(run["history"]["profile"] == "");
  CHECK(run["time"]["seconds"].get<double>() > 0.0);
  CHECK(run["time"]["positions"].get<int>() > 0);
  CHECK(std::ranges::count(run["changed_keys"], "train.steps") == 1);
  CHECK(std::ranges::count(run["changed_keys"], "train.seed") == 0);

  const Json& held = run["held_out"];
  CHECK(held["set"] == "validation");
  CHECK(held["examples"] == 6);
  CHECK(held["shown"].size() == 6);
  std::set<int> numbers;
  double last = INFINITY;
  for (const Json& shown : held["shown"]) {
    numbers.insert(shown["number"].get<int>());
    CHECK(shown["loss"].get<double>() <= last);  // the worst examples are first
    CHECK(shown["labels"].get<int>() >= shown["hits"].get<int>());
    last = shown["loss"].get<double>();
  }
  CHECK(numbers == std::set<int>{1, 2, 3, 4, 5, 6});
  const Json& accuracy = held["accuracy"];
  for (const char* groups : {"by_length", "by_frequency"}) {
    std::uint64_t labels = 0, hits = 0;
    for (const Json& group : accuracy[groups]) {
      labels += group["labels"].get<std::uint64_t>();
      hits += group["hits"].get<std::uint64_t>();
    }
    CHECK(labels == accuracy["labels"]);
    CHECK(hits == accuracy["hits"]);
  }
  CHECK(json["differences"].empty());
  CHECK(json["groups"].empty());
}

TEST_CASE("each curve of metrics has the name and the values of its column") {
  const test::TrainedWorkplace work;
  const auto path = work / "runs/tiny";
  const Json curves = report_of({path}, {.examples = 0, .attention = 0})["runs"][0]["curves"];
  std::size_t compared = 0;
  for (const auto& [split, columns] : test::metrics_of(path)) {
    for (auto [name, points] : columns) {
      if (name == "target_tokens") continue;
      const auto& shown = name;  // clang 14 cannot capture structured bindings
      CAPTURE(shown);
      const bool validation = split == "validation";
      if (name == "loss" && !validation) {
        // The loss without label smoothing, ln(perplexity), is a separate curve.
        check_equal(curve_of(curves, "training_objective", false), points);
        points = columns.at("perplexity");
        for (auto& point : points) point.second = std::log(point.second);
      }
      check_equal(curve_of(curves, name, validation), points);
      ++compared;
    }
  }
  CHECK(compared == 10);
}

TEST_CASE("if only part of a set is scored, its losses belong to the scored examples") {
  const test::TrainedWorkplace work;
  const auto losses = [&](std::size_t scored) {
    std::map<int, double> found;
    const Json json =
        report_of({work / "runs/tiny"}, {.set = "test", .attention = 0, .scored = scored});
    for (const Json& shown : json["runs"][0]["held_out"]["shown"]) {
      found[shown["number"]] = shown["loss"];
    }
    return found;
  };
  const auto all = losses(100), some = losses(2);
  REQUIRE(all.size() == 4);
  REQUIRE(some.size() == 2);
  for (const int number : {1, 3}) {
    REQUIRE(some.contains(number));
    CHECK(some.at(number) == doctest::Approx(all.at(number)).epsilon(1e-4));
  }
}

TEST_CASE("accuracy and parameter count of a report equal the output of evaluate and inspect") {
  const test::TrainedWorkplace work;
  const Json run = report_of({work / "runs/tiny"}, {.set = "test"})["runs"][0];
  CHECK(run["held_out"]["set"] == "test");
  CHECK(run["evaluation"].is_null());
  const Json scores = Json::parse(work.run({"evaluate", "runs/tiny", "--json"}).out);
  const Json& accuracy = run["held_out"]["accuracy"];
  CHECK(accuracy["labels"] == scores["test"]["labels"]);
  CHECK(accuracy["hits"].get<double>() / accuracy["labels"].get<double>() ==
        doctest::Approx(scores["test"]["accuracy"].get<double>()));
  for (std::size_t i = 0; i < scores["examples"].size(); ++i) {
    for (const Json& shown : run["held_out"]["shown"]) {
      if (shown["number"] == i + 1) CHECK(shown["output"] == scores["examples"][i]["output"]);
    }
  }
  // The report shows the scores that evaluate has recorded.
  CHECK(report_of({work / "runs/tiny"})["runs"][0]["evaluation"]["test"] == scores["test"]);
  work.write("runs/tiny/evaluation.json", "[]");
  const Json damaged = report_of({work / "runs/tiny"})["runs"][0];
  CHECK(damaged["evaluation"].is_null());
  CHECK(has_note(damaged, "evaluation.json: found no JSON object"));
  const Json inspected = Json::parse(work.run({"inspect", "runs/tiny", "--json"}).out);
  CHECK(run["checkpoint"]["step"] == inspected["step"]);
  std::uint64_t values = 0;
  for (const Json& block : run["weights"]) {
    for (const Json& parameter : block["parameters"]) {
      const Json& statistics = parameter["statistics"];
      values += statistics["values"].get<std::uint64_t>();
      std::uint64_t counted = 0;
      for (const Json& count : statistics["counts"]) counted += count.get<std::uint64_t>();
      CHECK(counted == statistics["values"]);
    }
  }
  CHECK(values == inspected["model"]["parameters"]);
}

TEST_CASE("every layer and head of the attention samples has a row of weights for each query") {
  const test::TrainedWorkplace work;
  // The test set has examples of different lengths.
  const Json run =
      report_of({work / "runs/tiny"}, {.set = "test", .examples = 0, .attention = 2})["runs"][0];
  CHECK(run["held_out"]["shown"].empty());
  REQUIRE(run["attention"].size() == 2);
  for (const Json& sample : run["attention"]) {
    REQUIRE(sample["layers"].size() == 3);
    CHECK(sample["layers"][2]["layer"] == "decoder.layers.0.cross_attn");
    for (const Json& layer : sample["layers"]) {
      const std::size_t queries = sample["tokens"][layer["queries"].get<std::size_t>()].size();
      const std::size_t keys = sample["tokens"][layer["keys"].get<std::size_t>()].size();
      REQUIRE(layer["heads"].size() == 2);
      for (const Json& head : layer["heads"]) {
        const auto weights = head.get<std::vector<int>>();
        REQUIRE(weights.size() == queries * keys);
        for (std::size_t row = 0; row < queries; ++row) {
          int sum = 0;
          for (std::size_t key = 0; key < keys; ++key) sum += weights[row * keys + key];
          CHECK(std::abs(sum - 1000) <= static_cast<int>(keys));
        }
      }
    }
  }
  const auto max_length = [&](std::size_t i) {
    std::size_t length = 0;
    for (const Json& tokens : run["attention"][i]["tokens"]) {
      length = std::max(length, tokens.size());
    }
    return length;
  };
  CHECK(max_length(0) > max_length(1));
  const Json without = report_of({work / "runs/tiny"}, {.attention = 0})["runs"][0];
  CHECK(without["attention"].empty());
  const Json small = report_of({work / "runs/tiny"}, {.attention = 2, .attention_bytes = 1});
  CHECK(small["runs"][0]["attention"].empty());
  CHECK(has_note(small["runs"][0], "0 of 2 examples are shown"));
  const Json long_only = report_of({work / "runs/tiny"}, {.attention_tokens = 1});
  CHECK(has_note(long_only["runs"][0], "exceeds the limit of 1 tokens"));
}

TEST_CASE("runs are compared key by key, and runs with different seeds have mean and deviation") {
  const test::Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  REQUIRE(work.run({"train", "tiny.yaml", "train.run_dir=a"}).code == 0);
  REQUIRE(work.run({"train", "tiny.yaml", "train.run_dir=b", "train.seed=2"}).code == 0);
  REQUIRE(work.run({"train", "tiny.yaml", "train.run_dir=c/a", "model.d_ff=8"}).code == 0);
  const Json json = report_of({work / "a", work / "b", work / "c/a"}, {.examples = 0});
  CHECK(json["runs"][1]["name"] == "b");
  CHECK(json["runs"][0]["name"] == (work / "a").string());  // two runs are named "a"
  REQUIRE(json["differences"].size() == 2);
  CHECK(json["differences"][0] == Json{{"key", "model.d_ff"}, {"values", {"32", "32", "8"}}});
  CHECK(json["differences"][1] == Json{{"key", "train.seed"}, {"values", {"1", "2", "1"}}});
  REQUIRE(json["groups"].size() == 1);
  CHECK(json["groups"][0]["runs"] == Json{0, 1});
  const auto [step, a] = *curve_of(json["runs"][0]["curves"], "loss", true).begin();
  const double b = curve_of(json["runs"][1]["curves"], "loss", true).at(step);
  const Points mean = curve_of(json["groups"][0]["curves"], "loss", true);
  CHECK(steps_of(mean) == std::vector<std::uint64_t>{6, 12});
  CHECK(mean.at(step) == doctest::Approx((a + b) / 2).epsilon(1e-5));
  // The interval of two runs has one degree of freedom.
  CHECK(json["groups"][0]["t_975"] == doctest::Approx(12.706205).epsilon(1e-5));
  for (const Json& curve : json["groups"][0]["curves"]) {
    if (curve["name"] != "loss" || curve["validation"] != true) continue;
    CHECK(curve["deviation"][0] == doctest::Approx(std::abs(a - b) / std::sqrt(2.0)).epsilon(1e-3));
  }
  REQUIRE(work.run({"train", "tiny.yaml", "train.run_dir=d", "train.seed=3"}).code == 0);
  // A run that is given twice counts once. Three runs have two degrees of freedom.
  const Json three = report_of({work / "a", work / "b", work / "d", work / "a"}, {.examples = 0});
  REQUIRE(three["groups"].size() == 1);
  CHECK(three["groups"][0]["runs"] == Json{0, 1, 2});
  CHECK(three["groups"][0]["t_975"] == doctest::Approx(4.302653).epsilon(1e-5));
}

TEST_CASE("labels are grouped by their frequency in the training set") {
  const test::TrainedWorkplace work;
  const Json run =
      report_of({work / "runs/tiny"}, {.set = "test", .examples = 0, .attention = 0})["runs"][0];
  const Corpus corpus = load_corpus(parse_config(test::tiny_yaml, "tiny.yaml").data);
  std::map<std::int32_t, std::uint64_t> frequency;
  for (const Example& example : corpus.train) {
    for (const std::int32_t id : example.target) ++frequency[id];
    ++frequency[eos_id];
  }
  const auto group_of = [&](std::int32_t id) {
    std::uint64_t begin = 1;
    while (4 * begin <= frequency[id]) begin *= 4;
    return std::to_string(begin) + "-" + std::to_string(4 * begin - 1);
  };
  std::map<std::string, std::uint64_t> expected, found;
  for (const Example& example : corpus.test) {
    for (const std::int32_t id : example.target) ++expected[group_of(id)];
    ++expected[group_of(eos_id)];
  }
  for (const Json& group : run["held_out"]["accuracy"]["by_frequency"]) {
    found[group["name"]] = group["labels"];
  }
  CHECK(found == expected);
  CHECK(found.size() > 1);
}

TEST_CASE("a run without a validation set shows its test set only if asked") {
  const test::TinyWorkplace work;
  work.out("train tiny.yaml data.validation_size=0");
  const Json run = report_of({work / "runs/tiny"})["runs"][0];
  CHECK_FALSE(run.contains("held_out"));
  CHECK(has_note(run, "the run has no validation set"));
  CHECK(has_note(run, "--set test"));
  const Json asked = report_of({work / "runs/tiny"}, {.set = "test"})["runs"][0];
  CHECK(asked["held_out"]["set"] == "test");
}

TEST_CASE("the rows of the confusion matrix are the labels") {
  const test::KindWorkplace work;
  REQUIRE(
      work.run({"train", "classes.yaml", "train.steps=1", "schedule.learning_rate=1e-9"}).code ==
      0);
  const Json run = report_of({work / "runs/classes"})["runs"][0];
  const Json& accuracy = run["held_out"]["accuracy"];
  CHECK(accuracy["classes"] == Json{"no", "yes"});
  REQUIRE(accuracy["hits"] < accuracy["labels"]);  // otherwise the matrix is diagonal
  const auto counts = accuracy["confusion"].get<std::vector<std::uint64_t>>();
  REQUIRE(counts.size() == 4);
  CHECK(counts[0] + counts[1] == 4);
  CHECK(counts[2] + counts[3] == 7);
}

TEST_CASE("every kind of model has examples, accuracy, attention and weights") {
  const test::KindWorkplace work;
  for (const test::KindConfig& kind : test::kind_configs) {
    CAPTURE(kind.name);
    REQUIRE(work.run({"train", kind.name + ".yaml"}).code == 0);
    const Json run = report_of({work / ("runs/" + kind.name)}, {.attention_tokens = 40})["runs"][0];
    CHECK(run["notes"].empty());
    CHECK_FALSE(run["held_out"]["shown"].empty());
    CHECK(run["held_out"]["accuracy"]["labels"].get<std::size_t>() > 0);
    CHECK(run["attention"].size() > 0);
    CHECK(run["weights"].size() > 2);
    CHECK(run["labels_tokens"] == (kind.name == "tags"));
    const bool classes = kind.name == "classes" || kind.name == "agreement" ||
                         kind.name == "images" || kind.name == "tags";
    const std::size_t size = run["held_out"]["accuracy"]["classes"].size();
    CHECK((size > 1) == classes);
    std::uint64_t counted = 0;
    for (const Json& count : run["held_out"]["accuracy"]["confusion"]) {
      counted += count.get<std::uint64_t>();
    }
    if (classes) CHECK(counted == run["held_out"]["accuracy"]["labels"]);
    CHECK(run.contains("patches") == (kind.name == "images"));
    CHECK(run["held_out"]["shown"][0].contains("image") == (kind.name == "images"));
    const bool shows_tokens = kind.name == "language" || kind.name == "words";
    CHECK(run["held_out"]["shown"][0].contains("tokens") == shows_tokens);
  }
}

TEST_CASE("a report without details has only curves and configs of its runs") {
  const test::TrainedWorkplace work;
  const auto path = work / "runs/tiny";
  // Reading a truncated checkpoint would fail.
  for (const auto& file : std::filesystem::directory_iterator(path / "checkpoints")) {
    std::filesystem::resize_file(file.path(), 100);
  }
  const Json json = report_of({path, path}, {.details = false});
  CHECK(json["details"] == false);
  const Json& run = json["runs"][0];
  CHECK(run["notes"].empty());
  CHECK(run["kind"] == "seq2seq");
  CHECK_FALSE(run.contains("weights"));
  CHECK(run["recording"].is_null());
  CHECK(run["history"]["log"].empty());
  CHECK(run["history"]["processes"].size() == 1);
  check_equal(curve_of(run["curves"], "loss", true),
              test::metrics_of(path).at("validation").at("loss"));
}

TEST_CASE("the points of the curves are divided among the runs of a report") {
  const test::TemporaryFolder folder;
  std::string csv = std::string(metrics_heading) + "\n";
  for (int step = 1; step <= 3000; ++step) {
    csv += std::to_string(step) + ",1,train,0.5,1.6,,,0.1,1,30\n";
  }
  folder.write("metrics.csv", csv);
  folder.write("config.yaml", "data:\n  task: copy\n");
  std::filesystem::create_directory(folder / "checkpoints");
  const auto points_of = [&](std::size_t runs, std::size_t max_points) {
    const Json json =
        report_of(std::vector(runs, folder.path()), {.curve_points = max_points, .details = false});
    return json["runs"][0]["curves"][0]["steps"].size();
  };
  // If all values are equal, the minimum and the maximum of a part are the same point, so half of
  // the maximum number of points are kept.
  CHECK(points_of(1, 400) == 200);
  CHECK(points_of(2, 400) == 100);
  CHECK(points_of(40, 400) == 50);
  CHECK(points_of(2, 20) <= 20);
}

TEST_CASE("parts whose files cannot be read are left out, with a note") {
  test::KindWorkplace work;
  REQUIRE(work.run({"train", "classes.yaml"}).code == 0);
  const auto path = work / "runs/classes";
  const auto report = [&] { return report_of({path})["runs"][0]; };
  SUBCASE("data files") {
    std::filesystem::remove(work / "labels.txt");
    const Json run = report();
    CHECK(has_note(run, "held-out examples and attention are left out"));
    CHECK_FALSE(run.contains("held_out"));
    CHECK_FALSE(run["weights"].empty());
  }
  SUBCASE("checkpoints that do not exist yet") {
    std::filesystem::remove_all(path / "checkpoints");
    const Json run = report();
    CHECK(has_note(run, "the run has no checkpoint yet"));
    CHECK_FALSE(run.contains("weights"));
    CHECK_FALSE(run["curves"].empty());
    for (const char* name : {"metrics.csv", "events.jsonl", "train.log"}) {
      std::filesystem::remove(path / name);
    }
    CHECK(has_note(report(), "no step has been logged and saved yet"));
    CHECK(report()["curves"].empty());
  }
  SUBCASE("damaged checkpoints") {
    for (const auto& file : std::filesystem::directory_iterator(path / "checkpoints")) {
      std::filesystem::resize_file(file.path(), 100);
    }
    CHECK(has_note(report(), "all unusable"));
    CHECK_FALSE(report().contains("weights"));
  }
  SUBCASE("an empty metrics.csv, which the metrics of the checkpoint replace") {
    work.write("runs/classes/metrics.csv", "");
    const Json run = report();
    CHECK(has_note(run, "metrics.csv: line 1"));
    CHECK(curve_of(run["curves"], "loss", false).contains(4));  // up to the step of the checkpoint
  }
  SUBCASE("a kind of model that this program does not have") {
    std::ifstream file(path / "config.yaml");
    std::string config(std::istreambuf_iterator<char>(file), {});
    config.replace(config.find("kind: classifier"), 16, "kind: aligned");
    work.write("runs/classes/config.yaml", config);
    const Json run = report();
    CHECK(run["notes"].size() == 1);
    CHECK(has_note(run, "model.kind `aligned` is unknown to this program\nhint: "));
  }
  SUBCASE("a folder without a run, and a single checkpoint, which also contains metrics") {
    std::filesystem::create_directory(work / "folder");
    ReportData data({});
    CHECK_THROWS_AS(data.add((work / "folder").string()), CheckpointError);
    CHECK_THROWS_AS(data.add((work / "nothing").string()), CheckpointError);
    const Json run = report_of({path / "checkpoints" / "step-00000012.h5"})["runs"][0];
    CHECK(steps_of(curve_of(run["curves"], "loss", true)) == std::vector<std::uint64_t>{6, 12});
    CHECK_FALSE(run["weights"].empty());
  }
}

}  // namespace
}  // namespace tapestry
