#include "train/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "train/checks/check.h"
#include "train/commands/commands.h"
#include "train/config/domains.h"
#include "train/config/suggest.h"
#include "train/error.h"
#include "train/system/standard_output.h"
#include "train/version.h"

namespace tapestry {
namespace {

/// Runs a command that is there for what it prints, all of which has to reach the reader.
int printing(const std::function<int()>& command) {
  int code = 0, error = 0;
  try {
    code = command();
  } catch (const std::system_error& failed) {  // what fmt::print throws
    if (std::ferror(stdout) == 0) throw;
    error = failed.code().value();
  }
  flush_standard_output(error);
  return code;
}

/// Only values of a domain, as in configs. The hint, if any, is behind a line feed.
template <class Domain>
CLI::Validator within(const Domain& domain) {
  const auto problem_of = [domain](const std::string& text) {
    const auto parsed = domain.parse(text);
    const Mistake* mistake = std::get_if<Mistake>(&parsed);
    if (mistake == nullptr) return std::string();
    return mistake->hint.empty() ? mistake->message : mistake->message + "\n" + mistake->hint;
  };
  return CLI::Validator(problem_of, "");
}

/// The commands with their arguments, and which of them was given.
class CommandLine {
 public:
  CommandLine();

  bool parse(int argc, char** argv);
  const std::string& command() const { return command_; }
  int run() const { return action_(); }

 private:
  CLI::App& add_command(const std::string& name, const std::string& purpose,
                        std::function<int()> action);
  CLI::App& add_on_lines(const std::string& name, const std::string& purpose,
                         int (*answer)(const std::string& run));
  void add_train();
  void add_evaluate();
  void add_translate();
  void add_classify();
  void add_fill();
  void add_generate();
  void add_gradcheck();
  void add_check();
  void add_attention();
  void add_inspect();
  void sort_resume_arguments();
  int train();

  void require_command(const std::string& word) const;
  [[noreturn]] void refuse_extra() const;
  [[noreturn]] void refuse(const std::string& mistake,
                           const std::optional<std::string>& meant = std::nullopt) const;

