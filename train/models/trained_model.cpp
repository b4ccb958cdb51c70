#include "train/models/trained_model.h"

#include <utility>

#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/open_run.h"

namespace tapestry {

TrainedModel load_model(const ArrayStore& snapshot) {
  Config config = saved_config(snapshot);
  FixedVocabularies words = saved_vocabularies(snapshot);
  TextCodec codec = make_codec(config.data, std::move(words.source), *std::move(words.target));
  auto model = std::make_unique<Model>(
      network_maker(config,
                    network_sizes(config, codec.source_vocabulary(), codec.target_vocabulary())),
      config.train.dtype);
  restore_model(snapshot, *model);
  return {.config = std::move(config),
          .codec = std::move(codec),
          .model = std::move(model),
          .data = data_identity(snapshot),
          .step = saved_step(snapshot)};
}

TrainedModel load_trained_model(const std::filesystem::path& path) {
  return load_model(open_run(path.string()).arrays);
}

}  // namespace tapestry
