#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/dtype.h"
#include "data/corpora/held_out.h"
#include "data/corpora/images.h"
#include "data/corpora/language_model_corpus.h"
#include "data/corpora/parallel_text.h"
#include "data/corpora/symbol_tasks.h"
#include "data/corpus.h"
#include "data/text/vocabulary.h"
#include "layers/transformer_options.h"
#include "optim/options.h"

namespace tapestry {

/// What a run does when a loss or a gradient is NaN or infinite: end; go on with the next batch,
/// the weights as they were; or go back to the newest checkpoint and on with the data behind the
/// batch.
enum class OnNan { stop, skip, rollback };

/// How a run goes. The member initialisers are the defaults.
struct TrainOptions {
  std::uint64_t seed = 1;        ///< of initial weights, dropout and shuffling
  std::size_t steps = 2000;      ///< steps of the optimiser, >= 1
  std::size_t batch_size = 64;   ///< sentences per batch, >= 1
  std::size_t accumulate = 1;    ///< batches per step, >= 1
  double label_smoothing = 0.1;  ///< in [0, 1)
  double clip_norm = 1.0;  ///< largest global norm of the gradients, >= 0; 0 does not clip; its key
                           ///< is optimizer.clip_norm
  std::size_t threads = 0;           ///< 0 takes all cores
  std::size_t log_every = 50;        ///< steps, >= 1
  std::size_t validate_every = 500;  ///< steps, >= 1
  std::size_t save_every = 500;      ///< steps, >= 1
  std::size_t keep_last = 3;         ///< checkpoints, >= 2
  std::size_t patience = 0;          ///< validations without a new best; 0: no end to it
  std::chrono::seconds max_time{0};  ///< for this process; 0: no limit
  OnNan on_nan = OnNan::stop;
  std::size_t max_nan_steps = 3;             ///< in a row, before the run stops all the same, >= 1
  std::size_t divergence_window = 100;       ///< steps, see DivergenceWatch; 0: not watched
  std::size_t max_decode_length = 0;         ///< tokens; 0: source length + 50, within positions
  std::size_t exact_match_sequences = 1000;  ///< held-out sequences decoded per validation
  bool detect_anomaly = false;               ///< look for NaN and infinity after every operation
  std::string initialize_from;               ///< a run or checkpoint to begin with; may be empty
  std::string run_dir;                       ///< empty: runs/<config file name, no extension>
  DType dtype = DType::float32;
};

/// The data section: the options of every corpus, of which a task uses its own.
struct DataOptions : SymbolOptions,
                     GeneratedOptions,
                     ParallelTextOptions,
                     TextFiles,
                     WindowOptions,
                     WordOptions,
                     ImageOptions {
  std::string task = "copy";  ///< name of a DataSource in train/tasks/
};

/// Everything that a config file says, one member per section.
struct Config {
  DataOptions data;
  std::string model_kind = "seq2seq";  ///< key model.kind, name of a Task in train/tasks/
  TransformerOptions model;
  OptimizerOptions optimizer;
  ScheduleOptions schedule;
  TrainOptions train;
};

/// `config` with the settings of another process: train.threads, train.run_dir, train.max_time and
/// train.detect_anomaly, which do not change what a run computes and which checkpoints leave out.
Config with_process_settings(Config config, const TrainOptions& process);

/// Reads the YAML `text`, then `overrides` of the form `section.key=value`, of which later ones
/// win. `name` stands in the place of every problem. A quoted value means the same as an unquoted
/// one; an override is taken as it is, without quotes, and a relative path in it starts at the
/// working folder.
///
/// throws  ConfigError with everything that is wrong.
Config parse_config(std::string_view text, const std::string& name,
                    const std::vector<std::string>& overrides = {});

/// As parse_config(), of a file. The result can be used from any folder: a relative path to data is
/// made absolute, from the folder of the config file if it stands there, from the working folder if
/// it comes from an override. An empty `train.run_dir` becomes runs/<file name, no extension>.
Config load_config(const std::string& path, const std::vector<std::string>& overrides = {});

/// A config larger than this is refused before it is read.
inline constexpr std::size_t kLargestConfig = 1u << 20;  // bytes

/// The text of the config file `path`. Never waits: a pipe or a device is refused, not read.
///
/// throws  ConfigError if the file is missing, unreadable, not a regular file or too large.
std::string read_config_file(const std::string& path);

/// A key as help and tables show it.
struct ConfigKey {
  std::string section;
  std::string key;
  std::string expected;       ///< `a whole number >= 1`
  std::string default_value;  ///< as in YAML
  std::string meaning;
  std::string used_with;  ///< `optimizer.kind: sgd`; empty if always
};

/// All keys in the order of the file.
std::vector<ConfigKey> config_keys();

/// `config` as YAML text with every key; parse_config() of it gives the same config.
std::string dump_config(const Config& config);

/// A key with two values, as in YAML.
struct ConfigDifference {
  std::string key;  ///< `section.key`
  std::string checkpoint;
  std::string now;
};

/// The keys in which the config of a checkpoint differs from the one at hand, in the order of the
/// file.
std::vector<ConfigDifference> compare_configs(const Config& checkpoint, const Config& now);

}  // namespace tapestry