  CLI::App app_{"Trains Transformers on the CPU, from config files.", "tapestry"};
  std::vector<std::string> commands_;
  std::vector<std::string> on_lines_;  ///< those that answer the lines of standard input
  std::string command_;
  std::function<int()> action_;
  TrainArguments train_;
  EvaluateArguments evaluate_;
  GenerateArguments generate_;
  GradcheckArguments gradcheck_;
  CheckArguments check_;
  AttentionArguments attention_;
  std::string run_;
};

CommandLine::CommandLine() {
  app_.set_version_flag("--version", fmt::format("tapestry {}", program_version));
  app_.require_subcommand(1);
  app_.footer("`tapestry COMMAND --help` says more about each.");
  add_train();
  add_evaluate();
  add_translate();
  add_classify();
  add_fill();
  add_generate();
  add_gradcheck();
  add_check();
  add_attention();
  add_inspect();
}

CLI::App& CommandLine::add_command(const std::string& name, const std::string& purpose,
                                   std::function<int()> action) {
  commands_.push_back(name);
  CLI::App& command = *app_.add_subcommand(name, purpose);
  command.callback([this, action = std::move(action)] { action_ = action; });
  return command;
}

void add_run(CLI::App& command, std::string& run) {
  command.add_option("RUN", run, "Run directory or checkpoint")->required();
}

void add_model(CLI::App& command, std::string& model) {
  command
      .add_option("MODEL", model,
                  "Config file (initial values), run directory or checkpoint (trained ones)")
      ->required();
}

void add_overrides(CLI::App& command, std::vector<std::string>& overrides) {
  command.add_option(
      "OVERRIDES", overrides,
      "Keys to change for this once, such as model.d_model=128; of a run, files of data alone, "
      "such as data.test_text=more.txt");
}

bool is_override(const std::string& word) {
  const std::size_t equals = word.find('=');
  return equals != word.npos && word.find('/') > equals && word.find('.') < equals;
}

bool is_config_file(const std::string& word) {
  std::error_code ignored;
  const bool checkpoint = word.ends_with(".h5");
  return (std::filesystem::is_regular_file(word, ignored) && !checkpoint) ||
         word.ends_with(".yaml") || word.ends_with(".yml");
}

void CommandLine::add_train() {
  CLI::App& command =
      add_command("train", "Train a model, or go on training one", [this] { return train(); });
  command.add_option("CONFIG", train_.config,
                     "Config file (YAML); with --resume also, or only, a run directory");
  add_overrides(command, train_.overrides);
  auto* resume =
      command.add_flag("--resume", train_.resume, "Go on with the run, from its newest checkpoint");
  command
      .add_option("--allow-change", train_.allowed,
                  "Key, or key of a data file, that may differ from what the run had")
      ->type_name("KEY")
      ->allow_extra_args(false)
      ->needs(resume);
  command
      .add_flag("--fresh", train_.fresh,
                "Start anew where a run lies already; the old one is moved aside")
      ->excludes(resume);
  command.add_flag("--profile", train_.profile,
                   "At the end, list the time that each operation took");
  command.footer(
      "Examples:\n  tapestry train configs/copy.yaml model.dropout=0.1\n"
      "  tapestry train --resume runs/copy\n"
      "  tapestry train --resume configs/copy.yaml        the same, by its config\n"
      "  tapestry train --resume runs/copy model.dropout=0.2 --allow-change model.dropout");
}

/// With --resume, what stands in the place of CONFIG may as well be a run directory or an override.
void CommandLine::sort_resume_arguments() {
  std::vector<std::string> words{train_.config};
  words.insert(words.end(), train_.overrides.begin(), train_.overrides.end());
  train_.config.clear();
  train_.overrides.clear();
  for (std::string& word : words) {
    std::string& place = is_config_file(word) ? train_.config : train_.run;
    if (is_override(word) || !place.empty()) {
      train_.overrides.push_back(std::move(word));
    } else {
      place = std::move(word);
    }
  }
}

int CommandLine::train() {
  if (train_.resume) sort_resume_arguments();
  if (train_.config.empty() && train_.run.empty()) {
    refuse(train_.resume ? "a run directory or CONFIG is required"
                         : "CONFIG or --resume RUN is required");
  }
  return train_command(train_);
}

void CommandLine::add_evaluate() {
  CLI::App& command = add_command("evaluate", "Score a trained model on its held-out data", [this] {
    return printing([this] { return evaluate_command(evaluate_); });
  });
  add_run(command, evaluate_.run);
  command.add_option("OVERRIDES", evaluate_.overrides,
                     "Other files of data, such as data.test_text=more.txt");
  command.add_option("--examples", evaluate_.examples, "Inputs to show with their outputs")
      ->check(within(between(0, 1'000'000)))
      ->capture_default_str();
}

/// A command that answers the lines of standard input.
CLI::App& CommandLine::add_on_lines(const std::string& name, const std::string& purpose,
                                    int (*answer)(const std::string& run)) {
  CLI::App& command = add_command(
      name, purpose, [this, answer] { return printing([this, answer] { return answer(run_); }); });
  add_run(command, run_);
  on_lines_.push_back(name);
  return command;
}

void CommandLine::add_translate() {
  add_on_lines("translate", "Translate standard input to standard output, line by line",
               translate_command);
}

void CommandLine::add_classify() {
  CLI::App& command = add_on_lines(
      "classify", "Name the class of each sentence or image on standard input", classify_command);
  command.footer(
      "A line out for each line in: the class, a tab and its probability; an empty line for a "
      "blank "
      "one.\nAn image is a line of its pixels, separated by commas: row by row from the top left, "
      "the channels\nof a pixel side by side, on the scale of the training images, without a "
      "label; "
      "a heading gets an empty line.\n"
      "Examples:\n  tapestry classify runs/toy_agreement < sentences.txt\n"
      "  cut -d, -f1-64 digits.csv | tapestry classify runs/digits_vit");
}

void CommandLine::add_fill() {
  CLI::App& command = add_on_lines(
      "fill", "Guess the missing words of each sentence on standard input", fill_command);
  command.footer(
      "A line out for each line in, by a masked language model. Every token that it does not know "
      "is\n"
      "guessed: write _ for a blank.\n"
      "Example:\n  echo \"le chat _ dort\" | tapestry fill runs/toy_masked");
}

void CommandLine::add_generate() {
  CLI::App& command =
      add_command("generate", "Go on with a text, by a trained language model",
                  [this] { return printing([this] { return generate_command(generate_); }); });
  add_run(command, generate_.run);
  SamplingOptions& sampling = generate_.sampling;
  command.add_option("PROMPT", generate_.prompt, "What the text begins with");
  command.add_option("--tokens", generate_.tokens, "Characters or words to add")
      ->check(within(between(0, 1'000'000'000)))
      ->capture_default_str();
  command
      .add_option("--temperature", sampling.temperature,
                  "Divides the scores: below 1 likely tokens become likelier; 0 takes the best")
      ->check(within(RealNumber{.high = 1e6}))
      ->capture_default_str();
  command.add_option("--top-k", sampling.top_k, "Draws from the K most likely tokens; 0: from all")
      ->check(within(between(0, 1'000'000'000)))
      ->capture_default_str();
  command
      .add_option("--top-p", sampling.top_p,
                  "Draws from the fewest tokens that have this probability together")
      ->check(within(RealNumber{.high = 1.0, .has_low = false}))
      ->capture_default_str();
  command.add_option("--seed", sampling.seed, "Of the draws")
      ->check(within(at_least(0)))
      ->capture_default_str();
}

void CommandLine::add_gradcheck() {
  CLI::App& command = add_command(
      "gradcheck", "Compare all gradients of a configured model with central differences",
      [this] { return printing([this] { return gradcheck_command(gradcheck_); }); });
  add_model(command, gradcheck_.model);
  add_overrides(command, gradcheck_.overrides);
  command
      .add_option("--coordinates", gradcheck_.coordinates,
                  "Coordinates to move of each tensor; larger ones are sampled")
      ->check(within(between(0, 1'000'000'000)))
      ->capture_default_str();
  command
      .add_option("--directions", gradcheck_.directions,
                  "Random directions in which to move each tensor as a whole")
      ->check(within(between(0, 1000)))
      ->capture_default_str();
  command.add_option("--seed", gradcheck_.seed, "Of the sample, the directions and output weights")
      ->check(within(at_least(0)))
      ->capture_default_str();
  command.add_flag("--json", gradcheck_.json, "Print one JSON object");
}

std::string list_of_checks() {
  std::string list = "Checks:";
  for (const Check& check : all_checks()) {
    list += fmt::format("\n  {:<14}{}", check.name, check.meaning);
  }
  return list;
}

void CommandLine::add_check() {
  CLI::App& command =
      add_command("check", "Check a model for silent errors, such as attention to masked tokens",
                  [this] { return printing([this] { return check_command(check_); }); });
  add_model(command, check_.model);
  add_overrides(command, check_.overrides);
  command.footer(list_of_checks());
}

void CommandLine::add_attention() {
  CLI::App& command =
      add_command("attention", "Show which tokens look at which, in every layer and head",
                  [this] { return printing([this] { return attention_command(attention_); }); });
  add_model(command, attention_.model);
  add_overrides(command, attention_.overrides);
  auto* example =
      command
          .add_option("--example", attention_.example,
                      "Which example of the test set, else of the validation or training set")
          ->check(within(between(1, 1'000'000'000)))
          ->capture_default_str();
  command.add_option("--text", attention_.text, "A text to read instead of an example")
      ->excludes(example);
  command.add_option("--layer", attention_.layer,
                     "The only layer to show, such as encoder.layers.0.self_attn");
  command.add_option("--head", attention_.head, "The only head to show, from 0")
      ->check(within(between(0, 1'000'000)));
  command.add_flag("--json", attention_.json, "Print one JSON object");
  command.footer(
      "A seq2seq model reads the reference of an example, and its own translation of a text.\n"
      "Words that the model does not know are <unk>.\n"
      "Examples:\n  tapestry attention runs/copy --layer decoder.layers.1.cross_attn\n"
      "  tapestry attention runs/copy --text \"d a c\" --json\n"
      "  tapestry attention configs/copy.yaml model.window=2      the masks of a model as it "
      "begins");
}

void CommandLine::add_inspect() {
  CLI::App& command = add_command("inspect", "List what a checkpoint holds", [this] {
    return printing([this] { return inspect_command(run_); });
  });
  add_run(command, run_);
}

void CommandLine::require_command(const std::string& word) const {
  if (word == "-h" || word == "--help" || word == "--version") return;
  if (std::ranges::find(commands_, word) != commands_.end()) return;
  if (word.starts_with('-')) refuse(fmt::format("found {}, expected a command first", word));
  const auto meant = closest(word, commands_);
  throw UsageError(fmt::format("unknown command `{}`", word),
                   meant ? fmt::format("did you mean `{}`?", *meant)
                         : fmt::format("use {}", list_in_words(commands_)));
}

/// What is left when all that was expected has been taken.
void CommandLine::refuse_extra() const {
  std::vector<std::string> extra = app_.remaining(true);
  std::erase(extra, "--");
  if (extra.empty()) refuse("found `--`, expected nothing more");
  const std::string& first = extra.front();
  if (!first.starts_with('-')) {
    const std::string mistake = fmt::format("found `{}`, expected nothing more", first);
    const std::string command = app_.get_subcommands().front()->get_name();
    if (std::ranges::find(on_lines_, command) == on_lines_.end()) refuse(mistake);
    std::error_code ignored;
    throw UsageError(mistake, std::filesystem::exists(first, ignored)
                                  ? fmt::format("to read a file, write < {}", first)
                                  : "give it the lines as standard input, such as `< FILE`");
  }
  std::vector<std::string> options;
  for (const CLI::Option* option : app_.get_subcommands().front()->get_options()) {
    for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
  }
  refuse(fmt::format("there is no option {}", first), closest(first, options));
}

void CommandLine::refuse(const std::string& mistake,
                         const std::optional<std::string>& meant) const {
  const auto given = app_.get_subcommands();
  const std::string command = given.empty() ? "" : given.front()->get_name() + " ";
  throw UsageError(mistake, meant ? fmt::format("did you mean {}?", *meant)
                                  : fmt::format("see `tapestry {}--help`", command));
}

bool CommandLine::parse(int argc, char** argv) {
  if (argc < 2) refuse("a command is required");
  require_command(argv[1]);
  try {
    app_.parse(argc, argv);
  } catch (const CLI::Success& asked_for_help) {
    std::ostringstream text;
    printing([&] {
      const int code = app_.exit(asked_for_help, text, text);
      fmt::print("{}", text.str());
      return code;
    });
    return false;
  } catch (const CLI::ExtrasError&) {
    refuse_extra();
  } catch (const CLI::ParseError& error) {
    const std::string problem = error.what();
    const std::size_t end = problem.find('\n');
    if (end != problem.npos) throw UsageError(problem.substr(0, end), problem.substr(end + 1));
    refuse(problem);
  }
  command_ = app_.get_subcommands().front()->get_name();
  return true;
}

}  // namespace

std::optional<GivenCommand> parse_command_line(int argc, char** argv) {
  const auto line = std::make_shared<CommandLine>();
  if (!line->parse(argc, argv)) return std::nullopt;
  return GivenCommand{.name = line->command(), .run = [line] { return line->run(); }};
}

}  // namespace tapestry
