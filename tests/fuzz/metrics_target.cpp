#include "tests/fuzz/fuzz_target.h"
#include "train/error.h"
#include "train/metrics.h"
#include "train/metrics_reader.h"

using namespace tapestry;

/// Input: the text of a metrics.csv, as a checkpoint holds it.
void tapestry::fuzz::feed(std::string_view input) try {
  const std::string text(input);
  MetricsTable table(text, "x.h5");
  fuzz::require(table.csv() == text, "a table that is read is kept as it is");
  table.add({.step = 1, .loss = 0.5});
  table.add_validation(1, 1, {.tokens = 1, .decoded = 1});
  try {
    require_metrics(table.csv(), "x.h5");
  } catch (const CheckpointError&) {
    fuzz::require(false, "a table that is read can be gone on with");
  }
} catch (const CheckpointError& error) {
  fuzz::require_presentable(error.what());
  fuzz::require_presentable(error.hint());
}
