// SPDX-License-Identifier: BSD-3-Clause
#include <filesystem>
#include <string>
#include <vector>

#include "data/text/subwords.h"
#include "tests/train/kinds.h"
#include "train/base/error.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_file.h"

/// Tests data.subwords, from the config to the output of a trained model.
namespace tapestry {
namespace {

using test::check_rejected;
using test::check_words;
using test::contains;
using test::KindWorkplace;

const std::string settings =
    "schedule: {learning_rate: 0.01}\n"
    "train: {steps: 12, batch_size: 4, threads: 1, log_every: 4, validate_every: 6, save_every: "
    "5}\n";

/// A translation task with subwords.
struct PairWorkplace : test::Workplace {
  PairWorkplace() {
    std::string source, target;
    const std::vector<std::string> words = {"eins", "zwei", "drei", "zweifach", "einfach"};
    const std::vector<std::string> translated = {"one", "two", "three", "twofold", "onefold"};
    for (std::size_t i = 0; i < 22; ++i) {
      const std::size_t a = i % 5, b = i * 7 % 5;
      source += words[a] + " " + words[b] + ".\n";
      target += translated[a] + " " + translated[b] + ".\n";
    }
    write("train.de", source);
    write("train.en", target);
    write("pairs.yaml",
          "data: {task: parallel_text, train_source: train.de, train_target: train.en, "
          "validation_source: train.de, validation_target: train.en, subwords: unigram, "
          "vocabulary_size: 20}\n"
          "model: {d_model: 16, num_heads: 2, d_ff: 32, num_encoder_layers: 1, "
          "num_decoder_layers: 1, max_length: 40}\n" +
              settings);
  }

