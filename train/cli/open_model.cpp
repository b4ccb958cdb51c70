// SPDX-License-Identifier: BSD-3-Clause
#include "train/cli/open_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "train/cli/open_trained.h"
#include "train/config/load.h"
#include "train/loop/memory_need.h"
#include "train/models/run_data.h"
#include "train/models/trained_model.h"
#include "train/tasks/task.h"
#include "train/tasks/task_data.h"

namespace tapestry {
namespace {

/// Copies the values of all tensors. Both lists must have the same tensors in the same order.
void copy_all(const std::vector<NamedTensor>& from, const std::vector<NamedTensor>& to) {
  for (std::size_t i = 0; i < to.size(); ++i) copy_values(from[i].tensor, to[i].tensor);
}

std::unique_ptr<Model> copy_model(const Model& model, const Config& config, const Corpus& corpus,
                                  DType dtype) {
  auto copy = std::make_unique<Model>(network_maker(config, network_sizes(config, corpus)), dtype);
  copy_all(model.parameters.list(), copy->parameters.list());
  copy_all(model.parameters.buffers(), copy->parameters.buffers());
  return copy;
}

ModelWithData untrained(const std::string& path, const std::vector<std::string>& overrides) {
  Config config = load_config(path, overrides);
  auto [from, corpus] = load_initial_state(config);
  require_memory_for_model(config, corpus, read_available_memory());
  auto model = std::make_unique<Model>(network_maker(config, network_sizes(config, corpus)),
                                       DType::float64, config.train.seed);
  if (from) load_pretrained(*from, config.train.initialize_from, corpus.target_vocabulary, *model);
  return {.config = std::move(config),
          .corpus = std::move(corpus),
          .origin = {.place = fmt::format("{}, initial values", path), .choice = ""},
          .trained = false,
          .model = std::move(model)};
}

ModelWithData trained(const std::string& path, const std::vector<std::string>& overrides) {
  auto [found, origin] = open_trained(path, overrides);
  Corpus corpus = load_corpus_for(found, DataUse::examples, overrides);
  auto model = copy_model(*found.model, found.config, corpus, DType::float64);
  return {.config = std::move(found.config),
          .corpus = std::move(corpus),
          .origin = std::move(origin),
          .trained = true,
          .model = std::move(model)};
}

}  // namespace

Batch ModelWithData::first_batch(std::size_t rows) const {
  const Examples examples = !corpus.training().empty()   ? corpus.training()
                            : !corpus.validation.empty() ? Examples(corpus.validation)
                                                         : Examples(corpus.test);
  std::vector<std::size_t> indices(std::min(rows, examples.size()));
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  return make_batch(examples, indices, batch_rules(config, corpus.target_vocabulary.size()));
}

std::unique_ptr<Model> ModelWithData::with_dtype(DType dtype) const {
  return copy_model(*model, config, corpus, dtype);
}

ModelWithData open_model(const std::string& path, const std::vector<std::string>& overrides) {
  ModelWithData opened =
      is_run_or_checkpoint(path) ? trained(path, overrides) : untrained(path, overrides);
  require_fitting_examples(opened.corpus, opened.config);
  try_network(opened.config, *opened.model, opened.first_batch(1));
  apply_process_settings(opened.config.train);
  return opened;
}

}  // namespace tapestry
