// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "layers/basic_layers.h"
#include "layers/parameters.h"
#include "optim/adam.h"
#include "tests/train/program.h"
#include "train/base/program.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/checkpoint/parameter_file.h"

/// Tests `tapestry inspect`.
namespace tapestry {
namespace {

using nlohmann::json;
using test::check_words;
using test::contains;
using test::TinyWorkplace;
using test::TrainedWorkplace;

TEST_CASE("inspect lists the arrays, numbers and config of a checkpoint") {
  const TrainedWorkplace work;
  const ArrayStore snapshot = read_checkpoint(work / work.checkpoint(12));
  const std::string out = work.out("inspect " + work.checkpoint(12));
  CHECK(out.starts_with(
      fmt::format("{}: step 12, {} arrays, {:.1f} MB, written by version {}\n"
                  "digest of all numbers: ",
                  work.checkpoint(12), snapshot.size(),
                  static_cast<double>(snapshot.byte_size()) / 1e6, program_version)));
  std::string one_blank = out;
  const auto two_blanks = [](char a, char b) { return a == ' ' && b == ' '; };
  one_blank.erase(std::unique(one_blank.begin(), one_blank.end(), two_blanks), one_blank.end());
  const double best = snapshot.get_scalar<double>("train/best_loss");
  check_words(one_blank, {"\noptimizer/steps uint64 () 12\n",
                          fmt::format("\ntrain/best_loss float64 () {}\n", best),
                          "\nparameters/encoder.layers.0.ff.linear1.weight float32 (32, 16) mean ",
                          "\nconfig:\ndata:\n task: copy\n"});

  // The expected mean, deviation, norm, and histogram of ten intervals with one digit per interval.
  const auto values = snapshot.get<float>("parameters/encoder.norm.weight");
  const auto n = static_cast<double>(values.size());
  double mean = 0.0, variance = 0.0, squares = 0.0;
  for (const float value : values) mean += value / n;
  for (const float value : values) variance += (value - mean) * (value - mean) / n;
  for (const float value : values) squares += double{value} * value;
  const auto [low, high] = std::ranges::minmax(values);
  std::array<std::size_t, 10> counts{};
  for (const float value : values) {
    const double place = 10 * (double{value} - low) / (double{high} - low);
    ++counts[std::min<std::size_t>(9, static_cast<std::size_t>(place))];
  }
  std::string histogram;
  const std::size_t most = std::ranges::max(counts);
  for (const std::size_t count : counts) {
    histogram += static_cast<char>('0' + (9 * count + most - 1) / most);
  }
  CHECK(contains(one_blank,
                 fmt::format("\nparameters/encoder.norm.weight float32 (16) mean {:+.3e} deviation "
                             "{:.3e} norm {:.3e} {:+.2e} [{}] {:+.2e}\n",
                             mean, std::sqrt(variance), std::sqrt(squares), low, histogram, high)));
}

TEST_CASE("inspect --json prints every array, the texts and the blocks of the model") {
  const TrainedWorkplace work;
  const json listed = json::parse(work.run("inspect runs/tiny --json").out);
  const std::string text = work.run("inspect runs/tiny").out;
  check_words(text,
              {fmt::format("{}: step {}, {} arrays, ", listed.at("checkpoint").get<std::string>(),
                           listed.at("step").get<int>(), listed.at("arrays").size()),
               "digest of all numbers: " + listed.at("digest").get<std::string>() + "\n",
               "\nencoder.layers.0 ", "  (32, 16)\n", " tensors, all trainable\n"});
  CHECK(text.ends_with("\nconfig:\n" + listed.at("config").get<std::string>()));
  check_words(work.trained.out, {"\nblocks: ", "; encoder.layers.0 "});
  bool has_mean = false;
  std::size_t parameters = 0, tensors = 0;
  for (const json& array : listed.at("arrays")) {
    const std::string name = array.at("name");
    CHECK(contains(text, "\n" + name + " "));
    std::size_t size = 1;
    for (const json& extent : array.at("shape")) size *= extent.get<std::size_t>();
    if (name == "train/step") {
      CHECK(array.at("value") == listed.at("step"));
      CHECK(array.at("type") == "uint64");
    }
    if (name.starts_with("parameters/")) {
      parameters += size;
      ++tensors;
    }
    if (!array.contains("mean")) continue;
    has_mean = has_mean || array.at("deviation").get<double>() > 0.0;
    CHECK(array.at("norm").get<double>() >= 0.0);
    std::size_t counted = 0;
    for (const json& count : array.at("histogram").at("counts")) {
      counted += count.get<std::size_t>();
    }
    CHECK(counted == size);
  }
  CHECK(has_mean);

  const json& model = listed.at("model");
  CHECK(model.at("parameters") == parameters);
  CHECK(model.at("trainable") == parameters);
  CHECK(model.at("frozen") == 0);
  CHECK(model.at("tensors") == tensors);
  std::size_t in_blocks = 0;
  for (const json& block : model.at("blocks")) {
    in_blocks += block.at("count").get<std::size_t>() * block.at("parameters").get<std::size_t>();
  }
  CHECK(in_blocks == parameters);
}

TEST_CASE("inspect lists the checkpoints of a run with their sizes and validation losses") {
  const TrainedWorkplace work;
  const json listed = json::parse(work.run("inspect runs/tiny --json").out);
  std::set<std::uint64_t> steps;
  std::size_t best = 0, validated = 0;
  for (const json& each : listed.at("checkpoints")) {
    const std::string path = each.at("checkpoint");
    const auto step = each.at("step").get<std::uint64_t>();
    steps.insert(step);
    CHECK(each.at("bytes") == std::filesystem::file_size(work / path));
    CHECK(std::filesystem::path(path) == work.checkpoint(step));
    CHECK(each.at("newest").get<bool>() == (step == 12));
    best += each.at("best").get<bool>() ? 1 : 0;
    if (each.at("best").get<bool>()) CHECK(step == listed.at("step"));
    if (each.at("validation_loss").is_null()) continue;
    ++validated;
    CHECK(contains(work.read("runs/tiny/metrics.csv"),
                   fmt::format("\n{},{},validation,", step, step == 12 ? 2 : 1)));
  }
  CHECK(steps.contains(12));
  CHECK(best == 1);
  CHECK(validated >= 1);
  check_words(work.run("inspect runs/tiny").out,
              {"checkpoint       size  validation loss\n", "newest\n"});
  const json of_file = json::parse(work.out("inspect --json " + work.checkpoint(12)));
  CHECK(of_file.at("checkpoints").empty());
}

TEST_CASE("inspect lists the parameters of a file written by save_parameters") {
  const TinyWorkplace work;
  Parameters parameters(DType::float32, 1);
  const Linear layer(Scope(parameters) / "head", 3, 2);
  const Adam adam(parameters.list());
  save_parameters(parameters, adam, work / "own.h5");
  const std::string listed = work.out("inspect own.h5");
  CHECK(listed.starts_with("own.h5: parameters of a custom program (save_parameters), 8 arrays, "));
  check_words(listed, {"\nparameters/head.weight ", "\noptimizer/first_moment/head.bias "});
  CHECK_FALSE(contains(listed, "config"));
  const json parsed = json::parse(work.out("inspect own.h5 --json"));
  CHECK(parsed.at("step").is_null());
  CHECK(parsed.at("config").is_null());
  CHECK(parsed.at("history") == "");
  CHECK(parsed.at("arrays").size() == 8);
}

}  // namespace
}  // namespace tapestry
