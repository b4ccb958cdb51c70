#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/data/npy_files.h"
#include "tests/support/contains.h"
#include "tests/train/kind_configs.h"
#include "tests/train/refusal.h"
#include "train/checkpoint/checkpoint_file.h"

/// What the commands do with models of every kind.
namespace tapestry {
namespace {

using test::Arguments;
using test::check_refusal;
using test::contains;
using test::KindConfig;
using test::KindWorkplace;
using test::Outcome;
using test::read_text;

TEST_CASE("a model of every kind is trained and evaluated") {
  for (const KindConfig& kind : test::kind_configs) {
    CAPTURE(kind.name);
    const KindWorkplace work;
    const Outcome done = work.run({"train", kind.name + ".yaml"});
    CHECK(done.code == 0);
    CHECK(done.err.empty());
    CHECK(contains(done.out, " training " + kind.examples + ", "));
    CHECK(contains(done.out, " images/s  ") == (kind.name == "images"));
    CHECK(contains(done.out, "  bits per character ") == (kind.name == "language"));
    CHECK(contains(done.out, "  bits per word ") == (kind.name == "words"));
    CHECK(contains(done.out, "\nvalidation at step 12: loss "));
    CHECK(done.out.ends_with("\ndone: 12 steps; next: tapestry evaluate runs/" + kind.name + "\n"));

    const Outcome scores = work.run({"evaluate", "runs/" + kind.name});
    CHECK(scores.code == 0);
    CHECK(scores.err.empty());
    CHECK(contains(scores.out, "\nvalidation  "));
    // The best scores of the run are those of its best checkpoint.
    const std::size_t end = done.out.rfind("  (best so far)\n");
    const std::size_t begin = done.out.rfind(": loss ", end);
    CHECK_MESSAGE(
        contains(scores.out, "\nvalidation  " + std::to_string(kind.held_out) + " held-out " +
                                 kind.examples + done.out.substr(begin, end - begin) + "\n"),
        done.out, scores.out);
    CHECK_FALSE(contains(scores.out, "exact match"));
    CHECK(contains(scores.out, "  bits per character ") == (kind.name == "language"));
    CHECK(contains(scores.out, "  bits per word ") == (kind.name == "words"));
  }
}

TEST_CASE("the data line counts words and classes by the kind of model") {
  const KindWorkplace work;
  const auto data_line = [&](const char* config) {
    const std::string out = work.run({"train", config, "train.steps=1"}).out;
    const std::size_t begin = out.starts_with("data: ") ? 0 : out.find("\ndata: ") + 1;
    return out.substr(begin, out.find('\n', begin) - begin);
  };
  // The letters a, b, c, d and f, space and line end, and the four special symbols.
  CHECK(data_line("language.yaml") ==
        "data: 30 training windows, 4 validation, 0 test; vocabulary of 11");
  CHECK(data_line("classes.yaml") ==
        "data: 11 training sentences, 11 validation, 0 test; vocabulary of 10, 2 classes: no, yes");
  CHECK(data_line("images.yaml") ==
        "data: 22 training images, 6 validation, 4 test; 2 classes: bottom, top");
}

TEST_CASE("a run of any kind that is stopped and resumed ends with the bytes of one that was not") {
  for (const KindConfig& kind : test::kind_configs) {
    CAPTURE(kind.name);
    const KindWorkplace work;
    const std::string config = kind.name + ".yaml";
    CHECK(work.run({"train", config}).code == 0);
    CHECK(work.run({"train", config, "train.run_dir=parts", "train.steps=7", "train.threads=2"})
              .code == 0);
    CHECK(work.run({"train", "--resume", "parts", "train.steps=12"}).code == 0);
    const std::string end = "/checkpoints/step-00000012.h5";
    CHECK(read_text(work / ("parts" + end)) == read_text(work / ("runs/" + kind.name + end)));
    CHECK(read_text(work / "parts/metrics.csv") ==
          read_text(work / ("runs/" + kind.name + "/metrics.csv")));
  }
}

TEST_CASE("every epoch has other masks of a sentence") {
  const KindWorkplace work;
  CHECK(work.run({"train", "masked.yaml", "data.train_size=1", "train.batch_size=1",
                  "train.steps=6", "train.log_every=1", "train.validate_every=6", "model.dropout=0",
                  "schedule.learning_rate=1e-30"})
            .code == 0);
  // The model stays as it is, so that the loss tells what is hidden.
  std::istringstream metrics(read_text(work / "runs/masked/metrics.csv"));
  std::set<std::string> losses;
  for (std::string line; std::getline(metrics, line);) {
    const std::size_t at = line.find(",train,");
    if (at != std::string::npos) losses.insert(line.substr(at, line.find(',', at + 7) - at));
  }
  CHECK(losses.size() >= 3);
}

TEST_CASE("a model of every kind passes its checks") {
  for (const KindConfig& kind : test::kind_configs) {
    CAPTURE(kind.name);
    const KindWorkplace work;
    const Outcome done = work.run({"check", kind.name + ".yaml"});
    CAPTURE(done.out);
    CHECK(done.code == 0);
    CHECK(done.err.empty());
    CHECK(done.out.ends_with(" checks passed\n"));
    CHECK_FALSE(contains(done.out, "FAILED"));
    CHECK(contains(done.out, "\nskipped padding  ") == (kind.name == "images"));
  }
}

TEST_CASE("the gradients of a model of every kind agree with differences") {
  for (const KindConfig& kind : test::kind_configs) {
    CAPTURE(kind.name);
    const KindWorkplace work;
    const Outcome done =
        work.run({"gradcheck", kind.name + ".yaml", "--coordinates=2", "--directions=1"});
    CAPTURE(done.out);
    CHECK(done.code == 0);
    CHECK(contains(done.out, ", 0 wrong, 0 inconclusive;"));
  }
}

TEST_CASE("evaluate shows sentences and images with the predicted classes") {
  const KindWorkplace work;
  CHECK(work.run({"train", "classes.yaml", "train.steps=60"}).code == 0);
  const Outcome sentences = work.run({"evaluate", "runs/classes", "--examples", "1"});
  CHECK(contains(sentences.out, "  accuracy 100.00 %\n"));
  CHECK(sentences.out.ends_with("\n\ninput     it rains again\noutput    no\n"));
  CHECK(work.run({"train", "images.yaml", "train.steps=60"}).code == 0);
  const Outcome images = work.run({"evaluate", "runs/images", "--examples", "2"});
  CHECK(contains(images.out, "test        4 held-out images: loss "));
  CHECK(contains(images.out, "\n\ninput     image 1\noutput    "));
  CHECK(contains(images.out, "\n\ninput     image 2\noutput    "));
}

std::vector<std::string> words_in(const std::string& line) {
  std::istringstream words(line);
  return {std::istream_iterator<std::string>(words), {}};
}

TEST_CASE("evaluate shows masked inputs and predictions at masked places only") {
  const KindWorkplace work;
  CHECK(work.run({"train", "masked.yaml", "train.steps=1"}).code == 0);
  const Outcome done = work.run({"evaluate", "runs/masked", "--examples", "4"});
  CHECK(done.code == 0);
  std::istringstream lines(done.out.substr(done.out.find("\n\n")));
  std::size_t hidden = 0, words = 0, wrong = 0;
  for (std::string line, last; std::getline(lines, line); last = line) {
    if (line.starts_with("input  ")) hidden += contains(line, "<unk>") ? 1 : 0;
    if (!line.starts_with("expected  ")) continue;
    const auto guessed = words_in(last), right = words_in(line);
    REQUIRE(guessed.size() == right.size());
    REQUIRE(guessed.front() == "output");
    for (std::size_t i = 1; i < right.size(); ++i) wrong += guessed[i] != right[i] ? 1 : 0;
    words += right.size() - 1;
  }
  CHECK(hidden > 0);
  CHECK(wrong > 0);
  CHECK(wrong < words / 2);  // a model of one step is wrong nearly everywhere it guesses
}

TEST_CASE("fill replaces words that a masked model does not know, and no others") {
  const KindWorkplace work;
  CHECK(work.run({"train", "masked.yaml", "train.steps=40"}).code == 0);
  const auto fill = [&](const std::string& input) {
    const Outcome done = work.run({"fill", "runs/masked"}, input);
    CHECK(done.code == 0);
    CHECK(done.err.empty());
    return done.out;
  };
  CHECK(fill("le chat dort\n\n") == "le chat dort\n\n");
  const auto filled = words_in(fill("le _ dort zebra\n"));
  REQUIRE(filled.size() == 4);
  CHECK(filled[0] == "le");
  CHECK(filled[2] == "dort");
  for (const std::size_t blank : {1, 3}) {
    CHECK(filled[blank] != "_");
    CHECK(filled[blank] != "zebra");
    CHECK_FALSE(filled[blank].starts_with('<'));
  }
  std::string blanks;
  for (int i = 0; i < 40; ++i) blanks += "_ ";
  check_refusal(work, {"fill", "runs/masked", "--long-lines", "stop"}, 3,
                "standard input:1: found 42 tokens to read, expected at most 40 "
                "(model.max_length)\n"
                "hint: cut the line, or train a model with a larger model.max_length",
                blanks + "\n");
}

TEST_CASE("fill reads one line, and as much of it as a window has") {
  const KindWorkplace work;
  work.write("windows.yaml",
             "data: {task: text, train_text: text.txt, context: 6}\n"
             "model: {kind: masked_language_model, d_model: 32, num_heads: 2, "
             "num_encoder_layers: 1, d_ff: 64, max_length: 9}\n"
             "train: {steps: 12, batch_size: 4, threads: 1, validate_every: 6, save_every: 6}\n");
  REQUIRE(work.run({"train", "windows.yaml"}).code == 0);
  const Outcome done = work.run({"fill", "runs/windows"}, "a bad c\n__bad__\na ba_\n");
  CHECK(done.code == 0);
  CHECK(done.out.starts_with("a bad c\n"));
  CHECK(std::ranges::count(done.out, '\n') == 3);
  CHECK(done.out.find('_') == std::string::npos);
  check_refusal(work, {"fill", "runs/windows", "--long-lines", "stop"}, 3,
                "standard input:1: found 8 tokens to read, expected at most 7 (data.context)\n"
                "hint: cut the line, or train a model with a larger data.context",
                "a bad ca\n");
}

TEST_CASE("evaluate warns if this version makes other examples of the same files") {
  const KindWorkplace work;
  REQUIRE(work.run({"train", "images.yaml"}).code == 0);
  const std::string checkpoint = "runs/images/checkpoints/step-00000012.h5";
  const ArrayStore original = read_checkpoint(work / checkpoint);
  ArrayStore altered;
  for (const auto& [path, array] : original) {
    if (path != "data/fingerprint") altered.put(path, array);
  }
  altered.put_scalar("data/fingerprint", std::uint64_t{1});
  write_checkpoint(work / checkpoint, altered);
  const Outcome done = work.run({"evaluate", checkpoint});
  CHECK(done.code == 0);
  CHECK(contains(done.err, "warning: the data files are unchanged, but this version "));
  const Outcome resumed = work.run({"train", "--resume", "images.yaml", "train.steps=20"});
  CHECK(resumed.code == 3);
  CHECK(
      contains(resumed.err, ", though the files are the same: this program reads them, or holds "));
  CHECK(
      contains(resumed.err, "\nhint: go on with the program that began the run, or start a new "));
}

TEST_CASE("evaluate refuses to hold out other images than those of the training") {
  const KindWorkplace work;
  REQUIRE(work.run({"train", "images.yaml", "train.steps=1"}).code == 0);
  const Outcome cut = work.run({"evaluate", "runs/images"});
  std::filesystem::copy(work / "images.csv", work / "more.csv");
  check_refusal(work, {"evaluate", "runs/images", "data.test_images=more.csv"}, 2,
                "command line: data.test_images: a test file would change the images that the run "
                "holds out of data.train_images for validation\n"
                "hint: name the images to score as data.validation_images");
  const Outcome more = work.run({"evaluate", "runs/images", "data.validation_images=more.csv"});
  CHECK(contains(more.out, "\nvalidation  32 held-out images: "));
  const auto from_test = [](const Outcome& done) {
    return done.out.substr(done.out.find("\ntest "));
  };
  CHECK(from_test(more) == from_test(cut));
  const Outcome missing = work.run({"evaluate", "runs/images", "data.train_images=no.h5"});
  CHECK(missing.code == 3);
  CHECK(contains(missing.err, " (the key is data.train_images)\n"));
}

TEST_CASE("evaluate without the training file scores the sets that have files of their own") {
  struct Row {
    std::string kind, training, other;
    bool held_out;  ///< whether a set is held out of the training file in spite of the other file
  };
  const KindWorkplace work;
  for (const Row& row : {Row{"language", "text.txt", "data.test_text", true},
                         {"language", "text.txt", "data.validation_text", false},
                         {"classes", "labels.txt", "data.validation_text", false},
                         {"tags", "tags.txt", "data.validation_text", false},
                         {"images", "images.csv", "data.validation_images", true}}) {
    CAPTURE(row.kind);
    const std::string run = "runs/" + row.kind;
    REQUIRE(work.run({"train", row.kind + ".yaml", "train.steps=1", "--fresh"}).code == 0);
    std::filesystem::rename(work / row.training, work / "moved");
    CHECK(work.run({"evaluate", run}).code == 3);
    const Outcome scored = work.run({"evaluate", run, row.other + "=moved"});
    CHECK(scored.code == 0);
    const std::string set = row.other == "data.test_text" ? "\ntest " : "\nvalidation ";
    CHECK(contains(scored.out, set));
    CHECK(scored.err == (row.held_out ? "tapestry: warning: " + (work / row.training).string() +
                                            ": cannot be read: No such file or directory; the "
                                            "held-out examples of this file are missing\n"
                                      : ""));
    std::filesystem::rename(work / "moved", work / row.training);
  }
}

TEST_CASE("a missing validation file is not replaced by held-out training examples") {
  const KindWorkplace work;
  std::filesystem::copy(work / "text.txt", work / "valid.txt");
  REQUIRE(work.run({"train", "language.yaml", "train.steps=1", "data.validation_text=valid.txt"})
              .code == 0);
  std::filesystem::remove(work / "valid.txt");
  const Outcome scored = work.run({"evaluate", "runs/language"});
  CHECK(scored.code == 3);
  CHECK(contains(scored.err, " (the key is data.validation_text)\n"));
  CHECK(work.run({"check", "runs/language"}).code != 3);
}

TEST_CASE("a run on NumPy files can be resumed, and changed labels need permission") {
  const KindWorkplace work;
  std::vector<std::uint8_t> pixels(24 * 16), labels(24);
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    pixels[i] = static_cast<std::uint8_t>(i * 7 % 10);
  }
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::uint8_t>(i % 3);
  work.write("digits.npy", test::npy_file("|u1", "(24, 4, 4)", pixels));
  work.write("digits.labels.npy", test::npy_file("|u1", "(24,)", labels));
  REQUIRE(work.run({"train", "images.yaml", "data.train_images=digits.npy"}).code == 0);
  const auto resume = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"train", "--resume", "runs/images"});
    return work.run(more);
  };
  CHECK(resume({"train.steps=14"}).code == 0);
  std::swap(labels[0], labels[1]);
  work.write("digits.labels.npy", test::npy_file("|u1", "(24,)", labels));
  const Outcome refused = resume({"train.steps=16"});
  CHECK(refused.code == 3);
  CHECK(contains(refused.err, "digits.labels.npy (data.train_images.labels): found 152 bytes"));
  CHECK(contains(refused.err,
                 "\nhint: restore the original files, or permit the change with --allow-change "
                 "data.train_images\n"));
  CHECK(resume({"train.steps=16", "--allow-change", "data.train_images"}).code == 0);
}

