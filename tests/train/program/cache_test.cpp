// SPDX-License-Identifier: BSD-3-Clause
#include <filesystem>
#include <string>
#include <vector>

#include "tests/train/program.h"
#include "train/checkpoint/checkpoint_file.h"

/// Tests data.cache and data.corpus_weights, from the config to the checkpoints of a run.
namespace tapestry {
namespace {

namespace fs = std::filesystem;
using test::check_rejected;
using test::contains;
using test::Outcome;

/// A translation task of two corpora, some of whose pairs are too long for the model.
struct CacheWorkplace : test::Workplace {
  CacheWorkplace() {
    std::string source, target, long_source = "eins zwei drei zwei eins zwei drei zwei eins\n";
    const std::vector<std::string> words = {"eins", "zwei", "drei", "vier", "acht"};
    const std::vector<std::string> translated = {"one", "two", "three", "four", "eight"};
    for (std::size_t i = 0; i < 22; ++i) {
      const std::size_t a = i % 5, b = i * 7 % 5;
      source += words[a] + " " + words[b] + (i % 3 == 0 ? " .\n" : "\n");
      target += translated[a] + " " + translated[b] + "\n";
    }
    write("a.de", source + long_source);
    write("a.en", target + "one\n");
    write("b.de", "acht acht\n" + long_source + "vier\n");
    write("b.en", "eight eight\none\nfour\n");
    write("v.de", "eins acht\nzwei .\n");
    write("v.en", "one eight\ntwo\n");
    write("pairs.yaml", R"(data:
  task: parallel_text
  train_source: [a.de, b.de]
  train_target:
    - a.en
    - "b.en"
  corpus_weights: [1, 3]
  validation_source: v.de
  validation_target: v.en
  on_bad_line: skip
model: {d_model: 16, num_heads: 2, d_ff: 32, num_encoder_layers: 1, num_decoder_layers: 1, max_length: 8}
schedule: {learning_rate: 0.01}
train: {steps: 12, batch_size: 4, threads: 1, log_every: 4, validate_every: 6, save_every: 5}
)");
  }

  Outcome train(const std::string& directory, const std::string& more) const {
    return run("train pairs.yaml train.run_dir=" + directory + " " + more);
  }
  /// Resumes the run in a directory.
  Outcome resume(const std::string& directory, const std::string& more) const {
    return run("train --resume " + directory + " " + more);
  }
  fs::path cache(const std::string& directory) const {
    return *this / (directory + "/cache/train.examples");
  }

  /// Checks that the last checkpoints of two runs are equal except for the config, and that their
  /// metrics are equal.
  void check_same(const std::string& a, const std::string& b) const {
    const ArrayStore first = read_checkpoint(*this / (a + last));
    const ArrayStore second = read_checkpoint(*this / (b + last));
    CHECK(first.size() == second.size());
    for (const auto& entry : first) {
      CAPTURE(entry.first);
      if (entry.first != "config") CHECK(second.at(entry.first) == entry.second);
    }
    CHECK(read(a + "/metrics.csv") == read(b + "/metrics.csv"));
  }

