// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <istream>
#include <map>
#include <ostream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "data/io/durable_file.h"
#include "data/io/utf8.h"
#include "train/base/error.h"
#include "train/base/format.h"
#include "train/base/program.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/open_run.h"
#include "train/cli/command.h"
#include "train/cli/open_trained.h"
#include "train/config/config.h"
#include "train/config/difference.h"
#include "train/config/keys.h"
#include "train/config/load.h"
#include "train/config/text.h"
#include "train/tasks/data_source.h"
#include "train/tasks/task.h"
#include "train/tasks/task_data.h"

namespace tapestry {
namespace config_cli {
namespace {

struct Arguments {
  std::string action;
  std::vector<std::string> files{};
  bool json = false;
};

/// throws  UsageError if the action needs more or fewer arguments
void require_count(const Arguments& arguments, std::size_t min, std::size_t max,
                   const char* expected) {
  const std::size_t count = arguments.files.size();
  if (count >= min && count <= max) return;
  throw UsageError(fmt::format("config {} takes {}, found {} argument{}", arguments.action,
                               expected, count, count == 1 ? "" : "s"),
                   fmt::format("see `{} config --help`", program_name()));
}

void explain(const Arguments& arguments) {
  require_count(arguments, 1, arguments.files.size(), "CONFIG and any number of overrides");
  const auto keys =
      explain_config(arguments.files.front(), {arguments.files.begin() + 1, arguments.files.end()});
  if (!arguments.json) {
    fmt::print("{}", escaped_lines(to_yaml(keys)));
    return;
  }
  Json json = Json::array();
  for (const ExplainedKey& each : keys) {
    json.push_back({{"key", each.key.path()},
                    {"value", each.value},
                    {"percent_of_steps", or_null(each.percent)},
                    {"origin", each.origin},
                    {"default", each.key.default_value},
                    {"meaning", each.key.meaning},
                    {"expected", each.key.expected},
                    {"in_use", each.in_use}});
  }
  print_json(json);
}

/// The config of a file, of a run or of a checkpoint.
Config load_any_config(const std::string& path) {
  if (!is_run_or_checkpoint(path)) return load_config(path);
  const std::filesystem::path effective = std::filesystem::path(path) / "config.yaml";
  std::error_code error;
  if (std::filesystem::is_regular_file(effective, error)) return load_config(effective.string());
  return saved_config(open_run(path).arrays);
}

void diff(const Arguments& arguments) {
  require_count(arguments, 2, 2, "two configs, runs or checkpoints");
  const std::string &a = arguments.files[0], &b = arguments.files[1];
  const auto differences = compare_configs(load_any_config(a), load_any_config(b));
  if (arguments.json) {
    Json json = Json::array();
    for (const ConfigDifference& each : differences) {
      json.push_back({{"key", each.key}, {"a", each.checkpoint}, {"b", each.current}});
    }
    print_json(json);
    return;
  }
  if (differences.empty()) {
    fmt::print("no key differs\n");
    return;
  }
  std::size_t key_width = 0, value_width = display_columns(escaped(a));
  for (const ConfigDifference& each : differences) {
    key_width = std::max(key_width, each.key.size());
    value_width = std::max(value_width, display_columns(escaped(each.checkpoint)));
  }
  const auto print_row = [&](const std::string& key, const std::string& x, const std::string& y) {
    fmt::print("{}  {}  {}\n", padded(key, key_width), padded(escaped(x), value_width), escaped(y));
  };
  print_row("", a, b);
  for (const ConfigDifference& each : differences)
    print_row(each.key, each.checkpoint, each.current);
}

// ---- config new

namespace fs = std::filesystem;

/// A key and its value, as in YAML.
using Values = std::map<std::string, std::string>;

/// The tasks that are offered. The first is the default.
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

  fs::path path_, folder_;  ///< the config and its folder
  std::istream& answers_;
  std::ostream& questions_;
  Values values_{};
  std::map<std::string, std::string> absolute_files_{};
  std::uint64_t training_bytes_ = 0;
};

/// Asks on `questions` for the kind of task, the data files and the size of the model, and reads
/// the data to choose lengths, held-out sets and the number of steps. Reads one answer per line
/// from `answers`; an empty line selects the default that the question shows. Paths in answers are
/// relative to the working directory.
///
/// returns  the text of a valid config file for `path`, with a comment for each key. Its paths are
///          relative to the folder of `path`.
/// throws   UsageError if the answers end before the questions; DataError, ConfigError.
std::string ask_for_config(const fs::path& path, std::istream& answers, std::ostream& questions) {
  return to_config(path, Interview(path, answers, questions).run());
}

void write_new(const Arguments& arguments) {
  require_count(arguments, 1, 1, "the path of a new file");
  const std::string& path = arguments.files.front();
  require_output(path, std::nullopt);
  const std::string text = ask_for_config(path, std::cin, std::cerr);
  write_file_durably(path, text);
  fmt::print("wrote {}. To check it and its data: {} train {} --dry-run\n", escaped(path),
             program_name(), format_argument(path));
}

void run(const Arguments& arguments) {
  if (arguments.action == "explain") explain(arguments);
  if (arguments.action == "schema") {
    require_count(arguments, 0, 0, "no arguments");
    fmt::print("{}\n", config_schema());
  }
  if (arguments.action == "diff") diff(arguments);
  if (arguments.action == "new") write_new(arguments);
}

void define(CLI::App& command, Arguments& arguments) {
  command.add_option("ACTION", arguments.action, "Action, see below")
      ->check(one_of({"explain", "diff", "schema", "new"}))
      ->required();
  add_path(command, "FILES", arguments.files,
           "For explain: a config file, and overrides such as model.d_model=128; for diff: "
           "two config files, runs or checkpoints; for new: a new file");
  command.add_flag("--json", arguments.json, "Print explain or diff as JSON");
  command.footer(
      "  explain CONFIG [section.key=value ...]  every key with its value, meaning and origin\n"
      "  diff A B                                keys whose values differ\n"
      "  schema                                  a JSON Schema of configs, for editors\n"
      "  new CONFIG                              asks for task and data, writes a config\n"
      "With the YAML language server, the first line of a config names the schema:\n"
      "  # yaml-language-server: $schema=tapestry.schema.json\n"
      "Examples:\n  tapestry config explain configs/copy.yaml train.steps=100\n"
      "  tapestry config diff runs/a runs/b\n"
      "  tapestry config schema > tapestry.schema.json");
}

}  // namespace
}  // namespace config_cli

extern const Command config_command{
    .name = "config",
    .purpose = "Explain, compare or write configs, or print their JSON Schema",
    .define = with_arguments(config_cli::define, config_cli::run)};

}  // namespace tapestry