TEST_CASE("evaluate scores a language model on another text, which is read with its vocabulary") {
  const KindWorkplace work;
  REQUIRE(work.run({"train", "language.yaml"}).code == 0);
  const Outcome before = work.run({"evaluate", "runs/language"});
  work.write("more.txt", "dab a cab\nzzz\n");
  const Outcome done = work.run({"evaluate", "runs/language", "data.test_text=more.txt"});
  CHECK(done.code == 0);
  CHECK(done.err.empty());
  // 14 characters: two windows of 6 that are predicted from the character before, and the rest.
  CHECK(done.out.starts_with(before.out));
  CHECK(contains(done.out, "\ntest        3 held-out windows: loss "));
  const Outcome missing = work.run({"evaluate", "runs/language", "data.test_text=none.txt"});
  CHECK(missing.code == 3);
  CHECK(contains(missing.err, " (the key is data.test_text)\n"));
}

TEST_CASE("evaluate does not read training sentences, which may be too long for the model") {
  const KindWorkplace work;
  REQUIRE(work.run({"train", "classes.yaml", "train.steps=1"}).code == 0);
  const Outcome before = work.run({"evaluate", "runs/classes"});
  work.write("long.txt", "yes\ta b c d e f g h i j k l m\nno\tit rains\n");
  const Outcome done = work.run({"evaluate", "runs/classes", "data.train_text=long.txt"});
  CHECK(done.code == 0);
  CHECK(done.out == before.out);
  CHECK(contains(done.err, "long.txt (data.train_text): found "));
}

