#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/contains.h"
#include "tests/train/kind_configs.h"
#include "train/checkpoint/checkpoint_file.h"

/// data.cache and data.corpus_weights, from the config to the checkpoints of a run.
namespace tapestry {
namespace {

namespace fs = std::filesystem;

using Arguments = std::vector<std::string>;
using test::contains;
using test::Outcome;
using test::read_text;
using test::Workplace;
using test::write_text;

/// A translation task of two corpora, some of whose pairs are too long for the model.
struct CacheWorkplace : Workplace {
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
    write("pairs.yaml",
          "data:\n"
          "  task: parallel_text\n"
          "  train_source: [a.de, b.de]\n"
          "  train_target:\n"
          "    - a.en\n"
          "    - \"b.en\"\n"
          "  corpus_weights: [1, 3]\n"
          "  validation_source: v.de\n"
          "  validation_target: v.en\n"
          "  on_bad_line: skip\n"
          "model: {d_model: 16, num_heads: 2, d_ff: 32, num_encoder_layers: 1, "
          "num_decoder_layers: 1, max_length: 8}\n"
          "schedule: {learning_rate: 0.01}\n"
          "train: {steps: 12, batch_size: 4, threads: 1, log_every: 4, validate_every: 6, "
          "save_every: 5}\n");
  }

