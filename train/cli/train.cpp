#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "data/io/utf8.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/resume_policy.h"
#include "train/checkpoint/run_identity.h"
#include "train/cli/command.h"
#include "train/cli/new_run.h"
#include "train/config/config.h"
#include "train/config/error.h"
#include "train/config/fields.h"
#include "train/config/percentages.h"
#include "train/error.h"
#include "train/format.h"
#include "train/initial_state.h"
#include "train/parallel/equal_processes.h"
#include "train/parallel/launch.h"
#include "train/platform/machine.h"
#include "train/platform/program_name.h"
#include "train/platform/standard_streams.h"
#include "train/process_settings.h"
#include "train/progress_output.h"
#include "train/run_length.h"
#include "train/storage/run_directory.h"
#include "train/tasks/task.h"
#include "train/training_run.h"

namespace tapestry {
namespace train_cli {
namespace {

using Clock = TimeLimit::Clock;

struct Arguments {
  std::string config;  ///< a config file; may be empty if `run` is not
  std::string run;     ///< a run directory to resume; empty: the run directory of the config
  std::vector<std::string> overrides;  ///< section.key=value
  std::vector<std::string> allowed;    ///< keys that a resumed run may change
  bool resume = false;                 ///< continue a run
  bool fresh = false;                  ///< move an existing run aside
  bool profile = false;                ///< print the time of each operation at the end
  bool dry_run = false;                ///< compute one step, write nothing
  bool quiet = false;                  ///< print nothing on standard output
  bool json = false;                   ///< print one JSON object per line
  std::size_t until = 0;               ///< stop after this step; 0: train.steps
};

std::optional<std::uint64_t> last_step(const Arguments& arguments) {
  return arguments.until == 0 ? std::nullopt : std::optional(arguments.until);
}

ProgressFormat format_of(const Arguments& arguments) {
  return arguments.json ? ProgressFormat::json : ProgressFormat::text;
}

// ---- A new run.

/// Moves the run in the directory aside, if there is one, and returns its new directory.
std::optional<RunDirectory> move_aside(const RunDirectory& directory) {
  if (directory.steps().empty()) return std::nullopt;
  const RunLock lock(directory.path());
  std::string path = directory.path().string();
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  std::size_t number = 1;
  while (std::filesystem::exists(fmt::format("{}.old-{}", path, number))) ++number;
  const std::string aside = fmt::format("{}.old-{}", path, number);
  std::error_code error;
  std::filesystem::rename(path, aside, error);
  if (error) {
    throw OutputError(
        fmt::format("{}: could not move the run aside: {}", escaped(path), error.message()),
        "choose another train.run_dir");
  }
  return RunDirectory(aside);
}

/// The directory of a new run. A run that it has is moved aside by claim(), once the data have been
/// read and everything has been checked, and not before.
class NewRunDirectory {
 public:
  /// fresh  move a run that the directory has aside, instead of refusing it
  NewRunDirectory(RunDirectory directory, bool fresh)
      : directory_(std::move(directory)), fresh_(fresh) {}

  const RunDirectory& directory() const { return directory_; }

  /// Refuses a directory that has other files, or a run that is not to be moved aside.
  void check() const {
    refuse_to_replace_files(directory_);
    if (!fresh_) refuse_to_replace_run(directory_);
  }

  /// Creates the folder of the cache, which is made before claim(): in the directory of a run that
  /// will be moved aside, whose own cache may serve the new run or is replaced. Deletes temporary
  /// files of crashes, which may be as large as the cache.
  void prepare_cache() {
    directory_.create();
    lock_.emplace(directory_.path());
    if (!fresh_) refuse_to_replace_run(directory_);
    directory_.remove_stray_temporaries();
    directory_.create_cache_folder();
  }

  /// Moves a run aside, but not its cache if prepare_cache() was called; creates and locks the
  /// directory. `claimed` is directory() or a copy.
  void claim(RunDirectory& claimed) {
    const bool has_cache = lock_.has_value();
    lock_.reset();
    const auto old = fresh_ ? move_aside(claimed) : std::nullopt;
    claimed.create();
    claimed.lock();
    // Checked again: another process may have created a run before the lock was taken.
    refuse_to_replace_run(claimed);
    if (!old || !has_cache) return;
    std::error_code ignored;  // the new run makes its cache again when it is resumed
    std::filesystem::rename(old->cache_folder(), claimed.cache_folder(), ignored);
  }

