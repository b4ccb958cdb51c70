#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "tests/support/contains.h"
#include "tests/train/program.h"
#include "train/checkpoint/checkpoint_file.h"

/// `tapestry diff`.
namespace tapestry {
namespace {

using test::contains;
using test::Outcome;

/// Flips a bit of an element of an array of float32 in a checkpoint: bit 0 is the lowest, bit 31
/// the sign.
void flip_bit(const std::filesystem::path& path, const std::string& name, std::size_t element,
              std::size_t bit = 0) {
  const ArrayStore before = read_checkpoint(path);
  ArrayStore after;
  for (const auto& [each, array] : before) {
    StoredArray copy = array;
    if (each == name) copy.bytes.at(4 * element + bit / 8) ^= std::byte{1} << (bit % 8);
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
        "events.jsonl: the parameters are equal up to step 12\n"
        "step 6: all numbers are equal\nstep 8: all numbers are equal\n"
        "step 12: all numbers are equal\n");

  const std::string weight = "parameters/decoder.layers.0.ff.linear1.weight";
  flip_bit(work / "b/checkpoints/step-00000008.h5", weight, 16 * 3 + 5);
  const Outcome changed = work.run({"diff", "a", "b"});
  CHECK(changed.code == 1);
  CHECK(contains(changed.out, "step 6: all numbers are equal\nstep 8: 1 array differs\n"));
  CHECK(contains(changed.out, "  " + weight + ": 1 of 512 elements differ, the first at [3, 5]: "));
  CHECK_FALSE(contains(changed.out, "step 12: "));
  CHECK(contains(changed.out,
                 "  b/checkpoints/step-00000008.h5: this tensor has changed after step 8 was "
                 "computed: events.jsonl has another digest\n"));
  CHECK_FALSE(contains(changed.out, "  a/checkpoints"));
  CHECK(changed.out.ends_with("\nfirst difference: step 8, " + weight + "\n"));
  CHECK_FALSE(contains(changed.out, "hint:"));
  const Outcome files =
      work.run({"diff", "a/checkpoints/step-00000008.h5", "b/checkpoints/step-00000008.h5"});
  CHECK(files.code == 1);
  CHECK(contains(files.out, weight));
}

/// Trains run b again, and flips the sign of a moment of the gradient of the bias of the output
/// after step 8, so that one tensor differs after step 9. The checkpoint of step 8 is removed.
struct OneBitAtStepNine : TwoRuns {
  OneBitAtStepNine() {
    std::filesystem::remove_all(*this / "b");
    REQUIRE(
        run({"train", "tiny.yaml", "train.run_dir=b", "train.save_every=4", "--until", "8"}).code ==
        0);
    const auto checkpoint = *this / "b/checkpoints/step-00000008.h5";
    flip_bit(checkpoint, "optimizer/first_moment/output.bias", 2, 31);
    REQUIRE(run({"train", "--resume", "b"}).code == 0);
    std::filesystem::remove(checkpoint);
  }
};

TEST_CASE("diff names the step and tensor of one bit that differs between two checkpoints") {
  const OneBitAtStepNine work;
  const Outcome exact = work.run({"diff", "a", "b"});
  CHECK(exact.code == 1);
  CHECK(contains(exact.out,
                 "events.jsonl: the parameters are equal up to step 8\n"
                 "events.jsonl: step 9: 1 tensor differs: output.bias\n"
                 "step 6: all numbers are equal\nstep 12: "));
  CHECK(exact.out.ends_with("\nfirst difference: step 9, output.bias\n"));
  CHECK_FALSE(contains(exact.out, "has changed after"));

  // The replay of each run says which of them its own config and data do not give.
  const Outcome good = work.run({"replay", "a", "--step", "10", "--output", "a.h5"});
  CHECK_MESSAGE(good.code == 0, good.err);
  const Outcome bad = work.run({"replay", "b", "--step", "10", "--output", "b.h5"});
  CHECK(bad.code == 1);
  CHECK(contains(bad.err,
                 "warning: the weights after step 9 are not those of the run: the first tensor "
                 "with another digest than in events.jsonl is output.bias\n"));
  CHECK_FALSE(contains(bad.err, "after step 10"));
}

TEST_CASE("replay does not compare digests of other tensors") {
  const OneBitAtStepNine work;
  const std::string events = test::read_text(work / "b/events.jsonl");
  work.write("b/events.jsonl", std::regex_replace(events, std::regex("output.bias"), "offset"));
  const Outcome done = work.run({"replay", "b", "--step", "10", "--output", "b.h5"});
  CHECK(contains(done.err, "events.jsonl is not compared: it has the digests of other tensors\n"));
  CHECK_FALSE(contains(done.err, "are not those of the run"));
}

TEST_CASE("without digests diff prints the steps between the last equal and first unequal states") {
  const OneBitAtStepNine work;
  std::filesystem::remove(work / "a/events.jsonl");
  const Outcome done = work.run({"diff", "a", "b"});
  CHECK(done.code == 1);
  CHECK(
      contains(done.out, "events.jsonl: the runs have no digests of the same tensors and steps\n"));
  CHECK(contains(done.out, "\nfirst difference: in steps 7 to 12, parameters/"));
  CHECK(done.out.ends_with(
      "\nhint: train both with train.digest_every=1 for the exact step and its first tensor\n"));
}

TEST_CASE("with digests of some steps diff prints the steps between two of them") {
  test::Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  const auto train = [&](const std::string& run, const std::string& more) {
    REQUIRE(work.run({"train", "tiny.yaml", "train.run_dir=" + run, "train.digest_every=3", more})
                .code == 0);
  };
  train("a", "train.save_every=12");
  train("b", "train.save_every=12");
  std::string events = test::read_text(work / "b/events.jsonl");
  const std::string begin = R"({"step":9,"event":"digests","digests":[")";
  char& digit = events.at(events.find(begin) + begin.size());
  digit = digit == '0' ? '1' : '0';
  work.write("b/events.jsonl", events);
  const Outcome done = work.run({"diff", "a", "b"});
  CHECK(contains(done.out, "events.jsonl: the parameters are equal up to step 6\n"));
  CHECK(contains(done.out, "\nfirst difference: in steps 7 to 9, "));
  CHECK(done.out.ends_with(
      "\nhint: train both with train.digest_every=1 for the exact step and its first tensor\n"));
}

TEST_CASE("diff names config keys, metrics and parameters of runs with other seeds") {
  const TwoRuns work;
  REQUIRE(work.run({"train", "tiny.yaml", "train.run_dir=c", "train.seed=5"}).code == 0);
  const Outcome seeds = work.run({"diff", "a", "c"});
  CHECK(seeds.code == 1);
  CHECK(contains(seeds.out, "metrics.csv differs first in:\n  4,1,train,"));
  CHECK(contains(seeds.out, "config: train.seed: 1 and 5\n"));
  CHECK(contains(seeds.out, "events.jsonl: step 1: "));
  CHECK(contains(seeds.out, "\n  parameters/"));
  CHECK(contains(seeds.out, "\nfirst difference: step 1, target_embedding.weight\n"));
  CHECK(contains(seeds.out, "more; --all lists them\n"));
  CHECK(contains(work.run({"diff", "a", "c", "--all"}).out, "\n  optimizer/"));

  REQUIRE(work.run({"train", "tiny.yaml", "train.run_dir=d", "model.d_ff=48"}).code == 0);
  CHECK(contains(work.run({"diff", "a", "d", "--all"}).out, "shapes (32) and (48)"));
  CHECK(work.run({"diff", "a", "missing"}).code == 4);
  CHECK(work.run({"diff", "a"}).code == 2);
}

}  // namespace
}  // namespace tapestry
