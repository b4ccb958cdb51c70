// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "data/batch.h"
#include "data/text/subwords.h"
#include "tests/train/wiring/keys_tasks.h"
#include "train/tasks/data_source.h"

/// Tests the effect of every subword key on every task that uses subwords.
namespace tapestry {
namespace {

using test::TaskCase;
using test::TaskWorkplace;

const std::vector<TaskCase> cases = {{"seq2seq", "parallel_text"},
                                     {"language_model", "text"},
                                     {"masked_language_model", "text"},
                                     {"classifier", "labelled_text"}};

/// A TaskWorkplace whose training files have enough text to train subword models.
struct SubwordWorkplace : TaskWorkplace {
  SubwordWorkplace() {
    std::vector<std::string> words;
    for (const char* first : {"ka", "mo", "Ka", "ti", "su"}) {
      for (const char* last : {"lo", "re", "pi", "Zu"}) {
        words.push_back(std::string(first) + last);
        words.push_back(std::string(last) + first + last);
      }
    }
    words.emplace_back("\uFF4B\uFF41");
    const std::vector<std::string> lines = test::word_lines(300, 5, words);
    const std::string text = test::joined(lines) + "x\ty\n";
    write("train.source", text);
    write("train.target", text);
    write("train.text", text);
    std::string labels;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      labels += (i % 2 == 0 ? "Up\t" : "down\t") + lines[i] + "\n";
    }
    write("train.labels", labels + "Up\tx\ty\n");
  }
};

std::string subwords_of(const Corpus& corpus) {
  const auto& model = corpus.source_vocabulary.subwords();
  REQUIRE(model);
  return model->serialized();
}

TEST_CASE("every subword key changes the subword model of every task") {
  const SubwordWorkplace work;
  const std::vector<std::vector<std::string>> changes = {{"data.subwords=bpe"},
                                                         {"data.vocabulary_size=31"},
                                                         {"data.character_coverage=0.98"},
                                                         {"data.lowercase=true"},
                                                         {"data.text_normalization=nfkc"}};
  for (const TaskCase& task : cases) {
    CAPTURE(task.name());
    const std::vector<std::string> common = {"data.subwords=unigram", "data.vocabulary_size=30"};
    const Corpus before = load_corpus(work.config(task, common).data);
    for (const std::vector<std::string>& change : changes) {
      CAPTURE(change.front());
      std::vector<std::string> overrides = common;
      overrides.insert(overrides.end(), change.begin(), change.end());
      const Corpus after = load_corpus(work.config(task, overrides).data);
      CHECK(subwords_of(after) != subwords_of(before));
      CHECK(after.fingerprint != before.fingerprint);
    }
    const Corpus bytes =
        load_corpus(work.config(task, {"data.subwords=bpe", "data.vocabulary_size=290",
                                       "data.byte_fallback=true"})
                        .data);
    CHECK(bytes.source_vocabulary.id("<0x00>") >= first_word_id);
    work.write("some.model", subwords_of(before));
    const bool pairs = task.task == "parallel_text";
    std::vector<std::string> file = {"data.subwords=file", "data.subword_file=some.model"};
    if (pairs) file.emplace_back("data.shared_vocabulary=true");
    const Corpus of_file = load_corpus(work.config(task, file).data);
    CHECK(subwords_of(of_file) == subwords_of(before));
    CHECK(of_file.train.size() == before.train.size());
  }
}

TEST_CASE("a trained model encodes text with the subword model of its corpus") {
  const SubwordWorkplace work;
  for (const TaskCase& task : cases) {
    CAPTURE(task.name());
    const DataOptions options =
        work.config(task,
                    {"data.subwords=unigram", "data.vocabulary_size=30", "data.lowercase=true"})
            .data;
    const Corpus corpus = load_corpus(options);
    const TextCodec codec = make_codec(options, corpus.source_vocabulary, corpus.target_vocabulary);
    if (task.task == "text") {
      const auto ids = codec.encode_target(test::read_text(options.text.test_text));
      const auto& first = corpus.test.front().target;
      REQUIRE(ids.size() >= first.size());
      CHECK(std::equal(first.begin(), first.end(), ids.begin()));
      continue;
    }
    CHECK(codec.encode_source("KALO") == codec.encode_source("kalo"));
    for (const Example& example : corpus.train) {
      if (task.task != "parallel_text" || share_of_unknown_tokens({example}, pair_rows) > 0)
        continue;
      CHECK(codec.encode_source(codec.decode_source(example.source)) == example.source);
      CHECK(codec.encode_target(codec.decode_target(example.target)) == example.target);
    }
    if (task.task == "labelled_text") {
      CHECK(codec.decode_target(corpus.test.front().target) ==
            corpus.target_vocabulary.token(corpus.test.front().target.front()));
    }
  }
}

}  // namespace
}  // namespace tapestry
