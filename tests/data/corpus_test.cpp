// SPDX-License-Identifier: BSD-3-Clause
#include "data/corpus.h"

#include <doctest/doctest.h>

#include <bit>
#include <functional>

using namespace tapestry;

namespace {

Corpus small_corpus() {
  Corpus corpus;
  corpus.train = {{{4, 5}, {5, 4}}, {{4}, {4}}};
  corpus.validation = {{{5}, {5}}};
  corpus.source_vocabulary = Vocabulary({"a", "b"});
  corpus.target_vocabulary = Vocabulary({"a", "b"});
  return corpus;
}

}  // namespace

TEST_CASE("the fingerprint of a corpus depends on all of its parts") {
  const std::vector<std::function<void(Corpus&)>> changes = {
      [](Corpus& c) { c.train[0].source[1] = 4; },
      [](Corpus& c) { c.train[0].target[1] = 5; },
      [](Corpus& c) { std::swap(c.train[0], c.train[1]); },
      // the first sentence ends at a different token
      [](Corpus& c) {
        c.train[0] = {{4}, {5, 5, 4}};
      },
      [](Corpus& c) { c.validation.clear(); },
      [](Corpus& c) { std::swap(c.validation, c.test); },
      [](Corpus& c) {
        c.source_vocabulary = Vocabulary({"a", "c"});
      },
      [](Corpus& c) { c.target_vocabulary = Vocabulary({"a"}); },
  };
  for (const auto& change : changes) {
    Corpus changed = small_corpus();
    change(changed);
    CHECK(fingerprint(changed) != fingerprint(small_corpus()));
  }
}

TEST_CASE("the fingerprint depends on the pixels of images and on where each image ends") {
  const auto images_fingerprint = [](std::vector<Example> images) {
    Corpus corpus;
    corpus.train = std::move(images);
    return fingerprint(corpus);
  };
  const std::vector<Example> images = {{.target = {4}, .pixels = {0.5F, 1.0F}}};
  CHECK(images_fingerprint(images) == images_fingerprint(images));
  CHECK(images_fingerprint(images) !=
        images_fingerprint({{.target = {4}, .pixels = {1.0F, 0.5F}}}));
  CHECK(images_fingerprint(images) != images_fingerprint({{.target = {4}, .pixels = {0.5F}}}));
  // Both corpora contain the same sequence of values: the pixels with the bits 1, 0, 4 can also be
  // read as a target of one id.
  const float one = std::bit_cast<float>(1), four = std::bit_cast<float>(4);
  CHECK(images_fingerprint({{.target = {4}, .pixels = {0.5F}},
                            {.target = {4}, .pixels = {0.0F, 0.0F, one, 0.0F, four}}}) !=
        images_fingerprint(
            {{.target = {4}, .pixels = {0.5F, 0.0F, 0.0F, one, 0.0F, four}}, {.target = {4}}}));
}

TEST_CASE("the fingerprint of data is the same in every version, so that runs can be resumed") {
  // the XXH3 hash of the whole corpus in one array, computed by a different program
  Corpus corpus = small_corpus();
  corpus.notes.push_back(
      "train: 1 of 3 pairs skipped: both lines are blank");  // not part of the fingerprint
  CHECK(fingerprint(corpus) == 7711115666684222228u);
  Corpus images;
  images.train = {{.target = {5}, .pixels = {0.5F, 1.0F}},
                  {.target = {4}, .pixels = {0.0F, 0.25F}}};
  images.test = {{.target = {4}, .pixels = {1.0F, 0.0F}}};
  images.target_vocabulary = Vocabulary({"cat", "dog"});
  CHECK(fingerprint(images) == 8737741320768429153u);
}
