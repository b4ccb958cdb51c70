// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/text/tokenizer.h"
#include "tests/train/kinds.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/config/config.h"
#include "train/config/load.h"
#include "train/tasks/data_source.h"

/// Tests `tapestry evaluate`, `tapestry errors`, and which data files a trained model needs.
namespace tapestry {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::check_rejected;
using test::check_words;
using test::contains;
using test::KindWorkplace;
using test::Outcome;
using test::split_lines;
using test::TextWorkplace;
using test::TinyWorkplace;
using test::TrainedWorkplace;

// ---- Scores and examples

TEST_CASE("evaluate prints the scores of the held-out sets, as text and as JSON") {
  const TrainedWorkplace work;
  const std::string text = work.run("evaluate runs/tiny --examples 2").out;
  const json scores = json::parse(work.run("evaluate runs/tiny --examples 2 --json").out);
  const std::string model = scores.at("model");
  CHECK(text.starts_with(model));
  CHECK(model.ends_with(", step " + std::to_string(scores.at("step").get<int>())));
  for (const char* set : {"validation", "test"}) {
    const json& of = scores.at(set);
    CHECK(contains(
        text,
        fmt::format("\n{:<10}  {} held-out pairs: loss {:.4f}  perplexity {:.3f}  accuracy {:.2f} %"
                    "  exact match {:.2f} %  BLEU {:.2f}  chrF {:.2f}\n",
                    set, of.at("examples").get<int>(), of.at("loss").get<double>(),
                    of.at("perplexity").get<double>(), 100 * of.at("accuracy").get<double>(),
                    100 * of.at("exact_match").get<double>(), of.at("bleu").get<double>(),
                    of.at("chrf").get<double>())));
    CHECK(of.at("labels").get<int>() > of.at("examples").get<int>());
    CHECK(of.at("unknown_tokens") == 0.0);
  }
  // The best scores in the log of the run are the scores of its best checkpoint.
  const std::size_t end = work.trained.out.rfind("  (best so far)\n");
  const std::size_t begin = work.trained.out.rfind(": loss ", end);
  CHECK(contains(
      text, "\nvalidation  6 held-out pairs" + work.trained.out.substr(begin, end - begin) + "\n"));
  const json& signatures = scores.at("signatures");
  CHECK(signatures.at("bleu") == "BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0");
  CHECK(signatures.at("chrf") ==
        "chrF2|nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0");
  for (const json& signature : signatures) {
    CHECK(contains(text, "\nsignature   " + signature.get<std::string>() + "\n"));
  }
  REQUIRE(scores.at("examples").size() == 2);
  CHECK(scores.at("examples_of") == "test");
  CHECK(contains(text, "\nexamples of the test set:\n\ninput     "));
  CHECK(contains(
      text, "input     " + scores["examples"][1].at("input").get<std::string>() + "\noutput    "));
  for (const char* key : {"output", "expected"}) CHECK(scores["examples"][0].contains(key));

  const std::string older = work.out("evaluate --examples 0 " + work.checkpoint(10));
  CHECK(older.starts_with(work.checkpoint(10) + ", step 10\n"));
  CHECK_FALSE(contains(older, "input"));
}

/// The text that evaluate prints for an example.
std::string shown(const std::string& source, const std::string& output, const std::string& target) {
  const std::string text = fmt::format("\ninput     {}\noutput    {}\n", source, output);
  return output == target ? text : text + fmt::format("expected  {}\n", target);
}

TEST_CASE(
    "by default, evaluate shows five test pairs, or validation pairs if there is no test set") {
  const TinyWorkplace work;
  for (const std::string test_size : {"data.test_size=7", "data.test_size=0"}) {
    CAPTURE(test_size);
    work.out("train tiny.yaml --fresh train.steps=40 " + test_size);
    const Config config = parse_config(test::tiny_yaml, "tiny.yaml", {test_size});
    const Corpus corpus = load_corpus(config.data);
    const TextCodec codec =
        make_codec(config.data, corpus.source_vocabulary, corpus.target_vocabulary);
    const std::vector<Example>& pairs = corpus.test.empty() ? corpus.validation : corpus.test;
    REQUIRE(pairs.size() > 5);
    std::string input;
    for (const Example& pair : pairs) input += codec.decode_source(pair.source) + "\n";
    const auto outputs = split_lines(work.run("translate runs/tiny", input).out);
    REQUIRE(outputs.size() == pairs.size());
    std::string five, all;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      all += shown(codec.decode_source(pairs[i].source), outputs[i],
                   codec.decode_target(pairs[i].target));
      if (i == 4) five = all;
    }
    CHECK(work.run("evaluate runs/tiny").out.ends_with("\n" + five));
    CHECK((corpus.test.empty() ||
           work.run("evaluate runs/tiny --examples 9").out.ends_with("\n" + all)));
  }
}