  /// Trains a run in a directory and returns the last checkpoint.
  ArrayStore train(const std::string& directory, const std::string& more = "") const {
    out("train pairs.yaml train.run_dir=" + directory + " " + more);
    return has(last(directory)) ? read_checkpoint(*this / last(directory)) : ArrayStore();
  }
  /// Resumes a run of 7 steps with more threads.
  ArrayStore resume(const std::string& directory) const {
    out("train train.steps=12 train.threads=3 --resume " + directory);
    return read_checkpoint(*this / last(directory));
  }
  static std::string last(const std::string& directory) {
    return test::TinyWorkplace::checkpoint(12, directory);
  }
};

void check_same_but_config(const ArrayStore& a, const ArrayStore& b) {
  CHECK(a.size() == b.size());
  for (const auto& array : a) {
    CAPTURE(array.first);
    if (array.first != "config") CHECK(b.at(array.first) == array.second);
  }
}

TEST_CASE("a translation model with subwords reads and writes text") {
  const PairWorkplace work;
  CHECK(contains(work.out("train pairs.yaml train.steps=150"), "vocabularies of 20 and 20"));
  CHECK(work.out("translate runs/pairs", "zwei drei.\n\neinfach zweifach.\n") ==
        "two three.\n\nonefold twofold.\n");
  check_words(work.out("translate runs/pairs --align --json", "zwei drei.\n"),
              {R"("source_words":["zwei","drei."])", R"("words":["two","three."])"});
  const std::string aligned = work.out("translate runs/pairs --align", "zwei drei.\n");
  REQUIRE(aligned.starts_with("two three. ||| "));
  CHECK(aligned.find_first_not_of("01- \n", 15) == std::string::npos);
  CHECK(contains(work.run("evaluate runs/pairs").out, "validation"));
}

TEST_CASE("a run on subwords, fixed or sampled, resumes bit-identically on more threads") {
  const PairWorkplace work;
  ArrayStore without_sampling;
  for (const std::string keys :
       {"data.subwords=unigram", "data.subwords=unigram data.subword_alpha=0.2",
        "data.subwords=bpe data.subword_dropout=0.3"}) {
    CAPTURE(keys);
    const ArrayStore whole = work.train("whole", keys + " --fresh");
    work.train("halves", keys + " --fresh train.steps=7");
    check_same_but_config(work.resume("halves"), whole);
    if (without_sampling.size() == 0) without_sampling = whole;
    const std::string weight = "parameters/output.weight", words = "data/source_subwords";
    const bool same_subwords = whole.at(words) == without_sampling.at(words);
    CHECK(same_subwords == keys.starts_with("data.subwords=unigram"));
    CHECK((whole.at(weight) == without_sampling.at(weight)) == keys.ends_with("unigram"));
  }
}

TEST_CASE("a checkpoint whose subword model is damaged or has different words is rejected") {
  const PairWorkplace work;
  const ArrayStore whole = work.train("whole");
  const auto check = [&](const std::string& model, const char* message) {
    ArrayStore damaged;
    for (const auto& [path, array] : whole) {
      if (path != "data/source_subwords") damaged.put(path, array);
    }
    damaged.put_text("data/source_subwords", model);
    CHECK_THROWS_WITH_AS(saved_vocabularies(damaged), doctest::Contains(message), CheckpointError);
  };
  check("no model", "data/source_subwords: is not a SentencePiece model");
  check(saved_vocabularies(whole).target->subwords()->serialized(),
        "the words differ from the tokens of its subword model");
}

TEST_CASE("language models, masked models and classifiers with subwords read and write text") {
  const KindWorkplace work;
  std::string text, labels;
  for (int i = 0; i < 40; ++i) {
    text += i % 3 == 0 ? "a bad cab\n" : "dab a fab\n";
    labels += i % 3 == 0 ? "no\tit rains again\n" : "yes\ta fine day\n";
  }
  work.write("text.txt", text);
  work.write("labels.txt", labels);
  work.out("train language.yaml data.subwords=bpe data.vocabulary_size=20");
  CHECK(contains(work.run("evaluate runs/language").out, "bits per subword"));
  const std::string generated = work.run("generate runs/language 'a bad' --tokens 30").out;
  CHECK(generated.starts_with("a bad"));
  CHECK_FALSE(contains(generated, "\u2581"));
  CHECK_FALSE(contains(generated, "<newline>"));

  work.write("masked_text.yaml",
             "data: {task: text, train_text: text.txt, context: 6, subwords: unigram, "
             "vocabulary_size: 11}\n"
             "model: {kind: masked_language_model, d_model: 32, num_heads: 2, "
             "num_encoder_layers: 1, d_ff: 64, max_length: 8}\n" +
                 settings);
  work.out("train masked_text.yaml");
  const std::string filled = work.out("fill runs/masked_text", "a _ cab\n\na cab\n");
  CHECK(filled.starts_with("a"));
  CHECK(filled.ends_with("\n\na cab\n"));
  CHECK_FALSE(contains(filled, "_"));
  CHECK_FALSE(contains(filled, "\u2047"));

  work.out("train classes.yaml data.subwords=unigram data.vocabulary_size=19 train.steps=60");
  const std::string classified =
      work.run("classify runs/classes", "it rains again\na fine day\n").out;
  CHECK(classified.starts_with("no\t"));
  CHECK(contains(classified, "\nyes\t"));
}

TEST_CASE("byte tokens for line breaks do not split an output into lines") {
  const PairWorkplace work;
  work.out(
      "train pairs.yaml data.byte_fallback=true data.vocabulary_size=276 "
      "data.text_normalization=identity train.steps=1");
  work.write("ends", "<0x0A>\n<0x0D>\n<0x00>\n");
  const std::string translate = "translate runs/pairs --allow ends --min-length 4 --max-length 4";
  CHECK(work.run(translate, "zwei\ndrei\n").out == "    \n    \n");
  CHECK(work.run(translate + " --n-best 1", "zwei\n").out.starts_with("0 |||      ||| LogP= "));
}

}  // namespace
}  // namespace tapestry
