#include "train/cli/man.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "train/cli/command.h"
#include "train/cli/roff.h"
#include "train/config/config.h"
#include "train/config/domains.h"
#include "train/config/rules.h"
#include "train/error.h"
#include "train/format.h"
#include "train/platform/machine.h"
#include "train/platform/program_name.h"

namespace tapestry {
namespace man_cli {
namespace {

using roff::Page;

constexpr std::array exit_codes{
    ManualEntry{"0", "done"},
    ManualEntry{
        "1",
        "an internal error, an error in a custom model, a wrong gradient, a failed check, or "
        "a difference that `diff` or `replay` has found"},
    ManualEntry{"2", "invalid command line or config"},
    ManualEntry{"3", "invalid data"},
    ManualEntry{"4", "a checkpoint cannot be used"},
    ManualEntry{
        "5",
        "output could not be written; if the reader of a pipe is gone, SIGPIPE ends a command "
        "instead (141 in a shell), but never a training run"},
    ManualEntry{"6", "NaN, infinity or divergence"},
    ManualEntry{"7", "another process uses the run directory"},
    ManualEntry{"8", "not enough memory"},
    ManualEntry{"9", "another process of a parallel run failed"},
    ManualEntry{"124", "stopped by `train.max_time`, after saving"},
    ManualEntry{"128 + n", "stopped by signal n, after saving"},
};

constexpr std::array environment{
    ManualEntry{"OPENBLAS_CORETYPE",
                "the processor type whose kernels OpenBLAS uses, with `train.matmul: openblas`"},
    ManualEntry{"OPENBLAS_NUM_THREADS",
                "the number of threads that OpenBLAS starts with the program, by default one for each "
                "core; Tapestry does not use them. Set it to 1 where address space is limited "
                "(`ulimit -v`): each takes 128 MiB of it, and OpenBLAS waits forever for more"},
    ManualEntry{"SOURCE_DATE_EPOCH",
                "the date of manual pages that `tapestry man` prints, in seconds since 1970; "
                "default: today"},
    ManualEntry{"TAPESTRY_KERNELS",
                "the kernels that `train.kernels: auto` and commands without a config use: "
                "baseline, avx2 or avx512"},
    ManualEntry{"TAPESTRY_MATMUL",
                "the matrix products that `train.matmul: auto` and commands without a config use: "
                "tapestry or openblas"},
    ManualEntry{"TAPESTRY_PEER_TIMEOUT",
                "the seconds after which a process of a parallel run that sends no heartbeat ends "
                "the run, 60 unless it is set"},
    ManualEntry{"TERM", "dumb or unset: no line on the terminal shows the progress of training"},
    ManualEntry{"TMPDIR",
                "the folder of temporary files of training examples, where a command needs one "
                "(`data.cache`); default: /var/tmp"},
};

constexpr std::array files{
    ManualEntry{"runs/NAME/",
                "the run directory of NAME.yaml, unless `train.run_dir` names another"},
    ManualEntry{"runs/NAME/config.yaml", "the effective config, with all keys"},
    ManualEntry{"runs/NAME/checkpoints/step-*.h5",
                "checkpoints, each an HDF5 file that needs nothing else"},
    ManualEntry{"runs/NAME/average.h5",
                "the average of the last checkpoints of a finished run, with `train.average_last`"},
    ManualEntry{"runs/NAME/cache/train.examples",
                "tokenized training examples, with `data.cache`; recreated if it is deleted"},
    ManualEntry{"runs/NAME/metrics.csv", "metrics of the training and of each validation"},
    ManualEntry{"runs/NAME/timing.csv", "time of day and speed at each log line"},
    ManualEntry{"runs/NAME/time_use.csv",
                "what each process has done with its time, for `tapestry report`"},
    ManualEntry{"runs/NAME/recording.jsonl",
                "samples, weights and gradients at each validation, for `tapestry report`"},
    ManualEntry{"runs/NAME/digests.csv",
                "digests of all parameters after some steps, for `tapestry diff`"},
    ManualEntry{"runs/NAME/tensorboard/", "event files for TensorBoard, with `train.tensorboard`"},
    ManualEntry{"runs/NAME/report.html", "the page of `tapestry report`"},
    ManualEntry{"runs/NAME/explain.html", "the page of `tapestry explain`"},
    ManualEntry{"runs/NAME/history.txt", "changes that were made to the run, by step"},
    ManualEntry{"runs/NAME/train.log", "the log"},
    ManualEntry{"runs/NAME/non-finite-step-*.txt",
                "where a loss or gradient became NaN or infinite, and the examples that cause it"},
};

constexpr std::array signals{
    ManualEntry{
        "SIGTERM, SIGINT, SIGHUP, SIGUSR2, SIGXCPU",
        "drop the training step that has begun, save a checkpoint and stop; a second signal "
        "other than SIGXCPU ends the program at once, without a save"},
    ManualEntry{"SIGUSR1", "save a checkpoint and continue"},
    ManualEntry{"SIGQUIT", "ends the program at once, without a save"},
};

void add_entries(Page& page, std::span<const ManualEntry> entries) {
  for (const auto& [name, meaning] : entries) {
    page.item(name, with_program_name(std::string(meaning)));
  }
}

Page begin_page(std::string_view name, int section, std::string_view date,
                std::string_view purpose) {
  Page page(name, section, date, fmt::format("tapestry {}", program_version), "Tapestry manual");
  page.section("NAME");
  page.line(fmt::format("{} - {}", name, purpose));
  return page;
}

// ---- tapestry(1).

std::string in_synopsis(const Option& positional) {
  const std::string name = positional.name() + (positional.is_repeatable() ? " ..." : "");
  return positional.is_required() ? name : fmt::format("[{}]", name);
}

std::string synopsis(const ArgumentParser& command) {
  std::string line = fmt::format("{} {} [OPTIONS]", program_name(), command.name());
  for (const Option* option : command.options()) {
    if (option->is_positional()) line += " " + in_synopsis(*option);
  }
  return line;
}

/// `--tokens UINT`, `-h, --help` or the name of a positional argument.
std::string option_tag(const Option& option) {
  if (option.is_positional()) return option.name();
  std::vector<std::string> names;
  for (const std::string& name : option.short_names()) names.push_back("-" + name);
  for (const std::string& name : option.long_names()) names.push_back("--" + name);
  const std::string tag = fmt::format("{}", fmt::join(names, ", "));
  return option.is_flag() ? tag : fmt::format("{} {}", tag, argument_name(option));
}

std::string option_names(const std::vector<const Option*>& options) {
  std::vector<std::string> names;
  for (const Option* option : options) names.push_back("`" + option->name() + "`");
  return list_in_words(names);
}

std::string option_text(const Option& option) {
  std::string text = option.description();
  if (!option.choices().empty()) text += ": " + list_in_words(option.choices());
  if (!option.default_text().empty()) text += "; default: " + option.default_text();
  if (!option.is_positional() && option.is_repeatable()) text += "; may be repeated";
  if (!option.needed().empty()) text += "; only with " + option_names(option.needed());
  if (!option.excluded().empty()) text += "; not with " + option_names(option.excluded());
  return text;
}

/// The lines at the start of `text` that belong together: indented ones, those of a sentence, or an
/// empty line.
std::string_view first_part(std::string_view text) {
  const bool indented = text.starts_with(' ');
  std::size_t end = text.find('\n');
  if (end == 0) return {};
  while (end != text.npos) {
    const std::string_view next = text.substr(end + 1);
    const bool next_is_indented = next.starts_with(' ');
    const bool sentence_ends = text[end - 1] == '.' || text[end - 1] == ':';
    if (next_is_indented != indented || (!indented && sentence_ends) || next.starts_with('\n'))
      break;
    end = text.find('\n', end + 1);
  }
  return text.substr(0, end);
}

/// The text below the options: indented lines stay as they are, others are filled; a paragraph
/// begins after an empty line.
void add_footer(Page& page, std::string_view text) {
  bool begins = true;
  while (!text.empty()) {
    const std::string_view part = first_part(text);
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const bool indented = part.starts_with(' ');
    if (indented) {
      page.lines(part);
    } else if (begins && !part.empty()) {
      page.paragraph(part);
    } else if (!part.empty()) {
      page.line(part);
    }
    begins = indented || part.empty();
  }
}

void add_command(Page& page, const Command& command) {
  const auto parser = describe(command);
  page.subsection(synopsis(*parser));
  page.paragraph(command.purpose + std::string("."));
  for (const bool positional : {true, false}) {
    for (const Option* option : parser->options()) {
      if (option->is_positional() != positional || option->name() == "--help") continue;
      page.item(option_tag(*option), option_text(*option));
    }
  }
  add_footer(page, parser->footer());
}

Page program_page(std::string_view date) {
  Page page = begin_page(program_name(), 1, date, "train Transformers on CPUs");
  page.section("SYNOPSIS");
  page.line(fmt::format("`{}` COMMAND [OPTIONS] [ARGUMENTS]", program_name()));
  page.line(fmt::format("`{}` [`--help` | `--version`]", program_name()));
  page.section("DESCRIPTION");
  page.paragraph(fmt::format(
      "Trains, evaluates and applies Transformers. A config file describes the data, the model and "
      "the training; see {}-config(5). A run that was stopped or killed resumes "
      "bit-identically, and results are bit-identical on any number of threads.",
      program_name()));
  page.paragraph(
      "RUN is a run directory or a checkpoint file; MODEL is one of these or a config file. For a "
      "run directory, `train --resume` uses the newest checkpoint, and all other commands use the "
      "checkpoint with the best train.best_metric, by default the lowest validation loss.");
  page.section("OPTIONS");
  page.item("-h, --help", "Print help: the list of commands, or the options of a command");
  page.item("--version", "Print the version");
  page.section("COMMANDS");
  for (const Command& command : all_commands()) add_command(page, command);
  page.section("SIGNALS");
  page.paragraph(fmt::format("While `{} train` runs:", program_name()));
  add_entries(page, signals);
  page.section("EXIT STATUS");
  add_entries(page, exit_codes);
  page.section("ENVIRONMENT");
  add_entries(page, environment);
  page.section("FILES");
  add_entries(page, files);
  page.section("EXAMPLES");
  page.lines(
      fmt::format("{0} train configs/copy.yaml model.d_model=128\n"
                  "{0} train --resume runs/copy\n"
                  "{0} evaluate runs/copy\n"
                  "echo \"b a d c\" | {0} translate runs/copy",
                  program_name()));
  page.section("SEE ALSO");
  page.line(fmt::format("`{}-config`(5)", program_name()));
  return page;
}

// ---- tapestry-config(5).

const char* when_resumed(ChangeRule rule) {
  switch (rule) {
    case ChangeRule::free:
      return "A resumed run may change it.";
    case ChangeRule::with_permission:
      return "A resumed run may change it with `--allow-change`.";
    case ChangeRule::never:
      return "A resumed run cannot change it.";
  }
  return "";
}

void add_key(Page& page, const ConfigKey& key) {
  page.item(fmt::format("{}: {}", key.key, key.default_value), key.meaning);
  const std::string only =
      key.used_with.empty() ? "" : fmt::format(" Only with `{}`.", key.used_with);
  page.more(fmt::format("Value: {}.{} {}", key.expected, only, when_resumed(key.change)));
}

Page config_page(std::string_view date) {
  Page page = begin_page(program_name() + "-config", 5, date, "config files of " + program_name());
  page.section("DESCRIPTION");
  page.paragraph(
      "A config is a YAML file of sections, each with keys that have one value. A key that is left "
      "out has its default value. On the command line, `section.key=value` replaces a value of the "
      "file; the last one wins, and its value needs no quotes. A relative path to data starts at "
      "the folder of the config file; in an override it starts at the working directory.");
  page.paragraph(
      "Whole numbers are written in decimal digits: not 1e3, 1_000, 0x10 or 010. Other numbers may "
      "have a decimal point and an exponent and must be finite. Anchors, aliases, merge keys, "
      "tags, several documents in a file, values over several lines and files of more than a "
      "megabyte are refused.");
  page.paragraph(
      "A key that the chosen task, model, optimizer or schedule does not use may only have its "
      "default value. All errors are reported together, each with its line and a hint.");
  page.section("KEYS");
  page.paragraph("Each key is shown with its default value.");
  std::string section;
  for (const ConfigKey& key : config_keys()) {
    if (key.section != section) page.subsection(key.section);
    section = key.section;
    add_key(page, key);
  }
  page.section("EXAMPLE");
  page.lines(
      "data:\n"
      "  task: copy\n"
      "model:\n"
      "  d_model: 64\n"
      "  num_heads: 4\n"
      "schedule:\n"
      "  learning_rate: 0.003\n"
      "train:\n"
      "  steps: 2500");
  page.section("SEE ALSO");
  page.line(fmt::format("`{}`(1)", program_name()));
  return page;
}

// ---- The command `tapestry man`.

/// SOURCE_DATE_EPOCH, by which builds are reproducible, or today; in UTC.
std::string page_date() {
  std::time_t seconds = std::time(nullptr);
  if (const char* epoch = std::getenv("SOURCE_DATE_EPOCH")) {
    const auto parsed = between(0, 253'402'300'799).parse(epoch);  // the end of the year 9999
    if (const auto* mistake = std::get_if<Mistake>(&parsed)) {
      throw UsageError("SOURCE_DATE_EPOCH: " + mistake->message, "unset the variable");
    }
    seconds = static_cast<std::time_t>(std::get<std::uint64_t>(parsed));
  }
  const std::string time = format_time(seconds);
  return time.substr(0, time.find('T'));
}

Action define(ArgumentParser& parser) {
  const auto page = std::make_shared<std::string>(manual_pages().front());
  add_choice(parser, "PAGE", *page, manual_pages(), "The page").show_default();
  parser.set_footer(
      "Prints roff, which man(1) shows.\n"
      "Examples:\n"
      "  tapestry man | man -l -\n"
      "  tapestry man tapestry-config | man -l -");
  return [page] {
    fmt::print("{}", manual_page(*page, page_date()));
    return static_cast<int>(ExitCode::done);
  };
}

}  // namespace
}  // namespace man_cli

std::vector<std::string> manual_pages() { return {program_name(), program_name() + "-config"}; }

std::string manual_page(std::string_view name, std::string_view date) {
  if (name == program_name()) return man_cli::program_page(date).text();
  if (name == program_name() + "-config") return man_cli::config_page(date).text();
  throw std::logic_error("no manual page " + std::string(name));
}

std::span<const ManualEntry> manual_exit_codes() { return man_cli::exit_codes; }
std::span<const ManualEntry> manual_environment() { return man_cli::environment; }

const Command man_command{
    .name = "man", .purpose = "Print a manual page", .define = man_cli::define};

}  // namespace tapestry
