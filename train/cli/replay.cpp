// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <system_error>
#include <unordered_map>
#include <vector>

#include "autograd/ops/elementwise.h"
#include "autograd/tape.h"
#include "data/io/memory.h"
#include "data/io/utf8.h"
#include "train/base/error.h"
#include "train/base/format.h"
#include "train/base/program.h"
#include "train/checkpoint/arithmetic.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/checkpoint/open_run.h"
#include "train/checkpoint/parameter_file.h"
#include "train/cli/command.h"
#include "train/cli/open_trained.h"
#include "train/config/config.h"
#include "train/config/error.h"
#include "train/config/fields.h"
#include "train/config/load.h"
#include "train/config/reader.h"
#include "train/config/yaml_text.h"
#include "train/loop/memory_need.h"
#include "train/loop/step.h"
#include "train/models/run_data.h"
#include "train/models/trained_model.h"
#include "train/recording/run_events.h"
#include "train/system/standard_streams.h"

namespace tapestry {
namespace replay_cli {
namespace {

struct Arguments {
  std::string run;
  std::vector<std::string> overrides;  ///< data files that have moved
  std::uint64_t step = 0;              ///< the step to compute again, from 1
  std::string output;                  ///< empty: replay-step-NNNNNNNN.h5
  bool force = false;
  bool no_activations = false;  ///< whether to omit activations and their gradients
};

/// The state from which a replay starts.
struct Start {
  ArrayStore newest;                   ///< the newest checkpoint of the run
  std::optional<ArrayStore> snapshot;  ///< the state before the first step; nullopt: initial values
  std::uint64_t step = 0;              ///< number of steps done

