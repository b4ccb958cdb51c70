#include <filesystem>
#include <regex>
#include <string>

#include "tests/train/program.h"
#include "train/checkpoint/checkpoint_file.h"

/// `tapestry diff`, and what replay says of a run that differs from its config and data.
namespace tapestry {
namespace {

using test::check_words;
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

struct TwoRuns : test::TinyWorkplace {
  TwoRuns() {
    for (const std::string run : {"a", "b"}) train(run, "train.save_every=4");
  }
  void train(const std::string& run, const std::string& more) const {
    REQUIRE(this->run("train tiny.yaml train.run_dir=" + run + " " + more).code == 0);
  }
  /// What diff prints of two runs that differ.
  std::string diff(const std::string& runs) const {
    const Outcome done = run("diff " + runs);
    CHECK(done.code == 1);
    return done.out;
  }
};

TEST_CASE("diff names the first step and tensor of two runs that differ in one bit") {
  const TwoRuns work;
  CHECK(work.out("diff a b") ==
        "events.jsonl: the parameters are equal up to step 12\n"
        "step 6: all numbers are equal\nstep 8: all numbers are equal\n"
        "step 12: all numbers are equal\n");
  const std::string weight = "parameters/decoder.layers.0.ff.linear1.weight";
  flip_bit(work / work.checkpoint(8, "b"), weight, 16 * 3 + 5);
  const std::string changed = work.diff("a b");
  check_words(changed, {"step 6: all numbers are equal\nstep 8: 1 array differs\n",
                        "  " + weight + ": 1 of 512 elements differ, the first at [3, 5]: ",
                        "  b/checkpoints/step-00000008.h5: this tensor has changed after step 8"});
  CHECK_FALSE(contains(changed, "step 12: "));
  CHECK_FALSE(contains(changed, "  a/checkpoints"));
  CHECK(changed.ends_with("\nfirst difference: step 8, " + weight + "\n"));
  CHECK(contains(work.diff(work.checkpoint(8, "a") + " " + work.checkpoint(8, "b")), weight));
}

/// Trains run b again, and flips the sign of a moment of the gradient of the bias of the output
/// after step 8, so that one tensor differs after step 9. The checkpoint of step 8 is removed.
struct OneBitAtStepNine : TwoRuns {
  OneBitAtStepNine() {
    std::filesystem::remove_all(*this / "b");
    train("b", "train.save_every=4 --until 8");
    flip_bit(*this / checkpoint(8, "b"), "optimizer/first_moment/output.bias", 2, 31);
    REQUIRE(run("train --resume b").code == 0);
    std::filesystem::remove(*this / checkpoint(8, "b"));
  }
};

TEST_CASE("diff and replay name the step and tensor of one bit that differs between checkpoints") {
  const OneBitAtStepNine work;
  const std::string exact = work.diff("a b");
  check_words(exact, {"events.jsonl: the parameters are equal up to step 8\n"
                      "events.jsonl: step 9: 1 tensor differs: output.bias\n"
                      "step 6: all numbers are equal\nstep 12: "});
  CHECK(exact.ends_with("\nfirst difference: step 9, output.bias\n"));
  CHECK_FALSE(contains(exact, "has changed after"));

  // The replay of each run says which of them its own config and data do not give.
  const Outcome good = work.run("replay a --step 10 --output a.h5");
  CHECK_MESSAGE(good.code == 0, good.err);
  const Outcome bad = work.run("replay b --step 10 --output b.h5");
  CHECK(bad.code == 1);
  check_words(bad.err,
              {"warning: the weights after step 9 are not those of the run", "output.bias"});
  CHECK_FALSE(contains(bad.err, "after step 10"));

  // It does not compare digests of other tensors.
  const std::string events = work.read("b/events.jsonl");
  work.write("b/events.jsonl", std::regex_replace(events, std::regex("output.bias"), "offset"));
  const Outcome other = work.run("replay b --step 10 --output c.h5");
  CHECK(contains(other.err, "events.jsonl is not compared"));
  CHECK_FALSE(contains(other.err, "are not those of the run"));

  // Without digests, diff knows the states before and after.
  std::filesystem::remove(work / "a/events.jsonl");
  check_words(work.diff("a b"), {"events.jsonl: the runs have no digests of the same tensors and",
                                 "\nfirst difference: in steps 7 to 12, parameters/",
                                 "\nhint: train both with train.digest_every=1 "});
}

TEST_CASE("with digests of some steps diff prints the steps between two of them") {
  const TwoRuns work;
  for (const std::string run : {"a", "b"}) {
    work.train(run, "train.digest_every=3 train.save_every=12 --fresh");
  }
  std::string events = work.read("b/events.jsonl");
  const std::string begin = R"({"step":9,"event":"digests","digests":[")";
  char& digit = events.at(events.find(begin) + begin.size());
  digit = digit == '0' ? '1' : '0';
  work.write("b/events.jsonl", events);
  check_words(work.run("diff a b").out,
              {"events.jsonl: the parameters are equal up to step 6\n",
               "\nfirst difference: in steps 7 to 9, ", "train.digest_every=1 "});
}

TEST_CASE("diff names config keys, metrics and parameters of runs with other seeds") {
  const TwoRuns work;
  work.train("c", "train.seed=5");
  check_words(work.diff("a c"),
              {"metrics.csv differs first in:\n  4,1,train,", "config: train.seed: 1 and 5\n",
               "events.jsonl: step 1: ", "\n  parameters/", "more; --all lists them\n",
               "\nfirst difference: step 1, target_embedding.weight\n"});
  CHECK(contains(work.diff("a c --all"), "\n  optimizer/"));
  work.train("d", "model.d_ff=48");
  CHECK(contains(work.diff("a d --all"), "shapes (32) and (48)"));
  check_rejected(work, "diff a missing", 4, {"missing"});
  check_rejected(work, "diff a", 2, {"is required"});
}

}  // namespace
}  // namespace tapestry
