// SPDX-License-Identifier: BSD-3-Clause
#include "data/io/near_name.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/contains.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/config/config_errors.h"
#include "train/config/fields.h"
#include "train/config/synonyms.h"

namespace tapestry {
namespace {

using Paths = std::vector<std::string>;

/// The hint of the first error of a config.
std::string hint(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  const std::vector<Diagnostic> errors = test::config_errors(yaml, overrides);
  return errors.empty() ? "accepted" : errors.front().hint;
}

std::string override_hint(const std::string& override) {
  return hint("model: {d_ff: 8}\n", {override});
}

TEST_CASE("the edit distance counts insertions, deletions, replacements and swaps of neighbors") {
  const struct {
    const char *a, *b;
    std::size_t distance;
  } rows[] = {{"", "", 0},
              {"", "abc", 3},
              {"abc", "", 3},
              {"kitten", "sitting", 3},
              {"d_modl", "d_model", 1},
              {"d_modle", "d_model", 1},
              {"ab", "ba", 1},
              {"ca", "abc", 3},  // 2 if the swapped pair could be edited again
              {"Batch-Size", "batch_size", 0}};
  for (const auto& row : rows) CHECK(edit_distance(row.a, row.b) == row.distance);
}

TEST_CASE("the closest candidate is suggested, or the first if several are equally close") {
  const std::vector<std::string> keys{"steps", "beta1", "beta2", "seed", "dropout", "dtype"};
  const std::string longest(64, 'a');
  CHECK(closest("beta2x", keys) == "beta2");
  CHECK(closest("beta", keys) == "beta1");
  CHECK(closest("sed", keys) == "seed");
  CHECK(closest("dropot", keys) == "dropout");
  CHECK(closest(longest, std::vector{longest}) == longest);
  CHECK(closest("x", {}) == std::nullopt);
  for (const char* differs_in_a_third : {"drpot", "dopot", "lr", ""}) {
    CHECK(closest(differs_in_a_third, std::vector<std::string>{"dropout", "dtype"}) ==
          std::nullopt);
  }
  const std::string too_long(65, 'a');
  CHECK(closest(too_long, std::vector{too_long}) == std::nullopt);
}

TEST_CASE("key names of other programs are recognized in upper or lower case and with dashes") {
  CHECK(keys_meant_by("lr") == Paths{"schedule.learning_rate"});
  CHECK(keys_meant_by("LR") == Paths{"schedule.learning_rate"});
  CHECK(keys_meant_by("hidden-size") == Paths{"model.d_model"});
  CHECK(keys_meant_by("layers") == Paths{"model.num_encoder_layers", "model.num_decoder_layers"});
  CHECK(keys_meant_by("flavour").empty());
  CHECK(keys_meant_by("").empty());
}

TEST_CASE("a key that several sections have is suggested for each section, the most likely first") {
  CHECK(keys_meant_by("seed") == Paths{"train.seed", "data.seed"});
  CHECK(keys_meant_by("kind") == Paths{"model.kind", "optimizer.kind", "schedule.kind"});
  CHECK(keys_meant_by("dropout") == Paths{"model.dropout"});
}

TEST_CASE("every synonym belongs to an existing key") {
  for (const Synonyms& key : all_synonyms()) {
    CAPTURE(key.path);
    CHECK(find_field(key.path).has_value());
    for (const std::string_view name : key.names) {
      const Paths meant = keys_meant_by(name);
      CHECK(std::ranges::find(meant, key.path) != meant.end());
    }
  }
}

TEST_CASE("the hint for an override without a section lists the keys that accept its value") {
  CHECK(override_hint("seed=3") == "write `train.seed=...` or `data.seed=...`");
  CHECK(override_hint("lr=1e-3") == "write `schedule.learning_rate=...`");
  CHECK(override_hint("kind=adam") == "write `optimizer.kind=...`");
  CHECK(override_hint("kind=cosine") == "write `schedule.kind=...`");
  CHECK(override_hint("kind=best") ==
        "write `model.kind=...`, `optimizer.kind=...` or `schedule.kind=...`");
  CHECK(override_hint("train.seed") == "write `train.seed=...`");
  CHECK(override_hint("flavour=3") == "for example, write `model.d_model=128`");
  CHECK(test::contains(override_hint("b.txt]"), "put the list in quotes"));
}

TEST_CASE("the hint for a key name of another program is the key of this program") {
  CHECK(override_hint("model.heads=2") == "did you mean `num_heads`?");
  CHECK(override_hint("model.n_head=2") == "did you mean `num_heads`?");
  CHECK(override_hint("train.lr=2") == "did you mean `learning_rate` in `schedule`?");
  CHECK(override_hint("model.layers=2") ==
        "did you mean `num_encoder_layers` or `num_decoder_layers`?");
  CHECK(hint("lr: 3\n") == "did you mean `learning_rate` in `schedule`?");
  CHECK(hint("train:\n  batch: 8\n") == "did you mean `batch_size`?");
}

TEST_CASE("the hint for a mistake in a config says what to write") {
  const std::string odd = "\xC2\xA0", hidden = "\xE2\x80\x8B", minus = "\xE2\x88\x92";
  const struct {
    std::string yaml, hint;
  } rows[] = {
      {"schedule: {type: cosine}\n", "did you mean `kind`?"},
      {"optimizer: {name: adam}\n", "did you mean `kind`?"},
      {"data: {task: translation}\n", "the nearest is `parallel_text`"},
      {"data: {task: NER}\n", "the nearest is `tagged_text`"},
      {"model: {kind: bert}\n", "the nearest is `masked_language_model`"},
      {"model: {kind: gpt2}\n", "the nearest is `language_model`"},
      {"optimizer: {kind: lion}\n", "the nearest is `adamw`"},
      {"schedule: {kind: noam}\n", "the nearest is `inverse_sqrt`"},
      {"train: {best_metric: accuracy}\n", "the nearest is `token_accuracy`"},
      {"data: {task: tagged_text, train_text: a}\nmodel: {kind: tagger}\n"
       "train: {best_metric: f1}\n",
       "the nearest is `span_f1`"},
      {"data: {task: tagged_text, train_text: a}\ntrain: {best_metric: F1}\n"
       "model: {kind: tagger}\n",
       "the nearest is `span_f1`"},
      {"data: {task: labelled_text, train_text: a}\nmodel: {kind: classifier}\n"
       "train: {best_metric: f1}\n",
       "the nearest is `token_accuracy`"},
      {"data: {task: text, train_text: a}\nmodel: {kind: language_model}\n"
       "train: {best_metric: ppx}\n",
       "for example, write loss, the default"},
      {"train: {best_metric: exact}\n", "the nearest is `exact_match`"},
      {"data:\n  task:copy\n", "write `task: copy`, with a space after the colon"},
      {"data:\n  task:copy\n  seed:3\n", "write `task: copy`, with a space after the colon"},
      {"data: {task:copy}\n", "write `task: copy`"},
      {"train.steps: 10\n", "write `steps: ...` indented below `train:`"},
      {"data.task: copy\n", "write `task: ...` indented below `data:`"},
      {"data: task: copy\n", "write `task: copy` indented below `data:`"},
      {"data:\n  task: copy\n   vocabulary: 5\n",
       "indent `vocabulary` and `task` in line 2 equally: they have 3 and 2 spaces"},
      {"model:\n    d_model: 16  # width\n\n  d_ff: 32\n",
       "indent `d_ff` and `d_model` in line 2 equally: they have 2 and 4 spaces"},
      {"model: {d_ff: 8\ntrain: {steps: 3}\n",
       "separate the entries with commas, and close the section with `}`"},
      {"model: {d_ff: 8 num_heads: 2}\n",
       "separate the entries with commas, and close the section with `}`"},
      {"model: &base\n  d_ff: a: b\n", "write `kind: ...` below it, or remove the section"},
      {"data:\n  train_text: [a, b\nmodel: {d_ff: 8}\n",
       "separate the entries with commas, and close the list with `]`"},
      {"model:\n  d_ff: 8\n  num_heads = 2\n", "write `num_heads: 2`"},
      {"model:\n  num_heads=2\n", "write `num_heads: 2`, with a space after the colon"},
      {"train: {device: cuda}\n",
       "remove it: training runs on the CPU, with train.threads threads"},
      {"device: cuda\n", "remove it: training runs on the CPU, with train.threads threads"},
      {"train: {fp16: true}\n", "remove it: train.dtype is float32 or float64"},
      {"data: {task: labelled_text, train_text: a}\n", "set `model.kind` to classifier"},
      {"data: {task: images, train_images: a}\n", "set `model.kind` to vision_transformer"},
      {"data: {folder: \"C:\\Users\"}\n",
       "put the text in single quotes: in double quotes, a backslash begins an escape sequence"},
      {"data: {folder: \"C:\\temp\"}\n",
       "put the text in single quotes: in double quotes, a backslash begins an escape sequence"},
      {"data: {folder: \"C:\\new\"}\n",
       "put the text in single quotes: in double quotes, a backslash begins an escape sequence"},
      {"data: {task:" + odd + "copy}\n", "write `task: copy`"},
      {"model: {d_model: 8" + hidden + "}\n", "write `8`"},
      {"model: {d_" + hidden + "model: 8}\n", "write `d_model`"},
      {"schedule: {learning_rate: 1e" + minus + "3}\n", "write `1e-3`"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.yaml);
    CHECK(hint(row.yaml) == row.hint);
  }
  CHECK(override_hint("device=cuda") ==
        "remove it: training runs on the CPU, with train.threads threads");
}

TEST_CASE("the hint for an unknown key of a large section names a command instead of all keys") {
  CHECK(test::contains(hint("train: {flavour: 3}\n"), "config explain CONFIG` lists the keys"));
  CHECK(test::contains(hint("schedule: {flavour: 3}\n"), "has the keys kind"));
}

TEST_CASE("invisible characters and look-alikes are named by code point") {
  const auto message = [](const std::string& yaml) {
    return test::config_errors(yaml, {}).front().message;
  };
  CHECK(
      test::contains(message("model: {d_model: 8\xE2\x80\x8B}\n"), "(U+200B, which is invisible)"));
  CHECK(test::contains(message("model: {d_model: 8\xC2\xA0"
                               "0}\n"),
                       "(U+00A0, which is not ` `)"));
  CHECK(test::contains(message("schedule: {learning_rate: \xE2\x88\x92"
                               "1}\n"),
                       "(U+2212, which is not `-`)"));
  CHECK(test::contains(message("mod\xE2\x80\x8B"
                               "el: {d_model: 8}\n"),
                       "U+200B"));
  CHECK_FALSE(test::contains(message("model: {d_model: \xC3\xA9}\n"), "U+"));
}

TEST_CASE("paths that begin with ~ or a shell variable are rejected for every key") {
  for (const std::string key :
       {"data: {task: text, train_text", "data: {folder", "data: {task: images, train_images",
        "train: {run_dir", "train: {initialize_from"}) {
    CAPTURE(key);
    for (const std::string path : {"~/a", "~", "$HOME/a", "${HOME}/a"}) {
      CAPTURE(path);
      const auto errors = test::config_errors(key + ": '" + path + "'}\n", {});
      CHECK(std::ranges::any_of(errors, [](const Diagnostic& error) {
        return test::contains(error.message, "only a shell expands");
      }));
    }
  }
  for (const std::string path : {"./~a", "$5", "a~", "a$b"}) {
    CHECK(test::config_errors("data: {task: text, train_text: '" + path +
                              "'}\nmodel: {kind: language_model}\n")
              .empty());
  }
}

TEST_CASE("the closest name in the folder is suggested for a missing path") {
  const test::TemporaryFolder folder;
  for (const char* name : {"train.en", "seq", "copy.yaml"}) folder.write(name, "");
  CHECK(closest_path(folder / "sq") == (folder / "seq").string());
  CHECK(closest_path(folder / "sq/") == (folder / "seq").string());
  CHECK(closest_path(folder / "cpoy.yaml") == (folder / "copy.yaml").string());
  CHECK(closest_path(folder / "train.de") == std::nullopt);  // a different kind of file
  CHECK(closest_path(folder / "none/a") == std::nullopt);
}

TEST_CASE("keys that the kind of model or task uses are preferred among equally close keys") {
  CHECK(hint("model: {num_coder_layers: 2}\n") == "did you mean `num_encoder_layers`?");
  CHECK(hint("model: {num_coder_layers: 2, kind: language_model}\n") ==
        "did you mean `num_decoder_layers`?");
  CHECK(hint("data: {task: toy_sentences}\nmodel: {kind: language_model}\n",
             {"model.num_coder_layers=2"}) == "did you mean `num_decoder_layers`?");
  CHECK(hint("model: {kind: classifier, num_coder_layers: 2}\n") ==
        "did you mean `num_encoder_layers`?");
}

}  // namespace
}  // namespace tapestry
