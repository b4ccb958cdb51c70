#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "train/checkpoint/resume.h"
#include "train/checkpoint/run_directory.h"
#include "train/loop/trainer.h"
#include "train/loop/training_run.h"
#include "train/models/run_data.h"
#include "train/parallel/process_group.h"

namespace tapestry {

/// A run that continues from its newest usable checkpoint, with its data.
class ResumedRun {
 public:
  /// Reads the checkpoint and the data, and locks the run directory unless it is a dry run.
  ///
  /// throws  ConfigError if a key differs from the checkpoint's that may not; CheckpointError if
  ///         there is no usable checkpoint; DataError, OutputError; PeerFailure.
  ResumedRun(const RunOptions& options, ProcessGroup& group);

  /// Whether nothing is left to do; this has been printed then.
  bool is_finished() const { return is_finished_; }

  const Config& config() const { return plan_.config; }
  const Corpus& corpus() const { return data_.corpus; }
  RunDirectory& directory() { return directory_; }
  std::uint64_t first_step() const { return plan_.checkpoint.step; }

  /// Restores the state of the trainer, and releases the memory of the checkpoint. Returns lines
  /// for the log. Changes that affect the results are also added to the history.
  std::vector<std::string> restore(Trainer& trainer);

 private:
  void make_plan(ProcessGroup& group);
  void lock_directory(ProcessGroup& group);
  void prepare_cache(bool read_only, ProcessGroup& group);
  bool resolve_length();
  bool report_finished(const RunOptions& options, ProcessGroup& group) const;

  ResumeRequest request_;
  RunDirectory directory_;
  ResumePlan plan_;
  ResumedCorpus data_;
  bool is_finished_ = false;
};

}  // namespace tapestry
