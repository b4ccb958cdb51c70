#include "train/commands/open_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <system_error>

#include "train/checkpoint.h"
#include "train/commands/beginning.h"
#include "train/commands/other_data.h"
#include "train/initialization.h"
#include "train/memory_need.h"
#include "train/objective.h"
#include "train/sentence_limit.h"

namespace tapestry {
namespace {

/// Both lists are of the same tensors in the same order.
void copy_all(const std::vector<NamedTensor>& from, const std::vector<NamedTensor>& to) {
  for (std::size_t i = 0; i < to.size(); ++i) copy_values(from[i].tensor, to[i].tensor);
}

std::unique_ptr<Model> copy_of(const Model& model, const Config& config, const Corpus& corpus,
                               DType dtype) {
  auto copy = std::make_unique<Model>(config.model, network_sizes(config, corpus), dtype,
                                      config.train.seed);
  copy_all(model.parameters.list(), copy->parameters.list());
  copy_all(model.parameters.buffers(), copy->parameters.buffers());
  return copy;
}

ConfiguredModel untrained(const std::string& path, const std::vector<std::string>& overrides) {
  Config config = load_config(path, overrides);
  auto [from, corpus] = begin_with(config);
  require_memory_for_model(config, corpus, read_available_memory());
  auto model = std::make_unique<Model>(config.model, network_sizes(config, corpus), DType::float64,
                                       config.train.seed);
  if (from) take_over(*from, config.train.initialize_from, corpus.target_vocabulary, *model);
  return {.config = std::move(config),
          .corpus = std::move(corpus),
          .origin = {.place = fmt::format("{}, initial values", path), .choice = ""},
          .trained = false,
          .model = std::move(model)};
}

ConfiguredModel trained(const std::string& path, const std::vector<std::string>& overrides) {
  auto [found, origin] = open_trained(path, overrides);
  Corpus corpus = load_corpus_of(found);
  auto model = copy_of(*found.model, found.config, corpus, DType::float64);
  return {.config = std::move(found.config),
          .corpus = std::move(corpus),
          .origin = std::move(origin),
          .trained = true,
          .model = std::move(model)};
}

}  // namespace

Batch ConfiguredModel::first_batch(std::size_t rows) const {
  std::vector<std::size_t> indices(std::min(rows, corpus.train.size()));
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  return make_batch(corpus.train, indices, batch_rules(config, corpus.target_vocabulary.size()));
}

std::unique_ptr<Model> ConfiguredModel::with_dtype(DType dtype) const {
  return copy_of(*model, config, corpus, dtype);
}

bool is_run_or_checkpoint(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) || path.extension() == ".h5";
}

OpenedModel open_trained(const std::string& path, const std::vector<std::string>& overrides) {
  auto [file, snapshot, choice] = open_run(path);
  TrainedModel found = load_model(snapshot);
  found.config = with_other_data(path, found.config, overrides);
  std::string place = fmt::format("{}, step {}", file.string(), found.step);
  return {.trained = std::move(found),
          .origin = {.place = std::move(place), .choice = std::move(choice)}};
}

ConfiguredModel open_model(const std::string& path, const std::vector<std::string>& overrides) {
  ConfiguredModel opened =
      is_run_or_checkpoint(path) ? trained(path, overrides) : untrained(path, overrides);
  require_fitting_sentences(opened.corpus, opened.config.model);
  return opened;
}

}  // namespace tapestry
