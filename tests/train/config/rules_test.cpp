#include "train/config/rules.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "train/config/config.h"
#include "train/config/error.h"

namespace tapestry {
namespace {

std::string problems_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    parse_config(text, "c", overrides);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

const std::string parallel_text_files =
    "  train_source: a\n  train_target: b\n  validation_source: c\n  validation_target: d\n";

}  // namespace

TEST_CASE("d_model has to be a multiple of num_heads") {
  CHECK(problems_of("model:\n  d_model: 130\n") ==
        "c:2:3: `d_model` is 130, not a multiple of `num_heads` (4)\n"
        "    d_model: 130\n"
        "    ^~~~~~~\n"
        "hint: set `d_model` to 128 or 132");
  CHECK(problems_of("model:\n  num_heads: 3\n") ==
        "c:2:3: `d_model` is 128, not a multiple of `num_heads` (3)\n"
        "    num_heads: 3\n"
        "    ^~~~~~~~~\n"
        "hint: set `d_model` to 126 or 129");
  CHECK(problems_of("model:\n  d_model: 3\n").ends_with("hint: set `d_model` to 4"));
  CHECK(problems_of("model:\n  d_model: 132\n  num_heads: 3\n").empty());
}

TEST_CASE("skip_scale and sublayer_scale are refused if both are 0") {
  CHECK(problems_of("model:\n  skip_scale: 0\n  sublayer_scale: 0\n") ==
        "c:2:3: `skip_scale` and `sublayer_scale` are both 0: every layer would output 0\n"
        "    skip_scale: 0\n"
        "    ^~~~~~~~~~\n"
        "hint: set one of them to more than 0");
  CHECK(problems_of("model:\n  skip_scale: 0\n").empty());
  CHECK(problems_of("model:\n  sublayer_scale: 0\n").empty());
}

TEST_CASE("with d_head num_heads need not divide d_model") {
  CHECK(problems_of("model:\n  d_model: 130\n  d_head: 32\n").empty());
  CHECK(problems_of("model:\n  d_model: 130\n  d_head: 0\n").find("multiple") != std::string::npos);
}

TEST_CASE("parameter-free attention has one head, no d_head and no score with parameters") {
  const std::string bare = "model:\n  attention: parameter_free\n";
  CHECK(problems_of(bare) ==
        "c:2:3: `attention: parameter_free` has one head, `num_heads` is 4\n"
        "    attention: parameter_free\n"
        "    ^~~~~~~~~\n"
        "hint: set `num_heads` to 1");
  CHECK(problems_of(bare + "  num_heads: 1\n").empty());
  CHECK(problems_of(bare + "  num_heads: 1\n  score: dot_product\n").empty());
  CHECK(problems_of(bare + "  num_heads: 1\n  score: additive\n") ==
        "c:4:3: `score: additive` has parameters, `attention: parameter_free` has none\n"
        "    score: additive\n"
        "    ^~~~~\n"
        "hint: set `score` to scaled_dot_product or dot_product, or `attention` to multi_head");
  CHECK(problems_of(bare + "  num_heads: 1\n  d_head: 64\n")
            .ends_with("hint: remove `d_head`, or set `model.attention` to multi_head"));
  CHECK(problems_of(bare + "  num_heads: 1\n  d_model: 130\n").empty());
}

TEST_CASE("rotary positions need an even width of heads and scores from dot products") {
  const std::string rotary = "model:\n  positions: rotary\n";
  CHECK(problems_of(rotary).empty());
  CHECK(problems_of(rotary + "  d_head: 5\n") ==
        "c:2:3: `positions: rotary` needs an even head width, found 5\n"
        "    positions: rotary\n"
        "    ^~~~~~~~~\n"
        "hint: set `d_head` to 6");
  CHECK(problems_of(rotary + "  attention: parameter_free\n  num_heads: 1\n  d_model: 7\n")
            .ends_with("hint: set `d_model` to 8"));
  const std::string broken = problems_of(rotary + "  d_model: 7\n  num_heads: 2\n");
  CHECK(broken.starts_with("c:3:3: `d_model` is 7, not a multiple of `num_heads` (2)\n"));
  CHECK(broken.find("turns pairs") == std::string::npos);
  CHECK(problems_of(rotary + "  d_model: 6\n  num_heads: 2\n").starts_with("c:2:3: `positions: "));
  CHECK(problems_of(rotary + "  score: additive\n") ==
        "c:3:3: `positions: rotary` works through dot products, `score: additive` has none\n"
        "    score: additive\n"
        "    ^~~~~\n"
        "hint: set `score` to scaled_dot_product, dot_product or bilinear, or choose other "
        "positions");
}

TEST_CASE("a contradiction caused by an override is reported for the command line") {
  CHECK(problems_of("train:\n  steps: 9\n", {"model.num_heads=3"}) ==
        "command line: model.num_heads=3: `d_model` is 128, not a multiple of `num_heads` (3)\n"
        "hint: set `d_model` to 126 or 129");
}

TEST_CASE("a key with an invalid value is not checked for contradictions") {
  CHECK(problems_of("model:\n  d_model: 130\n  num_heads: x\n") ==
        "c:3:14: expected a whole number from 1 to 1024, found \"x\"\n"
        "    num_heads: x\n"
        "               ^\n"
        "hint: write for example 4, the default");
}

TEST_CASE("each kind of model is used with its tasks only") {
  CHECK(problems_of("model:\n  kind: language_model\n") ==
        "c:2:3: `kind: language_model` does not support `task: copy`\n"
        "    kind: language_model\n"
        "    ^~~~\n"
        "hint: set `data.task` to text or toy_sentences, or choose another `model.kind`");
  CHECK(problems_of("data:\n  task: toy_agreement\n") ==
        "c:2:3: `kind: seq2seq` does not support `task: toy_agreement`\n"
        "    task: toy_agreement\n"
        "    ^~~~\n"
        "hint: set `data.task` to copy, reverse, sort, toy_translation or parallel_text, or "
        "choose another `model.kind`");
  CHECK(problems_of("model:\n  kind: masked_language_model\n")
            .ends_with(
                "hint: set `data.task` to text or toy_sentences, or choose another `model.kind`"));
  CHECK(problems_of("model:\n  kind: classifier\n")
            .ends_with("hint: set `data.task` to labelled_text or toy_agreement, or choose another "
                       "`model.kind`"));
  CHECK(problems_of("model:\n  kind: vision_transformer\n")
            .ends_with("hint: set `data.task` to images, or choose another `model.kind`"));
  for (const char* both : {"language_model}\ndata: {task: toy_sentences}",
                           "language_model}\ndata: {task: text, train_text: a}",
                           "masked_language_model}\ndata: {task: toy_sentences}",
                           "masked_language_model}\ndata: {task: text, train_text: a}",
                           "classifier}\ndata: {task: toy_agreement}",
                           "classifier}\ndata: {task: labelled_text, train_text: a}",
                           "vision_transformer}\ndata: {task: images, train_images: a}"}) {
    CHECK(problems_of(std::string("model: {kind: ") + both + "\n").empty());
  }
}

TEST_CASE("text, labelled text and images need their training file") {
  CHECK(problems_of("model:\n  kind: language_model\ndata:\n  task: text\n") ==
        "c:4:3: task text needs data.train_text\n"
        "    task: text\n"
        "    ^~~~\n"
        "hint: name the file here or on the command line: data.train_text=FILE");
  CHECK(problems_of("model:\n  kind: classifier\ndata:\n  task: labelled_text\n")
            .starts_with("c:4:3: task labelled_text needs data.train_text\n"));
  CHECK(problems_of("model:\n  kind: vision_transformer\ndata:\n  task: images\n")
            .ends_with("hint: name the file here or on the command line: data.train_images=FILE"));
}

TEST_CASE("data.context is limited by model.max_length") {
  CHECK(problems_of("model: {kind: language_model}\ndata:\n  task: text\n  train_text: a\n"
                    "  context: 257\n") ==
        "c:5:3: `context` is 257, and 257 tokens are read at once; `model.max_length` is 256\n"
        "    context: 257\n"
        "    ^~~~~~~\n"
        "hint: set `model.max_length` to 257 or more");
  CHECK(problems_of("model: {kind: language_model}\ndata:\n  task: text\n  train_text: a\n"
                    "  context: 256\n")
            .empty());
  // It reads the last token of a window, too.
  CHECK(problems_of("model: {kind: masked_language_model}\ndata:\n  task: text\n  train_text: a\n"
                    "  context: 256\n")
            .starts_with("c:5:3: `context` is 256, and 257 tokens are read at once; "
                         "`model.max_length` is 256\n"));
  CHECK(problems_of("model: {kind: masked_language_model}\ndata:\n  task: text\n  train_text: a\n"
                    "  context: 255\n")
            .empty());
}

TEST_CASE("patches have to divide an image, and their number is limited by model.max_length") {
  const std::string images =
      "data: {task: images, train_images: a, image_height: 8, image_width: 12}\n"
      "model:\n  kind: vision_transformer\n";
  CHECK(problems_of(images + "  patch_size: 8\n") ==
        "c:4:3: `patch_size` is 8, which does not divide images of 8 x 12\n"
        "    patch_size: 8\n"
        "    ^~~~~~~~~~\n"
        "hint: set `patch_size` to a number that divides height and width");
  CHECK(problems_of(images + "  patch_size: 12\n")
            .starts_with("c:4:3: `patch_size` is 12, which does not divide images of 8 x 12\n"));
  CHECK(problems_of(images + "  patch_size: 4\n  max_length: 6\n") ==
        "c:5:3: an image has 6 patches, and with the class token 7 tokens; `model.max_length` is "
        "6\n"
        "    max_length: 6\n"
        "    ^~~~~~~~~~\n"
        "hint: set `model.max_length` to 7 or more");
  CHECK(problems_of(images + "  patch_size: 4\n  max_length: 7\n").empty());
}

TEST_CASE("batches of tokens are refused with mixed lengths, and for images") {
  CHECK(problems_of("model: {normalization: batch_norm}\ntrain: {batch_tokens: 4096}\n") ==
        "c:2:9: `batch_tokens` makes batches of sentences of similar length, `normalization: "
        "batch_norm` needs batches of mixed length\n"
        "    train: {batch_tokens: 4096}\n"
        "            ^~~~~~~~~~~~\n"
        "hint: remove `batch_tokens`, or set `model.normalization` to layer_norm or rms_norm");
  CHECK(problems_of("train: {batch_tokens: 4096}\n").empty());
  CHECK(problems_of("model: {normalization: batch_norm}\n").empty());
  const std::string images =
      "data: {task: images, train_images: a}\n"
      "model: {kind: vision_transformer}\n";
  CHECK(problems_of(images + "train: {batch_tokens: 64}\n") ==
        "c:3:9: `batch_tokens` is used with text, whose sentences have a length\n"
        "    train: {batch_tokens: 64}\n"
        "            ^~~~~~~~~~~~\n"
        "hint: remove `batch_tokens`, and set `batch_size`");
}

TEST_CASE("keys that the kind of model does not use are refused") {
  CHECK(problems_of("model:\n  patch_size: 4\n") ==
        "c:2:3: `patch_size` is used with `model.kind: vision_transformer` only, found `seq2seq`\n"
        "    patch_size: 4\n"
        "    ^~~~~~~~~~\n"
        "hint: remove `patch_size`, or set `model.kind` to vision_transformer");
  CHECK(problems_of("model:\n  pooling: mean\n")
            .starts_with("c:2:3: `pooling` is used with `model.kind: classifier or "
                         "vision_transformer` only, found `seq2seq`\n"));
  const std::string sentences = "data: {task: toy_sentences}\nmodel:\n  kind: ";
  CHECK(problems_of(sentences + "language_model\n  num_encoder_layers: 3\n")
            .starts_with("c:4:3: `num_encoder_layers` is used with `model.kind: "));
  CHECK(problems_of(sentences + "masked_language_model\n  num_decoder_layers: 3\n")
            .starts_with("c:4:3: `num_decoder_layers` is used with `model.kind: seq2seq or "
                         "language_model` only, found `masked_language_model`\n"));
  CHECK(problems_of("data: {task: toy_agreement}\nmodel:\n  kind: classifier\n"
                    "  tie_embeddings: target\n")
            .starts_with("c:4:3: `tie_embeddings` is used with `model.kind: "));
}

TEST_CASE("data.min_length is at most data.max_length") {
  CHECK(problems_of("data:\n  min_length: 17\n") ==
        "c:2:3: `min_length` is 17, more than `max_length` (16)\n"
        "    min_length: 17\n"
        "    ^~~~~~~~~~\n"
        "hint: set `min_length` to 16 or less, or raise `max_length`");
  CHECK(problems_of("data:\n  min_length: 16\n").empty());
}

TEST_CASE("generated sequences and one special symbol are limited by model.max_length") {
  CHECK(problems_of("data:\n  max_length: 256\n") ==
        "c:2:3: `max_length` is 256, and with `<bos>` or `<eos>` 257 tokens; `model.max_length` is "
        "256\n"
        "    max_length: 256\n"
        "    ^~~~~~~~~~\n"
        "hint: set `model.max_length` to 257 or more");
  CHECK(problems_of("data:\n  max_length: 255\n").empty());
  CHECK(problems_of("model:\n  max_length: 16\n")
            .starts_with("c:2:3: `max_length` is 16, and with `<bos>` or `<eos>` 17 tokens; "
                         "`model.max_length` is 16\n"));
  CHECK(problems_of("data:\n  task: toy_translation\nmodel:\n  max_length: 16\n").empty());
}

TEST_CASE("data.max_tokens is limited by model.max_length") {
  CHECK(problems_of("data:\n  task: parallel_text\n  max_tokens: 256\n" + parallel_text_files)
            .starts_with("c:3:3: `max_tokens` is 256, and with `<bos>` or `<eos>` 257 tokens; "
                         "`model.max_length` is 256\n"));
  CHECK(problems_of("data:\n  task: parallel_text\n  max_tokens: 255\n" + parallel_text_files)
            .empty());
}

TEST_CASE("keys of words and of subwords exclude each other") {
  const std::string pairs = "data:\n  task: parallel_text\n" + parallel_text_files;
  CHECK(problems_of(pairs + "  subwords: bpe\n  vocabulary_size: 500\n").empty());
  CHECK(problems_of(pairs + "  subwords: bpe\n  lowercase: true\n").empty());
  CHECK(problems_of(pairs + "  vocabulary_size: 500\n")
            .starts_with("c:7:3: `vocabulary_size` is used with `data.subwords: unigram or bpe` "
                         "only, found `none`\n"));
  CHECK(problems_of(pairs + "  subwords: bpe\n  max_vocabulary: 500\n")
            .starts_with("c:8:3: `max_vocabulary` is used with `subwords: none` only\n"));
  CHECK(problems_of(pairs + "  subwords: unigram\n  min_frequency: 2\n")
            .starts_with("c:8:3: `min_frequency` is used with `subwords: none` only\n"));
  const std::string text = "data:\n  task: text\n  train_text: a\n  subwords: unigram\n";
  const std::string language_model = "model:\n  kind: language_model\n";
  CHECK(problems_of(text + language_model).empty());
  CHECK(problems_of(text + "  unit: word\n" + language_model)
            .starts_with("c:5:3: `unit` is used with `subwords: none` only\n"));
  CHECK(problems_of("data:\n  subwords: bpe\n")
            .starts_with("c:2:3: `subwords` is used with `data.task: "));
  CHECK(problems_of(pairs + "  subwords: bpe\n  character_coverage: 0.9\n")
            .find("expected a number in [0.98, 1], found \"0.9\"") != std::string::npos);
}

TEST_CASE("each kind of subword regularization needs its kind of subword model") {
  const std::string pairs = "data:\n  task: parallel_text\n" + parallel_text_files;
  CHECK(problems_of(pairs + "  subwords: unigram\n  subword_alpha: 0.2\n").empty());
  CHECK(problems_of(pairs + "  subwords: bpe\n  subword_dropout: 0.1\n").empty());
  CHECK(problems_of(pairs + "  subwords: bpe\n  subword_alpha: 0.2\n")
            .starts_with("c:8:3: `subword_alpha` is used with `data.subwords: unigram or file` "
                         "only, found `bpe`\n"));
  CHECK(problems_of(pairs + "  subwords: unigram\n  subword_dropout: 0.1\n")
            .starts_with("c:8:3: `subword_dropout` is used with `data.subwords: bpe or file` "
                         "only, found `unigram`\n"));
}

TEST_CASE("subwords from files need a model file for each vocabulary") {
  const std::string pairs =
      "data:\n  task: parallel_text\n" + parallel_text_files + "  subwords: file\n";
  CHECK(problems_of(pairs).find("`subwords: file` needs `subword_file`") != std::string::npos);
  CHECK(problems_of(pairs + "  subword_file: a.model\n")
            .starts_with("c:7:3: `subwords: file` needs `target_subword_file`, since "
                         "`shared_vocabulary` is false\n"));
  CHECK(problems_of(pairs + "  subword_file: a.model\n  target_subword_file: b.model\n").empty());
  const std::string shared = pairs + "  subword_file: a.model\n  shared_vocabulary: true\n";
  CHECK(problems_of(shared).empty());
  CHECK(problems_of(shared + "  target_subword_file: b.model\n")
            .starts_with("c:10:3: `target_subword_file` is used with two vocabularies only"));
  CHECK(problems_of(pairs + "  subword_file: a.model\n  target_subword_file: b.model\n"
                            "  byte_fallback: true\n")
            .starts_with("c:10:3: `byte_fallback` is used with `data.subwords: unigram or bpe` "
                         "only, found `file`"));
}

TEST_CASE("train.max_decode_length is limited by model.max_length") {
  CHECK(problems_of("train:\n  max_decode_length: 257\n") ==
        "c:2:3: `max_decode_length` is 257, more than `model.max_length` (256)\n"
        "    max_decode_length: 257\n"
        "    ^~~~~~~~~~~~~~~~~\n"
        "hint: set `model.max_length` to 257 or more");
  CHECK(problems_of("train:\n  max_decode_length: 256\n").empty());
}

TEST_CASE("parallel text needs its files") {
  CHECK(problems_of("data:\n  task: parallel_text\n") ==
        "c:2:3: task parallel_text needs data.train_source, data.train_target, "
        "data.validation_source, data.validation_target\n"
        "    task: parallel_text\n"
        "    ^~~~\n"
        "hint: name the files here or on the command line: data.train_source=FILE "
        "data.train_target=FILE data.validation_source=FILE data.validation_target=FILE");
  CHECK(problems_of("data:\n  task: parallel_text\n" + parallel_text_files, {"data.train_target="})
            .starts_with("c:2:3: task parallel_text needs data.train_target\n"));
  CHECK(problems_of("data:\n  task: parallel_text\n" + parallel_text_files).empty());
}

TEST_CASE("a test set of parallel text has two files or none") {
  CHECK(problems_of("data:\n  task: parallel_text\n  test_target: x\n" + parallel_text_files) ==
        "c:3:3: a test set needs two files, `test_source` is missing\n"
        "    test_target: x\n"
        "    ^~~~~~~~~~~\n"
        "hint: name both files, or none");
  CHECK(problems_of("data:\n  task: parallel_text\n  test_source: x\n" + parallel_text_files)
            .starts_with("c:3:3: a test set needs two files, `test_target` is missing\n"));
  CHECK(problems_of("data:\n  task: parallel_text\n  test_source: x\n  test_target: y\n" +
                    parallel_text_files)
            .empty());
}

TEST_CASE("keys that the task does not use are refused") {
  CHECK(problems_of("data:\n  train_source: a.txt\n") ==
        "c:2:3: `train_source` is used with `data.task: parallel_text` only, found `copy`\n"
        "    train_source: a.txt\n"
        "    ^~~~~~~~~~~~\n"
        "hint: remove `train_source`, or set `data.task` to parallel_text");
  CHECK(problems_of("data:\n  task: toy_translation\n  num_symbols: 9\n") ==
        "c:3:3: `num_symbols` is used with `data.task: copy, reverse or sort` only, found "
        "`toy_translation`\n"
        "    num_symbols: 9\n"
        "    ^~~~~~~~~~~\n"
        "hint: remove `num_symbols`, or set `data.task` to copy, reverse or sort");
  CHECK(problems_of("data:\n  task: parallel_text\n  seed: 2\n" + parallel_text_files)
            .starts_with("c:3:3: `seed` is used with `data.task: copy, reverse, sort, "
                         "toy_translation, toy_sentences or toy_agreement` only, found "
                         "`parallel_text`\n"));
}

TEST_CASE("keys that the optimizer or the schedule does not use are refused") {
  CHECK(problems_of("optimizer:\n  momentum: 0.9\n") ==
        "c:2:3: `momentum` is used with `optimizer.kind: sgd` only, found `adam`\n"
        "    momentum: 0.9\n"
        "    ^~~~~~~~\n"
        "hint: remove `momentum`, or set `optimizer.kind` to sgd");
  CHECK(problems_of("optimizer:\n  kind: sgd\n  beta1: 0.8\n")
            .starts_with("c:3:3: `beta1` is used with `optimizer.kind: adam or adamw` only, found "
                         "`sgd`\n"));
  CHECK(problems_of("optimizer:\n  kind: sgd\n  momentum: 0.9\n").empty());
  CHECK(problems_of("schedule:\n  warmup_steps: 10\n")
            .starts_with("c:2:3: `warmup_steps` is used with `schedule.kind: linear_warmup, "
                         "inverse_sqrt or cosine` only, found `constant`\n"));
  CHECK(problems_of("schedule:\n  decay_steps: 10\n")
            .starts_with("c:2:3: `decay_steps` is used with `schedule.kind: cosine` only"));
}

TEST_CASE("an unused key may be given with its default, as a dumped config does") {
  CHECK(
      problems_of("data:\n  train_source: \"\"\n  lowercase: false\noptimizer:\n  momentum: 0.0\n")
          .empty());
}

TEST_CASE("whether a key is used is not checked while the choice is invalid") {
  CHECK(problems_of("optimizer:\n  kind: sdg\n  momentum: 0.9\n") ==
        "c:2:9: expected sgd, adam or adamw, found \"sdg\"\n"
        "    kind: sdg\n"
        "          ^~~\n"
        "hint: did you mean `sgd`?");
}

TEST_CASE("tying all embeddings needs one vocabulary") {
  CHECK(problems_of("data:\n  task: toy_translation\nmodel:\n  tie_embeddings: all\n") ==
        "c:4:3: `tie_embeddings: all` needs one vocabulary, task toy_translation has two\n"
        "    tie_embeddings: all\n"
        "    ^~~~~~~~~~~~~~\n"
        "hint: set `tie_embeddings` to target");
  const std::string text =
      "model:\n  tie_embeddings: all\ndata:\n  task: parallel_text\n" + parallel_text_files;
  CHECK(problems_of(text) ==
        "c:2:3: `tie_embeddings: all` needs one vocabulary, `data.shared_vocabulary` is false\n"
        "    tie_embeddings: all\n"
        "    ^~~~~~~~~~~~~~\n"
        "hint: set `data.shared_vocabulary` to true, or `tie_embeddings` to target");
  CHECK(problems_of(text + "  shared_vocabulary: true\n").empty());
  CHECK(problems_of("model:\n  tie_embeddings: all\n").empty());
}

TEST_CASE("betas for which Adam need not converge are refused") {
  CHECK(problems_of("optimizer:\n  beta1: 0.98\n  beta2: 0.9\n") ==
        "c:3:3: `beta2` is 0.9, too small for `beta1` (0.98): Adam may not converge\n"
        "    beta2: 0.9\n"
        "    ^~~~~\n"
        "hint: set `beta2` nearer to 1 than `beta1`, such as 0.98 and 0.9");
  CHECK(problems_of("optimizer:\n  beta1: 0.9\n  beta2: 0.9\n").empty());
  CHECK(problems_of("optimizer:\n  beta1: 0.5\n  beta2: 0.0625\n").empty());  // equal: 0.25
  CHECK_FALSE(problems_of("optimizer:\n  beta1: 0.5\n  beta2: 0.0624\n").empty());
  CHECK(problems_of("optimizer:\n  beta1: 0\n  beta2: 0\n").empty());
}

TEST_CASE("schedules with a warm-up need warmup_steps") {
  CHECK(problems_of("schedule:\n  kind: inverse_sqrt\n") ==
        "c:2:3: `kind: inverse_sqrt` needs `warmup_steps` of 1 or more\n"
        "    kind: inverse_sqrt\n"
        "    ^~~~\n"
        "hint: set `warmup_steps` to 200");
  CHECK(problems_of("schedule:\n  kind: linear_warmup\ntrain:\n  steps: 5\n")
            .ends_with("hint: set `warmup_steps` to 1"));
  CHECK(problems_of("schedule:\n  kind: cosine\n").empty());
}

TEST_CASE("warmup_steps may exceed train.steps, as the run may be resumed") {
  CHECK(problems_of("schedule:\n  kind: linear_warmup\n  warmup_steps: 2001\n").empty());
  CHECK(problems_of("schedule:\n  kind: cosine\n  warmup_steps: 2001\n  decay_steps: 9000\n")
            .empty());
}

TEST_CASE("a cosine decays after its warm-up, from the peak to the floor") {
  CHECK(problems_of("schedule:\n  kind: cosine\n  min_learning_rate: 0.01\n") ==
        "c:3:3: `min_learning_rate` is 0.01, more than `learning_rate` (0.001)\n"
        "    min_learning_rate: 0.01\n"
        "    ^~~~~~~~~~~~~~~~~\n"
        "hint: set `min_learning_rate` to 0.001 or less");
  CHECK(problems_of("schedule:\n  kind: cosine\n  min_learning_rate: 0.001\n").empty());
  CHECK(problems_of("schedule:\n  kind: cosine\n  warmup_steps: 1999\n").empty());
  CHECK(problems_of("schedule:\n  kind: cosine\n  warmup_steps: 50\n  decay_steps: 50\n") ==
        "c:4:3: `decay_steps` is 50, not after `warmup_steps` (50)\n"
        "    decay_steps: 50\n"
        "    ^~~~~~~~~~~\n"
        "hint: set `decay_steps` to more than 50, or to 0 for `train.steps`");
  CHECK(problems_of("schedule:\n  kind: cosine\n  warmup_steps: 50\n  decay_steps: 51\n").empty());
  CHECK(problems_of("schedule:\n  kind: cosine\n  warmup_steps: 2000\n")
            .starts_with("c:3:3: `warmup_steps` is 2000, which leaves no step"));
  CHECK(problems_of("schedule:\n  kind: cosine\n  warmup_steps: 2001\n")
            .starts_with("c:3:3: `warmup_steps` is 2001, which leaves no step"));
}

}  // namespace tapestry
