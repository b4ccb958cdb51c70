// SPDX-License-Identifier: BSD-3-Clause
#include "train/loop/validator.h"

#include <doctest/doctest.h>

#include "tests/train/tiny_run.h"

namespace tapestry {
namespace {

TEST_CASE("batches of the training sample are at most as large as validation batches") {
  Config config = test::tiny_config();
  Corpus corpus = load_corpus(config.data);
  for (Example& pair : corpus.validation) {
    pair.source.resize(3, first_word_id);
    pair.target.resize(2, first_word_id);
  }
  const SampleOptions four = training_sample(config, corpus);
  CHECK(four.examples == 6);
  CHECK(four.batches == BatchLimit{.rows = 4, .source = 4 * 4, .target = 4 * 3});
  config.train.batch_size = 100;  // more than the 6 pairs
  CHECK(training_sample(config, corpus).batches ==
        BatchLimit{.rows = 32, .source = 6 * 4, .target = 6 * 3});
  corpus.validation.clear();
  CHECK(training_sample(config, corpus).examples == 0);
}

TEST_CASE("the training sample is a hundredth of the examples between two validations") {
  Config config;
  Corpus corpus;
  corpus.train.resize(300);
  corpus.validation.resize(270);
  const auto size = [&](std::size_t batch_size, std::size_t validate_every) {
    config.train.batch_size = batch_size;
    config.train.validate_every = validate_every;
    return training_sample_size(config, corpus);
  };
  CHECK(size(12, 500) == 60);
  CHECK(size(1, 4) == 16);
  CHECK(size(64, 1000) == 256);
  corpus.validation.resize(7);
  CHECK(size(64, 1000) == 7);
}

}  // namespace
}  // namespace tapestry