 private:
  RunDirectory directory_;
  bool fresh_;
  std::optional<RunLock> lock_;  ///< while the cache is made
};

/// What `load` returns. If it uses a cache, which has the key `data`, rank 0 makes it
/// and the others read it.
template <class Load>
auto load_with_cache(DataOptions& data, ProcessGroup& group, const Load& load) {
  // Files of other sizes, which are refused later, may make a cache necessary for some.
  if (!group.any_process(uses_cache(data)) || group.size() == 1) return load();
  decltype(load()) loaded;
  group.on_rank_0([&] { loaded = load(); });
  if (group.is_rank_0()) return loaded;
  data.cache_is_read_only = true;
  return load();
}

int start_run(const Arguments& arguments, Clock::time_point started, ProcessGroup& group) {
  Config config = load_new_config(arguments.config, arguments.overrides);
  NewRunDirectory place(RunDirectory(config.train.run_dir), arguments.fresh);
  group.on_rank_0([&] { place.check(); });
  if (group.any_process(uses_cache(config.data)) && !arguments.dry_run) {
    group.on_rank_0([&] { place.prepare_cache(); });
    config.data.cache_folder = place.directory().cache_folder();
  }
  const InitialState initial =
      load_with_cache(config.data, group, [&] { return load_initial_state(config); });
  complete_new_config(arguments.config, initial.corpus, config);
  return run_training({.config = config,
                       .corpus = initial.corpus,
                       .directory = place.directory(),
                       .load_state =
                           [&](Trainer& trainer) {
                             return initial.model ? trainer.initialize(*initial.model)
                                                  : std::vector<std::string>();
                           },
                       .claim_directory = [&](RunDirectory& claimed) { place.claim(claimed); },
                       .started = started,
                       .profile = arguments.profile,
                       .dry_run = arguments.dry_run,
                       .last_step = last_step(arguments),
                       .quiet = arguments.quiet,
                       .format = format_of(arguments),
                       .group = group});
}

// ---- A resumed run.

/// The checkpoint to resume from and the config to resume with.
struct ResumePlan {
  NewestCheckpoint checkpoint;
  Config before;
  Config config;
  ConfigChanges changes;
};

void require_run(const RunDirectory& directory) {
  if (!directory.steps().empty()) return;
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(directory.path(), ignored);
  throw CheckpointError(
      fmt::format("{}: {}, expected the directory of a run", escaped(directory.path().string()),
                  is_folder ? "holds no checkpoint to resume from" : "is no directory"),
      fmt::format("name a run directory such as runs/copy, or start a run: {} train CONFIG",
                  program_name()));
}

bool is_allowed(const Arguments& arguments, const std::string& key) {
  return std::ranges::find(arguments.allowed, key) != arguments.allowed.end();
}

/// The config to resume with: a config file, or the saved config with overrides.
Config wanted_config(const Arguments& arguments, const Config& before) {
  if (arguments.config.empty()) {
    // A run directory that was renamed may have any name, also one that a config cannot hold.
    Config stored = before;
    stored.train.run_dir.clear();
    Config config =
        parse_config(dump_config(stored), "config of the checkpoint", arguments.overrides);
    if (config.train.run_dir.empty()) config.train.run_dir = before.train.run_dir;
    return config;
  }
  Config config = load_config(arguments.config, arguments.overrides);
  if (!arguments.run.empty()) config.train.run_dir = before.train.run_dir;
  keep_resolved_percentages(config, before, arguments.allowed);
  // The default decay_steps follows train.steps; it was fixed when the run began.
  const bool new_decay =
      config.schedule.kind == ScheduleKind::cosine && is_allowed(arguments, "schedule.decay_steps");
  if (config.schedule.decay_steps == 0 && !new_decay) {
    config.schedule.decay_steps = before.schedule.decay_steps;
  }
  return config;
}

/// throws  ConfigError if a run is given more steps than its decay has, which would have a learning
///         rate of 0.
void require_longer_decay(const std::string& run, const Config& before, const Config& config) {
  const ScheduleOptions& schedule = config.schedule;
  const std::size_t steps = config.train.steps;
  const std::size_t end = schedule.decay_steps;  // 0: train.steps
  const bool ends_at_0 = schedule.kind == ScheduleKind::cosine && schedule.min_learning_rate == 0.0;
  const bool new_decay =
      schedule.kind != before.schedule.kind || end != before.schedule.decay_steps;
  if (!ends_at_0 || new_decay || end == 0 || end >= steps || steps <= before.train.steps) return;
  throw ConfigError(
      {{.place = {.file = run},
        .message = fmt::format("train.steps is raised from {} to {}, but the learning rate decays "
                               "to 0 until step {} (schedule.decay_steps) and would stay 0",
                               before.train.steps, steps, end),
        .hint = fmt::format("give the decay a new end, with schedule.decay_steps={} --allow-change "
                            "schedule.decay_steps, or a minimum above 0, with "
                            "schedule.min_learning_rate=RATE --allow-change "
                            "schedule.min_learning_rate",
                            steps)}});
}

/// Compares the config to resume with. If train.epochs is not resolved yet, the number of steps is
/// taken to be unchanged.
void compare(ResumePlan& plan, const Arguments& arguments) {
  const Config& before = plan.before;
  Config config = plan.config;
  if (config.train.epochs != 0) config.train.steps = before.train.steps;
  config.train.epochs = 0;
  const bool follows_steps =
      config.schedule.kind == ScheduleKind::cosine && config.schedule.decay_steps == 0;
  if (follows_steps) config.schedule.decay_steps = config.train.steps;
  Config process = config;
  process.train.run_dir = before.train.run_dir;
  plan.changes = sort_changes(before.train.run_dir,
                              compare_configs(with_process_settings(before, process), config),
                              arguments.allowed);
  require_longer_decay(before.train.run_dir, before, config);
}

/// The newest usable checkpoint that rank 0 finds: over a network file system, others may still see
/// an older list of files.
///
/// throws  CheckpointError if there is none.
NewestCheckpoint newest_checkpoint(const RunDirectory& directory, ProcessGroup& group) {
  NewestCheckpoint newest;
  const std::string step = group.broadcast([&] {
    require_run(directory);
    newest = *read_newest_of_run(directory);
    return fmt::to_string(newest.step);
  });
  group.together([&] {
    if (group.is_rank_0()) return;
    newest.step = std::stoull(step);
    newest.path = directory.checkpoint_path(newest.step);
    newest.snapshot = await_checkpoint_of_run(directory, newest.step, group.timeout());
  });
  return newest;
}

ResumePlan make_plan(const RunDirectory& directory, const Arguments& arguments,
                     ProcessGroup& group) {
  ResumePlan plan{
      .checkpoint = newest_checkpoint(directory, group), .before = {}, .config = {}, .changes = {}};
  plan.before = saved_config(plan.checkpoint.snapshot);
  plan.before.train.run_dir = directory.path().string();
  plan.config = wanted_config(arguments, plan.before);
  compare(plan, arguments);
  return plan;
}

/// Resolves train.epochs, once the data are known. Returns whether there was something to resolve.
bool resolve_length(ResumePlan& plan, const Arguments& arguments, const Corpus& corpus) {
  if (plan.config.train.epochs == 0) return false;
  resolve_epochs(plan.config, make_batch_schedule(corpus, plan.config).batches_per_epoch(),
                 plan.checkpoint.step, saved_position(plan.checkpoint.snapshot));
  compare(plan, arguments);
  return true;
}

/// Why no steps are left to train, such as "12 of 12 steps"; empty if some are left.
std::string reason_of_end(const ResumePlan& plan) {
  const TrainOptions& options = plan.config.train;
  if (has_pending_validation(plan.checkpoint.snapshot) || options.epochs != 0) return "";
  if (plan.checkpoint.step >= options.steps) {
    const std::string done = format_count(plan.checkpoint.step);
    const std::string steps = format_count(options.steps);
    return plan.checkpoint.step == options.steps
               ? fmt::format("{} of {} steps; give more with train.steps=N", done, steps)
               : fmt::format(
                     "it has done {} steps, and train.steps is {}; give more with "
                     "train.steps=N",
                     done, steps);
  }
  const std::uint64_t without_best = validations_since_best(plan.checkpoint.snapshot);
  if (options.patience > 0 && without_best >= options.patience) {
    return fmt::format("{} validations without improvement; to continue, raise train.patience=N",
                       without_best);
  }
  return "";
}

/// The steps that config.yaml of the run has, which its newest process wrote; nullopt if it cannot
/// be read.
std::optional<std::size_t> steps_in_directory(const std::string& run_dir) try {
  return load_config((std::filesystem::path(run_dir) / "config.yaml").string()).train.steps;
} catch (const ConfigError&) {
  return std::nullopt;
}

/// What to tell of newer checkpoints that were skipped.
std::vector<std::string> warnings_of_fallback(const ResumePlan& plan) {
  std::vector<std::string> warnings;
  for (const auto& rejected : plan.checkpoint.rejected) {
    warnings.push_back(fmt::format("{}; an older checkpoint is used", rejected.reason));
  }
  if (warnings.empty() || plan.config.train.epochs != 0) return warnings;
  const std::size_t steps = plan.config.train.steps;
  const auto latest = steps_in_directory(plan.before.train.run_dir);
  if (latest && *latest != steps && steps == plan.before.train.steps) {
    warnings.push_back(
        fmt::format("train.steps is {}, as in the older checkpoint, and no longer {}; to have as "
                    "many again, add train.steps={}",
                    steps, *latest, *latest));
  }
  return warnings;
}

/// Resumes the trainer and returns lines for the log. Changes that affect the results are also
/// added to the history.
std::vector<std::string> resume(Trainer& trainer, const ResumePlan& plan, const ResumedCorpus& data,
                                const std::string& run_dir) {
  const Snapshot& snapshot = plan.checkpoint.snapshot;
  trainer.resume(snapshot);
  std::vector<std::string> lines;
  for (const std::string& warning : warnings_of_fallback(plan)) {
    lines.push_back("warning: " + warning);
  }
  lines.push_back(fmt::format("resuming {} at step {} of {}", run_dir, format_count(trainer.step()),
                              format_count(plan.config.train.steps)));
  for (const ConfigDifference& change : plan.changes.taken) {
    lines.push_back("changed " + to_string(change));
  }
  std::vector<std::string> events = data.changes;
  for (const ConfigDifference& change : plan.changes.allowed) {
    events.push_back("changed " + to_string(change));
  }
  if (!continues_state(plan.before.optimizer, plan.config.optimizer)) {
    events.emplace_back("the state of the optimizer starts anew");
  }
  if (has_other_batches(plan.before, plan.config)) {
    events.emplace_back("continues with the first batch of an epoch");
  }
  const std::string before = saved_arithmetic(snapshot);
  if (!before.empty() && before != arithmetic()) {
    events.push_back(
        fmt::format("changed arithmetic: {} -> {}; results will differ in rounding "
                    "from a run without the change",
                    before, arithmetic()));
  }
  for (const std::string& event : events) {
    lines.push_back("warning: " + event);
    trainer.note(event);
  }
  return lines;
}

/// Prints why no steps are left to train, and returns whether that is so.
bool report_finished(const RunDirectory& directory, const ResumePlan& plan,
                     const Arguments& arguments) {
  const std::string reason = reason_of_end(plan);
  if (reason.empty()) return false;
  for (const std::string& warning : warnings_of_fallback(plan)) warn(warning);
  if (arguments.quiet) return true;
  const std::string text =
      fmt::format("{} is finished: {}", escaped(directory.path().string()), reason);
  const auto output = arguments.json ? make_json_output(stdout) : make_text_output(stdout);
  output->message(text);
  output->end(plan.checkpoint.step, static_cast<int>(ExitCode::done));
  flush_standard_output(output->error());
  return true;
}

/// Refuses processes with another plan than rank 0: each decides by its plan whether there are
/// steps to train.
void require_same_plan(ProcessGroup& group, const ResumePlan& plan) {
  const std::string reason = reason_of_end(plan);
  require_equal_processes(group, {{.what = "checkpoint to resume",
                                   .text = fmt::format("step {}{}{}", plan.checkpoint.step,
                                                       reason.empty() ? "" : ": ", reason),
                                   .code = ExitCode::checkpoint}});
}

std::string find_run_directory(const Arguments& arguments) {
  if (!arguments.run.empty()) return arguments.run;
  return load_config(arguments.config, arguments.overrides).train.run_dir;
}

int resume_run(const Arguments& arguments, Clock::time_point started, ProcessGroup& group) {
  RunDirectory directory = find_run(find_run_directory(arguments));
  ResumePlan plan = make_plan(directory, arguments, group);
  require_same_plan(group, plan);
  if (report_finished(directory, plan, arguments)) return static_cast<int>(ExitCode::done);
  if (!arguments.dry_run) {
    bool has_other_steps = false;
    group.on_rank_0([&] {
      const auto before = directory.steps();
      directory.lock();
      has_other_steps = directory.steps() != before;
    });
    if (group.any_process(has_other_steps)) {
      plan = make_plan(directory, arguments, group);
      require_same_plan(group, plan);
    }
  }
  apply_process_settings(plan.config.train, saved_arithmetic(plan.checkpoint.snapshot));
  if (group.any_process(uses_cache(plan.config.data))) {
    DataOptions& data = plan.config.data;
    data.cache_is_read_only = arguments.dry_run;
    data.cache_folder = directory.cache_folder();
    group.on_rank_0([&] {
      if (arguments.dry_run) return;
      directory.remove_stray_temporaries();  // they may be as large as the cache
      directory.create_cache_folder();
    });
  }
  const ResumedCorpus data = load_with_cache(plan.config.data, group, [&] {
    return load_same_corpus(plan.config, plan.checkpoint.snapshot, arguments.allowed);
  });
  const bool was_unknown = resolve_length(plan, arguments, data.corpus);
  if (was_unknown && report_finished(directory, plan, arguments))
    return static_cast<int>(ExitCode::done);
  require_validation_for_patience(plan.config, data.corpus);
  return run_training({.config = plan.config,
                       .corpus = data.corpus,
                       .directory = directory,
                       .first_step = plan.checkpoint.step,
                       .load_state =
                           [&](Trainer& trainer) {
                             auto lines = resume(trainer, plan, data, directory.path().string());
                             // As large as the model: released before training.
                             plan.checkpoint.snapshot = Snapshot();
                             return lines;
                           },
                       .started = started,
                       .profile = arguments.profile,
                       .dry_run = arguments.dry_run,
                       .last_step = last_step(arguments),
                       .quiet = arguments.quiet,
                       .format = format_of(arguments),
                       .group = group});
}

// ---- The command line.

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

/// Assigns the positional arguments of --resume: a config, a run directory or overrides, in any
/// order.
void sort_resume_arguments(Arguments& arguments) {
  std::vector<std::string> words{arguments.config};
  words.insert(words.end(), arguments.overrides.begin(), arguments.overrides.end());
  arguments.config.clear();
  arguments.overrides.clear();
  for (std::string& word : words) {
    std::string& place = is_config_file(word) ? arguments.config : arguments.run;
    if (is_override(word) || !place.empty()) {
      arguments.overrides.push_back(std::move(word));
    } else {
      place = std::move(word);
    }
  }
}

/// The options that decide what a process does, one on each line.
std::string options_text(const Arguments& arguments) {
  std::string text = arguments.resume ? "--resume\n" : "";
  if (arguments.fresh) text += "--fresh\n";
  if (arguments.dry_run) text += "--dry-run\n";
  if (arguments.until != 0) text += fmt::format("--until {}\n", arguments.until);
  for (const std::string& key : arguments.allowed) text += "--allow-change " + key + "\n";
  return text;
}

/// Whether a key such as `train.threads` is a process setting.
bool is_process_setting(std::string_view key) {
  bool found = false;
  const Config defaults;
  for_each_field(defaults, [&](const Field& field, const FieldValue&, const Domain&) {
    if (field.path() == key) found = !field.rule.stored;
  });
  return found;
}

/// The config without process settings; of a run that is resumed without a config file, what the
/// command line changes in it.
std::string config_text(const Arguments& arguments) {
  if (!arguments.config.empty()) {
    const Config config = load_config(arguments.config, arguments.overrides);
    return dump_config(with_process_settings(config, Config{}));
  }
  std::string text;
  for (const std::string& change : arguments.overrides) {
    if (!is_process_setting(change.substr(0, change.find('=')))) text += change + "\n";
  }
  return text;
}

/// What has to be the same in all processes, so that they take the same decisions up to
/// run_training(), which compares the rest.
std::vector<EqualProperty> equal_properties(const Arguments& arguments) {
  return {{.what = "program", .text = std::string(program_version), .code = ExitCode::usage},
          {.what = "command line", .text = options_text(arguments), .code = ExitCode::usage},
          {.what = "config", .text = config_text(arguments), .code = ExitCode::usage}};
}

/// The program of one process of a group; only rank 0 prints.
int run(Arguments arguments, Clock::time_point started, ProcessGroup& group) {
  if (!group.is_rank_0()) arguments.quiet = true;
  if (arguments.config.empty() && arguments.run.empty()) {
    throw UsageError(arguments.resume ? "a run directory or CONFIG is required"
                                      : "CONFIG or --resume RUN is required",
                     fmt::format("see `{} train --help`", program_name()));
  }
  return arguments.resume ? resume_run(arguments, started, group)
                          : start_run(arguments, started, group);
}

Action define(ArgumentParser& parser) {
  const auto arguments = std::make_shared<Arguments>();
  parser
      .add_option("CONFIG", arguments->config,
                  "Config file (YAML); with --resume also, or only, a run directory")
      .check(not_empty());
  parser.add_option("OVERRIDES", arguments->overrides,
                    "Config keys with other values, such as model.d_model=128");
  Option& resume =
      parser.add_flag("--resume", arguments->resume, "Resume the run from its newest checkpoint");
  parser
      .add_option("--allow-change", arguments->allowed,
                  "Key, or key of a data file, that may differ from what the run had")
      .value_name("KEY")
      .one_value_per_use()
      .only_with(resume);
  parser
      .add_flag("--fresh", arguments->fresh,
                "Start a new run in a directory that has one; the old run is moved aside")
      .not_with(resume);
  Option& dry_run = parser.add_flag(
      "--dry-run", arguments->dry_run,
      "Check config, data and memory and compute one step, without writing anything");
  Option& profile = parser.add_flag("--profile", arguments->profile,
                                    "At the end, list the time that each operation took");
  Option& json =
      parser.add_flag("--json", arguments->json, "Print one JSON object per line, for programs");
  parser
      .add_flag("--quiet", arguments->quiet,
                "Print nothing but warnings and errors, on standard error; the log of the run has "
                "everything")
      .not_with(dry_run)
      .not_with(json)
      .not_with(profile);
  parser
      .add_option("--until", arguments->until,
                  "Save and stop after this step; the run can be resumed")
      .check(within(between(1, 1'000'000'000'000)))
      .value_name("STEP")
      .not_with(dry_run);
  parser.set_footer(
      "Examples:\n  tapestry train configs/copy.yaml model.dropout=0.1\n"
      "  tapestry train --resume runs/copy\n"
      "  tapestry train --resume configs/copy.yaml        the same, by its config\n"
      "  tapestry train --resume runs/copy model.dropout=0.2 --allow-change model.dropout");
  return [arguments] {
    const auto started = Clock::now();
    if (arguments->resume) sort_resume_arguments(*arguments);
    return run_launched_processes(
        [&] { return equal_properties(*arguments); },
        [&](ProcessGroup& group) { return run(*arguments, started, group); });
  };
}

}  // namespace
}  // namespace train_cli

const Command train_command{.name = "train",
                            .purpose = "Train a model, or resume training",
                            .define = train_cli::define,
                            .memory_hint =
                                "try a smaller train.batch_size with a larger train.accumulate, or "
                                "a smaller model (model.d_model, model.num_encoder_layers, "
                                "model.num_decoder_layers), or fewer data",
                            .output_is_the_result = false};

}  // namespace tapestry
