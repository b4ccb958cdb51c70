#include "train/trained_model.h"

#include "train/checkpoint/open_run.h"
#include "train/initial_state.h"

namespace tapestry {

TrainedModel load_trained_model(const std::filesystem::path& path) {
  return load_model(open_run(path.string()).snapshot);
}

}  // namespace tapestry
