#include "train/run_program.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <new>
#include <string>

#include "autograd/error.h"
#include "data/error.h"
#include "train/commands/commands.h"
#include "train/config_error.h"
#include "train/error.h"
#include "train/exit_code.h"
#include "train/version.h"

namespace tapestry {
namespace {

int fail(ExitCode code, const std::string& message, const std::string& hint = "") {
  fmt::print(stderr, "tapestry: error: {}\n", message);
  if (!hint.empty()) fmt::print(stderr, "hint: {}\n", hint);
  return static_cast<int>(code);
}

/// Runs a command and names the exit code of what it throws.
template <class Command>
int guarded(const Command& command) {
  try {
    return command();
  } catch (const ConfigError& error) {
    return fail(ExitCode::usage, error.what());
  } catch (const DataError& error) {
    return fail(ExitCode::data, error.what(), error.hint());
  } catch (const RunDirectoryInUse& error) {
    return fail(ExitCode::in_use, error.what(), error.hint());
  } catch (const CheckpointError& error) {
    return fail(ExitCode::checkpoint, error.what(), error.hint());
  } catch (const OutputError& error) {
    return fail(ExitCode::output, error.what(), error.hint());
  } catch (const NumericError& error) {
    return fail(ExitCode::numeric, error.what(), error.hint());
  } catch (const InputError& error) {
    return fail(ExitCode::data, error.what(), error.hint());
  } catch (const std::bad_alloc&) {
    return fail(ExitCode::memory, "the system has no more memory",
                "try a smaller train.batch_size with train.accumulate, or a smaller model");
  } catch (const std::exception& error) {
    return fail(ExitCode::bug, fmt::format("{} (this is a bug of tapestry)", error.what()),
                "please report it with the command line and the config");
  }
}

void add_overrides(CLI::App& command, std::vector<std::string>& overrides) {
  command.add_option("overrides", overrides,
                     "Keys to change for this once, such as model.d_model=128");
}

}  // namespace

int run_program(int argc, char** argv) {
  CLI::App app("Trains Transformers on the CPU, from config files.", "tapestry");
  app.set_version_flag("--version", fmt::format("tapestry {}", program_version));
  app.require_subcommand(1);
  std::string run;
  TrainArguments train;
  EvaluateArguments evaluate;
  GradcheckArguments gradcheck;

  CLI::App& train_app = *app.add_subcommand("train", "Train a model, or go on training one");
  auto* config = train_app.add_option("config", train.config, "Config file (YAML)");
  add_overrides(train_app, train.overrides);
  auto* resume = train_app.add_option("--resume", train.resume,
                                      "Go on with the run in this directory, from its newest "
                                      "checkpoint");
  train_app.add_flag("--fresh", train.fresh,
                     "Start anew where a run lies already; the old one is moved aside")
      ->excludes(resume);
  train_app.footer("Examples:\n  tapestry train configs/copy.yaml train.steps=4000\n"
                   "  tapestry train --resume runs/copy");

  CLI::App& evaluate_app =
      *app.add_subcommand("evaluate", "Score a trained model on its held-out data");
  evaluate_app.add_option("run", evaluate.run, "Run directory or checkpoint")->required();
  evaluate_app.add_option("--examples", evaluate.examples, "Inputs to show with their outputs")
      ->capture_default_str();

  CLI::App& translate_app =
      *app.add_subcommand("translate", "Translate standard input to standard output, line by line");
  translate_app.add_option("run", run, "Run directory or checkpoint")->required();

  CLI::App& gradcheck_app = *app.add_subcommand(
      "gradcheck", "Compare all gradients of a configured model with central differences");
  gradcheck_app.add_option("config", gradcheck.config, "Config file (YAML)")->required();
  add_overrides(gradcheck_app, gradcheck.overrides);

  CLI::App& inspect_app = *app.add_subcommand("inspect", "List what a checkpoint holds");
  inspect_app.add_option("run", run, "Run directory or checkpoint")->required();

  try {
    app.parse(argc, argv);
    if (train_app.parsed() && !*resume && !*config) {
      throw CLI::RequiredError("train: CONFIG, or --resume RUN,");
    }
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : static_cast<int>(ExitCode::usage);
  }
  // With --resume, what looks like a config file is the first override.
  if (*resume && *config) train.overrides.insert(train.overrides.begin(), train.config);

  return guarded([&] {
    if (train_app.parsed()) return train_command(train);
    if (evaluate_app.parsed()) return evaluate_command(evaluate);
    if (translate_app.parsed()) return translate_command(run);
    if (gradcheck_app.parsed()) return gradcheck_command(gradcheck);
    return inspect_command(run);
  });
}

}  // namespace tapestry
