#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "train/sampler.h"

/// The commands of the program. Each returns the exit code of a good end and throws what
/// run_program turns into the others.
namespace tapestry {

struct TrainArguments {
  std::string config;                  ///< a config file; may be empty if `run` is not
  std::string run;                     ///< a run directory to resume; empty: that of the config
  std::vector<std::string> overrides;  ///< section.key=value
  std::vector<std::string> allowed;    ///< keys that a resumed run may change
  bool resume = false;                 ///< go on with a run
  bool fresh = false;                  ///< move a run that is in the way aside
  bool profile = false;                ///< say at the end where the time went
};
int train_command(const TrainArguments& arguments);

struct EvaluateArguments {
  std::string run;                     ///< a run directory or a checkpoint
  std::vector<std::string> overrides;  ///< data.KEY=FILE
  std::size_t examples = 5;            ///< inputs to show with the model's outputs
};
int evaluate_command(const EvaluateArguments& arguments);

/// Standard input to standard output, one sentence a line.
int translate_command(const std::string& run);

/// Standard input to standard output, one sentence or image a line: its class, a tab and how likely
/// that is.
int classify_command(const std::string& run);

/// Standard input to standard output, one sentence a line, with words in the place of unknown ones.
int fill_command(const std::string& run);

struct GenerateArguments {
  std::string run;     ///< a run directory or a checkpoint
  std::string prompt;  ///< what the text begins with
  std::size_t tokens = 500;
  SamplingOptions sampling;
};
/// Goes on with a text, to standard output.
int generate_command(const GenerateArguments& arguments);

struct GradcheckArguments {
  std::string model;                   ///< a config file, run directory or checkpoint
  std::vector<std::string> overrides;  ///< section.key=value; of a run, data files
  std::size_t coordinates = 8;         ///< of each tensor; larger ones are sampled
  std::size_t directions = 3;          ///< in which each tensor is moved as a whole
  std::uint64_t seed = 1;              ///< of the sample, directions and output weights
  bool json = false;
};
/// Exit code 1 if a gradient is wrong.
int gradcheck_command(const GradcheckArguments& arguments);

struct CheckArguments {
  std::string model;                   ///< a config file, run directory or checkpoint
  std::vector<std::string> overrides;  ///< section.key=value; of a run, data files
};
/// Exit code 1 if a property does not hold.
int check_command(const CheckArguments& arguments);

struct AttentionArguments {
  std::string model;                   ///< a config file, run directory or checkpoint
  std::vector<std::string> overrides;  ///< section.key=value; of a run, data files
  std::size_t example = 1;             ///< which held-out example, from 1
  std::optional<std::string> text;     ///< what to read instead of an example
  std::string layer;                   ///< the path of the only layer to show; empty: all
  std::optional<std::size_t> head;     ///< the only head to show, from 0
  bool json = false;
};
/// Shows which tokens look at which.
int attention_command(const AttentionArguments& arguments);

int inspect_command(const std::string& run);

}  // namespace tapestry
