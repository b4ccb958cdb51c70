#include "train/loop/digests.h"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"
#include "tests/train/program.h"

namespace tapestry {
namespace {

/// Two parameters and a buffer.
struct Tensors {
  Parameters parameters{DType::float32, 1};

  Tensors() {
    parameters.create("a.weight", {3, 2}, normal_initializer(1.0));
    parameters.create("a.bias", {2}, zeros_initializer());
    parameters.create_buffer("norm.running_mean", {4}, zeros_initializer());
  }

  /// Changes the sign of a 0 in the second parameter, one bit.
  void flip_bit() {
    Tensor bias = parameters.list()[1].tensor;
    bias.mutable_values<float>()[1] *= -1.0F;
  }
};

std::vector<std::uint32_t> digests_of(const Tensors& tensors) {
  return compute_digests(tensors.parameters);
}

TEST_CASE("one bit changes the digest of its tensor and of no other one") {
  Tensors tensors;
  const auto before = digests_of(tensors);
  REQUIRE(before.size() == 3);
  CHECK(digests_of(Tensors()) == before);
  tensors.flip_bit();
  const auto after = digests_of(tensors);
  CHECK(after[0] == before[0]);
  CHECK(after[1] != before[1]);
  CHECK(after[2] == before[2]);
}

// XXH3 of 8 and 16 zero bytes, by the Python package xxhash.
TEST_CASE("a digest is the low half of XXH3") {
  const auto digests = digests_of(Tensors());
  CHECK(digests[1] == 0x6f87acd9);
  CHECK(digests[2] == 0xc7528968);
}

TEST_CASE("digests are read as they were recorded") {
  const test::TemporaryFolder folder;
  Tensors tensors;
  EventLog log(folder / events_file_name, 0, 0);
  add_digests(log, 1, tensors.parameters, true);
  tensors.flip_bit();
  add_digests(log, 3, tensors.parameters, false);
  add_digests(log, 4, tensors.parameters, true);
  const DigestTable table = read_digests(read_events_file(folder.path()));
  CHECK(table.names == std::vector<std::string>{"a.weight", "a.bias", "norm.running_mean"});
  CHECK(table.steps == std::vector<std::uint64_t>{1, 3, 4});
  const auto last = digests_of(tensors);
  CHECK(std::vector(table.row(1).begin(), table.row(1).end()) == last);
  CHECK(table.row(0)[0] == last[0]);
  CHECK(table.row(0)[1] != last[1]);
  CHECK(table.find(3) == 1);
  CHECK_FALSE(table.find(2).has_value());
  CHECK_FALSE(table.find(5).has_value());
}

std::string event(int step, const std::string& digests, const std::string& names = "") {
  return "{\"step\":" + std::to_string(step) + ",\"event\":\"digests\"," +
         (names.empty() ? "" : "\"tensors\":" + names + ",") + "\"digests\":" + digests + "}\n";
}

TEST_CASE("reading digests ends at the first event that is not valid") {
  const std::string good = event(1, R"(["00000001","0000000f"])", R"(["a","b"])");
  CHECK(read_digests(good).digests == std::vector<std::uint32_t>{1, 15});
  for (const std::string& bad :
       {event(2, R"(["00000001"])"), event(2, R"(["00000001","0000000g"])"),
        event(2, R"(["00000001","2"])"), event(1, R"(["00000001","00000002"])"),
        event(2, R"([1,2])"), event(2, R"(["00000001","00000002"])", R"(["a","c"])"),
        event(2, "1")}) {
    CAPTURE(bad);
    const DigestTable table = read_digests(good + bad + event(7, R"(["00000001","00000002"])"));
    CHECK(table.steps == std::vector<std::uint64_t>{1});
    CHECK(table.digests == std::vector<std::uint32_t>{1, 15});
  }
  CHECK(read_digests(event(1, R"(["00000001"])")).steps.empty());  // of no known tensor
}

DigestTable table_of(const std::vector<std::array<std::uint32_t, 3>>& rows) {
  DigestTable table{.names = {"a", "b"}};
  for (const auto& [step, a, b] : rows) {
    table.steps.push_back(step);
    table.digests.insert(table.digests.end(), {a, b});
  }
  return table;
}

TEST_CASE("the first step and tensors with other digests are found among the steps of both runs") {
  const DigestTable a = table_of({{1, 1, 1}, {2, 2, 2}, {3, 3, 3}, {4, 4, 4}});
  const auto equal = compare_digests(a, a);
  REQUIRE(equal.has_value());
  CHECK(equal->equal_step == 4);
  CHECK(equal->step == 0);
  const auto one = compare_digests(a, table_of({{1, 1, 1}, {2, 2, 2}, {3, 3, 9}, {4, 9, 9}}));
  REQUIRE(one.has_value());
  CHECK(one->equal_step == 2);
  CHECK(one->step == 3);
  CHECK(one->tensors == std::vector<std::string>{"b"});
  const auto later = compare_digests(a, table_of({{2, 2, 2}, {4, 9, 9}}));
  REQUIRE(later.has_value());
  CHECK(later->equal_step == 2);
  CHECK(later->step == 4);
  CHECK(later->tensors == std::vector<std::string>{"a", "b"});
  CHECK(compare_digests(a, table_of({{1, 9, 1}}))->equal_step == 0);
  CHECK_FALSE(compare_digests(a, table_of({{5, 1, 1}})).has_value());
  DigestTable other = a;
  other.names = {"a", "c"};
  CHECK_FALSE(compare_digests(a, other).has_value());
  CHECK_FALSE(compare_digests({}, {}).has_value());
}

DigestTable digests_of_run(const std::filesystem::path& run) {
  return read_digests(read_events_file(run));
}

TEST_CASE("the digests of a resumed run are those of an uninterrupted run") {
  const test::Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  REQUIRE(work.run({"train", "tiny.yaml", "train.run_dir=whole"}).code == 0);
  const DigestTable whole = digests_of_run(work / "whole");
  CHECK(whole.steps == std::vector<std::uint64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  REQUIRE(work.run({"train", "tiny.yaml", "train.run_dir=parts", "--until", "7"}).code == 0);
  REQUIRE(work.run({"train", "--resume", "parts", "train.threads=3"}).code == 0);
  CHECK(digests_of_run(work / "parts").steps == whole.steps);
  CHECK(digests_of_run(work / "parts").digests == whole.digests);
  // A process that was killed after steps that it had not saved.
  REQUIRE(work.run({"train", "tiny.yaml", "train.run_dir=killed"}).code == 0);
  std::filesystem::remove(work / "killed/checkpoints/step-00000012.h5");
  REQUIRE(work.run({"train", "--resume", "killed"}).code == 0);
  CHECK(digests_of_run(work / "killed").steps == whole.steps);
  CHECK(digests_of_run(work / "killed").digests == whole.digests);
}

TEST_CASE("train.digest_every is the number of steps between digests, and 0 records none") {
  const test::Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  REQUIRE(work.run({"train", "tiny.yaml", "train.run_dir=some", "train.digest_every=5"}).code == 0);
  CHECK(digests_of_run(work / "some").steps == std::vector<std::uint64_t>{5, 10});
  REQUIRE(work.run({"train", "tiny.yaml", "train.run_dir=none", "train.digest_every=0"}).code == 0);
  CHECK(digests_of_run(work / "none").steps.empty());
}

}  // namespace
}  // namespace tapestry
