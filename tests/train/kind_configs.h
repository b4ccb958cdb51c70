#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tests/train/program.h"

/// A workplace with the files and a tiny config of each kind of model but seq2seq, each of which is
/// learned, badly, within milliseconds.
namespace tapestry::test {

struct KindConfig {
  std::string name;      ///< of the config, NAME.yaml, and of its run, runs/NAME
  std::string examples;  ///< what train says of the data
  std::size_t held_out;  ///< number of examples of the validation set
};

inline const std::vector<KindConfig> kind_configs = {
    {"language", "windows", 4},   {"words", "sentences", 6},     {"masked", "sentences", 6},
    {"classes", "sentences", 11}, {"agreement", "sentences", 6}, {"images", "images", 6},
    {"tags", "sentences", 11},
};

struct KindWorkplace : Workplace {
  KindWorkplace() {
    write("text.txt", text());
    write("labels.txt", labelled());
    write("images.csv", images());
    write("tags.txt", tagged());
    write("language.yaml", "data: {task: text, train_text: text.txt, context: 6}\n" +
                               model("language_model", "max_length: 8") + train);
    write("words.yaml", "data: {task: toy_sentences" + sizes + "}\n" +
                            model("language_model", "max_length: 40") + train);
    write("masked.yaml", "data: {task: toy_sentences" + sizes + "}\n" +
                             model("masked_language_model", "max_length: 40") + train);
    write("classes.yaml",
          "data: {task: labelled_text, train_text: labels.txt, validation_text: labels.txt}\n" +
              model("classifier", "max_length: 12, pooling: mean") + train);
    write("agreement.yaml", "data: {task: toy_agreement" + sizes + "}\n" +
                                model("classifier", "max_length: 40") + train);
    write("tags.yaml",
          "data: {task: tagged_text, train_text: tags.txt, validation_text: tags.txt}\n" +
              model("tagger", "max_length: 8") + train);
    write("images.yaml",
          "data: {task: images, train_images: images.csv, image_height: 4, image_width: 4, "
          "validation_size: 6, test_size: 4, pixel_maximum: 9}\n" +
              model("vision_transformer", "max_length: 5, positions: learned") + train);
  }

 private:
  static inline const std::string sizes = ", train_size: 22, validation_size: 6, test_size: 4";
  static inline const std::string train =
      "schedule: {learning_rate: 0.01}\n"
      "train: {steps: 12, batch_size: 4, threads: 1, log_every: 4, validate_every: 6, "
      "save_every: 5}\n";

  static std::string model(const std::string& kind, const std::string& more) {
    const std::string layers =
        kind == "language_model" ? "num_decoder_layers: 1" : "num_encoder_layers: 1";
    return "model: {kind: " + kind + ", d_model: 32, num_heads: 2, " + layers +
           ", d_ff: 64, dropout: 0.2, " + more + "}\n";
  }

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

  /// 32 images of 4 x 4 pixels, of which the class is the brighter half.
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

}  // namespace tapestry::test
