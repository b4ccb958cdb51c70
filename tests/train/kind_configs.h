#pragma once

#include <string>
#include <vector>

#include "tests/train/kind_cases.h"
#include "tests/train/program.h"

/// A workplace with the files and a tiny config of each kind of model but seq2seq, each of which is
/// learned, badly, within milliseconds.
namespace tapestry::test {

/// The configs of all kinds, see kind_cases.
inline const std::vector<KindConfig> kind_configs = [] {
  std::vector<KindConfig> configs;
  for (const KindCase& kind : kind_cases) {
    configs.insert(configs.end(), kind.configs.begin(), kind.configs.end());
  }
  return configs;
}();

struct KindWorkplace : Workplace {
  KindWorkplace() {
    for (const KindCase& kind : kind_cases) {
      for (const KindConfig& config : kind.configs) {
        if (!config.file.empty()) write(config.file, config.lines);
        write(config.name + ".yaml",
              "data: {" + config.data + "}\nmodel: {kind: " + kind.name +
                  ", d_model: 32, num_heads: 2, d_ff: 64, dropout: 0.2, " + config.model +
                  "}\n"
                  "schedule: {learning_rate: 0.01}\n"
                  "train: {steps: 12, batch_size: 4, threads: 1, log_every: 4, "
                  "validate_every: 6, save_every: 5}\n");
      }
    }
  }
};

}  // namespace tapestry::test