  /// The checkpoint with the config, data and arithmetic of the start.
  const ArrayStore& origin() const { return snapshot ? *snapshot : newest; }
};

/// The newest usable checkpoint before a step.
Start find_start(const RunDirectory& directory, std::uint64_t step) {
  auto newest = read_newest_of_run(directory);
  if (!newest) {
    throw CheckpointError(fmt::format("{}: found no checkpoint, expected the directory of a run",
                                      escaped(directory.path().string())),
                          hint_for_missing_run(directory.path()));
  }
  Start start{.newest = std::move(newest->arrays), .snapshot = std::nullopt, .step = 0};
  std::vector<std::uint64_t> steps = directory.steps();
  std::ranges::reverse(steps);
  for (const std::uint64_t saved : steps) {
    if (saved >= step) continue;
    try {
      start.snapshot = read_checkpoint_of_run(directory, saved);
      start.step = saved;
      return start;
    } catch (const CheckpointError& error) {
      warn(fmt::format("{}; an older checkpoint is used", error.what()));
    }
  }
  return start;
}

/// A permitted change of a config key, recorded in the history of a run.
struct KeyChange {
  std::uint64_t step = 0;  ///< the last step before the change
  std::string key, before, after;
};

/// Parses an event "changed KEY: BEFORE -> AFTER"; nullopt for other events.
std::optional<KeyChange> parse_change(std::uint64_t step, std::string_view event) {
  constexpr std::string_view begin = "changed ", arrow = " -> ";
  const std::size_t colon = event.find(": "), middle = event.find(arrow);
  if (!event.starts_with(begin) || colon == event.npos || middle == event.npos) return std::nullopt;
  const std::string key(event.substr(begin.size(), colon - begin.size()));
  if (!find_field(key)) return std::nullopt;
  return KeyChange{.step = step,
                   .key = key,
                   .before = std::string(event.substr(colon + 2, middle - colon - 2)),
                   .after = std::string(event.substr(middle + arrow.size()))};
}

/// Sets a key to a value from the history of a run. The value is YAML text.
void set_key(Config& config, const std::string& key, const std::string& value) {
  Diagnostics errors;
  const std::size_t dot = key.find('.');
  YamlText text("history of the run",
                fmt::format("{}:\n  {}: {}\n", key.substr(0, dot), key.substr(dot + 1), value),
                errors);
  ConfigReader(config, errors).read(text, std::nullopt);
  errors.throw_if_any();
}

/// Whether the replay itself causes the effect that an event in the history describes.
bool is_replayed(std::string_view event) {
  return event.ends_with("which is skipped") || event == "the optimizer state is reset" ||
         event == "continues with the first batch of an epoch";
}

/// The changes of keys that the config of the start does not include, in the order of the run. If
/// the replay starts from the initial values, returns all changes. Warns about other changes, which
/// make the replay differ from the run.
std::vector<KeyChange> find_changes(const Start& start, std::uint64_t step) {
  std::vector<KeyChange> changes;
  const std::string all = saved_history(start.newest);
  const std::string known = start.snapshot ? saved_history(*start.snapshot) : "";
  std::istringstream lines(all.starts_with(known) ? all.substr(known.size()) : all);
  for (std::string line; std::getline(lines, line);) {
    std::uint64_t at = 0;
    std::string word, event;
    if (!(std::istringstream(line) >> word >> at)) continue;
    event = line.substr(std::min(line.find(": "), line.size() - 2) + 2);
    if (is_replayed(event) || (start.snapshot && at >= step)) continue;
    if (const auto change = parse_change(at, event)) {
      changes.push_back(*change);
    } else {
      warn(fmt::format("the replay does not repeat this change of the run: {}", escaped(line)));
    }
  }
  return changes;
}

template <class T>
void put_rows(ArrayStore& snapshot, const std::string& path, const std::vector<T>& values,
              std::size_t rows) {
  if (values.empty()) return;
  snapshot.put<T>(path, std::span<const T>(values), {rows, values.size() / rows});
}

template <class From>
void put_counts(ArrayStore& snapshot, const std::string& path, const From& counts) {
  const std::vector<std::uint64_t> values(counts.begin(), counts.end());
  if (!values.empty()) snapshot.put<std::uint64_t>(path, values, {values.size()});
}

void put_batch(ArrayStore& snapshot, const std::string& group, const Batch& batch) {
  put_rows(snapshot, group + "/source", batch.source, batch.rows);
  put_rows(snapshot, group + "/input", batch.input, batch.rows);
  put_rows(snapshot, group + "/labels", batch.labels, batch.rows);
  put_rows(snapshot, group + "/pixels", batch.pixels, batch.rows);
  put_counts(snapshot, group + "/source_lengths", batch.source_lengths);
  put_counts(snapshot, group + "/target_lengths", batch.target_lengths);
  put_counts(snapshot, group + "/examples", batch.examples);
}

void put_step(ArrayStore& snapshot, const StepComputer& computer, const RunStep& step) {
  snapshot.put_text("program_version", program_version);
  snapshot.put_text("run_id", computer.run_id());
  snapshot.put_text("arithmetic", arithmetic());
  snapshot.put_text("config", dump_config(with_process_settings(computer.config(), Config{})));
  snapshot.put_text("train/history", "");
  snapshot.put_scalar("train/step", step.number);
  snapshot.put_scalar("train/epoch", step.position.epoch);
  snapshot.put_scalar("train/batch", static_cast<std::uint64_t>(step.position.batch));
  snapshot.put_scalar("train/loss", step.loss.mean);
  snapshot.put_scalar("train/nll_sum", step.loss.nll_sum);
  snapshot.put_scalar("train/target_tokens", static_cast<std::uint64_t>(step.loss.target_tokens));
  snapshot.put_scalar("train/gradient_norm", step.gradient_norm);
  snapshot.put_scalar("train/clip_factor", step.clip_factor);
  snapshot.put_scalar("train/learning_rate", step.learning_rate);
  snapshot.put_scalar("train/updated", std::uint64_t{step.is_finite() ? 1U : 0U});
  for (std::size_t i = 0; i < step.batches.size(); ++i) {
    put_batch(snapshot, fmt::format("batches/{}", i), step.batches[i]);
  }
}

std::vector<NamedTensor> named_gradients(const Parameters& parameters) {
  std::vector<NamedTensor> gradients;
  for (const NamedTensor& parameter : parameters) {
    if (parameter.tensor.grad().defined()) {
      gradients.push_back({parameter.name, parameter.tensor.grad()});
    }
  }
  return gradients;
}

/// The change of each parameter in the step.
std::vector<NamedTensor> compute_updates(const Parameters& parameters,
                                         const std::vector<Tensor>& before) {
  std::vector<NamedTensor> updates;
  for (const NamedTensor& parameter : parameters) {
    updates.push_back({parameter.name, sub(parameter.tensor, before[updates.size()])});
  }
  return updates;
}

/// Stores the output of each operation of a batch, and its gradient, in a snapshot. Both are named
/// NUMBER.LAYER.OPERATION, with the number of the operation in order of execution.
class ActivationRecorder : public TapeObserver {
 public:
  ActivationRecorder(ArrayStore& snapshot, std::size_t batch)
      : snapshot_(snapshot),
        activations_(fmt::format("activations/{}", batch)),
        gradients_(fmt::format("activation_gradients/{}", batch)) {}

