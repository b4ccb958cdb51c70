#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "train/inference/attention_view.h"
#include "train/recording/digest_log.h"
#include "train/recording/run_recording.h"
#include "train/recording/tensorboard_log.h"
#include "train/recording/time_use_log.h"
#include "train/recording/weight_watch.h"

namespace tapestry {

/// Records a run in files of its run directory beside metrics.csv: recording.jsonl, digests.csv,
/// time_use.csv and, with train.tensorboard, event files. Changes no bit of the run.
class RunRecorder {
 public:
  /// What a recorder continues.
  struct Start {
    std::filesystem::path folder;    ///< the run directory
    const Config& config;            ///< of the run
    const Parameters& parameters;    ///< of the model; must outlive the recorder
    const std::string& metrics_csv;  ///< the rows up to now
    std::uint64_t step = 0;          ///< of the run; digests of later steps are dropped
    std::uint64_t last_step = 0;     ///< validations of later steps are dropped
  };
  explicit RunRecorder(const Start& start);

  /// To be called before and after the update of a step that a validation follows.
  void before_update();
  void after_update();

  /// Whether add() takes attention weights.
  bool shows_attention() const { return tensorboard_.has_value(); }

  /// Records the digests of the parameters after a step, if train.digest_every has them recorded.
  void add_digests(std::uint64_t step);

  /// Records what the process has done with its time.
  ///
  /// at_once  if false, only if the last row is old enough, see TimeUseLog::add_if_due()
  void add_time_use(std::uint64_t step, const TimeUse& use, bool at_once);

  /// Records the new rows of the table.
  void add_rows(const std::string& metrics_csv);

  /// Records a validation, whose row is the last of the table.
  void add(std::uint64_t step, const std::vector<ShownExample>& samples,
           std::span<const LayerAttention> attention);

  /// Removes what was recorded of later steps, whose rows are not in the table any more.
  void drop_after(std::uint64_t step, const std::string& metrics_csv);

  /// Why a file cannot be written, if that was not returned before.
  std::optional<std::string> take_problem();

 private:
  RunRecording recording_;
  TimeUseLog time_use_;
  std::optional<TensorBoardLog> tensorboard_;
  std::optional<DigestLog> digests_;
  std::uint64_t digest_every_;  ///< steps
  WeightWatch watch_;
  bool is_watching_ = false;
  std::optional<std::string> reported_;  ///< the last result of take_problem()
};

}  // namespace tapestry
