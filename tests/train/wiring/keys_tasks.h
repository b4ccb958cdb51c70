// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/train/kinds.h"
#include "tests/train/program.h"
#include "train/config/config.h"
#include "train/config/fields.h"
#include "train/config/load.h"
#include "train/config/rules.h"

/// A small config for every kind of model on every task that it learns, with all data files. Each
/// part of the data has separate files, so that tests detect the use of a wrong file.
namespace tapestry::test {

/// A kind of model on a task. The config file is NAME.yaml.
struct TaskCase {
  std::string kind;
  std::string task;

  std::string name() const { return kind + "-" + task; }
};

/// Every kind on each of its tasks, see kind_cases.
inline const std::vector<TaskCase> task_cases = [] {
  std::vector<TaskCase> cases;
  for (const KindCase& kind : kind_cases) {
    for (const std::string& task : kind.tasks) cases.push_back({kind.name, task});
  }
  return cases;
}();

/// One task of each kind of model, for keys whose effect does not depend on the task.
inline const std::vector<TaskCase> one_case_of_each_kind = [] {
  std::vector<TaskCase> cases;
  for (const KindCase& kind : kind_cases) cases.push_back({kind.name, kind.tasks.front()});
  return cases;
}();

inline constexpr std::size_t image_height = 4, image_width = 6;

/// Pseudorandom numbers that depend only on the seed.
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : state_(seed * 7919 + 17) {}

  std::size_t below(std::size_t n) {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<std::size_t>((state_ >> 33U) % n);
  }

 private:
  std::uint64_t state_;
};

/// Lines of words that depend only on the seed. Some words are frequent, some occur once, and some
/// differ only in case.
inline std::vector<std::string> word_lines(std::size_t count, std::uint64_t seed,
                                           const std::vector<std::string>& words) {
  Numbers numbers(seed);
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < count; ++i) {
    std::string line;
    const std::size_t length = 1 + numbers.below(5);
    for (std::size_t k = 0; k < length; ++k) {
      const std::size_t a = numbers.below(words.size()), b = numbers.below(words.size());
      const std::size_t rank = a * b / words.size();
      line += (k == 0 ? "" : " ") + words[rank];
    }
    lines.push_back(line);
  }
  return lines;
}

inline const std::vector<std::string> source_words = {"ka", "mo", "Ka", "both", "ti", "Mo",
                                                      "su", "lo", "re", "pi",   "zu"};
inline const std::vector<std::string> target_words = {"ab", "both", "ec", "Ab", "id", "Ec",
                                                      "of", "um",   "yx", "Id", "ow"};

inline std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

inline std::string labelled_lines(std::size_t count, std::uint64_t seed) {
  std::string text;
  const auto sentences = word_lines(count, seed, source_words);
  for (std::size_t i = 0; i < count; ++i) {
    text += ((i + seed) % 3 == 0 ? "Up\t" : "down\t") + sentences[i] + "\n";
  }
  return text;
}

/// A token and its label per line, and an empty line after each sentence.
inline std::string tagged_lines(std::size_t count, std::uint64_t seed) {
  static const std::vector<std::string> labels = {"noun", "verb", "other", "name"};
  std::string text;
  for (const std::string& sentence : word_lines(count, seed, source_words)) {
    std::size_t at = seed;
    for (std::size_t begin = 0; begin < sentence.size();) {
      const std::size_t end = std::min(sentence.find(' ', begin), sentence.size());
      text += sentence.substr(begin, end - begin) + "\t" + labels[at++ % labels.size()] + "\n";
      begin = end + 1;
    }
    text += "\n";
  }
  return text;
}

/// A table with an image per row: `size` values below 10 and a class.
inline std::string image_lines(std::size_t count, std::uint64_t seed, std::size_t size) {
  Numbers numbers(seed);
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t pixel = 0; pixel < size; ++pixel) {
      text += std::to_string(numbers.below(10)) + ",";
    }
    const std::size_t kind = i < 6 ? i : numbers.below(6);
    text += kind == 0 ? "rare\n" : kind < 3 ? "even\n" : "odd\n";
  }
  return text;
}

