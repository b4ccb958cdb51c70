// SPDX-License-Identifier: BSD-3-Clause
#include "train/tasks/config_interview.h"

#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <istream>
#include <map>
#include <ostream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "data/io/utf8.h"
#include "train/base/error.h"
#include "train/base/program.h"
#include "train/config/config.h"
#include "train/config/keys.h"
#include "train/config/load.h"
#include "train/tasks/data_source.h"
#include "train/tasks/task.h"
#include "train/tasks/task_data.h"

namespace tapestry {
namespace {

namespace fs = std::filesystem;

/// A key and its value, as in YAML.
using Values = std::map<std::string, std::string>;

/// The offered tasks; the first task is the default.
std::vector<const Task*> offered_tasks() {
  std::vector<const Task*> tasks = all_tasks();
  std::erase_if(tasks, [](const Task* task) { return task->questions() == nullptr; });
  return tasks;
}

/// A model size, suggested for training data of up to `max_bytes` bytes.
struct ModelSize {
  std::string_view name;
  std::uint64_t max_bytes;
  std::string_view d_model, num_heads, layers, d_ff, dropout;
};
constexpr ModelSize model_sizes[] = {
    {"small", 20'000'000, "128", "4", "3", "512", "0.3"},
    {"medium", 200'000'000, "256", "4", "4", "1024", "0.1"},
    {"large", UINT64_MAX, "512", "8", "6", "2048", "0.1"},
};

/// The text of a config file with the values, in the order of config_keys(), with a comment for
/// each key.
std::string to_config(const fs::path& path, const Values& values) {
  std::string text = fmt::format(
      "# Written by `{0} config new`.\n#\n#   {0} train {1}\n#\n# All other keys: {0} config "
      "explain {1}\n",
      program_name(), path.string());
  std::string section;
  for (const ConfigKey& key : config_keys()) {
    const auto value = values.find(key.path());
    if (value == values.end()) continue;
    if (key.section != section) text += fmt::format("\n{}:\n", key.section);
    section = key.section;
    const std::string assignment = fmt::format("{}: {}", key.key, value->second);
    const std::string meaning = key.meaning.substr(0, key.meaning.find_first_of(";:"));
    text += fmt::format("  {:<32} # {}; default {}\n", assignment, meaning, key.default_value);
  }
  return text;
}

class Interview {
 public:
  Interview(const fs::path& path, std::istream& answers, std::ostream& questions)
      : path_(path),
        folder_(fs::absolute(path).parent_path()),
        answers_(answers),
        questions_(questions) {}

  Values run() {
    const Task& task = choose_task();
    const TaskQuestions& questions = *task.questions();
    set("model.kind", std::string(task.kind().name));
    for (const auto& [key, value] : questions.values) set(std::string(key), std::string(value));
    for (const TaskQuestions::File& file : questions.files) ask_for_file(file);
    if (questions.measure != nullptr) {
      const std::string& first = absolute_files_.at(std::string(questions.files.front().key));
      for (auto& [key, value] : questions.measure(first)) set(key, value);
    }
    for (const TaskQuestions::Number& number : questions.numbers) {
      if (values_.contains(std::string(number.key))) continue;
      set(std::string(number.key), ask_for_number(number.question, number.default_answer));
    }
    choose_size(task.kind());
    if (task.traits().reads_images) set("model.max_length", fmt::to_string(any_length));
    const std::size_t steps = fit_to_data(task);
    const std::size_t chosen = std::stoul(ask_for_number("Optimizer steps", fmt::to_string(steps)));
    set("train.steps", fmt::to_string(chosen));
    for (const char* key : {"train.validate_every", "train.save_every"}) {
      set(key, fmt::to_string(std::max<std::size_t>(1, chosen / 20)));
    }
    parse_config(to_config(path_, values_), path_.string());
    return std::move(values_);
  }

 private:
  void set(const std::string& key, const std::string& value) { values_[key] = value; }

  /// The config so far, with the absolute paths of its files.
  Config config_so_far() const {
    std::vector<std::string> files;
    for (const auto& [key, file] : absolute_files_) files.push_back(key + "=" + file);
    return parse_config(to_config(path_, values_), path_.string(), files);
  }