TEST_CASE("a training set with more than half unknown tokens is warned about") {
  const KindWorkplace work;
  const auto trained_on = [&](const std::string& labels) {
    work.write("labels.txt", labels);
    return work.run({"train", "classes.yaml", "train.steps=1", "data.min_frequency=2", "--fresh"});
  };
  CHECK(contains(trained_on("yes\ta a\nno\tb c\n").out,
                 "\nunknown tokens: 50.0 % of the training set, 50.0 % of the validation set\n"));
  CHECK(contains(trained_on("yes\ta a\nno\tb c d\n").out,
                 "\nwarning: unknown tokens: 60.0 % of the training set, 60.0 % of the "
                 "validation set\n"));
}

TEST_CASE("train and evaluate print the share of unknown tokens") {
  const KindWorkplace work;
  work.write("valid.txt", "yes\ta zebra day\nno\tit rains\n");
  const Outcome known = work.run({"train", "classes.yaml", "train.steps=1"});
  CHECK_FALSE(contains(known.out, "unknown"));
  const Outcome done = work.run(
      {"train", "classes.yaml", "train.steps=1", "data.validation_text=valid.txt", "--fresh"});
  CHECK(contains(done.out, "\nunknown tokens: 20.0 % of the validation set\n"));
  const Outcome scores = work.run({"evaluate", "runs/classes"});
  CHECK(contains(scores.out, "\n            20.0 % of its tokens are unknown\n"));
  // Of the test set two words of eight.
  work.write("test.txt", "yes\ta zebra zebra day\nno\tit rains\nno\tit rains\n");
  const std::string test_text = "data.test_text=test.txt";
  const Outcome both = work.run({"train", "classes.yaml", "train.steps=1",
                                 "data.validation_text=valid.txt", test_text, "--fresh"});
  CHECK(contains(both.out,
                 "\nunknown tokens: 20.0 % of the validation set, 25.0 % of the test set\n"));
  const std::string evaluated = work.run({"evaluate", "runs/classes"}).out;
  const std::size_t test = evaluated.find("\ntest        3 held-out sentences: ");
  REQUIRE(test != std::string::npos);
  CHECK(contains(evaluated.substr(0, test + 1),
                 " %\n            20.0 % of its tokens are unknown\n"));
  CHECK(contains(evaluated.substr(test), " %\n            25.0 % of its tokens are unknown\n"));
}

