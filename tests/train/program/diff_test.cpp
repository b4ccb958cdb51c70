#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/contains.h"
#include "tests/train/program.h"
#include "train/storage/checkpoint_file.h"

/// `tapestry diff`.
namespace tapestry {
namespace {

using test::contains;
using test::Outcome;

/// Flips the lowest bit of an element of an array of float32 in a checkpoint.
void flip_bit(const std::filesystem::path& path, const std::string& name, std::size_t element) {
  const Snapshot before = read_checkpoint(path);
  Snapshot after;
  for (const auto& [each, array] : before) {
    StoredArray copy = array;
    if (each == name) copy.bytes.at(4 * element) ^= std::byte{1};
    after.put(each, std::move(copy));
  }
  write_checkpoint(path, after);
}

struct TwoRuns : test::Workplace {
  TwoRuns() {
    write("tiny.yaml", test::tiny_yaml);
    for (const char* run : {"train.run_dir=a", "train.run_dir=b"}) {
      REQUIRE(this->run({"train", "tiny.yaml", run, "train.save_every=4"}).code == 0);
    }
  }
};

TEST_CASE("diff names the first step and tensor of two runs that differ in one bit") {
  const TwoRuns work;
  const Outcome same = work.run({"diff", "a", "b"});
  CHECK(same.code == 0);
  CHECK(same.out ==
        "step 6: all numbers are equal\nstep 8: all numbers are equal\n"
        "step 12: all numbers are equal\n");

  const std::string weight = "parameters/decoder.layers.0.ff.linear1.weight";
  flip_bit(work / "b/checkpoints/step-00000008.h5", weight, 16 * 3 + 5);
  const Outcome changed = work.run({"diff", "a", "b"});
  CHECK(changed.code == 1);
  CHECK(contains(changed.out, "step 6: all numbers are equal\nstep 8: 1 array differs\n"));
  CHECK(contains(changed.out, "  " + weight + ": 1 of 512 elements differ, the first at [3, 5]: "));
  CHECK_FALSE(contains(changed.out, "step 12"));
  const Outcome files =
      work.run({"diff", "a/checkpoints/step-00000008.h5", "b/checkpoints/step-00000008.h5"});
  CHECK(files.code == 1);
  CHECK(contains(files.out, weight));
}

TEST_CASE("diff names config keys, metrics and parameters of runs with other seeds") {
  const TwoRuns work;
  REQUIRE(work.run({"train", "tiny.yaml", "train.run_dir=c", "train.seed=5"}).code == 0);
  const Outcome seeds = work.run({"diff", "a", "c"});
  CHECK(seeds.code == 1);
  CHECK(contains(seeds.out, "metrics.csv differs first in:\n  4,1,train,"));
  CHECK(contains(seeds.out, "config: train.seed: 1 and 5\n"));
  CHECK(contains(seeds.out, "\n  parameters/"));
  CHECK(contains(seeds.out, "more; --all lists them\n"));
  CHECK(contains(work.run({"diff", "a", "c", "--all"}).out, "\n  optimizer/"));

  REQUIRE(work.run({"train", "tiny.yaml", "train.run_dir=d", "model.d_ff=48"}).code == 0);
  CHECK(contains(work.run({"diff", "a", "d", "--all"}).out, "shapes (32) and (48)"));
  CHECK(work.run({"diff", "a", "missing"}).code == 4);
  CHECK(work.run({"diff", "a"}).code == 2);
}

}  // namespace
}  // namespace tapestry