TEST_CASE("evaluate shows tokens of sources and outputs, and the text of references") {
  const TextWorkplace work;
  work.out("train text.yaml");
  std::string output = work.out("translate runs/text", "ein hund\n");
  output.pop_back();
  const std::string evaluated = work.out("evaluate runs/text");
  CHECK(contains(evaluated, "\n            50.0 % of its tokens are unknown\nsignature   BLEU|"));
  CHECK(evaluated.ends_with("\n" + shown("ein <unk>", output, "a dog")));
  CHECK(contains(work.out("errors runs/text"), "\n   expected  a dog\n"));
  work.out("report runs/text");
  CHECK(contains(work.read("runs/text/report.html"), R"("expected":"a dog")"));
}

TEST_CASE("evaluate decodes every sentence, regardless of train.exact_match_sequences") {
  const TinyWorkplace work;
  CHECK_FALSE(contains(work.out("train tiny.yaml train.exact_match_sequences=0"), "exact match"));
  const std::string few = work.run("evaluate runs/tiny").out;
  CHECK(contains(few, "  exact match "));
  work.out("train tiny.yaml train.run_dir=runs/all train.exact_match_sequences=100");
  const auto scores = [](const std::string& text) { return text.substr(text.find('\n')); };
  CHECK(scores(work.run("evaluate runs/all").out) == scores(few));
}

TEST_CASE("evaluate reports that a run has no held-out data; a missing set is null in JSON") {
  const KindWorkplace work;
  CHECK(work.out("train tiny.yaml data.validation_size=0 data.test_size=0")
            .ends_with("; next: tapestry report runs/tiny\n"));
  CHECK(contains(work.out("evaluate runs/tiny"), "\nno held-out pairs: set their files or sizes"));
  work.out("train classes.yaml train.steps=60");
  const json scores = json::parse(work.run("evaluate runs/classes --json").out);
  CHECK(scores.at("test").is_null());
  CHECK(scores.at("signatures") == json::object());
  CHECK(scores.at("validation").at("accuracy") == 1.0);
  CHECK_FALSE(scores.at("validation").contains("perplexity"));
  CHECK(work.run("evaluate runs/classes --examples 1")
            .out.ends_with("\n\ninput     it rains again\noutput    no\n"));
  work.out("train images.yaml");
  check_words(work.run("evaluate runs/images --examples 2").out,
              {"test        4 held-out images: loss ", "\n\ninput     image 1\noutput    ",
               "\n\ninput     image 2\noutput    "});
}

TEST_CASE("evaluate shows masked inputs, and outputs that differ only at masked positions") {
  const KindWorkplace work;
  work.out("train masked.yaml train.steps=1");
  std::size_t hidden = 0, words = 0, wrong = 0;
  std::string last;
  for (const std::string& line : split_lines(work.out("evaluate runs/masked --examples 4"))) {
    if (line.starts_with("input  ")) hidden += contains(line, "<unk>") ? 1 : 0;
    if (line.starts_with("expected  ")) {
      const auto guessed = test::CommandLine(last).words, right = test::CommandLine(line).words;
      REQUIRE(guessed.size() == right.size());
      REQUIRE(guessed.front() == "output");
      for (std::size_t i = 1; i < right.size(); ++i) wrong += guessed[i] != right[i] ? 1 : 0;
      words += right.size() - 1;
    }
    last = line;
  }
  CHECK(hidden > 0);
  CHECK(wrong > 0);
  CHECK(wrong < words / 2);  // after one step, nearly all predictions are wrong
}

// ---- Data files

