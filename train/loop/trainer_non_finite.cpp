#include "train/loop/trainer.h"

#include <fmt/format.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/io/durable_file.h"
#include "data/io/utf8.h"
#include "train/base/error.h"
#include "train/base/format.h"
#include "train/checkpoint/open_run.h"
#include "train/loop/non_finite.h"
#include "train/tasks/task_data.h"

// What a Trainer does with losses, gradients and parameters that are not finite, and with a run
// that diverges.

namespace tapestry {

void Trainer::refuse_divergence() {
  saver_.finish();
  throw NumericError(
      fmt::format("step {}: the run has diverged: the mean loss of {} steps was {:.4g} at its best "
                  "and is now {:.4g}; this state is not saved, {}",
                  state_.step, config_.train.divergence_window, state_.divergence.best_mean(),
                  state_.divergence.last_mean(), saver_.describe_newest()),
      std::string(smaller_steps_hint) + "; train.divergence_window=0 disables the check");
}

Trainer::StepEnd Trainer::meet_non_finite(const std::string& found, const RunStep& step) {
  saver_.finish();  // the last checkpoint may be needed
  const std::string finding = group_.broadcast([&] { return examine(found, step.batches); });
  count_nan_step(fmt::format("step {}: {}; the weights are those of step {}", step.number, finding,
                             state_.step));
  if (config_.train.on_nan == OnNan::rollback) {
    state_.position = step.next;
    roll_back(fmt::format("{} at step {}", found, step.number));
    return StepEnd::rolled_back;
  }
  note(fmt::format("{} at step {}, which is skipped", found, step.number));
  computer_.skip(step);
  return StepEnd::skipped;
}

/// throws  NumericError with train.on_nan: stop, or after more than train.max_nan_steps such steps.
void Trainer::count_nan_step(const std::string& finding) {
  ++state_.nan_steps;
  const std::size_t most = config_.train.max_nan_steps;
  const std::string hint = non_finite_hint(state_.step);
  if (config_.train.on_nan == OnNan::stop) {
    throw NumericError(finding, hint + "; train.on_nan=skip skips such a step");
  }
  if (state_.nan_steps > most) {
    throw NumericError(fmt::format("{}; {} consecutive steps, train.max_nan_steps is {}", finding,
                                   state_.nan_steps, most),
                       hint);
  }
  progress_.message("warning: " + finding);
}

/// Locates the origin of a value that is not finite, stores a report in the run directory and
/// returns a one-line description.
std::string Trainer::examine(const std::string& found, const std::vector<Batch>& batches) {
  const std::size_t target_tokens = count_target_tokens(batches);
  const BatchLoss loss = [&](const Batch& batch, std::size_t index) {
    const BatchPlace place{.step = state_.step + 1, .index = index, .target_tokens = target_tokens};
    return batch_loss(batch, place, config_.train, model_).mean;
  };
  const NonFiniteOrigin origin = find_non_finite_origin(
      loss, corpus_.training(), training_rules(config_, corpus_), batches, model_.parameters);
  const auto path = directory_.path() / fmt::format("non-finite-step-{:08}.txt", state_.step + 1);
  const std::string report = fmt::format("step {}: {}\n{}", state_.step + 1, found,
                                         to_text(origin, corpus_.training(), config_, codec_));
  std::string stored;
  try {
    write_file_durably(path, std::as_bytes(std::span(report)), directory_.files());
    stored = fmt::format("; see {}", escaped(path.string()));
  } catch (const OutputError& error) {
    stored = fmt::format("; not stored: {}", error.what());
  }
  return fmt::format("{}, expected a finite number{}{}", found, in_words(origin, config_), stored);
}

/// The last scheduled checkpoint, or the newest intact one if that is damaged or missing. It is
/// missing if a run that stopped before its first scheduled save is resumed with rollback.
ArrayStore Trainer::rollback_target(const std::string& found) const {
  try {
    return read_checkpoint_of_run(directory_, state_.scheduled_save);
  } catch (const DamagedCheckpoint& damage) {
    progress_.message(fmt::format("warning: {}; another checkpoint is used", damage.what()));
  } catch (const CheckpointError&) {
  }
  std::string reason = "there is no checkpoint to go back to";
  try {
    if (auto newest = read_newest_of_run(directory_)) return std::move(newest->arrays);
  } catch (const CheckpointError& error) {
    reason = error.what();
  }
  throw NumericError(fmt::format("{}; {}", found, reason), smaller_steps_hint);
}

/// Restores a checkpoint, which rank 0 chooses, and continues with the data that follow the failed
/// step.
void Trainer::roll_back(const std::string& found) {
  const BatchPosition behind = state_.position;
  const std::uint64_t in_a_row = state_.nan_steps;
  ArrayStore target;
  const std::string chosen = group_.broadcast([&] {
    target = rollback_target(found);
    return std::to_string(saved_step(target));
  });
  group_.together([&] {
    if (group_.is_rank_0()) return;
    target = await_checkpoint_of_run(directory_, std::stoull(chosen), group_.timeout());
  });
  computer_.restore(target);
  group_.require_equal(
      "state after the rollback", [&] { return computer_.state_text(); }, ExitCode::checkpoint);
  state_.revert_end_rows();
  saver_.note_restored();
  state_.position = behind;
  state_.nan_steps = in_a_row;
  note(fmt::format("rolled back: {}; continues with epoch {}, batch {}", found, behind.epoch + 1,
                   behind.batch + 1));
  progress_.rolled_back(state_.step);
  recorder_.drop_later_steps();
  progress_.message(fmt::format("rolled back to step {}", format_count(state_.step)));
}

}  // namespace tapestry