  void forward_ran(const RecordedCall& call) override {
    const std::string& layer = *call.layer_path;
    const std::string name =
        fmt::format("{:05}.{}{}{}", count_++, layer, layer.empty() ? "" : ".", call.operation);
    put_tensors(snapshot_, activations_, {{name, call.output}});
    names_[call.output.slot().get()] = name;
  }

  void backward_ran(const GradientSlot& output, const Tensor& dy) override {
    const auto name = names_.find(&output);
    if (name != names_.end()) put_tensors(snapshot_, gradients_, {{name->second, dy}});
  }

 private:
  ArrayStore& snapshot_;
  std::string activations_, gradients_;
  std::size_t count_ = 0;  ///< number of operations so far
  std::unordered_map<const GradientSlot*, std::string> names_;
};

/// Updates the weights, or skips the step if loss or gradient are not finite, as in a run.
void apply_or_skip(StepComputer& computer, const RunStep& step) {
  step.is_finite() ? computer.apply(step) : computer.skip(step);
}

/// Computes the next step and collects the arrays of the output file.
ArrayStore record_step(StepComputer& computer, bool activations, RunStep& step) {
  ArrayStore snapshot;
  const Parameters& parameters = computer.model().parameters;
  BatchObservers observers;
  if (activations) {
    observers = [&](std::size_t batch) {
      return std::make_unique<ActivationRecorder>(snapshot, batch);
    };
  }
  step = computer.next_step(false);
  computer.compute(step, observers);
  put_step(snapshot, computer, step);
  put_tensors(snapshot, "parameters", parameters.list());
  put_tensors(snapshot, "gradients", named_gradients(parameters));
  std::vector<Tensor> before;
  for (const NamedTensor& parameter : parameters) {
    before.push_back(parameter.tensor.clone());
  }
  apply_or_skip(computer, step);
  put_tensors(snapshot, "updates", compute_updates(parameters, before));
  return snapshot;
}

/// Compares the parameters after each step with the digests that the run recorded.
class DigestCheck {
 public:
  DigestCheck(const RunDirectory& directory, const Parameters& parameters) {
    table_ = read_digests(read_events_file(directory.path()));
    if (table_.steps.empty() || table_.names == digest_names(parameters)) return;
    warn(fmt::format("{} is not compared: its digests belong to other tensors", events_file_name));
    table_ = DigestTable();
  }

  /// Compares a step with the digests of the run. Warns about the first step that differs.
  void add(const StepComputer& computer) {
    const auto row = table_.find(computer.step());
    if (!row || !equal_) return;
    const auto digests = compute_digests(computer.model().parameters);
    const auto [ours, recorded] = std::ranges::mismatch(digests, table_.row(*row));
    if (ours == digests.end()) return;
    equal_ = false;
    const auto index = static_cast<std::size_t>(ours - digests.begin());
    warn(
        fmt::format("the weights after step {} differ from the run: the first tensor whose "
                    "digest differs from {} is {}",
                    computer.step(), events_file_name, table_.names.at(index)));
  }