TEST_CASE("train and evaluate print the share of unknown tokens; train warns if it exceeds 50 %") {
  const KindWorkplace work;
  work.write("valid.txt", "yes\ta zebra day\nno\tit rains\n");
  work.write("test.txt", "yes\ta zebra zebra day\nno\tit rains\nno\tit rains\n");
  const std::string train = "train classes.yaml train.steps=1 --fresh ";
  CHECK_FALSE(contains(work.out(train), "unknown"));
  CHECK(contains(work.out(train + "data.validation_text=valid.txt data.test_text=test.txt"),
                 "\nunknown tokens: 20.0 % of the validation set, 25.0 % of the test set\n"));
  const std::string evaluated = work.out("evaluate runs/classes");
  const std::size_t test = evaluated.find("\ntest        3 held-out sentences: ");
  REQUIRE(test != std::string::npos);
  CHECK(contains(evaluated.substr(0, test), "\n            20.0 % of its tokens are unknown"));
  CHECK(contains(evaluated.substr(test), "\n            25.0 % of its tokens are unknown"));
  work.write("labels.txt", "yes\ta a\nno\tb c\n");
  CHECK(
      contains(work.out(train + "data.min_frequency=2"), "\nunknown tokens: 50.0 % of the train"));
  work.write("labels.txt", "yes\ta a\nno\tb c d\n");
  CHECK(contains(work.out(train + "data.min_frequency=2"),
                 "\nwarning: unknown tokens: 60.0 % of the training set, 60.0 % of the"));
}

TEST_CASE("evaluate needs no training files, and can score other files") {
  const TextWorkplace work;
  work.out("train text.yaml");
  const std::string before = work.out("evaluate runs/text");
  work.write("train.en", "the big house and all of its cats\na big cat\n");
  CHECK(work.out("evaluate runs/text") == before);
  work.write("more.de", "ein haus\nein haus\n");
  work.write("more.en", "a house\na house\n");
  const std::string more = "evaluate runs/text data.test_source=more.de data.test_target=more.en ";
  CHECK(contains(work.out(more), "\ntest        2 held-out pairs: "));
  fs::rename(work / "train.de", work / "moved.de");
  CHECK(work.out("evaluate runs/text") == before);
  const Outcome moved = work.run("evaluate runs/text data.train_source=moved.de");
  CHECK(moved.out == before);
  CHECK(contains(moved.err, "train.en (data.train_target): found "));
  check_rows(work, {{more + "data.test_source=", 2, {"data.test_source=: found no file"}},
                    {"evaluate runs/text data.tst_source=a", 2, {"did you mean `test_source`"}},
                    {"evaluate runs/text train.threads=1", 2, {"write --threads 1"}},
                    {"evaluate runs/text more.de", 2, {"data.test_source=FILE data.test_target="}},
                    {"evaluate runs/text data.train_source=no", 3, {"is data.train_source)"}}});

  fs::rename(work / "valid.en", work / "elsewhere.en");
  const Outcome test_only = work.run(more);
  CHECK(test_only.code == 0);
  CHECK_FALSE(contains(test_only.out, "validation"));
  CHECK(test_only.err == "tapestry: warning: " + work.at("valid.en") +
                             ": cannot be read: No such file or directory; there is no validation "
                             "set\n");
  const Outcome nothing = work.run("evaluate runs/text");
  CHECK(nothing.code == 3);
  CHECK(contains(nothing.err, work.at("valid.en") + ": cannot be read"));
  CHECK_FALSE(contains(nothing.err, "train.de"));
  check_rows(work,
             {{"train --resume runs/text train.steps=6", 3, {"(the key is data.train_source)"}},
              {"train text.yaml --fresh", 3, {"(the key is data.train_source)"}}});
}

TEST_CASE("every command that examines a run accepts moved data files") {
  const TextWorkplace work;
  work.out("train text.yaml");
  fs::create_directory(work / "moved");
  fs::rename(work / "train.de", work / "moved/train.de");
  for (const std::string command :
       {"check runs/text", "gradcheck runs/text --coordinates 1", "attention runs/text",
        "train --resume runs/text train.steps=6"}) {
    CAPTURE(command);
    CHECK(work.run(command + " data.train_source=moved/train.de").code == 0);
    CHECK(work.run(command).code == 0);
  }
  check_rejected(work, "attention runs/text --text 'ein haus' data.train_source=x", 2,
                 {"data.train_source=x: --text needs no data files"});
}

