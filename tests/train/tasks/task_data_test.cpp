// SPDX-License-Identifier: BSD-3-Clause
#include "train/tasks/task_data.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "data/io/error.h"
#include "data/text/subwords.h"
#include "tests/support/contains.h"
#include "train/loop/memory_need.h"
#include "train/tasks/task.h"

namespace tapestry {
namespace {

using Ids = std::vector<std::int32_t>;

/// A corpus of pairs whose source and target are equal, and its config.
struct Sentences {
  explicit Sentences(SubwordKind kind = SubwordKind::unigram) {
    const std::vector<std::string> text = {"the dog plays",      "the dogs play",
                                           "a cat plays a game", "games are played",
                                           "here is the cat",    "cats and dogs"};
    const std::size_t size = kind == SubwordKind::bpe ? 40 : 28;
    const Vocabulary words(train_subwords(text, {.kind = kind, .vocabulary_size = size}, "x"));
    corpus.source_vocabulary = corpus.target_vocabulary = words;
    config.data.task = "parallel_text";
    config.data.words.subwords.kind = kind;
    for (const std::string& sentence : text) {
      const Ids ids = words.encode(words.subwords()->split(sentence));
      corpus.train.push_back({.source = ids, .target = ids});
    }
  }

  std::string text(const Ids& ids) const {
    const Vocabulary& words = corpus.source_vocabulary;
    return words.subwords()->join(words.decode(ids));
  }