  /// Whether all compared steps have the digests that the run recorded.
  bool equal() const { return equal_; }

 private:
  DigestTable table_;
  bool equal_ = true;
};

/// throws  NumericError if the run did not continue after a non-finite step.
void compute_steps_before(StepComputer& computer, std::uint64_t last, DigestCheck& check) {
  while (computer.step() + 1 < last) {
    RunStep step = computer.next_step(false);
    computer.compute(step);
    apply_or_skip(computer, step);
    check.add(computer);
    if (step.is_finite() || computer.config().train.on_nan == OnNan::skip) continue;
    throw NumericError(
        fmt::format("step {}: the loss is {} and the norm of the gradient {}, expected finite "
                    "numbers",
                    step.number, step.loss.mean, step.gradient_norm),
        fmt::format("the run ended or rolled back here; replay this step, with --step {}",
                    step.number));
  }
}

/// Whether the weights equal the checkpoint of this step bit for bit; nullopt if the run has no
/// usable checkpoint of the step.
std::optional<bool> compare(const RunDirectory& directory, const StepComputer& computer) {
  const auto steps = directory.steps();
  if (std::ranges::find(steps, computer.step()) == steps.end()) return std::nullopt;
  ArrayStore ours;
  put_tensors(ours, "parameters", computer.model().parameters.list());
  try {
    const ArrayStore saved = read_checkpoint_of_run(directory, computer.step());
    return std::ranges::all_of(ours, [&](const auto& array) {
      return saved.contains(array.first) && saved.at(array.first) == array.second;
    });
  } catch (const CheckpointError& error) {
    warn(error.what());
    return std::nullopt;
  }
}

void print_step(const RunStep& step, const std::string& output) {
  fmt::print(
      "step {}: loss {:.6g}  gradient {:.6g}  clip factor {:.6g}  learning rate {:.6g}  {} "
      "targets{}\n",
      format_count(step.number), step.loss.mean, step.gradient_norm, step.clip_factor,
      step.learning_rate, format_count(step.loss.target_tokens),
      step.is_finite() ? "" : "; not finite: the weights are unchanged");
  fmt::print("written: {}\n", escaped(output));
}

/// Prints whether the weights after the step equal the run's checkpoint. Returns false if they
/// differ.
bool report_comparison(const RunDirectory& directory, const StepComputer& computer) {
  const auto equal = compare(directory, computer);
  if (!equal) return true;
  const std::string name = directory.checkpoint_path(computer.step()).string();
  if (*equal) {
    fmt::print("the weights after the step equal {}, bit for bit\n", escaped(name));
  } else {
    warn(fmt::format("the weights after the step differ from {}", name));
  }
  return *equal;
}

/// The config of the start, with the overrides of data files that have moved.
Config replay_config(const Arguments& arguments, const RunDirectory& directory, const Start& start,
                     const std::vector<KeyChange>& changes) {
  Config config = saved_config(start.origin());
  if (!start.snapshot) {
    for (auto change = changes.rbegin(); change != changes.rend(); ++change) {
      set_key(config, change->key, change->before);
    }
  }
  config = with_other_data(arguments.run, config, arguments.overrides);
  config.train.steps = saved_config(start.newest).train.steps;  // may have been raised later
  if (arguments.step > config.train.steps) {
    throw UsageError(fmt::format("--step: found {}, expected a step of the run, which has {}",
                                 arguments.step, config.train.steps),
                     "give a smaller step");
  }
  config.train.run_dir = directory.path().string();
  config.train.detect_anomaly = false;  // a non-finite step does not stop the replay
  config.data.training.cache_folder = directory.cache_folder();
  config.data.training.cache_is_read_only = true;
  return config;
}

/// The data and the state of a run between two changes of its config.
struct Segment {
  Segment(const Config& config, const Start& start)
      : data(load_same_corpus(config, start.origin(), {})),
        computer(fitting(config, data.corpus), data.corpus) {}

  static const Config& fitting(const Config& config, const Corpus& corpus) {
    require_memory_for_model(config, corpus, read_available_memory());
    return config;
  }

