// SPDX-License-Identifier: BSD-3-Clause
// Times one whole training step of a named model, or runs training steps for compare_pytorch.py.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>

#include "autograd/kernels/parallel.h"
#include "tests/bench/benchmark.h"
#include "tests/bench/serve.h"

namespace {

using namespace tapestry;

struct Arguments {
  std::string problem;
  std::size_t threads = 0, steps = 50;
  bool json = false, profile = false;
  std::string served_directory;
};

/// Adds the command-line options; parsing stores their values in `arguments`.
void declare(CLI::App& app, Arguments& arguments) {
  app.add_option("problem", arguments.problem, "A name of --list")->required();
  app.add_option("--threads", arguments.threads, "0 takes all cores")->capture_default_str();
  auto* steps = app.add_option("--steps", arguments.steps, "Steps to time")
                    ->check(CLI::PositiveNumber)
                    ->capture_default_str();
  auto* json = app.add_flag("--json", arguments.json, "Print a JSON object");
  auto* profile =
      app.add_flag("--profile", arguments.profile, "Print a profile of the steps")->excludes(json);
  app.add_option(
         "--serve", arguments.served_directory,
         "Write model and batch to this directory, then run the steps given by each input line")
      ->check(CLI::ExistingDirectory)
      ->excludes(steps)
      ->excludes(json)
      ->excludes(profile);
  app.add_flag_callback(
      "--list",
      [] {
        for (const bench::Problem& problem : bench::problems()) fmt::print("{}\n", problem.name);
        throw CLI::Success();
      },
      "Print the names of the problems");
}

void run(const Arguments& arguments) {
  const bench::Problem& problem = bench::problem_named(arguments.problem);
  kernels::set_num_threads(arguments.threads);
  if (!arguments.served_directory.empty()) {
    bench::serve(problem, arguments.served_directory, std::cin, std::cout);
    return;
  }
  if (arguments.profile) {
    fmt::print("{}", to_string(bench::profile(problem, arguments.steps)));
    return;
  }
  const bench::Result result = bench::measure(problem, arguments.steps);
  fmt::print("{}\n", arguments.json ? to_json(result) : to_line(result));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Times one whole training step of a named model.");
  Arguments arguments;
  declare(app, arguments);
  CLI11_PARSE(app, argc, argv);
  try {
    run(arguments);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_step: error: {}\n", error.what());
    return 2;
  }
  return 0;
}