  Corpus corpus;
  Config config;
};

TEST_CASE("each epoch samples new segmentations of the text, separately for source and target") {
  for (const SubwordKind kind : {SubwordKind::unigram, SubwordKind::bpe}) {
    Sentences sentences(kind);
    CHECK_FALSE(subword_regularization(sentences.config, sentences.corpus));
    if (kind == SubwordKind::unigram) {
      sentences.config.data.words.subwords.sampling.alpha = 0.2;
    } else {
      sentences.config.data.words.subwords.sampling.dropout = 0.4;
    }
    const auto transform = subword_regularization(sentences.config, sentences.corpus);
    REQUIRE(transform);
    const Example& example = sentences.corpus.train.front();
    std::set<Ids> of_epochs, of_indices;
    std::size_t different_sides = 0;
    for (std::uint64_t k = 0; k < 20; ++k) {
      const Example in_epoch = transform(example, 0, k);
      CHECK(sentences.text(in_epoch.source) == "the dog plays");
      CHECK(sentences.text(in_epoch.target) == "the dog plays");
      CHECK(transform(example, 0, k) == in_epoch);
      of_epochs.insert(in_epoch.source);
      of_indices.insert(transform(example, k, 0).source);
      if (in_epoch.source != in_epoch.target) ++different_sides;
    }
    CHECK(of_epochs.size() > 2);
    CHECK(of_indices.size() > 2);
    CHECK(different_sides > 4);
    sentences.config.train.seed = 2;
    const auto other = subword_regularization(sentences.config, sentences.corpus);
    std::size_t changed = 0;
    for (std::uint64_t k = 0; k < 20; ++k) {
      if (other(example, 0, k) != transform(example, 0, k)) ++changed;
    }
    CHECK(changed > 4);
  }
}

TEST_CASE("a batch has the segmentations that are sampled for its epoch") {
  Sentences sentences;
  sentences.config.data.words.subwords.sampling.alpha = 0.1;
  const BatchRules rules = training_rules(sentences.config, sentences.corpus, 3);
  const auto transform = subword_regularization(sentences.config, sentences.corpus);
  const std::array<std::size_t, 3> indices = {4, 0, 2};
  std::vector<Example> sampled(sentences.corpus.train.size());
  for (const std::size_t i : indices) sampled[i] = transform(sentences.corpus.train[i], i, 3);
  const Batch batch = make_batch(sentences.corpus.train, indices, rules);
  const Batch expected = make_batch(sampled, indices, {});
  CHECK(batch.source == expected.source);
  CHECK(batch.input == expected.input);
  CHECK(batch.labels == expected.labels);
  CHECK(batch.source_lengths == expected.source_lengths);
  CHECK(batch.source != make_batch(sentences.corpus.train, indices).source);
  const BatchRules plain =
      batch_rules(sentences.config, sentences.corpus.target_vocabulary.size(), 3);
  CHECK(make_batch(sentences.corpus.train, indices, plain).source ==
        make_batch(sentences.corpus.train, indices).source);
}

TEST_CASE("batches group examples by their sampled lengths in the epoch, except windows of text") {
  Sentences sentences(SubwordKind::bpe);
  Corpus& corpus = sentences.corpus;
  const std::vector<Example> some = corpus.train;
  while (corpus.train.size() < 1200)
    corpus.train.insert(corpus.train.end(), some.begin(), some.end());
  Config& config = sentences.config;
  config.train.batch_size = 10;
  CHECK_FALSE(lengths_in_epoch(config, corpus));
  config.data.words.subwords.sampling.dropout = 0.4;
  const auto transform = subword_regularization(config, corpus);
  const LengthsInEpoch lengths = lengths_in_epoch(config, corpus);
  REQUIRE(lengths);
  for (const std::size_t i : {0, 5, 600}) {
    const Example sampled = transform(corpus.train[i], i, 3);
    CHECK(lengths(i, 3).source == sampled.source.size());
    CHECK(lengths(i, 3).target == sampled.target.size());
  }

  const auto padding = [&](const BatchIndices& batch) {
    std::size_t max_length = 0, tokens = 0;
    for (const std::size_t i : batch) {
      max_length = std::max(max_length, lengths(i, 3).source);
      tokens += lengths(i, 3).source;
    }
    return batch.size() * max_length - tokens;
  };
  for (const std::size_t batch_tokens : {0, 300}) {
    CAPTURE(batch_tokens);
    config.train.batch_tokens = batch_tokens;
    BatchSchedule schedule = make_batch_schedule(corpus, config);
    std::size_t stored = 0, sampled = 0;
    for (std::size_t b = 0; b < schedule.batches_per_epoch(); ++b) {
      sampled += padding(schedule.at({3, b}));
      stored += padding(schedule.epoch(3)[b]);
    }
    CHECK(2 * sampled < stored);
  }

  config.data.task = "text";
  CHECK_FALSE(lengths_in_epoch(config, corpus));
}

TEST_CASE("an example whose sampled segmentation is too long keeps its original segmentation") {
  for (const bool in_batch : {false, true}) {
    Sentences sentences;
    sentences.config.data.words.subwords.sampling.alpha = 0.01;
    const Example& example = sentences.corpus.train.front();
    std::size_t& limit =
        in_batch ? sentences.config.train.batch_tokens : sentences.config.model.max_length;
    limit = example.source.size() + 1;
    const auto transform = subword_regularization(sentences.config, sentences.corpus);
    for (std::uint64_t epoch = 0; epoch < 20; ++epoch) {
      const Example sampled = transform(example, 0, epoch);
      CHECK(sampled.source.size() <= example.source.size());
      CHECK(sampled.target.size() <= example.target.size());
    }
  }
}

TEST_CASE("a window whose segmentation is too long is cut at a random position") {
  for (const char* kind : {"language_model", "masked_language_model"}) {
    Sentences sentences;
    sentences.config.data.task = "text";
    sentences.config.model_kind = kind;
    sentences.config.data.words.subwords.sampling.alpha = 0.05;
    const auto transform = subword_regularization(sentences.config, sentences.corpus);
    const Example window{.target = sentences.corpus.train.front().target};
    const std::string text = sentences.text(window.target);
    std::size_t cut = 0, with_begin = 0, with_end = 0;
    for (std::uint64_t epoch = 0; epoch < 200; ++epoch) {
      const Example sampled = transform(window, 0, epoch);
      const std::string sampled_text = sentences.text(sampled.target);
      CHECK(sampled.target.size() <= window.target.size());
      CHECK(transform(window, 0, epoch) == sampled);
      CHECK(test::contains(text, sampled_text));
      if (sampled_text == text) continue;
      ++cut;
      if (text.starts_with(sampled_text)) ++with_begin;
      if (text.ends_with(sampled_text)) ++with_end;
    }
    CAPTURE(cut);
    REQUIRE(cut > 50);
    CHECK(with_begin > cut / 10);
    CHECK(with_end > cut / 10);
  }
}

TEST_CASE("class labels of sentences are not segmented") {
  Sentences sentences;
  sentences.config.data.task = "labelled_text";
  sentences.config.model_kind = "classifier";
  sentences.config.data.words.subwords.sampling.alpha = 0.1;
  sentences.corpus.target_vocabulary = Vocabulary({"no", "yes"});
  const auto transform = subword_regularization(sentences.config, sentences.corpus);
  Example sentence{.source = sentences.corpus.train.front().source, .target = {5}};
  sentence.source.insert(sentence.source.begin(), bos_id);
  for (std::uint64_t epoch = 0; epoch < 20; ++epoch) {
    const Example sampled = transform(sentence, 0, epoch);
    CHECK(sampled.target == Ids{5});
    CHECK(sampled.source.front() == bos_id);
    CHECK(sentences.text(sampled.source) == "the dog plays");
  }
}

TEST_CASE("regularization that the kind of subword model does not support is rejected") {
  Sentences unigram(SubwordKind::unigram), bpe(SubwordKind::bpe);
  unigram.config.data.words.subwords.sampling.dropout = 0.1;
  bpe.config.data.words.subwords.sampling.alpha = 0.1;
  CHECK_THROWS_AS(subword_regularization(unigram.config, unigram.corpus), DataError);
  CHECK_THROWS_AS(subword_regularization(bpe.config, bpe.corpus), DataError);
}

TEST_CASE("the memory bound of a step includes long sampled segmentations") {
  Sentences sentences;
  sentences.config.train.batch_size = 6;
  const auto largest = [&] {
    const Batch batch = largest_batches(sentences.corpus, sentences.config).front();
    return std::max(batch.source_length, batch.target_length);
  };
  const std::size_t plain = largest();
  sentences.config.data.words.subwords.sampling.alpha = 0.2;
  const std::size_t bound = largest();
  CHECK(bound > plain);
  for (std::uint64_t epoch = 0; epoch < 8; ++epoch) {
    const BatchRules rules = training_rules(sentences.config, sentences.corpus, epoch);
    const std::array<std::size_t, 6> all{0, 1, 2, 3, 4, 5};
    const Batch batch = make_batch(sentences.corpus.train, all, rules);
    CHECK(std::max(batch.source_length, batch.target_length) <= bound);
  }
}

}  // namespace
}  // namespace tapestry
