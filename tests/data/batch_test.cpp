#include "data/batch.h"

#include <doctest/doctest.h>

#include <stdexcept>

using namespace tapestry;

namespace {

using Ids = std::vector<std::int32_t>;
using Sizes = std::vector<std::size_t>;

const std::vector<SentencePair> pairs = {
    {{4, 5}, {6, 7, 8}},
    {{9}, {9}},
    {{4, 4, 4}, {}},
};

}  // namespace

TEST_CASE("a batch holds its sentences between <bos> and <eos>, padded to the longest") {
  const Batch batch = make_batch(pairs, Sizes{1, 0});
  CHECK(batch.rows == 2);
  CHECK(batch.source_length == 3);
  CHECK(batch.target_length == 4);
  CHECK(batch.source == Ids{9, eos_id, pad_id,  //
                            4, 5, eos_id});
  CHECK(batch.decoder_input == Ids{bos_id, 9, pad_id, pad_id,  //
                                   bos_id, 6, 7, 8});
  CHECK(batch.labels == Ids{9, eos_id, no_label, no_label,  //
                            6, 7, 8, eos_id});
  CHECK(batch.source_lengths == Sizes{2, 3});
  CHECK(batch.target_lengths == Sizes{2, 4});
  CHECK(batch.target_tokens == 6);
  CHECK(batch.examples == Sizes{1, 0});
}

TEST_CASE("a batch of one sentence has no padding") {
  const Batch batch = make_batch(pairs, Sizes{0});
  CHECK(batch.source == Ids{4, 5, eos_id});
  CHECK(batch.decoder_input == Ids{bos_id, 6, 7, 8});
  CHECK(batch.labels == Ids{6, 7, 8, eos_id});
}

TEST_CASE("an empty target is <bos> in and <eos> out") {
  const Batch batch = make_batch(pairs, Sizes{2});
  CHECK(batch.source == Ids{4, 4, 4, eos_id});
  CHECK(batch.decoder_input == Ids{bos_id});
  CHECK(batch.labels == Ids{eos_id});
  CHECK(batch.target_tokens == 1);
}

TEST_CASE("a pair may occur twice") {
  const Batch batch = make_batch(pairs, Sizes{1, 1});
  CHECK(batch.source == Ids{9, eos_id, 9, eos_id});
}

TEST_CASE("a batch that is used again keeps nothing of its past and its memory") {
  Batch batch = make_batch(pairs, Sizes{0, 1, 2});
  const std::int32_t* memory = batch.source.data();
  fill_batch(pairs, Sizes{1, 0}, batch);
  const Batch fresh = make_batch(pairs, Sizes{1, 0});
  CHECK(batch.rows == fresh.rows);
  CHECK(batch.source_length == fresh.source_length);
  CHECK(batch.target_length == fresh.target_length);
  CHECK(batch.source == fresh.source);
  CHECK(batch.decoder_input == fresh.decoder_input);
  CHECK(batch.labels == fresh.labels);
  CHECK(batch.source_lengths == fresh.source_lengths);
  CHECK(batch.target_lengths == fresh.target_lengths);
  CHECK(batch.target_tokens == fresh.target_tokens);
  CHECK(batch.examples == fresh.examples);
  CHECK(batch.source.data() == memory);
}

TEST_CASE("a batch of nothing, or of pairs that do not exist, is refused") {
  CHECK_THROWS_WITH_AS(make_batch(pairs, {}), "batch: found no indices, expected at least one",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(make_batch(pairs, Sizes{0, 3}), "batch: found index 3, expected less than 3",
                       std::out_of_range);
}
