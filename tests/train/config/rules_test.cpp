// SPDX-License-Identifier: BSD-3-Clause
#include "train/config/rules.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/train/config/config_errors.h"

namespace tapestry {
namespace {

using namespace test;

/// A config with keys that contradict each other.
struct Contradiction {
  std::string text;
  std::string at;                  ///< the key that the error underlines
  std::vector<std::string> words;  ///< parts of message and hint
};

const std::string files =
    ", train_source: a, train_target: b, validation_source: c, validation_target: d";
const std::string pairs = "data: {task: parallel_text" + files;
const std::string text = "model: {kind: language_model}\ndata: {task: text, train_text: a";
const std::string masked = "model: {kind: masked_language_model}\ndata: {task: text, train_text: a";
const std::string images =
    "data: {task: images, train_images: a, image_height: 8, image_width: 12}\n"
    "model: {kind: vision_transformer";
const std::string bare = "model: {attention: parameter_free";
const std::string rotary = "model: {positions: rotary";
const std::string sentences = "data: {task: toy_sentences}\nmodel: {kind: ";
const std::string cosine = "schedule: {kind: cosine";

const std::vector<Contradiction> contradictions = {
    {"model: {d_model: 130}", "d_model", {"130", "multiple of `num_heads` (4)", "128 or 132"}},
    {"model: {num_heads: 3}", "num_heads", {"128", "multiple of `num_heads` (3)", "126 or 129"}},
    {"model: {d_model: 3}", "d_model", {"set `d_model` to 4"}},
    {"model: {d_model: 130, d_head: 0}", "d_model", {"multiple"}},
    {"model: {skip_scale: 0, sublayer_scale: 0}", "skip_scale", {"both 0"}},
    {bare + "}", "attention", {"one head", "`num_heads` is 4", "to 1"}},
    {bare + ", num_heads: 1, score: additive}", "score", {"has parameters", "has no parameters"}},
    {bare + ", num_heads: 1, d_head: 64}", "d_head", {"remove `d_head`", "multi_head"}},
    {rotary + ", d_head: 5}", "positions", {"even head width", "found 5", "`d_head` to 6"}},
    {rotary + ", attention: parameter_free, num_heads: 1, d_model: 7}",
     "positions",
     {"`d_model` to 8"}},
    {rotary + ", d_model: 7, num_heads: 2}", "d_model", {"multiple of `num_heads` (2)"}},
    {rotary + ", d_model: 6, num_heads: 2}", "positions", {"even head width"}},
    {rotary + ", score: additive}", "score", {"dot products", "choose other positions"}},
    {"model: {kind: language_model}", "kind", {"does not support `task: copy`", "text or toy_"}},
    {"data: {task: toy_agreement}",
     "task",
     {"needs a `model.kind`, whose default seq2seq does not", "`model.kind` to classifier"}},
    {"data: {task: toy_agreement}\nmodel: {kind: seq2seq}",
     "kind",
     {"`kind: seq2seq` does not support", "copy, reverse, sort, toy_translation or parallel_text",
      "`model.kind` to classifier"}},
    {"model: {kind: masked_language_model}", "kind", {"text or toy_sentences"}},
    {"model: {kind: classifier}", "kind", {"labelled_text or toy_agreement"}},
    {"model: {kind: vision_transformer}", "kind", {"`data.task` to images"}},
    {"model: {kind: language_model}\ndata: {task: text}",
     "task",
     {"needs data.train_text", "data.train_text=FILE"}},
    {"model: {kind: classifier}\ndata: {task: labelled_text}", "task", {"needs data.train_text"}},
    {"model: {kind: vision_transformer}\ndata: {task: images}", "task", {"data.train_images=FILE"}},
    {"data: {task: parallel_text}",
     "task",
     {"needs data.train_source, data.train_target, data.validation_source, "
      "data.validation_target",
      "data.train_source=FILE data.train_target=FILE"}},
    {pairs + ", test_target: x}", "test_target", {"two files", "`test_source` is missing"}},
    {pairs + ", test_source: x}", "test_source", {"two files", "`test_target` is missing"}},
    {text + ", context: 257}", "context", {"257 tokens", "`model.max_length` is 256", "to 257"}},
    {masked + ", context: 256}", "context", {"257 tokens", "`model.max_length` is 256"}},
    {images + ", patch_size: 8}", "patch_size", {"does not divide images of 8 x 12"}},
    {images + ", patch_size: 12}", "patch_size", {"does not divide images of 8 x 12"}},
    {images + ", patch_size: 4, max_length: 6}",
     "max_length",
     {"6 patches", "7 tokens", "`model.max_length` is 6", "to 7 or more"}},
    {"model: {normalization: batch_norm}\ntrain: {batch_tokens: 4096}",
     "batch_tokens",
     {"similar length", "mixed length", "layer_norm or rms_norm"}},
    {images + "}\ntrain: {batch_tokens: 64}", "batch_tokens", {"used with text"}},
    {"model: {patch_size: 4}",
     "patch_size",
     {"only used with `model.kind: vision_transformer`", "found `seq2seq`"}},
    {"model: {pooling: mean}", "pooling", {"`model.kind: classifier or vision_transformer`"}},
    {sentences + "language_model, num_encoder_layers: 3}", "num_encoder_layers", {"used with"}},
    {sentences + "masked_language_model, num_decoder_layers: 3}",
     "num_decoder_layers",
     {"`model.kind: seq2seq or language_model`", "found `masked_language_model`"}},
    {"data: {task: toy_agreement}\nmodel: {kind: classifier, tie_embeddings: target}",
     "tie_embeddings",
     {"used with `model.kind: "}},
    {"data: {train_source: a.txt}",
     "train_source",
     {"only used with `data.task: parallel_text`", "found `copy`", "remove `train_source`"}},
    {"data: {task: toy_translation, num_symbols: 9}",
     "num_symbols",
     {"`data.task: copy, reverse or sort`"}},
    {pairs + ", seed: 2}", "seed", {"toy_sentences or toy_agreement`"}},
    {"optimizer: {momentum: 0.9}", "momentum", {"`optimizer.kind: sgd`", "found `adam`"}},
    {"optimizer: {kind: sgd, beta1: 0.8}", "beta1", {"adam or adamw`", "found `sgd`"}},
    {"schedule: {warmup_steps: 10}",
     "warmup_steps",
     {"linear_warmup, inverse_sqrt or cosine`", "found `constant`"}},
    {"schedule: {decay_steps: 10}", "decay_steps", {"`schedule.kind: cosine`"}},
    {"data: {min_length: 17}", "min_length", {"17, more than `max_length` (16)"}},
    {"data: {max_length: 256}", "max_length", {"257 tokens", "`model.max_length` is 256"}},
    {"model: {max_length: 16}", "max_length", {"17 tokens", "`model.max_length` is 16"}},
    {pairs + ", max_tokens: 256}", "max_tokens", {"257 tokens", "`model.max_length` is 256"}},
    {"train: {max_decode_length: 257}", "max_decode_length", {"257, more than", "to 257 or more"}},
    {pairs + ", vocabulary_size: 500}",
     "vocabulary_size",
     {"`data.subwords: unigram or bpe`", "found `none`"}},
    {pairs + ", subwords: bpe, max_vocabulary: 500}", "max_vocabulary", {"`subwords: none`"}},
    {pairs + ", subwords: unigram, min_frequency: 2}", "min_frequency", {"`subwords: none`"}},
    {text + ", subwords: unigram, unit: word}", "unit", {"`subwords: none`"}},
    {pairs + ", subwords: bpe, subword_alpha: 0.2}",
     "subword_alpha",
     {"unigram or file`", "found `bpe`"}},
    {pairs + ", subwords: unigram, subword_dropout: 0.1}",
     "subword_dropout",
     {"bpe or file`", "found `unigram`"}},
    {pairs + ", subwords: file, shared_vocabulary: true}", "subwords", {"needs `subword_file`"}},
    {pairs + ", subwords: file, subword_file: m}",
     "subwords",
     {"needs `target_subword_file`", "`shared_vocabulary` is false"}},
    {pairs + ", subwords: file, subword_file: m, shared_vocabulary: true, target_subword_file: n}",
     "target_subword_file",
     {"two vocabularies"}},
    {pairs + ", subwords: file, subword_file: m, target_subword_file: n, byte_fallback: true}",
     "byte_fallback",
     {"unigram or bpe`", "found `file`"}},
    {"data: {task: toy_translation}\nmodel: {tie_embeddings: all}",
     "tie_embeddings",
     {"one vocabulary", "toy_translation has two", "to target"}},
    {pairs + "}\nmodel: {tie_embeddings: all}",
     "tie_embeddings",
     {"one vocabulary", "`data.shared_vocabulary` is false"}},
    {"optimizer: {beta1: 0.98, beta2: 0.9}", "beta2", {"too small for `beta1` (0.98)"}},
    {"optimizer: {beta1: 0.5, beta2: 0.0624}", "beta2", {"too small"}},
    {"schedule: {kind: inverse_sqrt}", "kind", {"needs `warmup_steps` of 1 or more", "to 200"}},
    {"schedule: {kind: linear_warmup}\ntrain: {steps: 5}", "kind", {"set `warmup_steps` to 1"}},
    {cosine + ", min_learning_rate: 0.01}",
     "min_learning_rate",
     {"0.01, more than `learning_rate` (0.001)"}},
    {cosine + ", warmup_steps: 50, decay_steps: 50}",
     "decay_steps",
     {"not after `warmup_steps` (50)", "more than 50"}},
    {cosine + ", warmup_steps: 60%, decay_steps: 50%}",
     "decay_steps",
     {"1000, not after `warmup_steps` (1200)"}},
    {cosine + ", warmup_steps: 2000}", "warmup_steps", {"2000, which leaves no step"}},
    {cosine + ", warmup_steps: 2001}", "warmup_steps", {"2001, which leaves no step"}},
    {"schedule: {kind: constant, warmup_steps: 5%}", "warmup_steps", {"used with"}},
    {"train: {steps: 5, epochs: 3}", "epochs", {"both set the length", "remove one"}},
};

/// Valid configs at the limit of a rule.
const std::vector<std::string> consistent = {
    "model: {d_model: 132, num_heads: 3}",
    "model: {d_model: 130, d_head: 32}",
    "model: {skip_scale: 0}",
    "model: {sublayer_scale: 0}",
    bare + ", num_heads: 1}",
    bare + ", num_heads: 1, score: dot_product}",
    bare + ", num_heads: 1, d_model: 130}",
    rotary + "}",
    sentences + "language_model}",
    sentences + "masked_language_model}",
    text + "}",
    text + ", context: 256}",
    masked + ", context: 255}",
    "model: {kind: classifier}\ndata: {task: toy_agreement}",
    "model: {kind: classifier}\ndata: {task: labelled_text, train_text: a}",
    images + ", patch_size: 4, max_length: 7}",
    "train: {batch_tokens: 4096}",
    "model: {normalization: batch_norm}",
    "data: {min_length: 16}",
    "data: {max_length: 255}",
    "data: {task: toy_translation}\nmodel: {max_length: 16}",
    pairs + "}",
    pairs + ", max_tokens: 255}",
    pairs + ", test_source: x, test_target: y}",
    pairs + ", subwords: bpe, vocabulary_size: 500}",
    pairs + ", subwords: bpe, lowercase: true}",
    pairs + ", subwords: unigram, subword_alpha: 0.2}",
    pairs + ", subwords: bpe, subword_dropout: 0.1}",
    pairs + ", subwords: file, subword_file: m, target_subword_file: n}",
    pairs + ", subwords: file, subword_file: m, shared_vocabulary: true}",
    pairs + ", shared_vocabulary: true}\nmodel: {tie_embeddings: all}",
    "model: {tie_embeddings: all}",
    "train: {max_decode_length: 256}",
    "optimizer: {kind: sgd, momentum: 0.9}",
    "optimizer: {beta1: 0.9, beta2: 0.9}",
    "optimizer: {beta1: 0.5, beta2: 0.0625}",  // beta1^2 = sqrt(beta2) = 0.25
    "optimizer: {beta1: 0, beta2: 0}",
    // An unused key may have its default, as in a dumped config.
    "data: {train_source: \"\", lowercase: false}\noptimizer: {momentum: 0.0}",
    "schedule: {kind: linear_warmup, warmup_steps: 2001}",  // the run may be resumed for more steps
    cosine + "}",
    cosine + ", warmup_steps: 2001, decay_steps: 9000}",
    cosine + ", warmup_steps: 50, decay_steps: 51}",
    cosine + ", warmup_steps: 1999}",
    cosine + ", min_learning_rate: 0.001}",
    // With epochs, the number of steps is unknown until the data are read.
    cosine + ", warmup_steps: 20000}\ntrain: {epochs: 3}",
    cosine + ", warmup_steps: 10%, decay_steps: 50}\ntrain: {epochs: 3}",
    "train: {steps: 5, epochs: 0}",
};

}  // namespace

TEST_CASE("a contradiction between keys is reported at one of them, with a hint") {
  for (const Contradiction& row : contradictions) {
    CAPTURE(row.text);
    const std::vector<Diagnostic> errors = config_errors(row.text);
    REQUIRE(errors.size() == 1);
    const Diagnostic& error = errors.front();
    CHECK(error.place.source_line.substr(error.place.column - 1, error.place.length) == row.at);
    CHECK_FALSE(error.hint.empty());
    for (const std::string& word : row.words) {
      CHECK_MESSAGE(contains(error.message + "\n" + error.hint, word), to_string(error));
    }
  }
}

TEST_CASE("consistent configs are accepted") {
  for (const std::string& config : consistent) {
    const std::vector<Diagnostic> errors = config_errors(config);
    CHECK_MESSAGE(errors.empty(), config);
  }
}

TEST_CASE("a contradiction caused by an override is reported for the command line") {
  const auto errors = config_errors("train: {steps: 9}", {"model.num_heads=3"});
  REQUIRE(errors.size() == 1);
  CHECK(errors.front().place.file == "command line: model.num_heads=3");
}

TEST_CASE("keys with an invalid value are not checked for contradictions") {
  CHECK(config_errors("model: {d_model: 130, num_heads: x}").size() == 1);
  CHECK(config_errors("optimizer: {kind: sdg, momentum: 0.9}").size() == 1);
}

}  // namespace tapestry