  static constexpr std::size_t any_length = 65'536;

  /// Loads the data with `any_length` as the maximum length, so that long examples are accepted.
  Corpus load() const {
    Config config = config_so_far();
    config.model.max_length = any_length;
    return load_fitting_corpus(config);
  }

  /// Loads the data. If that fails, tries values that suit small files, key by key. throws
  /// DataError.
  Corpus load_with_suitable_values() {
    constexpr std::array<std::pair<const char*, const char*>, 4> for_small_files{
        {{"data.subwords", "none"},
         {"data.context", "32"},
         {"data.context", "8"},
         {"data.context", "2"}}};
    for (const auto& [key, value] : for_small_files) {
      if (!values_.contains(key)) continue;
      try {
        return load();
      } catch (const DataError&) {
        set(key, value);
      }
    }
    return load();
  }

  /// Holds out a tenth of the images for each held-out set without a file, if every class keeps a
  /// training image.
  Corpus hold_out_images() {
    std::vector<std::string> sizes;
    for (const char* part : {"validation", "test"}) {
      const std::string key = fmt::format("data.{}_size", part);
      if (values_.contains(fmt::format("data.{}_images", part))) continue;
      sizes.push_back(key);
      set(key, "0");
    }
    Corpus all = load();
    if (sizes.empty()) return all;
    for (const std::string& key : sizes) set(key, fmt::to_string(all.train.size() / 10));
    try {
      return load();
    } catch (const DataError&) {
      for (const std::string& key : sizes) set(key, "0");
      return all;
    }
  }

  /// Sets the values that depend on the data, and returns a suitable number of steps: 20 passes
  /// over the data, but at least 300 steps and not much more than 20,000.
  std::size_t fit_to_data(const Task& task) {
    fmt::print(questions_, "Reading the data ...\n");
    const bool images = task.traits().reads_images;
    const Corpus corpus = images ? hold_out_images() : load_with_suitable_values();
    std::size_t longest = 0;
    for (const Examples& part :
         {corpus.stored_training(), Examples(corpus.validation), Examples(corpus.test)}) {
      for (std::size_t i = 0; i < part.size(); ++i) {
        longest = std::max(longest, longest_side(part.lengths(i), task.layout()));
      }
    }
    const Config config = config_so_far();
    const auto& source_keys = data_source(config.data).kind.keys;
    constexpr std::size_t max_length = 1024;
    if (longest > max_length &&
        std::ranges::find(source_keys, "data.on_bad_line") != source_keys.end()) {
      longest = max_length;
      set("data.on_bad_line", "skip");
    }
    if (longest > config.model.max_length) set("model.max_length", fmt::to_string(longest));
    if (images) {
      const std::size_t patch = config.model.patch_size;
      const ImageOptions& shape = config.data.images;
      set("model.max_length",
          fmt::to_string((shape.image_height / patch) * (shape.image_width / patch) + 1));
    }
    constexpr std::size_t few = 1000;  // in fewer examples, many words occur only once
    if (corpus.training().size() < few) values_.erase("data.min_frequency");
    const std::size_t epoch = make_batch_schedule(corpus, config).batches_per_epoch();
    std::size_t steps = std::max<std::size_t>(300, std::min<std::size_t>(20 * epoch, 20'000));
    steps = std::max(steps, 2 * epoch);
    const std::size_t round = steps < 1000 ? 10 : steps < 10'000 ? 100 : 1000;
    return (steps + round - 1) / round * round;
  }

  /// The answer to a question, without white space around it.
  std::string ask(std::string_view question, std::string_view default_answer) {
    fmt::print(questions_, "{}{}: ", question,
               default_answer.empty() ? "" : fmt::format(" [{}]", default_answer));
    questions_.flush();
    std::string line;
    if (!std::getline(answers_, line)) {
      throw UsageError(fmt::format("the answers end before the question \"{}\"", question),
                       "answer all questions; an empty line selects the default");
    }
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == line.npos) return std::string(default_answer);
    return line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin);
  }

