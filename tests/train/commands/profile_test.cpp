#include <cmath>
#include <string>
#include <vector>

#include "tests/train/program.h"

/// What `tapestry train --profile` says.
namespace tapestry {
namespace {

using test::contains;
using test::Words;

/// The lines of the table, from its title to the line before the last.
Words profile_in(const std::string& text) {
  Words lines;
  for (const std::string& line : test::split_lines(text)) {
    if (contains(line, " seconds by operation; ") || !lines.empty()) lines.push_back(line);
  }
  if (!lines.empty()) lines.pop_back();
  return lines;
}

bool has_row(const Words& table, const std::string& name, const std::string& phase) {
  for (const std::string& line : table) {
    if (line.starts_with(name + " ") && contains(line, " " + phase + " ")) return true;
  }
  return false;
}

/// The shares before "%" in the rows add up to 100.
void check_adds_up(const Words& table) {
  double sum = 0.0;
  std::size_t shares = 0;
  for (const std::string& line : table) {
    const auto end = line.find(" %");
    if (line.starts_with("in all") || end == line.npos) continue;
    const auto begin = line.rfind(' ', end - 1) + 1;
    sum += std::stod(line.substr(begin, end - begin));
    ++shares;
  }
  REQUIRE(shares > 10);
  CHECK(std::abs(sum - 100.0) <= 0.05 * static_cast<double>(shares) + 1e-9);
}

TEST_CASE("--profile prints a row for each operation and for the remaining time") {
  const test::TinyWorkplace work;
  const std::string out = work.out("train tiny.yaml --profile");
  CHECK(out.ends_with("\ndone: 12 steps; next: tapestry evaluate runs/tiny\n"));
  const Words table = profile_in(out);
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
    CHECK(contains(work.read("runs/tiny/train.log"), "  " + line + "\n"));
  }
}

TEST_CASE("--profile can be combined with --resume, and without it there is no table") {
  const test::TrainedWorkplace work;
  CHECK(profile_in(work.trained.out).empty());
  const Words table = profile_in(work.out("train --resume runs/tiny train.steps=14 --profile"));
  CHECK(has_row(table, "optimizer step", "other"));
  check_adds_up(table);
}

}  // namespace
}  // namespace tapestry
