#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "data/io/error.h"
#include "train/cli/command.h"

namespace tapestry {
namespace help_cli {
namespace {

Action define(ArgumentParser& parser) {
  const auto command = std::make_shared<std::string>();
  std::vector<std::string> names;
  for (const Command& each : all_commands()) names.emplace_back(each.name);
  add_choice(parser, "COMMAND", *command, names, "The command; without one, all are listed");
  parser.set_footer("Examples:\n  tapestry help\n  tapestry help train");
  return [command] {
    fmt::print("{}", help_text(*command));
    return static_cast<int>(ExitCode::done);
  };
}

}  // namespace
}  // namespace help_cli

const Command help_command{.name = "help",
                           .purpose = "Print the arguments and options of a command",
                           .define = help_cli::define};

}  // namespace tapestry
