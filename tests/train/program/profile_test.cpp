#include <doctest/doctest.h>

#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "tests/train/program.h"

/// What `tapestry train --profile` says.
namespace tapestry {
namespace {

using test::Outcome;
using test::Workplace;

/// The lines of the table, from its title to the line before the last.
std::vector<std::string> profile_in(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream all(text);
  for (std::string line; std::getline(all, line);) {
    const bool is_heading = line.find(" seconds by operation; ") != std::string::npos;
    if (is_heading || !lines.empty()) lines.push_back(line);
  }
  if (!lines.empty()) lines.pop_back();
  return lines;
}

bool has_row(const std::vector<std::string>& table, const std::string& name,
             const std::string& phase) {
  for (const std::string& line : table) {
    if (line.starts_with(name + " ") && line.find(" " + phase + " ") != std::string::npos) {
      return true;
    }
  }
  return false;
}

/// What stands before "%" in each row.
std::vector<double> shares_of(const std::vector<std::string>& table) {
  std::vector<double> shares;
  for (const std::string& line : table) {
    const auto end = line.find(" %");
    if (line.starts_with("in all") || end == std::string::npos) continue;
    const auto begin = line.rfind(' ', end - 1) + 1;
    shares.push_back(std::stod(line.substr(begin, end - begin)));
  }
  return shares;
}

void check_adds_up(const std::vector<std::string>& table) {
  const std::vector<double> shares = shares_of(table);
  REQUIRE(shares.size() > 10);
  double sum = 0.0;
  for (const double share : shares) sum += share;
  CHECK(std::abs(sum - 100.0) <= 0.05 * static_cast<double>(shares.size()) + 1e-9);
}

TEST_CASE("--profile prints a row for each operation and for the remaining time") {
  const Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  const Outcome done = work.run({"train", "tiny.yaml", "--profile"});
  CHECK(done.code == 0);
  CHECK(done.out.ends_with("\ndone: 12 steps; next: tapestry evaluate runs/tiny\n"));

  const std::vector<std::string> table = profile_in(done.out);
  for (const char* operation : {"linear", "scaled_dot_product_attention", "layer_norm"}) {
    CAPTURE(operation);
    for (const char* phase : {"forward", "backward", "inference"}) {
      CHECK(has_row(table, operation, phase));
    }
  }
  for (const char* other : {"optimizer step", "gradient norm", "batch preparation",
                            "validation and decoding", "saving", "everything else"}) {
    CAPTURE(other);
    CHECK(has_row(table, other, "other"));
  }
  check_adds_up(table);
  for (const std::string& line : table) {
    CHECK(test::read_text(work / "runs/tiny/train.log").find("  " + line + "\n") !=
          std::string::npos);
  }
}

TEST_CASE("--profile can be combined with --resume") {
  const test::TrainedWorkplace work;
  const Outcome done = work.run({"train", "--resume", "runs/tiny", "train.steps=14", "--profile"});
  CHECK(done.code == 0);
  const std::vector<std::string> table = profile_in(done.out);
  CHECK(has_row(table, "optimizer step", "other"));
  check_adds_up(table);
}

TEST_CASE("a run without --profile has no table") {
  const test::TrainedWorkplace work;
  CHECK(profile_in(work.trained.out).empty());
}

}  // namespace
}  // namespace tapestry
