// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/model_kind.h"
#include "tests/train/program.h"
#include "train/tasks/task.h"

/// Descriptions of all kinds of models, with the configs and data that tests use. Tests get the
/// properties of a kind, such as whether it predicts classes, from its task.
namespace tapestry::test {

// ---- Properties of a kind of model, from its task.

/// Whether the kind lists a key that not all kinds use.
inline bool lists_key(std::string_view model_kind, std::string_view key) {
  const std::vector<std::string_view>& keys = find_task(model_kind).kind().keys;
  return std::ranges::find(keys, key) != keys.end();
}

/// Whether the kind has an encoder.
inline bool encodes(std::string_view model_kind) {
  return lists_key(model_kind, "model.num_encoder_layers");
}

/// Whether the kind has a decoder.
inline bool decodes(std::string_view model_kind) {
  return lists_key(model_kind, "model.num_decoder_layers");
}

/// Whether the kind predicts classes instead of tokens.
inline bool predicts_classes(std::string_view model_kind) {
  return find_task(model_kind).layout().labels_are_classes;
}

// ---- Configs and data.

/// The contents of small training files. Training on them takes milliseconds and gives a poor
/// model.
struct KindFiles {
  static std::string text() {
    std::string lines;
    for (int i = 0; i < 20; ++i) lines += i % 3 == 0 ? "a bad cab\n" : "dab a fab\n";
    return lines;
  }

  static std::string labelled() {
    std::string lines;
    for (int i = 0; i < 11; ++i) lines += i % 3 == 0 ? "no\tit rains again\n" : "yes\ta fine day\n";
    return lines;
  }

  static std::string tagged() {
    std::string lines;
    for (int i = 0; i < 11; ++i) {
      lines += i % 3 == 0 ? "Ada\tB-PER\nspoke\tO\n\n" : "in\tO\nNew\tB-LOC\nYork\tI-LOC\n\n";
    }
    return lines;
  }

