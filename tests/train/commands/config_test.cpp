// SPDX-License-Identifier: BSD-3-Clause
#include <nlohmann/json.hpp>
#include <string>

#include "tests/train/kinds.h"

/// Tests `tapestry config`.
namespace tapestry {
namespace {

using test::check_rejected;
using test::check_words;
using test::contains;
using test::KindWorkplace;
using test::Outcome;

TEST_CASE("config explain prints a config that trains to the same checkpoint") {
  const KindWorkplace work;
  const std::string explained = work.out("config explain tiny.yaml train.run_dir=runs/tiny");
  check_words(explained, {"# tiny.yaml:", "# command line; default \"\""});
  work.write("all.yaml", explained);
  CHECK(contains(work.out("config diff tiny.yaml all.yaml"), "no key differs"));
  CHECK(nlohmann::json::parse(work.out("config explain tiny.yaml --json")).size() > 100);
}

TEST_CASE("config diff compares files, runs and checkpoints") {
  const KindWorkplace work;
  work.out("train tiny.yaml train.run_dir=runs/a");
  work.out("train tiny.yaml train.run_dir=runs/b train.seed=7");
  check_words(work.out("config diff runs/a runs/b"), {"  runs/b\n", "train.seed", "  7\n"});
  check_words(work.out("config diff tiny.yaml runs/b --json"),
              {"\"key\": \"train.seed\",\n    \"a\": \"1\",\n    \"b\": \"7\""});
  check_rejected(work, "config diff tiny.yaml", 2, {"takes two configs"});
  check_rejected(work, "config diff tiny.yaml runs/none.h5", 4, {"runs/none.h5"});
}

TEST_CASE("config new asks what the task needs and writes a config that trains") {
  const KindWorkplace work;
  const std::string answers = "4\nmissing.txt\nlabels.txt\nlabels.txt\n\nhuge\nsmall\n0\n2\n";
  const Outcome made = work.run("config new mine.yaml", answers);
  CHECK(made.code == 0);
  check_words(made.err, {"missing.txt is not a file that can be read",
                         "expected small, medium or large, found \"huge\"",
                         "expected a whole number from 1 to"});
  const std::string config = work.read("mine.yaml");
  check_words(config, {"\n  train_text: \"labels.txt\" ", "\n  steps: 2 "});
  CHECK(work.run("train mine.yaml").code == 0);
  CHECK(contains(work.run("config new 'my own.yaml'", answers).out,
                 "tapestry train 'my own.yaml' --dry-run\n"));
  check_rejected(work, "config new mine.yaml", 2, {"mine.yaml exists", "delete the file"}, answers);
  const Outcome ended = work.run("config new other.yaml", "4\nlabels.txt\n");
  CHECK(ended.code == 2);
  CHECK(contains(ended.err, "the answers end before the question \"Validation text\""));
  CHECK_FALSE(work.has("other.yaml"));
}

TEST_CASE("every config that config new writes trains without edits, on few or many examples") {
  const KindWorkplace work;
  const auto repeated = [](const std::string& lines, int times) {
    std::string text;
    for (int i = 0; i < times; ++i) text += lines;
    return text;
  };
  const std::string long_line = repeated("a bad cab ", 100) + "\n";
  std::string ten_images;
  for (int i = 0; i < 10; ++i) ten_images += repeated("3,0,16,", 12) + (i < 5 ? "a\n" : "b\n");
  std::string scaled_images;
  for (int i = 0; i < 10; ++i)
    scaled_images += "0.5,0,0.98,0," + std::string(i < 5 ? "a\n" : "b\n");
  const struct {
    std::string task, answers, lines;
  } kinds[] = {
      {"1", "data.txt\ndata.txt\ndata.txt\ndata.txt\n\n\n", repeated("a bad cab\n", 9) + long_line},
      {"2", "data.txt\n\n", repeated("a bad cab\n", 10)},
      {"3", "data.txt\n\n", repeated("a bad cab\n", 10)},
      {"4", "data.txt\ndata.txt\n\n", repeated("no\tit rains\nyes\ta fine day\n", 5)},
      {"5", "data.txt\n\n\n", ten_images},
      {"6", "data.txt\ndata.txt\n\n", repeated("Ada\tB-PER\nspoke\tO\n\n", 10)},
      {"5", "data.txt\n\n\n", scaled_images},
  };
  int number = 0;
  for (const auto& kind : kinds) {
    for (const int times : {1, 300}) {
      CAPTURE(kind.task);
      CAPTURE(times);
      work.write("data.txt", repeated(kind.lines, times));
      const std::string config = "new" + std::to_string(++number) + ".yaml";
      const Outcome made =
          work.run("config new " + config, kind.task + "\n" + kind.answers + "\n\n");
      CHECK_MESSAGE(made.code == 0, made.err);
      const Outcome checked = work.run("train " + config + " --dry-run");
      CHECK_MESSAGE(checked.code == 0, checked.err);
    }
  }
  // The number of steps and max_length depend on the data. Images have their shape and scale.
  check_words(work.read("new1.yaml"), {"\n  max_length: 301 ", "\n  steps: 300 "});
  CHECK(contains(work.read("new8.yaml"), "\n  steps: 940 "));
  check_words(work.read("new9.yaml"),
              {"\n  image_height: 6 ", "\n  pixel_maximum: 16 ", "\n  validation_size: 1 ",
               "\n  test_size: 1 ", "\n  patch_size: 1 ", "\n  max_length: 37 "});
  CHECK(contains(work.read("new13.yaml"), "\n  pixel_maximum: 1 "));
}

TEST_CASE("config new writes nothing if the data cannot be used") {
  const KindWorkplace work;
  work.write("bad.txt", "no tab\n");
  const Outcome rejected = work.run("config new bad.yaml", "4\nbad.txt\nbad.txt\n\n\n");
  CHECK(rejected.code == 3);
  CHECK(contains(rejected.err, "bad.txt:1: "));
  CHECK_FALSE(work.has("bad.yaml"));
}

TEST_CASE("config new sets the number of layers of each stack that the model has") {
  const KindWorkplace work;
  const auto made = [&](const std::string& task, const std::string& kind) {
    const std::string file = kind + ".new.yaml";
    CHECK(work.run("config new " + file, task + "\ntext.txt\n\nsmall\n2\n").code == 0);
    CHECK(contains(work.read(file), "\n  kind: " + kind + " "));
    return work.read(file);
  };
  const std::string left_to_right = made("2", "language_model");
  CHECK(contains(left_to_right, "\n  num_decoder_layers: 3 "));
  CHECK_FALSE(contains(left_to_right, "num_encoder_layers"));
  const std::string masked = made("3", "masked_language_model");
  CHECK(contains(masked, "\n  num_encoder_layers: 3 "));
  CHECK_FALSE(contains(masked, "num_decoder_layers"));
}

TEST_CASE("config schema prints JSON") {
  const KindWorkplace work;
  CHECK(nlohmann::json::parse(work.out("config schema"))["properties"].contains("schedule"));
  check_rejected(work, "config schema extra", 2, {"takes no arguments"});
}

}  // namespace
}  // namespace tapestry
