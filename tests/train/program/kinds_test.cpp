// SPDX-License-Identifier: BSD-3-Clause
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/data/npy_files.h"
#include "tests/train/kinds.h"
#include "train/checkpoint/checkpoint_file.h"

/// Tests runs of every kind of model, and runs whose data files change before a resume.
namespace tapestry {
namespace {

namespace fs = std::filesystem;
using test::check_rejected;
using test::contains;
using test::KindWorkplace;
using test::Outcome;

TEST_CASE("a model of every kind is trained, scored, resumed, replayed and checked") {
  for (const test::KindConfig& kind : test::kind_configs) {
    CAPTURE(kind.name);
    const KindWorkplace work;
    const std::string config = kind.name + ".yaml", run = "runs/" + kind.name;
    const std::string out = work.out("train " + config);
    CHECK(contains(out, " training " + kind.examples + ", "));
    CHECK(contains(out, " images/s  ") == (kind.name == "images"));
    CHECK(contains(out, "  bits per character ") == (kind.name == "language"));
    CHECK(contains(out, "  bits per word ") == (kind.name == "words"));
    CHECK(contains(out, "\nvalidation at step 12: loss "));
    CHECK(out.ends_with("\ndone: 12 steps; next: tapestry evaluate " + run + "\n"));

    // The best scores in the log of the run are the scores of its best checkpoint.
    const std::string scores = work.out("evaluate " + run);
    const std::size_t end = out.rfind("  (best so far)\n"), begin = out.rfind(": loss ", end);
    const std::string held_out = std::to_string(kind.held_out);
    CHECK_MESSAGE(contains(scores, "\nvalidation  " + held_out + " held-out " + kind.examples +
                                       out.substr(begin, end - begin) + "\n"),
                  out, scores);
    CHECK_FALSE(contains(scores, "exact match"));
    const std::string listed = work.out("errors --set validation --examples 3 " + run);
    CHECK(contains(listed, "validation: the 3 of " + held_out + " " + kind.examples + " with the"));
    CHECK((contains(listed, "\n   expected  ") || contains(listed, "\n   tokens    ")));

    work.out("train " + config + " train.run_dir=parts train.steps=7 train.threads=2");
    work.out("train --resume parts train.steps=12");
    CHECK(work.read(work.checkpoint(12, "parts")) == work.read(work.checkpoint(12, run)));
    CHECK(work.read("parts/metrics.csv") == work.read(run + "/metrics.csv"));

    const Outcome replayed = work.run("replay --step 12 " + run);
    CHECK_MESSAGE(replayed.code == 0, replayed.err);
    CHECK(contains(replayed.out, "written: replay-step-00000012.h5\n"));
    CHECK(contains(replayed.out, ", bit for bit\n"));
    CHECK(read_checkpoint(work / "replay-step-00000012.h5").contains("batches/0/pixels") ==
          (kind.name == "images"));

    const std::string checked = work.out("check " + config);
    CHECK(checked.ends_with(" checks passed\n"));
    CHECK_FALSE(contains(checked, "FAILED"));
    CHECK(contains(checked, "\nskipped padding  ") == (kind.name == "images"));
    CHECK(contains(work.out("gradcheck --coordinates=2 --directions=1 " + config),
                   ", 0 wrong, 0 inconclusive;"));
  }
}

TEST_CASE("a run on NumPy files can be resumed, and changed labels require --allow-change") {
  const KindWorkplace work;
  std::vector<std::uint8_t> pixels(24 * 16), labels(24);
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    pixels[i] = static_cast<std::uint8_t>(i * 7 % 10);
  }
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::uint8_t>(i % 3);
  work.write("digits.npy", test::npy_file("|u1", "(24, 4, 4)", pixels));
  work.write("digits.labels.npy", test::npy_file("|u1", "(24,)", labels));
  work.out("train images.yaml data.train_images=digits.npy");
  work.out("train --resume runs/images train.steps=14");
  std::swap(labels[0], labels[1]);
  work.write("digits.labels.npy", test::npy_file("|u1", "(24,)", labels));
  const std::string resume = "train --resume runs/images train.steps=16";
  check_rejected(work, resume, 3,
                 {"digits.labels.npy (data.train_images.labels): found 152 bytes",
                  "--allow-change data.train_images"});
  work.out(resume + " --allow-change data.train_images");
}

TEST_CASE("--allow-change permits changed training examples, but not changed classes") {
  const KindWorkplace work;
  work.out("train classes.yaml");
  const std::string resume = "train --resume classes.yaml train.steps=14";
  const std::string allow = resume + " --allow-change data.train_text";
  work.write("labels.txt", "yes\ta day\nmaybe\tit rains\n");
  check_rejected(work, allow, 3, {"labels.txt:2: found the label \"maybe\", expected one of the"});
  work.write("labels.txt", "yes\ta day\n");
  check_rejected(work, resume, 3, {"or permit the change with --allow-change data.train_text"});
  work.out(allow + " --allow-change data.validation_text");
}

TEST_CASE("a resumed run warns if changed files change which examples are held out") {
  const std::string held_out_anew =
      "\nwarning: the held-out examples have changed; the run may have been trained on some of "
      "them\n";
  const KindWorkplace work;
  struct Changed {
    std::string run, file, key;
    bool is_cut;
  };
  for (const auto& [run, file, key, is_cut] :
       {Changed{"images", "images.csv", "data.train_images", true},
        Changed{"language", "text.txt", "data.train_text", true},
        Changed{"classes", "labels.txt", "data.train_text", false}}) {
    const auto& shown = run;  // clang 14 cannot capture a structured binding
    CAPTURE(shown);
    work.out("train " + run + ".yaml");
    work.write(file, work.read(file) + work.read(file));
    CHECK(contains(work.out("train --resume " + run + ".yaml train.steps=14 --allow-change " + key +
                            " --allow-change data.validation_text"),
                   held_out_anew) == is_cut);
  }
  fs::copy(work / "images.csv", work / "more.csv");
  const auto resumed = [&](const std::string& begun_with, const std::string& resumed_with) {
    work.out("train images.yaml --fresh train.steps=1 " + begun_with);
    return contains(work.out("train --resume runs/images train.steps=2 --allow-change "
                             "data.test_images --allow-change data.validation_images " +
                             resumed_with),
                    held_out_anew);
  };
  CHECK(resumed("data.test_images=", "data.test_images=more.csv"));
  CHECK(resumed("data.test_images=more.csv", "data.test_images="));
  CHECK(resumed("data.validation_images=more.csv", "data.validation_images="));
  CHECK_FALSE(resumed("data.test_images=more.csv", "train.log_every=3"));
}

}  // namespace
}  // namespace tapestry