TEST_CASE(
    "evaluate scores the sets that have separate files even if the training file is missing") {
  struct Row {
    std::string kind, training, other;
    bool held_out;  ///< whether the set that `other` does not name is held out of the training file
  };
  const KindWorkplace work;
  for (const Row& row : {Row{"language", "text.txt", "data.test_text", true},
                         {"language", "text.txt", "data.validation_text", false},
                         {"classes", "labels.txt", "data.validation_text", false},
                         {"tags", "tags.txt", "data.validation_text", false},
                         {"images", "images.csv", "data.validation_images", true}}) {
    CAPTURE(row.kind);
    const std::string run = "runs/" + row.kind;
    work.out("train " + row.kind + ".yaml --fresh train.steps=1");
    fs::rename(work / row.training, work / "moved");
    CHECK(work.run("evaluate " + run).code == 3);
    const Outcome scored = work.run("evaluate " + run + " " + row.other + "=moved");
    CHECK(scored.code == 0);
    CHECK(contains(scored.out, row.other == "data.test_text" ? "\ntest " : "\nvalidation "));
    CHECK(contains(scored.err, "the held-out examples of this file are missing") == row.held_out);
    CHECK(scored.err.empty() == !row.held_out);
    fs::rename(work / "moved", work / row.training);
  }
  // A missing validation file is not replaced by held-out training examples.
  fs::copy(work / "text.txt", work / "valid.txt");
  work.out("train language.yaml --fresh train.steps=1 data.validation_text=valid.txt");
  fs::remove(work / "valid.txt");
  check_rejected(work, "evaluate runs/language", 3, {"(the key is data.validation_text)"});
  CHECK(work.run("check runs/language").code != 3);
}

TEST_CASE("evaluate scores only the images that were held out of training") {
  const KindWorkplace work;
  work.out("train images.yaml train.steps=1");
  const std::string cut = work.out("evaluate runs/images");
  fs::copy(work / "images.csv", work / "more.csv");
  check_rejected(work, "evaluate runs/images more.csv", 2, {"mean data.test_images=more.csv?"});
  check_rejected(work, "evaluate runs/images data.test_images=more.csv", 2,
                 {"data.test_images", "would change the images", "data.validation_images"});
  const std::string more = work.run("evaluate runs/images data.validation_images=more.csv").out;
  CHECK(contains(more, "\nvalidation  32 held-out images: "));
  const auto from_test = [](const std::string& text) { return text.substr(text.find("\ntest ")); };
  CHECK(from_test(more) == from_test(cut));
}

TEST_CASE("evaluate reads another text with the vocabulary of the model") {
  const KindWorkplace work;
  work.out("train language.yaml");
  const std::string before = work.run("evaluate runs/language").out;
  work.write("more.txt", "dab a cab\nzzz\n");
  const std::string done = work.run("evaluate runs/language data.test_text=more.txt").out;
  // 14 characters give two windows of 6 characters and a window with the last 2 characters.
  CHECK(done.starts_with(before));
  CHECK(contains(done, "\ntest        3 held-out windows: loss "));

  work.out("train classes.yaml train.steps=1");
  const std::string classes = work.out("evaluate runs/classes");
  work.write("long.txt", "yes\ta b c d e f g h i j k l m\nno\tit rains\n");  // too long to train on
  const Outcome changed = work.run("evaluate runs/classes data.train_text=long.txt");
  CHECK(changed.out == classes);
  CHECK(contains(changed.err, "long.txt (data.train_text): found "));
}

TEST_CASE("evaluate warns if this version makes different examples from the same files") {
  const KindWorkplace work;
  work.out("train images.yaml");
  const std::string checkpoint = work.checkpoint(12, "runs/images");
  ArrayStore altered;
  for (const auto& [path, array] : read_checkpoint(work / checkpoint)) {
    if (path != "data/fingerprint") altered.put(path, array);
  }
  altered.put_scalar("data/fingerprint", std::uint64_t{1});
  write_checkpoint(work / checkpoint, altered);
  const Outcome done = work.run("evaluate " + checkpoint);
  CHECK(done.code == 0);
  CHECK(contains(done.err, "warning: the data files are unchanged, but this version "));
  check_rejected(work, "train --resume images.yaml train.steps=20", 3,
                 {", although the files are the same", "the version that started the run"});
}

// ---- errors

