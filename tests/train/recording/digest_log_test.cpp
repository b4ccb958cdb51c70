#include "train/recording/digest_log.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/contains.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/program.h"

namespace tapestry {
namespace {

using test::contains;
using test::read_text;

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
  std::vector<std::uint32_t> digests;
  compute_digests(tensors.parameters, digests);
  return digests;
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

TEST_CASE("a row of digests.csv has the step and the digests of all tensors") {
  const test::TemporaryFolder folder;
  Tensors tensors;
  DigestLog log(folder / "digests.csv", tensors.parameters, 0);
  log.add(1);
  tensors.flip_bit();
  log.add(3);
  CHECK_FALSE(log.problem().has_value());
  const std::string text = read_text(folder / "digests.csv");
  CHECK(text.starts_with("step,a.weight,a.bias,norm.running_mean\n1,"));
  const DigestTable table = read_digests(folder.path());
  CHECK(table.names == std::vector<std::string>{"a.weight", "a.bias", "norm.running_mean"});
  CHECK(table.steps == std::vector<std::uint64_t>{1, 3});
  const auto last = digests_of(tensors);
  CHECK(std::vector(table.row(1).begin(), table.row(1).end()) == last);
  CHECK(table.row(0)[0] == last[0]);
  CHECK(table.row(0)[1] != last[1]);
  CHECK(table.find(3) == 1);
  CHECK_FALSE(table.find(2).has_value());
  CHECK_FALSE(table.find(4).has_value());
}

TEST_CASE("digests.csv is continued without later steps and incomplete lines") {
  const test::TemporaryFolder folder;
  const auto path = folder / "digests.csv";
  const Tensors tensors;
  {
    DigestLog log(path, tensors.parameters, 0);
    for (const std::uint64_t step : {1, 2, 3}) log.add(step);
  }
  const std::string whole = read_text(path);
  folder.write("digests.csv", whole + "4,0123");
  { const DigestLog again(path, tensors.parameters, 9); }
  CHECK(read_text(path) == whole);
  DigestLog log(path, tensors.parameters, 1);
  CHECK(read_digests(folder.path()).steps == std::vector<std::uint64_t>{1});
  log.add(2);
  log.add(3);
  CHECK(read_text(path) == whole);
  log.drop_after(0);
  CHECK(read_text(path) == whole.substr(0, whole.find('\n') + 1));
  folder.write("digests.csv", "step,of,another,model\n1,00000000\n");
  { const DigestLog again(path, tensors.parameters, 9); }
  CHECK(read_text(path) == whole.substr(0, whole.find('\n') + 1));
}

TEST_CASE("reading digests.csv ends at the first invalid line") {
  const std::string heading = "step,a,b\n", row = "1,00000001,0000000f\n";
  CHECK(parse_digests(heading + row).digests == std::vector<std::uint32_t>{1, 15});
  for (const std::string bad :
       {"2,00000001\n", "2,00000001,00000002,00000003\n", "2,00000001,0000000g\n", "2,00000001,2\n",
        "x,00000001,00000002\n", "1,00000001,00000002\n", "2;00000001,00000002\n", "\n",
        "2,00000001,00000002"}) {
    CAPTURE(bad);
    const DigestTable table = parse_digests(heading + row + bad + "7,00000001,00000002\n");
    CHECK(table.steps == std::vector<std::uint64_t>{1});
    CHECK(table.digests == std::vector<std::uint32_t>{1, 15});
  }
  for (const std::string bad : {"", "step", "step,a", "a,b\n1,00000001\n"}) {
    CAPTURE(bad);
    CHECK(parse_digests(bad).steps.empty());
  }
}

DigestTable table_of(const std::string& rows) { return parse_digests("step,a,b\n" + rows); }

TEST_CASE("the first step and tensors with other digests are found among the steps of both runs") {
  const std::string rows = "1,00000001,00000001\n2,00000002,00000002\n";
  const DigestTable a = table_of(rows + "3,00000003,00000003\n4,00000004,00000004\n");
  const auto equal = compare_digests(a, a);
  REQUIRE(equal.has_value());
  CHECK(equal->equal_step == 4);
  CHECK(equal->step == 0);
  const auto one =
      compare_digests(a, table_of(rows + "3,00000003,00000009\n4,00000009,00000009\n"));
  REQUIRE(one.has_value());
  CHECK(one->equal_step == 2);
  CHECK(one->step == 3);
  CHECK(one->tensors == std::vector<std::string>{"b"});
  const auto later = compare_digests(a, table_of("2,00000002,00000002\n4,00000009,00000009\n"));
  REQUIRE(later.has_value());
  CHECK(later->equal_step == 2);
  CHECK(later->step == 4);
  CHECK(later->tensors == std::vector<std::string>{"a", "b"});
  CHECK(compare_digests(a, table_of("1,00000009,00000001\n"))->equal_step == 0);
  CHECK_FALSE(compare_digests(a, table_of("5,00000001,00000001\n")).has_value());
  CHECK_FALSE(compare_digests(a, parse_digests("step,a,c\n" + rows)).has_value());
  CHECK_FALSE(compare_digests({}, {}).has_value());
}

TEST_CASE("the digests of a resumed run are those of an uninterrupted run") {
  const test::Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  REQUIRE(work.run({"train", "tiny.yaml", "train.run_dir=whole"}).code == 0);
  const std::string whole = read_text(work / "whole/digests.csv");
  CHECK(parse_digests(whole).steps ==
        std::vector<std::uint64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  REQUIRE(work.run({"train", "tiny.yaml", "train.run_dir=parts", "--until", "7"}).code == 0);
  REQUIRE(work.run({"train", "--resume", "parts", "train.threads=3"}).code == 0);
  CHECK(read_text(work / "parts/digests.csv") == whole);
  // A process that was killed after steps that it had not saved.
  REQUIRE(work.run({"train", "tiny.yaml", "train.run_dir=killed"}).code == 0);
  std::filesystem::remove(work / "killed/checkpoints/step-00000012.h5");
  REQUIRE(work.run({"train", "--resume", "killed"}).code == 0);
  CHECK(read_text(work / "killed/digests.csv") == whole);
}

TEST_CASE("train.digest_every is the number of steps between rows, and 0 writes no file") {
  const test::Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  REQUIRE(work.run({"train", "tiny.yaml", "train.run_dir=some", "train.digest_every=5"}).code == 0);
  CHECK(read_digests(work / "some").steps == std::vector<std::uint64_t>{5, 10});
  REQUIRE(work.run({"train", "tiny.yaml", "train.run_dir=none", "train.digest_every=0"}).code == 0);
  CHECK_FALSE(std::filesystem::exists(work / "none/digests.csv"));
}

TEST_CASE("a digests.csv that cannot be written is a warning of the run") {
  const test::TrainedWorkplace work;
  std::filesystem::remove(work / "runs/tiny/digests.csv");
  std::filesystem::create_directory(work / "runs/tiny/digests.csv");
  const auto done = work.run({"train", "--resume", "runs/tiny", "train.steps=14"});
  CHECK(done.code == 0);
  CHECK(contains(done.out, "\nwarning: runs/tiny/digests.csv: could not be written: "));
}

}  // namespace
}  // namespace tapestry
