#include "train/recording/run_recorder.h"

#include <new>

#include "train/platform/memory.h"

namespace tapestry {

RunRecorder::RunRecorder(const Start& start)
    : recording_(start.folder / recording_file_name, start.last_step),
      time_use_(start.folder / time_use_file_name, start.step),
      digest_every_(start.config.train.digest_every),
      watch_(start.parameters) {
  if (start.config.train.tensorboard) {
    tensorboard_.emplace(start.folder / tensorboard_folder_name, start.config, start.metrics_csv);
  }
  if (digest_every_ > 0) {
    digests_.emplace(start.folder / digest_file_name, start.parameters, start.step);
  }
}

void RunRecorder::before_update() { is_watching_ = watch_.before_update(); }

void RunRecorder::after_update() {
  if (is_watching_) watch_.after_update();
  is_watching_ = false;
}

void RunRecorder::add_digests(std::uint64_t step) {
  if (digests_ && step % digest_every_ == 0) digests_->add(step);
}

void RunRecorder::add_time_use(std::uint64_t step, const TimeUse& use, bool at_once) {
  if (at_once) {
    time_use_.add(step, use);
  } else {
    time_use_.add_if_due(step, use);
  }
}

void RunRecorder::add_rows(const std::string& metrics_csv) {
  if (tensorboard_) tensorboard_->add_rows(metrics_csv);
}

void RunRecorder::add(std::uint64_t step, const std::vector<ShownExample>& samples,
                      std::span<const LayerAttention> attention) {
  try {
    const ValidationRecord record{.step = step,
                                  .resident_bytes = read_resident_bytes(),
                                  .samples = samples,
                                  .blocks = watch_.measure()};
    recording_.add(record);
    if (tensorboard_) tensorboard_->add(record, attention);
  } catch (const std::bad_alloc&) {  // a record is missing
  }
}

void RunRecorder::drop_after(std::uint64_t step, const std::string& metrics_csv) {
  recording_.drop_after(step);
  time_use_.drop_after(step);
  if (digests_) digests_->drop_after(step);
  if (tensorboard_) tensorboard_->set_rows(metrics_csv);
}

std::optional<std::string> RunRecorder::take_problem() {
  std::optional<std::string> problem = recording_.problem();
  if (!problem) problem = time_use_.problem();
  if (!problem && tensorboard_) problem = tensorboard_->problem();
  if (!problem && digests_) problem = digests_->problem();
  if (problem == reported_) return std::nullopt;
  return reported_ = problem;
}

}  // namespace tapestry