std::vector<double> values(const json& findings, const char* name) {
  std::vector<double> all;
  for (const json& example : findings["examples"]) all.push_back(example[name].get<double>());
  return all;
}

TEST_CASE("errors lists held-out examples by decreasing loss") {
  const TrainedWorkplace work;
  const std::string listed = work.run("errors runs/tiny --examples 2").out;
  check_words(listed, {"\nvalidation: the 2 of 6 pairs with the greatest loss\n", "\n1. example ",
                       "\n2. example ", "\n   expected  "});
  CHECK_FALSE(contains(listed, "\n3. example "));
  const json by_mean = json::parse(work.run("errors runs/tiny --json").out);
  CHECK(by_mean["set"] == "validation");
  const auto losses = values(by_mean, "loss");
  REQUIRE(losses.size() == 6);
  CHECK(std::ranges::is_sorted(losses, std::ranges::greater()));
  const json by_sum = json::parse(work.run("errors runs/tiny --by sum --json").out);
  CHECK(std::ranges::is_sorted(values(by_sum, "loss_sum"), std::ranges::greater()));
  // The mean over all labels is the loss that evaluate prints.
  const json scores = json::parse(work.run("evaluate runs/tiny --json").out);
  double sum = 0, labels = 0;
  for (const double value : values(by_mean, "loss_sum")) sum += value;
  for (const double value : values(by_mean, "labels")) labels += value;
  CHECK(sum / labels == doctest::Approx(scores["validation"]["loss"].get<double>()).epsilon(1e-6));
  const json of_test = json::parse(work.run("errors runs/tiny --set test --json").out);
  CHECK(of_test["set"] == "test");
  CHECK(of_test["examples"].size() == 4);
  check_rejected(work, "errors runs/tiny --examples 0", 2, {"from 1 to 1000000, found \"0\""});
  const KindWorkplace tags;
  tags.out("train tags.yaml");
  check_rejected(tags, "errors runs/tags --set test", 2, {"no test examples", "--set validation"});
  tags.out("train tiny.yaml --fresh data.validation_size=0");
  check_rejected(tags, "errors runs/tiny", 2, {"no validation examples", "--set test"});
  check_words(tags.run("errors runs/tiny --set test").out, {"\ntest: the 4 of 4 pairs"});
}

TEST_CASE("labels are printed below their tokens") {
  const KindWorkplace work;
  work.out("train tags.yaml");
  for (const std::string command : {"evaluate", "errors"}) {
    CAPTURE(command);
    std::string tokens;
    std::size_t compared = 0;
    for (const std::string& line : split_lines(work.run(command + " runs/tags").out)) {
      const bool is_labels = contains(line, "output  ") || contains(line, "expected  ");
      if (contains(line, "input  ")) tokens = line;
      if (tokens.empty() || !is_labels || contains(line, "probability")) continue;
      // Each label begins where its token begins.
      for (std::size_t i = 1; i < std::min(tokens.size(), line.size()); ++i) {
        const bool begins = line[i - 1] == ' ' && line[i] != ' ';
        if (begins && line.find_first_not_of(' ') != i) {
          CHECK(tokens[i - 1] == ' ');
          CHECK(tokens[i] != ' ');
          ++compared;
        }
      }
    }
    CHECK(compared > 10);
  }
}

TEST_CASE("evaluate records the scores of a run for its report") {
  const TrainedWorkplace work;
  const std::string file = "runs/tiny/evaluation.json";
  const json scores = json::parse(work.run("evaluate " + work.checkpoint(12) + " --json").out);
  CHECK_FALSE(work.has(file));  // scores of a checkpoint are not recorded
  work.run("evaluate runs/tiny decoding.beam_size=2");
  const json recorded = json::parse(work.read(file));
  CHECK(recorded.at("overrides") == json{"decoding.beam_size=2"});
  CHECK(recorded.at("test").at("loss") == scores.at("test").at("loss"));
  CHECK_FALSE(recorded.contains("examples"));
  // The scores are printed even if they cannot be recorded.
  fs::remove(work / file);
  fs::create_directory(work / file);
  const Outcome unrecorded = work.run("evaluate runs/tiny");
  CHECK(unrecorded.code == 0);
  CHECK(contains(unrecorded.out, "\ntest "));
  CHECK(contains(unrecorded.err, "warning: the scores are not recorded"));
}

}  // namespace
}  // namespace tapestry
