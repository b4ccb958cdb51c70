#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "data/text/subwords.h"
#include "tests/support/contains.h"
#include "tests/train/kind_configs.h"
#include "train/base/error.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_file.h"

/// data.subwords from the config to the answers of a trained model.
namespace tapestry {
namespace {

using Arguments = std::vector<std::string>;
using test::contains;
using test::KindWorkplace;
using test::Outcome;
using test::Workplace;

const std::string settings =
    "schedule: {learning_rate: 0.01}\n"
    "train: {steps: 12, batch_size: 4, threads: 1, log_every: 4, validate_every: 6, save_every: "
    "5}\n";

/// A translation task of subwords.
struct PairWorkplace : Workplace {
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

  std::string checkpoint(std::uint64_t step) const {
    return "runs/pairs/checkpoints/step-" + std::string(step < 10 ? "0000000" : "000000") +
           std::to_string(step) + ".h5";
  }
};

void check_refusal(const Outcome& outcome, int code, const std::string& part) {
  CHECK(outcome.code == code);
  CHECK(contains(outcome.err, part));
}

/// Two workplaces have files of different paths.
void check_same_but_config(const ArrayStore& a, const ArrayStore& b) {
  CHECK(a.size() == b.size());
  for (const auto& array : a) {
    CAPTURE(array.first);
    if (array.first != "config") CHECK(b.at(array.first) == array.second);
  }
}

TEST_CASE("a translation model of subwords reads and writes text") {
  const PairWorkplace work;
  const Outcome trained = work.run({"train", "pairs.yaml", "train.steps=150"});
  CHECK(trained.err.empty());
  CHECK(contains(trained.out, "vocabularies of 20 and 20"));
  const Outcome translated =
      work.run({"translate", "runs/pairs"}, "zwei drei.\n\neinfach zweifach.\n");
  CHECK(translated.code == 0);
  CHECK_FALSE(contains(translated.out, "\u2581"));
  CHECK(translated.out == "two three.\n\nonefold twofold.\n");
  const std::string object =
      work.run({"translate", "runs/pairs", "--align", "--json"}, "zwei drei.\n").out;
  CHECK(contains(object, R"("source_words":["zwei","drei."])"));
  CHECK(contains(object, R"("words":["two","three."])"));
  const std::string aligned = work.run({"translate", "runs/pairs", "--align"}, "zwei drei.\n").out;
  REQUIRE(aligned.starts_with("two three. ||| "));
  CHECK(aligned.find_first_not_of("01- \n", std::string("two three. ||| ").size()) ==
        std::string::npos);
  CHECK(contains(work.run({"evaluate", "runs/pairs"}).out, "validation"));
}

TEST_CASE("a run of subwords resumes bit-identically, on more threads, without its model file") {
  const PairWorkplace whole;
  REQUIRE(whole.run({"train", "pairs.yaml"}).code == 0);
  const ArrayStore snapshot = read_checkpoint(whole / whole.checkpoint(12));
  const auto model = saved_vocabularies(snapshot).source.subwords();
  REQUIRE(model);
  CHECK(snapshot.get_text("data/source_subwords") == model->serialized());
  CHECK(saved_vocabularies(snapshot).target->subwords() != nullptr);

  const PairWorkplace halves;
  REQUIRE(halves.run({"train", "pairs.yaml", "train.steps=7"}).code == 0);
  const Outcome resumed =
      halves.run({"train", "--resume", "runs/pairs", "train.steps=12", "train.threads=3"});
  CHECK(resumed.code == 0);
  check_same_but_config(read_checkpoint(halves / halves.checkpoint(12)), snapshot);

  const PairWorkplace other;
  other.write("source.model", model->serialized());
  other.write("target.model", saved_vocabularies(snapshot).target->subwords()->serialized());
  const std::vector<std::string> files = {"data.subwords=file", "data.vocabulary_size=8000",
                                          "data.subword_file=source.model",
                                          "data.target_subword_file=target.model"};
  Arguments begin = {"train", "pairs.yaml", "train.steps=7"};
  begin.insert(begin.end(), files.begin(), files.end());
  REQUIRE(other.run(begin).code == 0);
  std::filesystem::remove(other / "source.model");
  std::filesystem::remove(other / "target.model");
  CHECK(other.run({"train", "--resume", "runs/pairs", "train.steps=12"}).code == 0);
  const ArrayStore end = read_checkpoint(other / other.checkpoint(12));
  for (const auto& [path, array] : snapshot) {
    if (path.starts_with("parameters/") || path.starts_with("data/")) CHECK(end.at(path) == array);
  }
}

TEST_CASE("a run with subword regularization resumes bit-identically on more threads") {
  const std::vector<Arguments> kinds = {{"data.subword_alpha=0.2"},
                                        {"data.subwords=bpe", "data.subword_dropout=0.3"}};
  for (const Arguments& kind : kinds) {
    CAPTURE(kind.front());
    const auto train = [&](const PairWorkplace& work, const std::string& steps) {
      Arguments arguments = {"train", "pairs.yaml", "--fresh", steps};
      arguments.insert(arguments.end(), kind.begin(), kind.end());
      REQUIRE(work.run(arguments).code == 0);
    };
    const PairWorkplace whole, halves;
    train(whole, "train.steps=12");
    train(halves, "train.steps=7");
    const Outcome resumed =
        halves.run({"train", "--resume", "runs/pairs", "train.steps=12", "train.threads=3"});
    CHECK(resumed.code == 0);
    const ArrayStore end = read_checkpoint(whole / whole.checkpoint(12));
    check_same_but_config(read_checkpoint(halves / halves.checkpoint(12)), end);

    const PairWorkplace plain;
    Arguments without = {"train", "pairs.yaml", "train.steps=12"};
    if (kind.size() > 1) without.push_back(kind.front());
    REQUIRE(plain.run(without).code == 0);
    const std::string weight = "parameters/output.weight";
    CHECK(read_checkpoint(plain / plain.checkpoint(12)).at(weight) != end.at(weight));
  }
}

TEST_CASE("a checkpoint whose subword model is damaged is refused") {
  const PairWorkplace work;
  REQUIRE(work.run({"train", "pairs.yaml"}).code == 0);
  const ArrayStore good = read_checkpoint(work / work.checkpoint(12));
  const auto with_model = [&](const std::string& bytes) {
    ArrayStore damaged;
    for (const auto& [path, array] : good) {
      if (path != "data/source_subwords") damaged.put(path, array);
    }
    damaged.put_text("data/source_subwords", bytes);
    return damaged;
  };
  CHECK_THROWS_WITH_AS(saved_vocabularies(with_model("no model")),
                       doctest::Contains("data/source_vocabulary: data/source_subwords: is not a "
                                         "SentencePiece model"),
                       CheckpointError);
  CHECK_THROWS_WITH_AS(saved_vocabularies(with_model(good.get_text("data/target_subwords"))),
                       doctest::Contains("other words than those of its subword model"),
                       CheckpointError);
}

TEST_CASE("mistakes in keys and files of subwords end with their exit codes") {
  const PairWorkplace work;
  check_refusal(work.run({"train", "pairs.yaml", "data.vocabulary_size=5000"}), 3,
                "data.vocabulary_size: found 5000, expected at most ");
  check_refusal(work.run({"train", "pairs.yaml", "data.vocabulary_size=12"}), 3,
                "data.vocabulary_size: found 12, expected at least ");
  const Arguments file = {"train",
                          "pairs.yaml",
                          "data.subwords=file",
                          "data.vocabulary_size=8000",
                          "data.shared_vocabulary=true",
                          "data.subword_file=train.de"};
  check_refusal(work.run(file), 3, "train.de: is not a SentencePiece model: ");
  work.write("train.de", "");
  for (const char* kind : {"unigram", "bpe"}) {
    check_refusal(work.run({"train", "pairs.yaml", "data.subwords=" + std::string(kind)}), 3,
                  (work / "train.de").string() +
                      ": found an empty file, expected one sentence a line\n"
                      "hint: name the file with the sentences\n");
  }
}

TEST_CASE("language models, masked models and classifiers of subwords read and write text") {
  const KindWorkplace work;
  std::string text, labels;
  for (int i = 0; i < 40; ++i) {
    text += i % 3 == 0 ? "a bad cab\n" : "dab a fab\n";
    labels += i % 3 == 0 ? "no\tit rains again\n" : "yes\ta fine day\n";
  }
  work.write("text.txt", text);
  work.write("labels.txt", labels);
  const std::string size = "data.vocabulary_size=20";
  REQUIRE(work.run({"train", "language.yaml", "data.subwords=bpe", size}).code == 0);
  CHECK(contains(work.run({"evaluate", "runs/language"}).out, "bits per subword"));
  const Outcome generated =
      work.run({"generate", "runs/language", "a bad", "--tokens", "30", "--seed", "1"});
  CHECK(generated.code == 0);
  CHECK(generated.out.starts_with("a bad"));
  CHECK_FALSE(contains(generated.out, "\u2581"));
  CHECK_FALSE(contains(generated.out, "<newline>"));

  work.write("masked_text.yaml",
             "data: {task: text, train_text: text.txt, context: 6, subwords: unigram, "
             "vocabulary_size: 11}\n"
             "model: {kind: masked_language_model, d_model: 32, num_heads: 2, "
             "num_encoder_layers: 1, d_ff: 64, max_length: 8}\n" +
                 settings);
  REQUIRE(work.run({"train", "masked_text.yaml"}).code == 0);
  const Outcome filled = work.run({"fill", "runs/masked_text"}, "a _ cab\n\na cab\n");
  CHECK(filled.code == 0);
  CHECK(filled.out.starts_with("a"));
  CHECK(filled.out.ends_with("\n\na cab\n"));
  CHECK_FALSE(contains(filled.out, "_"));
  CHECK_FALSE(contains(filled.out, "\u2047"));

  REQUIRE(work.run({"train", "classes.yaml", "data.subwords=unigram", "data.vocabulary_size=19",
                    "train.steps=60"})
              .code == 0);
  const Outcome classified = work.run({"classify", "runs/classes"}, "it rains again\na fine day\n");
  CHECK(classified.out.starts_with("no\t"));
  CHECK(contains(classified.out, "\nyes\t"));
}

TEST_CASE("line ends that are written as bytes do not divide an answer into lines") {
  const PairWorkplace work;
  REQUIRE(work.run({"train", "pairs.yaml", "data.byte_fallback=true", "data.vocabulary_size=276",
                    "data.text_normalization=identity", "train.steps=1"})
              .code == 0);
  work.write("ends", "<0x0A>\n<0x0D>\n<0x00>\n");
  const Arguments translate = {"translate",    "runs/pairs", "--allow",      "ends",
                               "--min-length", "4",          "--max-length", "4"};
  const std::string ends = "    ";
  CHECK(work.run(translate, "zwei\ndrei\n").out == ends + "\n" + ends + "\n");
  Arguments list = translate;
  list.insert(list.end(), {"--n-best", "1"});
  CHECK(work.run(list, "zwei\n").out.starts_with("0 ||| " + ends + " ||| LogP= "));
}

TEST_CASE("a pretrained vocabulary is refused if only it or only the config has subwords") {
  const KindWorkplace work;
  REQUIRE(work.run({"train", "masked.yaml"}).code == 0);
  check_refusal(
      work.run({"train", "classes.yaml", "data.subwords=bpe", "train.initialize_from=runs/masked"}),
      2, "has a vocabulary of words, expected one of subwords");
}

}  // namespace
}  // namespace tapestry
