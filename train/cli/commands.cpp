#include <array>

#include "train/cli/command.h"

namespace tapestry {

std::span<const Command* const> all_commands() {
  static constexpr std::array all{
      &train_command,     &evaluate_command, &translate_command, &classify_command,
      &fill_command,      &generate_command, &gradcheck_command, &check_command,
      &attention_command, &inspect_command,
  };
  return all;
}

void add_run(CLI::App& app, std::string& run) {
  app.add_option("RUN", run, "Run directory or checkpoint")->required();
}

void add_model(CLI::App& app, std::string& model) {
  app.add_option("MODEL", model,
                 "Config file (initial values), run directory or checkpoint (trained values)")
      ->required();
}

void add_overrides(CLI::App& app, std::vector<std::string>& overrides) {
  app.add_option("OVERRIDES", overrides,
                 "Config keys with other values, such as model.d_model=128; of a run, data files "
                 "only, such as data.test_text=more.txt");
}

}  // namespace tapestry