  ResumedCorpus data;
  StepComputer computer;
};

/// The state of the run at the start of the replay.
std::unique_ptr<Segment> begin(const Config& config, const Start& start) {
  auto segment = std::make_unique<Segment>(config, start);
  if (start.snapshot) {
    segment->computer.restore(*start.snapshot);
  } else if (!config.train.initialize_from.empty()) {
    segment->computer.initialize(*load_initial_state(config).model);
  }
  return segment;
}

/// Computes the steps before `step`, and changes the config at the steps where the run changed its
/// config.
void compute_steps_before(std::uint64_t step, const std::vector<KeyChange>& changes, Config config,
                          const Start& start, std::unique_ptr<Segment>& segment,
                          DigestCheck& check) {
  for (std::size_t i = 0; i < changes.size() && changes[i].step < step;) {
    const std::uint64_t last = changes[i].step;
    compute_steps_before(segment->computer, last + 1, check);
    for (; i < changes.size() && changes[i].step == last; ++i) {
      set_key(config, changes[i].key, changes[i].after);
      inform(fmt::format("after step {}: {}: {}", last, changes[i].key, changes[i].after));
    }
    const ArrayStore state = segment->computer.snapshot();
    segment.reset();
    segment = std::make_unique<Segment>(config, start);
    segment->computer.resume(state);
  }
  compute_steps_before(segment->computer, step, check);
}

ExitCode run(Arguments arguments) {
  if (arguments.output.empty()) {
    arguments.output = fmt::format("replay-step-{:08}.h5", arguments.step);
  }
  require_output(arguments.output, arguments.force);
  const RunDirectory directory = find_run(arguments.run);
  const Start start = find_start(directory, arguments.step);
  const std::vector<KeyChange> changes = find_changes(start, arguments.step);
  const Config config = replay_config(arguments, directory, start, changes);
  apply_process_settings(config.train, saved_arithmetic(start.origin()));
  std::unique_ptr<Segment> segment = begin(config, start);
  inform(fmt::format("computing steps {} to {} again, from {}", start.step + 1, arguments.step,
                     start.snapshot ? escaped(directory.checkpoint_path(start.step).string())
                                    : std::string("the initial values")));
  DigestCheck check(directory, segment->computer.model().parameters);
  compute_steps_before(arguments.step, changes, config, start, segment, check);
  StepComputer& computer = segment->computer;
  RunStep step;
  const ArrayStore snapshot = record_step(computer, !arguments.no_activations, step);
  check.add(computer);
  write_checkpoint(arguments.output, snapshot);
  print_step(step, arguments.output);
  const bool same_weights = report_comparison(directory, computer);
  return check.equal() && same_weights ? ExitCode::done : ExitCode::failure;
}

void define(CLI::App& command, Arguments& arguments) {
  add_path(command, "RUN", arguments.run, "Run directory")->required();
  command.add_option("OVERRIDES", arguments.overrides,
                     "New paths of data files that have moved, such as data.train_text=more.txt");
  command.add_option("--step", arguments.step, "Step to compute again")
      ->check(within(between(1, 1'000'000'000'000)))
      ->type_name("STEP")
      ->required();
  add_path(command, "--output", arguments.output,
           "HDF5 file to write, which must not exist unless --force is given; default: "
           "replay-step-NNNNNNNN.h5")
      ->type_name("FILE");
  add_force(command, arguments.force);
  command.add_flag("--no-activations", arguments.no_activations,
                   "Omit activations and their gradients, which make up most of the file");
  command.footer(
      "The run does not change. The replay starts from the newest checkpoint before the step "
      "or,\n"
      "without such a checkpoint, from the initial values.\n"
      "Example:\n  tapestry replay runs/copy --step 1234 --output step.h5");
}

}  // namespace
}  // namespace replay_cli

extern const Command replay_command{
    .name = "replay",
    .purpose = "Compute a step of a run again, and write its batch, activations and gradients",
    .define = with_arguments(replay_cli::define, replay_cli::run)};

}  // namespace tapestry