TEST_CASE("translate, classify, fill and generate refuse models of other kinds") {
  const KindWorkplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  CHECK(work.run({"train", "tiny.yaml", "train.steps=1"}).code == 0);
  CHECK(work.run({"train", "language.yaml", "train.steps=1"}).code == 0);
  const std::string hint = "\nhint: `tapestry evaluate RUN` shows what any model does";
  check_refusal(
      work, {"translate", "runs/language"}, 2,
      "command line: translate: the model is of kind language_model, expected seq2seq" + hint,
      "a b\n");
  check_refusal(work, {"classify", "runs/tiny"}, 2,
                "command line: classify: the model is of kind seq2seq, expected classifier or "
                "vision_transformer" +
                    hint,
                "a b\n");
  check_refusal(
      work, {"fill", "runs/tiny"}, 2,
      "command line: fill: the model is of kind seq2seq, expected masked_language_model" + hint,
      "a b\n");
  check_refusal(
      work, {"generate", "runs/tiny"}, 2,
      "command line: generate: the model is of kind seq2seq, expected language_model" + hint);
}

TEST_CASE("training examples may change with permission, the classes may not") {
  const KindWorkplace work;
  CHECK(work.run({"train", "classes.yaml"}).code == 0);
  const Arguments go_on = {"train",          "--resume",       "classes.yaml",
                           "train.steps=14", "--allow-change", "data.train_text"};
  work.write("labels.txt", "yes\ta day\nmaybe\tit rains\n");
  check_refusal(work, go_on, 3,
                (work / "labels.txt").string() +
                    ":2: found the label maybe, expected one of the classes no, yes\n"
                    "hint: remove the example, or add examples of the class to the training set; a "
                    "trained model keeps its classes");
  work.write("labels.txt", "yes\ta day\n");
  const Outcome refused = work.run({"train", "--resume", "classes.yaml", "train.steps=14"});
  CHECK(refused.code == 3);
  CHECK(contains(refused.err, "or permit the change with --allow-change data.train_text"));
  CHECK(work.run({"train", "--resume", "classes.yaml", "train.steps=14", "--allow-change",
                  "data.train_text", "--allow-change", "data.validation_text"})
            .code == 0);
}

