// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "autograd/kernels/parallel.h"
#include "train/base/error.h"
#include "train/checks/gradients.h"
#include "train/cli/command.h"
#include "train/cli/open_model.h"
#include "train/cli/open_trained.h"
#include "train/config/error.h"

namespace tapestry {
namespace gradcheck_cli {
namespace {

struct Arguments {
  std::string model;                   ///< a config file, run directory or checkpoint
  std::vector<std::string> overrides;  ///< section.key=value; for a run, only data.KEY=FILE
  std::size_t coordinates = 8;         ///< maximum number of elements checked per tensor
  std::size_t directions = 3;          ///< random directions per tensor
  std::uint64_t seed = 1;              ///< seed of the sample, directions and output weights
  bool json = false;
  std::size_t threads = 0;
};

constexpr std::size_t sentences = 3;

ExitCode run(const Arguments& arguments) {
  set_num_threads(arguments.threads);
  if (arguments.coordinates == 0 && arguments.directions == 0) {
    reject_option("--coordinates 0 --directions 0", "nothing is left to compare",
                  "set one of them to 1 or more");
  }
  const ModelWithData configured = open_model(arguments.model, arguments.overrides);
  if (!configured.trained) make_uneven(configured.model->parameters);
  const GradcheckReport report =
      check_gradients(configured.config, *configured.model, configured.first_batch(sentences),
                      {.directions = arguments.directions,
                       .max_coordinates = arguments.coordinates,
                       .seed = arguments.seed});
  if (arguments.json) {
    announce(configured.origin);
    fmt::print("{}\n", to_json(report, configured.origin.place));
  } else {
    fmt::print("{}{}, float64, {} examples\n{}", configured.origin.in_words(),
               configured.trained ? "" : " with random offsets", sentences, to_string(report));
  }
  return report.passed() ? ExitCode::done : ExitCode::failure;
}

void define(CLI::App& command, Arguments& arguments) {
  add_model(command, arguments.model);
  add_overrides(command, arguments.overrides);
  add_value(command, "--coordinates", arguments.coordinates, between(0, 1'000'000'000),
            "Number of elements of each tensor to perturb one by one; larger tensors are sampled");
  add_value(command, "--directions", arguments.directions, between(0, 1000),
            "Number of random directions along which to perturb each tensor");
  add_value(command, "--seed", arguments.seed, at_least(0),
            "Random seed for the sample, the directions and the output weights");
  command.add_flag("--json", arguments.json, "Print one JSON object");
  add_threads(command, arguments.threads);
  command.footer(
      "Examples:\n  tapestry gradcheck configs/copy.yaml\n"
      "  tapestry gradcheck configs/copy.yaml model.d_model=16 --coordinates 0");
}

}  // namespace
}  // namespace gradcheck_cli

extern const Command gradcheck_command{
    .name = "gradcheck",
    .purpose = "Compare all gradients of a configured model with central differences",
    .define = with_arguments(gradcheck_cli::define, gradcheck_cli::run),
    .memory_hint = smaller_model_hint};

}  // namespace tapestry
