// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "data/io/error.h"
#include "data/text/tokenizer.h"
#include "tests/train/kinds.h"
#include "tests/train/wiring/keys_tasks.h"
#include "train/tasks/data_source.h"
#include "train/tasks/task.h"

/// Tests every key of the section `data` on every task that uses it: a different value changes the
/// data, and a key for one part of the data does not change the other parts. The keys come from the
/// list of keys; tests/data/ tests the meaning of their values.
namespace tapestry {
namespace {

using namespace test;

/// Keys that have no effect on valid data, and keys that other tests cover: bad_lines_test.cpp,
/// training_set_test.cpp, cache_keys_test.cpp, config/file_test.cpp, subword_keys_test.cpp and
/// below.
const std::set<std::string> tested_elsewhere = {"task",           "on_bad_line", "cache",
                                                "corpus_weights", "folder",      "subwords",
                                                "image_height",   "image_width", "image_channels"};

/// Additional overrides that give the key an effect.
std::vector<std::string> context_of(const std::string& key, const TaskCase& task) {
  if (key == "validation_share") return {"data.validation_text="};
  // Without a file for a held-out part, the part would be taken from the training images.
  if (task.task == "images" && key.ends_with("_images") && key != "train_images") {
    return {"data." + key + "=" + key.substr(0, key.find('_')) + ".csv"};
  }
  return {};
}

/// A different value: the file NAME_other instead of NAME, a different word, or a different number.
std::string value_for(const Field& field) {
  if (field.domain.is_file()) {
    std::filesystem::path name;
    for_each_path(field.value,
                  [&](const std::string& path) { name = std::filesystem::path(path).filename(); });
    return name.stem().string() + "_other" + name.extension().string();
  }
  if (field.key == "pixel_maximum") return "18";
  return another_value(field);
}

/// The part of the corpus that a key belongs to: training, validation or test set.
using CorpusPart = std::vector<Example> Corpus::*;

CorpusPart part_of(const std::string& key) {
  if (key.starts_with("validation_")) return &Corpus::validation;
  return key.starts_with("test_") ? &Corpus::test : &Corpus::train;
}

bool same_pixels_and_ids(const std::vector<Example>& a, const std::vector<Example>& b) {
  return std::ranges::equal(a, b, [](const Example& x, const Example& y) {
    return x.source == y.source && x.target == y.target && x.pixels == y.pixels;
  });
}

/// Checks that the shorter data set is the beginning of the longer data set.
void check_prefix(const std::vector<Example>& a, const std::vector<Example>& b) {
  const auto both = static_cast<std::ptrdiff_t>(std::min(a.size(), b.size()));
  CHECK(std::equal(a.begin(), a.begin() + both, b.begin()));
}

std::vector<std::string> lines_in(const std::string& file) {
  std::istringstream text(read_text(file));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

/// Checks that the codec encodes the test lines like the corpus.
void check_codec(const DataOptions& o, const Corpus& corpus) {
  const TextCodec codec = make_codec(o, corpus.source_vocabulary, corpus.target_vocabulary);
  if (o.task == "parallel_text") {
    const auto sources = lines_in(o.pairs.test_source), targets = lines_in(o.pairs.test_target);
    REQUIRE(corpus.test.size() == sources.size());
    for (std::size_t i = 0; i < sources.size(); ++i) {
      CHECK(codec.encode_source(sources[i]) == corpus.test[i].source);
      CHECK(codec.encode_target(targets[i]) == corpus.test[i].target);
    }
  } else if (o.task == "labelled_text") {
    const auto lines = lines_in(o.text.test_text);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      auto expected = codec.encode_source(lines[i].substr(lines[i].find('\t') + 1));
      expected.insert(expected.begin(), bos_id);
      CHECK(expected == corpus.test[i].source);
    }
  } else if (o.task == "text") {
    const auto ids = codec.encode_target(read_text(o.text.test_text));
    const auto& first = corpus.test.front().target;
    REQUIRE(ids.size() >= first.size());
    CHECK(std::equal(first.begin(), first.end(), ids.begin()));
  }
}

void check_key(const TaskWorkplace& work, const TaskCase& task, const std::string& key) {
  CAPTURE(task.name());
  CAPTURE(key);
  std::vector<std::string> overrides = context_of(key, task);
  const Config before = work.config(task, overrides);
  bool is_part = false;  // whether the key changes only one part of the data
  for (const Field& field : fields_of(before)) {
    if (field.section != "data" || field.key != key) continue;
    overrides.push_back("data." + key + "=" + value_for(field));
    const bool is_size = key.ends_with("_size");
    is_part = (is_size && task.task != "images") ||
              (field.domain.is_file() && !key.starts_with("train_") && task.task != "images");
  }
  REQUIRE_FALSE(overrides.empty());
  CAPTURE(overrides.back());
  const Config after = work.config(task, overrides);
  const Corpus without = load_corpus(before.data), with = load_corpus(after.data);
  CHECK(with.fingerprint != without.fingerprint);
  check_codec(after.data, with);
  const auto differs = [&](CorpusPart part) {
    return !same_pixels_and_ids(without.*part, with.*part);
  };
  const CorpusPart named = part_of(key);
  CHECK((differs(named) || !(with.target_vocabulary == without.target_vocabulary)));
  if (!is_part) return;
  for (const CorpusPart part : {&Corpus::train, &Corpus::validation, &Corpus::test}) {
    CHECK(differs(part) == (part == named));
  }
  CHECK(with.source_vocabulary == without.source_vocabulary);
  CHECK(with.target_vocabulary == without.target_vocabulary);
  if (key.ends_with("_size")) check_prefix(without.*named, with.*named);
}

TEST_CASE("every data key changes the data of every task that uses it, but no unrelated part") {
  const TaskWorkplace work;
  for (const TaskCase& task : task_cases) {
    for (const std::string& key : keys_in_use(work.config(task), "data")) {
      if (!tested_elsewhere.contains(key)) check_key(work, task, key);
    }
  }
}

TEST_CASE("every kind of model is tested with every task that it learns") {
  std::set<std::string> listed;
  for (const TaskCase& task : task_cases) listed.insert(task.name());
  for (const ConfigKind& kind : model_kinds()) {
    for (const std::string& task : data_tasks_for(kind.name)) {
      const std::string name = TaskCase{std::string(kind.name), task}.name();
      CHECK_MESSAGE(listed.contains(name), name, " is not in kind_cases in tests/train/kinds.h");
    }
  }
}

TEST_CASE("tasks on symbols have different targets for the same sequences") {
  const TaskWorkplace work;
  const auto load = [&](const char* task) {
    return load_corpus(work.config({"seq2seq", "copy"}, {std::string("data.task=") + task}).data);
  };
  const Corpus copy = load("copy");
  for (const char* task : {"reverse", "sort"}) {
    CAPTURE(task);
    const Corpus other = load(task);
    bool same_targets = true;
    for (std::size_t i = 0; i < copy.train.size(); ++i) {
      CHECK(other.train[i].source == copy.train[i].source);
      same_targets = same_targets && other.train[i].target == copy.train[i].target;
    }
    CHECK_FALSE(same_targets);
  }
}

TEST_CASE("the network reads images of the configured size, which must fit the file") {
  const TaskWorkplace work;
  const TaskCase images{"vision_transformer", "images"};
  const auto config = [&](std::size_t height, std::size_t width, std::size_t channels) {
    return work.config(images, {fmt::format("data.image_height={}", height),
                                fmt::format("data.image_width={}", width),
                                fmt::format("data.image_channels={}", channels)});
  };
  const Corpus usual = load_corpus(work.config(images).data);
  using Extents = std::array<std::size_t, 3>;
  for (const Extents& extents :
       {Extents{6, 4, 1}, Extents{2, 12, 1}, Extents{2, 4, 3}, Extents{4, 2, 3}}) {
    const Config changed = config(extents[0], extents[1], extents[2]);
    const Corpus corpus = load_corpus(changed.data);
    CHECK(same_pixels_and_ids(corpus.train, usual.train));
    const auto size = network_sizes(changed, corpus).image;
    CHECK(Extents{size.height, size.width, size.channels} == extents);
  }
  CHECK_THROWS_AS(load_corpus(config(2, 6, 1).data), DataError);
  CHECK_THROWS_AS(load_corpus(config(4, 4, 1).data), DataError);
  CHECK_THROWS_AS(load_corpus(config(4, 6, 3).data), DataError);
}

}  // namespace
}  // namespace tapestry