const std::string held_out_anew =
    "\nwarning: the held-out examples have changed; the run may have been trained on some of "
    "them\n";

TEST_CASE("a resumed run warns if a changed file changes which examples are held out") {
  const KindWorkplace work;
  struct Changed {
    std::string run, file, key;
    bool is_cut;
  };
  for (const Changed& changed : {Changed{"images", "images.csv", "data.train_images", true},
                                 Changed{"language", "text.txt", "data.train_text", true},
                                 Changed{"classes", "labels.txt", "data.train_text", false}}) {
    CAPTURE(changed.run);
    const std::string config = changed.run + ".yaml";
    REQUIRE(work.run({"train", config}).code == 0);
    work.write(changed.file, read_text(work / changed.file) + read_text(work / changed.file));
    const Outcome done = work.run({"train", "--resume", config, "train.steps=14", "--allow-change",
                                   changed.key, "--allow-change", "data.validation_text"});
    CHECK(done.code == 0);
    CHECK(contains(done.out, held_out_anew) == changed.is_cut);
  }
}

TEST_CASE("a resumed run warns if a validation or test file was added or removed") {
  const KindWorkplace work;
  std::filesystem::copy(work / "images.csv", work / "more.csv");
  const auto resumed = [&](const std::string& begun_with, const std::string& goes_on_with) {
    REQUIRE(work.run({"train", "images.yaml", "--fresh", "train.steps=1", begun_with}).code == 0);
    const Outcome done = work.run({"train", "--resume", "runs/images", "train.steps=2",
                                   goes_on_with, "--allow-change", "data.test_images",
                                   "--allow-change", "data.validation_images"});
    CHECK(done.code == 0);
    return contains(done.out, held_out_anew);
  };
  CHECK(resumed("data.test_images=", "data.test_images=more.csv"));
  CHECK(resumed("data.test_images=more.csv", "data.test_images="));
  CHECK(resumed("data.validation_images=more.csv", "data.validation_images="));
  CHECK_FALSE(resumed("data.test_images=more.csv", "train.log_every=3"));
}

TEST_CASE("a sentence with more tokens than positions is refused before training") {
  const KindWorkplace work;
  const std::string name = (work / "labels.txt").string();
  std::string lines;
  for (int line = 1; line <= 5; ++line) {
    lines += name + ":" + std::to_string(line) +
             ": found 5 tokens to read, expected at most 4 (model.max_length)\n";
  }
  check_refusal(work, {"train", "classes.yaml", "model.max_length=4"}, 3,
                lines +
                    "and 6 more\n11 of 11 cannot be used\n"
                    "hint: set model.max_length to 5 or more, or leave them all out with "
                    "data.on_bad_line=skip");
}

}  // namespace
}  // namespace tapestry