struct TaskWorkplace : Workplace {
  TaskWorkplace() {
    // Files with "_other" can replace the training, validation and test files.
    std::uint64_t seed = 1;
    for (const std::string& part : std::vector<std::string>{"train", "validation", "test"}) {
      for (const std::string& other : std::vector<std::string>{"", "_other"}) {
        const std::size_t count = part == "train" ? 18 : part == "test" ? 5 : 6;
        write(part + other + ".source", joined(word_lines(count, seed++, source_words)));
        write(part + other + ".target", joined(word_lines(count, seed++, target_words)));
        write(part + other + ".text", joined(word_lines(count / 2, seed++, source_words)));
        write(part + other + ".labels", labelled_lines(count, seed++));
        write(part + other + ".tags", tagged_lines(count, 1000 + seed));
        write(part + other + ".csv", image_lines(count + 12, seed++, image_height * image_width));
      }
    }
    for (const TaskCase& task : task_cases) write(task.name() + ".yaml", yaml(task));
  }

  /// The config of a case, loaded like the program does.
  Config config(const TaskCase& task, const std::vector<std::string>& overrides = {}) const {
    std::vector<std::string> absolute = overrides;
    for (std::string& override : absolute) override = with_absolute_path(override);
    return load_config((*this / (task.name() + ".yaml")).string(), absolute);
  }

 private:
  /// Makes file names absolute, because relative paths would refer to the working directory of the
  /// test.
  std::string with_absolute_path(const std::string& override) const {
    const std::size_t equals = override.find('=');
    const std::string value = override.substr(equals + 1);
    const bool is_file =
        equals != std::string::npos && !value.empty() && std::filesystem::exists(*this / value);
    return is_file ? override.substr(0, equals + 1) + (*this / value).string() : override;
  }

  static std::string data(const std::string& task) {
    const auto files = [](const std::string& what, const std::string& extension) {
      return ", train_" + what + ": train." + extension + ", validation_" + what + ": validation." +
             extension + ", test_" + what + ": test." + extension;
    };
    if (task == "parallel_text") return files("source", "source") + files("target", "target");
    if (task == "text") return files("text", "text") + ", context: 6";
    if (task == "labelled_text") return files("text", "labels");
    if (task == "tagged_text") return files("text", "tags");
    if (task == "images") {
      return ", train_images: train.csv, image_height: 4, image_width: 6, pixel_maximum: 9, "
             "validation_size: 6, test_size: 5";
    }
    const bool symbols = task == "copy" || task == "reverse" || task == "sort";
    return std::string(symbols ? ", num_symbols: 5, max_length: 4" : "") +
           ", train_size: 18, validation_size: 6, test_size: 5";
  }

  static std::string yaml(const TaskCase& task) {
    return "data: {task: " + task.task + data(task.task) +
           "}\n"
           "model: {kind: " +
           task.kind + ", d_model: 8, num_heads: 2, d_ff: 8, dropout: 0.2, max_length: 40" +
           (encodes(task.kind) ? ", num_encoder_layers: 1" : "") +
           (decodes(task.kind) ? ", num_decoder_layers: 1" : "") +
           "}\n"
           "schedule: {learning_rate: 0.01}\n"
           "train: {steps: 7, batch_size: 4, accumulate: 2, threads: 1, log_every: 3, "
           "validate_every: 3, save_every: 2, dtype: float64" +
           (lists_key(task.kind, "train.exact_match_sequences") ? ", exact_match_sequences: 3"
                                                                : "") +
           "}\n";
  }
};

/// A valid value that differs from the value of the field and from `not_this`, as YAML text.
inline std::string another_value(const Field& field, const std::string& not_this = "") {
  const Domain& domain = field.domain;
  std::vector<std::string> candidates = {"3",  "4",  "0.25", "0.5", "true", "false",
                                         "7s", "9s", "9",    "10",  "0.99", "0.995"};
  if (domain.is<OneOf>()) candidates = domain.words();
  if (domain.is_text() && !domain.is_list()) candidates = {"x", "y", "z"};
  for (const std::string& candidate : candidates) {
    const auto parsed = domain.parse(candidate);
    const auto* other = std::get_if<FieldValue>(&parsed);
    if (other == nullptr) continue;
    if (domain.print(*other) != field.printed() && candidate != not_this) return candidate;
  }
  return field.printed();  // no candidate differs
}

/// The keys of a section that the config uses.
inline std::vector<std::string> keys_in_use(const Config& config, const std::string& section) {
  std::vector<std::string> keys;
  for (const Field& field : fields_of(config)) {
    if (field.section == section && field.in_use()) keys.emplace_back(field.key);
  }
  return keys;
}

}  // namespace tapestry::test
