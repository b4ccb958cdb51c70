#include "data/batch.h"

#include <doctest/doctest.h>

#include <stdexcept>

using namespace tapestry;

namespace {

using Ids = std::vector<std::int32_t>;
using Sizes = std::vector<std::size_t>;

const std::vector<Example> pairs = {
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
  CHECK(batch.input == Ids{bos_id, 9, pad_id, pad_id,  //
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
  CHECK(batch.input == Ids{bos_id, 6, 7, 8});
  CHECK(batch.labels == Ids{6, 7, 8, eos_id});
}

TEST_CASE("an empty target is <bos> in and <eos> out") {
  const Batch batch = make_batch(pairs, Sizes{2});
  CHECK(batch.source == Ids{4, 4, 4, eos_id});
  CHECK(batch.input == Ids{bos_id});
  CHECK(batch.labels == Ids{eos_id});
  CHECK(batch.target_tokens == 1);
}

TEST_CASE("a batch may contain a pair twice") {
  const Batch batch = make_batch(pairs, Sizes{1, 1});
  CHECK(batch.source == Ids{9, eos_id, 9, eos_id});
}

TEST_CASE("language modelling: input and labels are a window shifted by one token") {
  const std::vector<Example> windows = {{.target = {5, 6, 7, 8}}, {.target = {8, 9}}};
  const Batch batch = make_batch(windows, Sizes{0, 1}, {.layout = window_rows});
  CHECK(batch.target_length == 3);
  CHECK(batch.input == Ids{5, 6, 7,  //
                           8, pad_id, pad_id});
  CHECK(batch.labels == Ids{6, 7, 8,  //
                            9, no_label, no_label});
  CHECK(batch.target_lengths == Sizes{3, 1});
  CHECK(batch.target_tokens == 4);
  CHECK(batch.source_length == 0);
  CHECK(batch.source.empty());
  CHECK(batch.source_lengths == Sizes{0, 0});
  CHECK(batch.pixels.empty());
}

TEST_CASE("masked sentences are padded, and their masks depend on the example, not on the row") {
  const std::vector<Example> sentences = {{.target = {bos_id, 4, 5, 6, 7, eos_id}},
                                          {.target = {bos_id, 8, eos_id}}};
  const BatchRules rules = {.layout = masked_rows, .vocabulary = 9, .seed = 3};
  const Batch batch = make_batch(sentences, Sizes{1, 0}, rules);
  CHECK(batch.target_length == 6);
  CHECK(batch.target_lengths == Sizes{3, 6});
  CHECK(batch.source.empty());
  // The one word of the first row is hidden, replaced or shown, and the label in any case.
  CHECK(Ids(batch.labels.begin(), batch.labels.begin() + 6) ==
        Ids{no_label, 8, no_label, no_label, no_label, no_label});
  CHECK(Ids(batch.input.begin() + 2, batch.input.begin() + 6) ==
        Ids{eos_id, pad_id, pad_id, pad_id});
  const Batch alone = make_batch(sentences, Sizes{0}, rules);
  CHECK(Ids(batch.labels.begin() + 6, batch.labels.end()) == alone.labels);
  CHECK(Ids(batch.input.begin() + 6, batch.input.end()) == alone.input);
  CHECK(batch.target_tokens == alone.target_tokens + 1);
}

TEST_CASE("unmasked sentences are read whole and have no labels") {
  const std::vector<Example> sentences = {{.target = {bos_id, 4, eos_id}}, {.target = {5}}};
  const Batch batch = make_batch(sentences, Sizes{0, 1}, {.layout = unmasked_rows});
  CHECK(batch.input == Ids{bos_id, 4, eos_id,  //
                           5, pad_id, pad_id});
  CHECK(batch.labels == Ids(6, no_label));
  CHECK(batch.target_lengths == Sizes{3, 1});
  CHECK(batch.target_tokens == 0);
  CHECK(batch.source.empty());
}

TEST_CASE("a labelled sentence is read to its <eos>, and its label is the number of its class") {
  const std::vector<Example> examples = {{.source = {bos_id, 9, 8}, .target = {4}},
                                         {.source = {bos_id}, .target = {6}}};
  const Batch batch = make_batch(examples, Sizes{0, 1}, {.layout = class_rows});
  CHECK(batch.source == Ids{bos_id, 9, 8, eos_id,  //
                            bos_id, eos_id, pad_id, pad_id});
  CHECK(batch.source_lengths == Sizes{4, 2});
  CHECK(batch.labels == Ids{0, 2});
  CHECK(batch.target_length == 1);
  CHECK(batch.target_lengths == Sizes{1, 1});
  CHECK(batch.target_tokens == 2);
}

TEST_CASE("labelled images are adjacent rows without tokens") {
  const std::vector<Example> images = {{.target = {5}, .pixels = {0.0F, 0.5F}},
                                       {.target = {4}, .pixels = {1.0F, 0.25F}}};
  Batch batch = make_batch(images, Sizes{1, 0, 1}, {.layout = class_rows});
  CHECK(batch.pixels == std::vector<float>{1.0F, 0.25F, 0.0F, 0.5F, 1.0F, 0.25F});
  CHECK(batch.labels == Ids{0, 1, 0});
  CHECK(batch.source_length == 0);
  CHECK(batch.source.empty());
  fill_batch(images, Sizes{0}, batch, {.layout = class_rows});
  CHECK(batch.pixels == std::vector<float>{0.0F, 0.5F});
  fill_batch(pairs, Sizes{0}, batch);
  CHECK(batch.pixels.empty());
}

TEST_CASE("the longest side of an example is the length that its batch would have") {
  const Example pair = {{4, 5}, {6, 7, 8, 9}};
  CHECK(longest_side(pair, pair_rows) == 5);
  CHECK(longest_side(Example{{4, 5, 6, 7, 8}, {9}}, pair_rows) == 6);
  CHECK(longest_side(pair, window_rows) == 3);
  CHECK(longest_side(pair, masked_rows) == 4);
  CHECK(longest_side(Example{.source = {bos_id, 4, 5}, .target = {4}}, class_rows) == 4);
  CHECK(longest_side(Example{.target = {4}, .pixels = {0.0F, 0.5F, 1.0F}}, class_rows) == 1);
}

TEST_CASE("fill_batch() of a used batch equals a new one and keeps its memory") {
  Batch batch = make_batch(pairs, Sizes{0, 1, 2});
  const std::int32_t* memory = batch.source.data();
  fill_batch(pairs, Sizes{1, 0}, batch);
  const Batch fresh = make_batch(pairs, Sizes{1, 0});
  CHECK(batch.rows == fresh.rows);
  CHECK(batch.source_length == fresh.source_length);
  CHECK(batch.target_length == fresh.target_length);
  CHECK(batch.source == fresh.source);
  CHECK(batch.input == fresh.input);
  CHECK(batch.labels == fresh.labels);
  CHECK(batch.source_lengths == fresh.source_lengths);
  CHECK(batch.target_lengths == fresh.target_lengths);
  CHECK(batch.target_tokens == fresh.target_tokens);
  CHECK(batch.examples == fresh.examples);
  CHECK(batch.source.data() == memory);
}

TEST_CASE("a batch of 0 examples, or of pairs that do not exist, is refused") {
  CHECK_THROWS_WITH_AS(make_batch(pairs, {}), "batch: found no indices, expected at least one",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(make_batch(pairs, Sizes{0, 3}), "batch: found index 3, expected less than 3",
                       std::out_of_range);
}

TEST_CASE("unknown tokens are counted among words, on both sides") {
  const std::vector<Example> some{{.source = {4, unk_id, 5}, .target = {6}},
                                  {.source = {7, 8}, .target = {unk_id, 9}}};
  CHECK(share_of_unknown_tokens(some, pair_rows) == 2.0 / 8);
  CHECK(share_of_unknown_tokens({}, pair_rows) == 0.0);
}

TEST_CASE("the tokens of a set are those of both sides of its rows, without single labels") {
  CHECK(count_tokens({{.source = {5, 6}, .target = {5}}, {.source = {5}}}, pair_rows) == 5 + 2);
  CHECK(count_tokens({{.source = {bos_id, 5}, .target = {4}}}, class_rows) == 3);
  CHECK(count_tokens({{.target = {4, 5, 6}}}, window_rows) == 2);
  CHECK(count_tokens({{.target = {4}, .pixels = {0.5F}}}, class_rows) == 0);
}

TEST_CASE("special symbols and classes are not counted as tokens that could be unknown") {
  const std::vector<Example> labelled{{.source = {bos_id, unk_id, 5}, .target = {4}}};
  CHECK(share_of_unknown_tokens(labelled, class_rows) == 0.5);
  const std::vector<Example> sentences{{.target = {bos_id, 4, unk_id, 4, 4, eos_id, pad_id}}};
  CHECK(share_of_unknown_tokens(sentences, window_rows) == 0.25);
  CHECK(share_of_unknown_tokens({{.target = {4}, .pixels = {0.5F}}}, class_rows) == 0.0);
}
