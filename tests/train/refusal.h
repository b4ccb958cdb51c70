#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/train/program.h"

/// What the tests of the program's refusals share.
namespace tapestry::test {

using Arguments = std::vector<std::string>;

/// Checks exit code and standard error, and that every file is as it was.
inline void check_refusal(const Workplace& work, const Arguments& arguments, int code,
                          const std::string& message, const std::string& input = "") {
  const auto before = work.contents();
  const Outcome refused = work.run(arguments, input);
  CHECK(refused.code == code);
  CHECK(refused.err == "tapestry: error: " + message + "\n");
  CHECK(refused.out.empty());
  CHECK(work.contents() == before);
}

/// A workplace with a config in which one text is replaced.
struct ConfiguredWorkplace : Workplace {
  explicit ConfiguredWorkplace(const std::string& replaced = "", const std::string& by = "") {
    std::string text = tiny_yaml;
    if (!replaced.empty()) text.replace(text.find(replaced), replaced.size(), by);
    write("tiny.yaml", text);
  }
};

/// A workplace with a config of two text files for each part; the test set is left out.
struct TextWorkplace : Workplace {
  TextWorkplace() {
    write("text.yaml", R"(data:
  task: parallel_text
  train_source: train.de
  train_target: train.en
  validation_source: valid.de
  validation_target: valid.en
model: {d_model: 8, num_heads: 1, num_encoder_layers: 1, num_decoder_layers: 1, d_ff: 8, max_length: 6}
train: {steps: 2, threads: 1}
)");
    write("train.de", "ein haus\neine katze\n");
    write("train.en", "a house\na cat\n");
    write("valid.de", "ein hund\n");
    write("valid.en", "a dog\n");
  }

  std::string at(const std::string& name) const { return (*this / name).string(); }
};

}  // namespace tapestry::test