  const std::string last = "/checkpoints/step-00000012.h5";
};

TEST_CASE("a run gives the same bits whether its examples are in memory or in a file") {
  const CacheWorkplace work;
  for (const std::string kind : {"", "train.batch_size=1 train.batch_tokens=24",
                                 "data.subwords=unigram data.vocabulary_size=21 "
                                 "data.subword_alpha=0.2 model.max_length=30"}) {
    CAPTURE(kind);
    const Outcome memory = work.train("memory", kind + " data.cache=never --fresh");
    REQUIRE(memory.code == 0);
    CHECK_FALSE(contains(memory.out, "cache:"));
    CHECK_FALSE(work.has("memory/cache"));
    const Outcome cached = work.train("cached", kind + " data.cache=always --fresh");
    REQUIRE(cached.code == 0);
    CHECK(contains(cached.out, "of tokenized examples in a memory-mapped file"));
    CHECK(fs::exists(work.cache("cached")));
    work.check_same("memory", "cached");
    if (!kind.empty()) continue;
    // 22 pairs of one corpus, and the 2 pairs of the other corpus three times each.
    CHECK(contains(memory.out, "data: 28 training pairs"));
    test::check_words(cached.out, {"data: 28 training pairs", "a.de:23: found 10 tokens"});
    for (const std::string key : {"data.cache=never", "data.cache=always"}) {
      const Outcome stopped = work.train("stopped", key + " data.on_bad_line=stop");
      CHECK(stopped.code == 3);
      test::check_words(stopped.err, {"a.de:23: found 10 tokens", "b.de:2: found 10 tokens"});
    }
  }
}

TEST_CASE(
    "a new run reuses the cache of the run that it replaces only if the vocabularies are equal") {
  const CacheWorkplace work;
  std::string target = work.read("a.en");
  work.write("c.en", target.replace(target.find("two"), 3, "new"));  // a word that occurs once
  const std::string one =
      "data.train_source=a.de data.train_target=c.en data.corpus_weights=[1] --fresh ";
  REQUIRE(work.train("run", one + "data.cache=always").code == 0);
  REQUIRE(work.train("run", one + "data.cache=always data.min_frequency=2").code == 0);
  REQUIRE(work.train("memory", one + "data.cache=never data.min_frequency=2").code == 0);
  work.check_same("memory", "run");
}

TEST_CASE("a run resumes bit-identically if its cache is missing, damaged or changed") {
  const CacheWorkplace work;
  REQUIRE(work.train("whole", "data.cache=always").code == 0);
  const auto check = [&](const auto& change, const std::string& said,
                         const std::string& more = "train.threads=3") {
    REQUIRE(work.train("halves", "data.cache=always train.steps=7 --fresh").code == 0);
    change();
    const Outcome resumed = work.resume("halves", "train.steps=12 " + more);
    CHECK(resumed.code == 0);
    CHECK(contains(resumed.out, said));
    CHECK(said.empty() == !contains(resumed.out, "recreated"));
    work.check_same("whole", "halves");
  };
  const fs::path file = work.cache("halves");
  const std::string stray = "halves/cache/.train.examples.tmp-1-0";
  check([] {}, "");
  check([&] { fs::remove_all(file.parent_path()); }, "");
  check([&] { fs::resize_file(file, fs::file_size(file) - 1); }, "is damaged or was cut off");
  check(
      [&] {
        std::string bytes = test::read_text(file);
        bytes[20] = static_cast<char>(bytes[20] ^ 1);
        test::write_text(file, bytes);
      },
      "is damaged: its digest differs");
  check([&] { test::write_text(file, "of another program"); }, "train.examples: is ");
  check([] {}, "", "data.cache=never");
  check(
      [&] {
        fs::remove(file);
        work.write(stray, "left by a crash");
      },
      "");
  CHECK_FALSE(work.has(stray));
}

TEST_CASE("a dry run, a run with no steps left and commands other than train write no cache") {
  const CacheWorkplace work;
  CHECK(work.train("dry", "data.cache=always --dry-run").code == 0);
  CHECK_FALSE(work.has("dry"));
  REQUIRE(work.train("run", "data.cache=always").code == 0);
  const std::string scores = work.out("evaluate run");
  CHECK(contains(scores, "validation"));
  fs::remove(work.cache("run"));
  CHECK(work.out("evaluate run") == scores);
  CHECK(work.resume("run", "--dry-run train.steps=20").code == 0);
  CHECK_FALSE(fs::exists(work.cache("run")));

  // Scoring also works without the training files.
  work.write("a.de", "not UTF-8: \xFF\n");
  CHECK(work.out("evaluate run") == scores);
  CHECK(work.run("errors run --set validation").code == 0);
  CHECK(work.run("evaluate run 'data.train_source=[a.de, b.de]'").code == 3);
  CHECK(work.run("gradcheck run").code == 3);
}

TEST_CASE("--fresh moves the old run without its cache, and only if the new run can begin") {
  const CacheWorkplace work;
  REQUIRE(work.train("run", "data.cache=always").code == 0);
  const auto before = work.read("run" + work.last);
  const Outcome bad = work.train("run", "data.cache=always data.on_bad_line=stop --fresh");
  CHECK(bad.code == 3);
  CHECK(work.read("run" + work.last) == before);
  CHECK_FALSE(work.has("run.old-1"));
  CHECK(work.resume("run", "train.steps=13").code == 0);

  const Outcome fresh = work.train("run", "data.cache=always --fresh");
  CHECK(fresh.code == 0);
  CHECK_FALSE(contains(fresh.out, "warning: run/cache"));
  CHECK(work.read("run.old-1" + work.last) == before);
  CHECK(fs::exists(work.cache("run")));
  CHECK_FALSE(fs::exists(work.cache("run.old-1")));
  CHECK(work.resume("run.old-1", "train.steps=14").code == 0);
  CHECK(fs::exists(work.cache("run.old-1")));
}

TEST_CASE("a run that cannot write its cache ends with exit code 5") {
  const CacheWorkplace work;
  work.write("blocked", "");
  CHECK(work.train("blocked/run", "data.cache=always").code == 5);
  REQUIRE(work.train("run", "data.cache=always train.steps=7").code == 0);
  fs::remove_all(work / "run/cache");
  work.write("run/cache", "a file");
  check_rejected(work, "train --resume run train.steps=12", 5, {"run/cache"});
  CHECK(work.resume("run", "train.steps=12 data.cache=never").code == 0);
}

TEST_CASE("--allow-change permits changes of data files and of data.corpus_weights") {
  const CacheWorkplace work;
  REQUIRE(work.train("run", "data.cache=always train.steps=7").code == 0);
  work.write("b.en", "eight four\none\nfour\n");
  const Outcome rejected = work.resume("run", "train.steps=12");
  CHECK(rejected.code == 3);
  test::check_words(rejected.err,
                    {"b.en (data.train_target[2]): found ", "--allow-change data.train_target"});
  const std::string files = " --allow-change data.train_target";
  CHECK(contains(work.resume("run", "train.steps=9" + files).out, "warning: changed "));
  const std::string weights = "train.steps=12 'data.corpus_weights=[2, 1]'";
  CHECK(work.resume("run", weights).code == 2);
  const Outcome changed = work.resume("run", weights + " --allow-change data.corpus_weights");
  CHECK(changed.code == 0);
  test::check_words(changed.out, {"data: 46 training pairs", "with the first batch of an epoch"});
  const std::string other = "train pairs.yaml train.run_dir=other ";
  check_rejected(work, other + "data.corpus_weights=[1,2,3]", 2,
                 {"`corpus_weights` has 3 weights, but `data.train_source` names 2 files"});
  check_rejected(work, other + "data.train_target=a.en", 2,
                 {"`train_source` names 2 files, but `train_target` names 1"});
}

TEST_CASE("a resumed run rejects a changed subword file, but does not need the file") {
  const CacheWorkplace work;
  const std::string shared = " model.max_length=30 data.shared_vocabulary=true ";
  REQUIRE(work.train("learn", shared + "data.subwords=bpe data.vocabulary_size=24 train.steps=1")
              .code == 0);
  const std::string model =
      read_checkpoint(work / "learn/checkpoints/step-00000001.h5").get_text("data/source_subwords");
  work.write("a.model", model);
  REQUIRE(work.train("run", shared + "data.subwords=file data.subword_file=a.model train.steps=7")
              .code == 0);
  work.write("a.model", model + "x");
  check_rejected(work, "train --resume run train.steps=9", 3,
                 {"a.model (data.subword_file): found ", "--allow-change data.subword_file"});
  const Outcome changed = work.resume("run", "train.steps=9 --allow-change data.subword_file");
  CHECK(changed.code == 0);
  CHECK(contains(changed.out, "the run keeps its original subwords"));
  fs::remove(work / "a.model");
  CHECK(work.resume("run", "train.steps=10").code == 0);
  work.write("moved.model", model);
  CHECK(work.resume("run", "train.steps=12 data.subword_file=moved.model").code == 0);
  check_rejected(work, "evaluate run data.subword_file=moved.model", 2, {"keeps the subwords"});
}

}  // namespace
}  // namespace tapestry