  /// Asks until an answer is valid. `error_in` returns the error in an answer, or an empty text.
  std::string ask_until(std::string_view question, std::string_view default_answer,
                        const std::function<std::string(const std::string&)>& error_in) {
    while (true) {
      std::string answer = ask(question, default_answer);
      const std::string error = error_in(answer);
      if (error.empty()) return answer;
      fmt::print(questions_, "  {}\n", error);
    }
  }

  const Task& choose_task() {
    fmt::print(questions_, "Which task should the model be trained for?\n");
    const std::vector<const Task*> tasks = offered_tasks();
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      fmt::print(questions_, "  {}  {}\n", i + 1, tasks[i]->questions()->description);
    }
    const Domain numbers = between(1, tasks.size());
    const std::string answer =
        ask_until("Task", "1", [&](const std::string& text) { return error_in(numbers, text); });
    return *tasks[std::get<std::uint64_t>(std::get<FieldValue>(numbers.parse(answer))) - 1];
  }

  /// The error in an answer; empty if it is in the domain.
  static std::string error_in(const Domain& domain, const std::string& text) {
    const Parsed parsed = domain.parse(text);
    const auto* error = std::get_if<Diagnostic>(&parsed);
    return error == nullptr ? "" : escaped(error->message);
  }

  std::string ask_for_number(std::string_view question, std::string_view default_answer) {
    return ask_until(question, default_answer, [](const std::string& text) {
      return error_in(between(1, 1'000'000'000), text);
    });
  }

  void ask_for_file(const TaskQuestions::File& file) {
    const std::string answer =
        ask_until(file.question, "", [&](const std::string& text) -> std::string {
          if (text.empty()) return file.required ? "a file is required" : "";
          std::error_code error;
          if (fs::is_regular_file(text, error)) return "";
          return fmt::format("{} is not a file that can be read", escaped(text));
        });
    if (answer.empty()) return;
    std::error_code error;
    const std::uintmax_t bytes = fs::file_size(answer, error);
    if (!error && file.key.starts_with("data.train")) training_bytes_ += bytes;
    const fs::path absolute = fs::absolute(answer).lexically_normal();
    const fs::path relative = absolute.lexically_relative(folder_.lexically_normal());
    const bool is_near = !relative.empty() && *relative.begin() != "..";
    absolute_files_[std::string(file.key)] = absolute.string();
    set(std::string(file.key), Domain(Text()).print((is_near ? relative : absolute).string()));
  }

  void choose_size(const ConfigKind& kind) {
    OneOf names;
    for (const ModelSize& size : model_sizes) names.names.emplace_back(size.name);
    const auto suitable = std::ranges::find_if(
        model_sizes, [&](const ModelSize& size) { return training_bytes_ <= size.max_bytes; });
    const std::string name =
        ask_until(fmt::format("Size of the model, {}", fmt::join(names.names, ", ")),
                  suitable->name, [&](const std::string& text) { return error_in(names, text); });
    const ModelSize& size = *std::ranges::find(model_sizes, name, &ModelSize::name);
    set("model.d_model", std::string(size.d_model));
    set("model.num_heads", std::string(size.num_heads));
    for (const char* key : {"model.num_encoder_layers", "model.num_decoder_layers"}) {
      const bool uses = std::ranges::find(kind.keys, key) != kind.keys.end();
      if (uses) set(key, std::string(size.layers));
    }
    set("model.d_ff", std::string(size.d_ff));
    set("model.dropout", std::string(size.dropout));
    set("optimizer.kind", "adamw");
    set("schedule.kind", "cosine");
    set("schedule.learning_rate", "1e-3");
    set("schedule.warmup_steps", "5%");
  }

  fs::path path_, folder_;  ///< paths of the config and its folder
  std::istream& answers_;
  std::ostream& questions_;
  Values values_{};
  std::map<std::string, std::string> absolute_files_{};
  std::uint64_t training_bytes_ = 0;
};

}  // namespace

std::string ask_for_config(const fs::path& path, std::istream& answers, std::ostream& questions) {
  return to_config(path, Interview(path, answers, questions).run());
}

}  // namespace tapestry