  /// 32 images of 4 x 4 pixels; the class is the brighter half.
  static std::string images() {
    std::string lines;
    for (int i = 0; i < 32; ++i) {
      for (int pixel = 0; pixel < 16; ++pixel) {
        const bool bright = (pixel < 8) == (i % 2 == 0);
        lines += std::to_string((bright ? 5 : 0) + (i * 7 + pixel * 3) % 5) + ",";
      }
      lines += i % 2 == 0 ? "top\n" : "bottom\n";
    }
    return lines;
  }
};

/// A config of KindWorkplace.
struct KindConfig {
  std::string name;      ///< name of the config NAME.yaml and of its run runs/NAME
  std::string examples;  ///< text that train prints about the data
  std::size_t held_out;  ///< number of examples of the validation set
  std::string data;      ///< the section data
  std::string model;     ///< keys of the section model that differ between the configs
  std::string file{};    ///< name of the data file; empty if the data are generated
  std::string lines{};   ///< content of the data file
};

/// A kind of model with the configs and data of its tests.
struct KindCase {
  ModelKind kind;
  std::vector<std::string> tasks;     ///< its values of data.task; most tests use only the first
  std::string data;                   ///< the section data of a config whose files are not read
  std::vector<KindConfig> configs{};  ///< configs for tests of the program's commands
  std::string name = model_kind_name(kind);  ///< the value of model.kind
};

/// All kinds of models. Tests fail if a value of model.kind or one of its tasks is missing.
inline const std::vector<KindCase> kind_cases = {
    {.kind = ModelKind::seq2seq,
     .tasks = {"copy", "reverse", "sort", "toy_translation", "parallel_text"},
     .data = "task: copy, max_length: 5"},
    {.kind = ModelKind::language_model,
     .tasks = {"text", "toy_sentences"},
     .data = "task: text, train_text: a.txt, context: 5",
     .configs = {{.name = "language",
                  .examples = "windows",
                  .held_out = 4,
                  .data = "task: text, train_text: text.txt, context: 6",
                  .model = "num_decoder_layers: 1, max_length: 8",
                  .file = "text.txt",
                  .lines = KindFiles::text()},
                 {.name = "words",
                  .examples = "sentences",
                  .held_out = 6,
                  .data = "task: toy_sentences, train_size: 22, validation_size: 6, test_size: 4",
                  .model = "num_decoder_layers: 1, max_length: 40"}}},
    {.kind = ModelKind::masked_language_model,
     .tasks = {"toy_sentences", "text"},
     .data = "task: text, train_text: a.txt, context: 5",
     .configs = {{.name = "masked",
                  .examples = "sentences",
                  .held_out = 6,
                  .data = "task: toy_sentences, train_size: 22, validation_size: 6, test_size: 4",
                  .model = "num_encoder_layers: 1, max_length: 40"}}},
    {.kind = ModelKind::classifier,
     .tasks = {"labelled_text", "toy_agreement"},
     .data = "task: toy_agreement",
     .configs = {{.name = "classes",
                  .examples = "sentences",
                  .held_out = 11,
                  .data = "task: labelled_text, train_text: labels.txt, "
                          "validation_text: labels.txt",
                  .model = "num_encoder_layers: 1, max_length: 12, pooling: mean",
                  .file = "labels.txt",
                  .lines = KindFiles::labelled()},
                 {.name = "agreement",
                  .examples = "sentences",
                  .held_out = 6,
                  .data = "task: toy_agreement, train_size: 22, validation_size: 6, test_size: 4",
                  .model = "num_encoder_layers: 1, max_length: 40"}}},
    {.kind = ModelKind::vision_transformer,
     .tasks = {"images"},
     .data = "task: images, train_images: a.csv, image_height: 4, image_width: 8, "
             "image_channels: 2",
     .configs = {{.name = "images",
                  .examples = "images",
                  .held_out = 6,
                  .data = "task: images, train_images: images.csv, image_height: 4, "
                          "image_width: 4, validation_size: 6, test_size: 4, pixel_maximum: 9",
                  .model = "num_encoder_layers: 1, max_length: 5, positions: learned",
                  .file = "images.csv",
                  .lines = KindFiles::images()}}},
    {.kind = ModelKind::tagger,
     .tasks = {"tagged_text"},
     .data = "task: tagged_text, train_text: a.txt",
     .configs = {{.name = "tags",
                  .examples = "sentences",
                  .held_out = 11,
                  .data = "task: tagged_text, train_text: tags.txt, validation_text: tags.txt",
                  .model = "num_encoder_layers: 1, max_length: 8",
                  .file = "tags.txt",
                  .lines = KindFiles::tagged()}}},
};

/// The configs of all kinds, see kind_cases.
inline const std::vector<KindConfig> kind_configs = [] {
  std::vector<KindConfig> configs;
  for (const KindCase& kind : kind_cases) {
    configs.insert(configs.end(), kind.configs.begin(), kind.configs.end());
  }
  return configs;
}();

/// A workplace with data files and a tiny config for each kind of model. Training takes
/// milliseconds and gives a poor model.
struct KindWorkplace : TinyWorkplace {
  KindWorkplace() {
    for (const KindCase& kind : kind_cases) {
      for (const KindConfig& config : kind.configs) {
        if (!config.file.empty()) write(config.file, config.lines);
        write(config.name + ".yaml",
              "data: {" + config.data + "}\nmodel: {kind: " + kind.name +
                  ", d_model: 32, num_heads: 2, d_ff: 64, dropout: 0.2, " + config.model +
                  "}\n"
                  "schedule: {learning_rate: 0.01}\n"
                  "train: {steps: 12, batch_size: 4, threads: 1, log_every: 4, "
                  "validate_every: 6, save_every: 5}\n");
      }
    }
  }
};

}  // namespace tapestry::test
