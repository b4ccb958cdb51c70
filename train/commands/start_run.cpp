#include "train/commands/start_run.h"

#include "autograd/kernels/parallel.h"
#include "train/commands/beginning.h"
#include "train/commands/new_run.h"
#include "train/commands/run_to_the_end.h"
#include "train/memory_need.h"
#include "train/objective.h"
#include "train/storage/run_lock.h"

namespace tapestry {

int start_run(const TrainArguments& arguments, TimeLimit::Clock::time_point started) {
  const Config config = load_config(arguments.config, arguments.overrides);
  kernels::set_num_threads(config.train.threads);
  const std::string& run_dir = config.train.run_dir;
  RunDirectory directory(run_dir);
  refuse_to_replace_files(directory);
  if (!arguments.fresh) refuse_to_replace_run(directory);
  const Beginning beginning = begin_with(config);
  const Corpus& corpus = beginning.corpus;
  const AvailableMemory available = read_available_memory();
  require_memory_for_model(config, corpus, available);
  Progress progress(stdout, 0, config.train.steps, words_for_targets(config));
  Trainer trainer(config, corpus, directory, progress);
  std::vector<std::string> initialized;
  if (beginning.model) initialized = trainer.initialize(*beginning.model);

  RunSignals signals;
  // Nothing is left that the user would have to correct: only now is anything written.
  if (arguments.fresh) move_aside(directory);
  directory.create();
  const RunLock lock(run_dir);
  refuse_to_replace_run(directory);  // another process may have been here before the lock
  directory.remove_stray_temporaries();
  write_config(directory, config);
  directory.probe(trainer.checkpoint_bytes());
  progress.log_to((directory.path() / "train.log").string());
  describe(trainer, corpus, run_dir, progress);
  for (const std::string& line : initialized) progress.message(line);
  prepare_memory(trainer, corpus, available, progress);
  return run_to_the_end(trainer, run_dir,
                        {.started = started, .signals = signals, .profiled = arguments.profile},
                        progress);
}

}  // namespace tapestry