  Outcome train(const std::string& directory, const Arguments& more) const {
    Arguments arguments = {"train", "pairs.yaml", "train.run_dir=" + directory};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }
  fs::path cache(const std::string& directory) const {
    return *this / (directory + "/cache/train.examples");
  }
};

/// The checkpoints of two runs are the same but for their configs, whose keys differ.
void check_same_but_config(const fs::path& a, const fs::path& b) {
  const ArrayStore first = read_checkpoint(a), second = read_checkpoint(b);
  CHECK(first.size() == second.size());
  for (const auto& entry : first) {
    CAPTURE(entry.first);
    if (entry.first != "config") CHECK(second.at(entry.first) == entry.second);
  }
}

const std::string last = "/checkpoints/step-00000012.h5";

TEST_CASE("a run has the same bits with its examples in memory and in a file") {
  const CacheWorkplace work;
  const std::vector<Arguments> kinds = {{},
                                        {"train.batch_size=1", "train.batch_tokens=24"},
                                        {"data.subwords=unigram", "data.vocabulary_size=21",
                                         "data.subword_alpha=0.2", "model.max_length=30"}};
  for (const Arguments& kind : kinds) {
    const auto with = [&](const std::string& key) {
      Arguments arguments = kind;
      arguments.insert(arguments.end(), {key, "--fresh"});
      return arguments;
    };
    const Outcome memory = work.train("memory", with("data.cache=never"));
    REQUIRE(memory.code == 0);
    CHECK_FALSE(contains(memory.out, "cache:"));
    CHECK_FALSE(fs::exists(work / "memory/cache"));
    const Outcome cached = work.train("cached", with("data.cache=always"));
    REQUIRE(cached.code == 0);
    CHECK(contains(cached.out, "of tokenized examples in a memory-mapped file"));
    CHECK(fs::exists(work.cache("cached")));
    check_same_but_config(work / ("memory" + last), work / ("cached" + last));
    CHECK(read_text(work / "memory/metrics.csv") == read_text(work / "cached/metrics.csv"));
    if (kind.empty()) {
      // 22 of one corpus, and two of the other three times.
      CHECK(contains(memory.out, "data: 28 training pairs"));
      CHECK(contains(cached.out, "data: 28 training pairs"));
      CHECK(contains(cached.out, "a.de:23: found 10 tokens"));
      for (const char* key : {"data.cache=never", "data.cache=always"}) {
        const Outcome stopped = work.train("stopped", {key, "data.on_bad_line=stop"});
        CHECK(stopped.code == 3);
        CHECK(contains(stopped.err, "a.de:23: found 10 tokens"));
        CHECK(contains(stopped.err, "b.de:2: found 10 tokens"));
      }
    }
  }
}

TEST_CASE("a run resumes bit-identically if its cache is missing, damaged or changed") {
  const CacheWorkplace work;
  REQUIRE(work.train("whole", {"data.cache=always"}).code == 0);
  const Arguments cached = {"data.cache=always", "train.steps=7", "--fresh"};
  const auto check = [&](const auto& change, const std::string& said,
                         const Arguments& more = {"train.threads=3"}) {
    REQUIRE(work.train("halves", cached).code == 0);
    change();
    Arguments arguments = {"train", "--resume", "halves", "train.steps=12"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome resumed = work.run(arguments);
    CHECK(resumed.code == 0);
    CHECK(contains(resumed.out, said));
    CHECK(said.empty() == !contains(resumed.out, "recreated"));
    check_same_but_config(work / ("whole" + last), work / ("halves" + last));
    CHECK(read_text(work / "whole/metrics.csv") == read_text(work / "halves/metrics.csv"));
  };
  const fs::path file = work.cache("halves");
  check([] {}, "");
  check([&] { fs::remove_all(file.parent_path()); }, "");
  check([&] { fs::resize_file(file, fs::file_size(file) - 1); }, "is damaged or was cut off");
  check(
      [&] {
        std::string bytes = read_text(file);
        bytes[20] = static_cast<char>(bytes[20] ^ 1);
        write_text(file, bytes);
      },
      "is damaged: its digest differs");
  check([&] { write_text(file, "a file of another program"); }, "train.examples: is ");
  check([] {}, "", {"data.cache=never"});
  check(
      [&] {
        fs::remove(file);
        fs::create_directory(file.parent_path() / ".train.examples.tmp-1-0");
        fs::remove(file.parent_path() / ".train.examples.tmp-1-0");
        write_text(file.parent_path() / ".train.examples.tmp-1-0", "left by a crash");
      },
      "");
  CHECK_FALSE(fs::exists(file.parent_path() / ".train.examples.tmp-1-0"));
}

TEST_CASE("a run without steps left, a dry run and other commands write no cache") {
  const CacheWorkplace work;
  const Outcome dry = work.train("dry", {"data.cache=always", "--dry-run"});
  CHECK(dry.code == 0);
  CHECK_FALSE(fs::exists(work / "dry"));
  REQUIRE(work.train("run", {"data.cache=always"}).code == 0);
  const auto written = fs::last_write_time(work.cache("run"));
  const std::string scores = work.run({"evaluate", "run"}).out;
  CHECK(contains(scores, "validation"));
  fs::remove(work.cache("run"));
  CHECK(work.run({"evaluate", "run"}).out == scores);
  CHECK(work.run({"train", "--resume", "run", "--dry-run", "train.steps=20"}).code == 0);
  CHECK_FALSE(fs::exists(work.cache("run")));
  CHECK(work.run({"train", "--resume", "run", "train.steps=14"}).code == 0);
  CHECK(fs::last_write_time(work.cache("run")) > written);
}

TEST_CASE("scores do not need the training files unless sets are held out of them") {
  const CacheWorkplace work;
  REQUIRE(work.train("run", {"data.cache=always"}).code == 0);
  const Outcome before = work.run({"evaluate", "run"});
  CHECK(before.code == 0);
  CHECK(before.err.empty());
  write_text(work / "a.de", "not UTF-8: \xFF\n");
  fs::remove(work.cache("run"));
  const Outcome scores = work.run({"evaluate", "run"});
  CHECK(scores.code == 0);
  CHECK(scores.out == before.out);
  CHECK(scores.err.empty());
  CHECK(work.run({"errors", "run", "--set", "validation"}).code == 0);
  CHECK(work.run({"evaluate", "run", "data.train_source=[a.de, b.de]"}).code == 3);
  CHECK(work.run({"gradcheck", "run"}).code == 3);
}

TEST_CASE("--fresh does not move the old run if the new one cannot begin") {
  const CacheWorkplace work;
  REQUIRE(work.train("run", {"data.cache=always"}).code == 0);
  const auto before = read_text(work / ("run" + last));
  const Outcome bad = work.train("run", {"data.cache=always", "data.on_bad_line=stop", "--fresh"});
  CHECK(bad.code == 3);
  CHECK(contains(bad.err, "a.de:23: found 10 tokens"));
  CHECK(read_text(work / ("run" + last)) == before);
  CHECK_FALSE(fs::exists(work / "run.old-1"));
  CHECK(work.run({"train", "--resume", "run", "train.steps=13"}).code == 0);

  const Outcome fresh = work.train("run", {"data.cache=always", "--fresh"});
  CHECK(fresh.code == 0);
  CHECK_FALSE(contains(fresh.out, "warning: run/cache"));
  CHECK(read_text(work / ("run.old-1" + last)) == before);
  CHECK(fs::exists(work.cache("run")));
  CHECK_FALSE(fs::exists(work.cache("run.old-1")));
  CHECK(work.run({"train", "--resume", "run.old-1", "train.steps=14"}).code == 0);
  CHECK(fs::exists(work.cache("run.old-1")));
  CHECK(work.train("run", {"data.cache=always"}).code == 2);
}

TEST_CASE("temporary files of a crash are deleted before the cache is made") {
  const CacheWorkplace work;
  const auto leave = [&](const std::string& directory) {
    fs::create_directories(work / (directory + "/cache"));
    work.write(directory + "/cache/.train.examples.tmp-1-0", "left by a crash");
    return work / (directory + "/cache/.train.examples.tmp-1-0");
  };
  fs::create_directories(work / "new/checkpoints");
  const fs::path of_new = leave("new");
  CHECK(work.train("new", {"data.cache=always", "data.on_bad_line=stop"}).code == 3);
  CHECK_FALSE(fs::exists(of_new));
  REQUIRE(work.train("run", {"data.cache=always", "train.steps=7"}).code == 0);
  fs::remove(work.cache("run"));
  const fs::path of_old = leave("run");
  fs::rename(work / "b.en", work / "moved.en");
  CHECK(work.run({"train", "--resume", "run", "train.steps=12"}).code == 3);
  CHECK_FALSE(fs::exists(of_old));
}

TEST_CASE("a run that cannot write its cache ends with the exit code of output") {
  const CacheWorkplace work;
  work.write("blocked", "");
  const Outcome blocked = work.train("blocked/run", {"data.cache=always"});
  CHECK(blocked.code == 5);
  REQUIRE(work.train("run", {"data.cache=always", "train.steps=7"}).code == 0);
  fs::remove_all(work / "run/cache");
  work.write("run/cache", "a file");
  const Outcome resumed = work.run({"train", "--resume", "run", "train.steps=12"});
  CHECK(resumed.code == 5);
  CHECK(contains(resumed.err, "run/cache"));
  CHECK(work.run({"train", "--resume", "run", "train.steps=12", "data.cache=never"}).code == 0);
}

TEST_CASE("changed data files are detected as without a cache") {
  const CacheWorkplace work;
  REQUIRE(work.train("run", {"data.cache=always", "train.steps=7"}).code == 0);
  const std::string before = read_text(work / "b.en");
  write_text(work / "b.en", "eight four\none\nfour\n");
  const Outcome refused = work.run({"train", "--resume", "run", "train.steps=12"});
  CHECK(refused.code == 3);
  CHECK(contains(refused.err, "b.en (data.train_target[2]): found "));
  CHECK(contains(refused.err, "--allow-change data.train_target"));
  const Outcome allowed = work.run(
      {"train", "--resume", "run", "train.steps=9", "--allow-change", "data.train_target"});
  CHECK(allowed.code == 0);
  CHECK(contains(allowed.out, "warning: changed "));
}

TEST_CASE("data.corpus_weights may change with permission, and has one weight for each file") {
  const CacheWorkplace work;
  REQUIRE(work.train("run", {"train.steps=7"}).code == 0);
  const Arguments change = {"train", "--resume", "run", "train.steps=12",
                            "data.corpus_weights=[2, 1]"};
  CHECK(work.run(change).code == 2);
  Arguments allowed = change;
  allowed.insert(allowed.end(), {"--allow-change", "data.corpus_weights"});
  const Outcome changed = work.run(allowed);
  CHECK(changed.code == 0);
  CHECK(contains(changed.out, "data: 46 training pairs"));
  CHECK(contains(changed.out, "continues with the first batch of an epoch"));
  const Outcome refused = work.train("other", {"data.corpus_weights=[1, 2, 3]"});
  CHECK(refused.code == 2);
  CHECK(contains(refused.err, "`corpus_weights` has 3 weights, `data.train_source` names 2 files"));
  const Outcome uneven = work.train("other", {"data.train_target=a.en"});
  CHECK(uneven.code == 2);
  CHECK(contains(uneven.err, "`train_source` names 2 files, `train_target` 1"));
}

TEST_CASE("a changed subword file is refused on resume, and a missing one is not needed") {
  const CacheWorkplace work;
  const Arguments learn = {"data.subwords=bpe", "data.vocabulary_size=24", "model.max_length=30",
                           "data.shared_vocabulary=true"};
  Arguments begin = learn;
  begin.insert(begin.end(), {"train.steps=1"});
  REQUIRE(work.train("learn", begin).code == 0);
  const std::string model =
      read_checkpoint(work / "learn/checkpoints/step-00000001.h5").get_text("data/source_subwords");
  work.write("a.model", model);
  REQUIRE(work.train("run", {"data.subwords=file", "data.subword_file=a.model",
                             "data.shared_vocabulary=true", "model.max_length=30", "train.steps=7"})
              .code == 0);
  const Arguments resume = {"train", "--resume", "run", "train.steps=9"};
  work.write("a.model", model + "x");
  const Outcome refused = work.run(resume);
  CHECK(refused.code == 3);
  CHECK(contains(refused.err, "a.model (data.subword_file): found "));
  CHECK(contains(refused.err, "--allow-change data.subword_file"));
  Arguments allowed = resume;
  allowed.insert(allowed.end(), {"--allow-change", "data.subword_file"});
  const Outcome changed = work.run(allowed);
  CHECK(changed.code == 0);
  CHECK(contains(changed.out, "the run keeps the subwords that it began with"));
  fs::remove(work / "a.model");
  CHECK(work.run({"train", "--resume", "run", "train.steps=10"}).code == 0);
  work.write("moved.model", model);
  CHECK(work.run({"train", "--resume", "run", "train.steps=12", "data.subword_file=moved.model"})
            .code == 0);
  const Outcome other = work.run({"evaluate", "run", "data.subword_file=moved.model"});
  CHECK(other.code == 2);
  CHECK(contains(other.err, "keeps the subwords"));
}

}  // namespace
}  // namespace tapestry
