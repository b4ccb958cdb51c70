// SPDX-License-Identifier: BSD-3-Clause
#include "train/inference/beam_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <numeric>
#include <span>
#include <stdexcept>
#include <utility>

#include "autograd/kernels/matmul.h"
#include "autograd/kernels/parallel.h"
#include "autograd/ops/linear.h"
#include "autograd/profiler.h"
#include "train/config/config.h"
#include "train/inference/batch_tensors.h"
#include "train/inference/sampler.h"
#include "train/inference/source_search.h"

namespace tapestry {
namespace {

template <class T>
void require(bool valid, const char* name, T value, const std::string& expected) {
  if (valid) return;
  throw std::invalid_argument(
      fmt::format("beam_search: {} is {}, expected {}", name, value, expected));
}

void require_valid(const SamplingOptions& o) {
  require(o.temperature >= 0 && std::isfinite(o.temperature), "temperature", o.temperature,
          "a finite number >= 0");
  require(o.top_p > 0 && o.top_p <= 1, "top_p", o.top_p, "a number in (0, 1]");
  require(o.repetition_penalty > 0 && std::isfinite(o.repetition_penalty), "repetition_penalty",
          o.repetition_penalty, "a finite number > 0");
}

void require_valid(const SearchOptions& o) {
  require(o.beam_size > 0, "beam_size", o.beam_size, "1 or more");
  require(o.batch_size > 0, "batch_size", o.batch_size, "1 or more");
  if (o.sampling) {
    require(o.num_best > 0, "num_best", o.num_best, "1 or more samples");
    require_valid(*o.sampling);
  } else {
    require(o.num_best > 0 && o.num_best <= o.beam_size, "num_best", o.num_best,
            fmt::format("1 to {} (beam_size)", o.beam_size));
  }
  require(o.length_penalty >= 0 && std::isfinite(o.length_penalty), "length_penalty",
          o.length_penalty, "a finite number >= 0");
  require(o.max_length == 0 || o.min_length <= o.max_length, "min_length", o.min_length,
          fmt::format("at most {} (max_length)", o.max_length));
}

/// 0, 1, ..., count - 1.
std::vector<std::size_t> first_indices(std::size_t count) {
  std::vector<std::size_t> indices(count);
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  return indices;
}

TokenBatch source_batch(const std::vector<SearchInput>& inputs,
                        std::span<const std::size_t> indices) {
  std::vector<Example> examples;
  for (const std::size_t i : indices) examples.push_back({.source = inputs[i].source});
  return network_input(make_batch(examples, first_indices(examples.size())), DType::float32).source;
}

/// The maximum length of an output, at most positions - 1, since <bos> takes one position.
std::size_t max_output_length(const SearchInput& input, std::size_t positions,
                              const SearchOptions& options) {
  if (input.prefix.size() >= positions) {
    throw std::invalid_argument(
        fmt::format("beam_search: a prefix has {} tokens, expected fewer than {} (positions)",
                    input.prefix.size(), positions));
  }
  const std::size_t wanted =
      options.max_length != 0 ? options.max_length : input.source.size() + 50;
  return std::min(wanted, positions - 1);
}

/// The searches for a batch of sources, which advance together.
class BatchSearch {
 public:
  BatchSearch(const Network& network, std::size_t positions, const std::vector<SearchInput>& inputs,
              std::span<const std::size_t> batch, const SearchOptions& options)
      : options_(options),
        decoder_(make_decoder(network, source_batch(inputs, batch))),
        inputs_(batch.begin(), batch.end()) {
    for (const std::size_t i : batch) {
      searches_.emplace_back(inputs[i], max_output_length(inputs[i], positions, options), options);
    }
  }

  /// Writes the outputs of input i to results[i].
  void run(std::vector<std::vector<Hypothesis>>& results) {
    for (slots_ = 1; !searches_.empty(); slots_ = SourceSearch::slots(options_)) {
      const std::vector<std::size_t> rows = advance(decoder_->extend(last_tokens()));
      select(rows, results);
    }
  }

 private:
  Ids last_tokens() const {
    Ids tokens = Ids::zeros({searches_.size() * slots_, 1});
    for (std::size_t row = 0; row < tokens.size(); ++row) {
      tokens[row] = searches_[row / slots_].last_token(row % slots_);
    }
    return tokens;
  }

  /// Advances all searches on all threads, since the searches are independent. Returns the old row
  /// of each new row.
  std::vector<std::size_t> advance(const Tensor& logits) {
    // Of these beam_size + 3 tokens, at least beam_size are not <pad>, <bos> or <eos>.
    const NextLogits next(logits, options_.sampling ? 0 : options_.beam_size + 3);
    std::vector<std::vector<std::size_t>> parents(searches_.size());
    kernels::parallel_for(searches_.size(), [&](std::size_t i) {
      parents[i] = searches_[i].advance(next, i * slots_);
    });
    std::vector<std::size_t> rows;
    for (std::size_t i = 0; i < searches_.size(); ++i) {
      for (const std::size_t slot : parents[i]) rows.push_back(i * slots_ + slot);
    }
    return rows;
  }

  /// Lets the decoder continue with the new rows. Once the searches of an eighth of the sources are
  /// done, their outputs are written and they leave the batch. This copies all caches and is
  /// therefore not done for every source.
  void select(const std::vector<std::size_t>& rows, std::vector<std::vector<Hypothesis>>& results) {
    const auto done = static_cast<std::size_t>(std::ranges::count_if(
        searches_, [](const SourceSearch& search) { return search.is_done(); }));
    const bool leave = 8 * done >= searches_.size();
    const std::size_t slots = SourceSearch::slots(options_);
    std::vector<std::size_t> sources, kept, inputs;
    std::vector<SourceSearch> searches;
    for (std::size_t i = 0; i < searches_.size(); ++i) {
      if (leave && searches_[i].is_done()) {
        results[inputs_[i]] = searches_[i].results();
        continue;
      }
      sources.push_back(i);
      inputs.push_back(inputs_[i]);
      for (std::size_t slot = 0; slot < slots; ++slot) kept.push_back(rows[i * slots + slot]);
      searches.push_back(std::move(searches_[i]));
    }
    inputs_ = std::move(inputs);
    searches_ = std::move(searches);
    if (!searches_.empty()) decoder_->select(kept, sources);
  }

  const SearchOptions& options_;
  std::unique_ptr<IncrementalDecoder> decoder_;
  std::vector<std::size_t> inputs_;  // the index of the input of each search
  std::vector<SourceSearch> searches_;
  std::size_t slots_ = 1;  // number of rows of each source
};

/// The number of inputs, in descending order of length, that form the next batch.
std::size_t next_batch_size(const std::vector<SearchInput>& inputs,
                            std::span<const std::size_t> order, const SearchOptions& options) {
  const std::size_t max_inputs = std::min(options.batch_size, order.size());
  if (options.batch_tokens == 0) return max_inputs;
  const std::size_t width = inputs[order.front()].source.size() + 1;  // source tokens and <eos>
  return std::clamp<std::size_t>(options.batch_tokens / width, 1, max_inputs);
}

using Batches = std::vector<std::vector<std::size_t>>;

/// Batches of inputs of similar length, as indices, the longest inputs first.
Batches batches_by_length(const std::vector<SearchInput>& inputs, const SearchOptions& options) {
  std::vector<std::size_t> order = first_indices(inputs.size());
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t i) { return inputs[i].source.size(); });
  Batches batches;
  for (auto rest = std::span(order); !rest.empty(); rest = rest.subspan(batches.back().size())) {
    const auto batch = rest.first(next_batch_size(inputs, rest, options));
    batches.emplace_back(batch.begin(), batch.end());
  }
  return batches;
}

/// The batches, each divided into one part per thread, or into fewer parts if a part would have too
/// few rows for fast matrix products.
///
/// slots  number of rows per source
Batches divided(const Batches& batches, std::size_t slots) {
  constexpr std::size_t min_rows = 32;  // rows of a part
  Batches all;
  for (const std::vector<std::size_t>& batch : batches) {
    const std::size_t max_parts = std::min(kernels::threads_at_work(), batch.size());
    const std::size_t count =
        std::clamp<std::size_t>(batch.size() * slots / min_rows, 1, max_parts);
    Batches parts(count);
    for (std::size_t i = 0; i < batch.size(); ++i) parts[i % count].push_back(batch[i]);
    std::ranges::move(parts, std::back_inserter(all));
  }
  return all;
}

/// Whether each thread searches parts of batches independently. False if most threads would have no
/// part, and with a Profiler, which measures only one thread. Also false with OpenBLAS: its
/// rounding of a row depends on the other rows of the batch, and results must not depend on the
/// number of threads.
bool should_search_independently(std::size_t parts) {
  return 2 * parts >= kernels::threads_at_work() && execution_context().profiler == nullptr &&
         matmul_in_use() != Matmul::openblas;
}

}  // namespace

std::vector<std::vector<Hypothesis>> search_outputs(const Network& network, std::size_t positions,
                                                    const std::vector<SearchInput>& inputs,
                                                    const SearchOptions& options) {
  require_valid(options);
  std::vector<std::vector<Hypothesis>> results(inputs.size());
  const PackedWeights packed;
  const auto search =
      [&, outer = execution_context().packed_weights](const std::vector<std::size_t>& batch) {
        const PackedWeights shared(outer);
        BatchSearch(network, positions, inputs, batch, options).run(results);
      };
  const Batches batches = batches_by_length(inputs, options);
  const Batches parts = divided(batches, SourceSearch::slots(options));
  if (should_search_independently(parts.size())) {
    kernels::parallel_for(parts.size(), [&](std::size_t i) { search(parts[i]); });
  } else {
    for (const std::vector<std::size_t>& batch : batches) search(batch);
  }
  return results;
}

std::vector<std::vector<Hypothesis>> beam_search(const Network& network, std::size_t positions,
                                                 const std::vector<Sentence>& sources,
                                                 const SearchOptions& options) {
  std::vector<SearchInput> inputs;
  for (const Sentence& source : sources) {
    inputs.push_back({.source = source, .number = inputs.size()});
  }
  return search_outputs(network, positions, inputs, options);
}

std::size_t bounded_batch_size(const SearchOptions& options, std::size_t vocabulary) {
  constexpr std::size_t max_logits = std::size_t{1} << 26;
  const std::size_t of_source = SourceSearch::slots(options) * vocabulary;
  return std::clamp<std::size_t>(max_logits / of_source, 1, options.batch_size);
}

SearchOptions search_options(const Config& config) {
  return {.beam_size = config.decoding.beam_size,
          .length_penalty = config.decoding.length_penalty,
          .max_length = config.train.max_decode_length,
          .batch_size = config.train.batch_size};
}

std::vector<Sentence> decode(const Network& network, std::size_t positions,
                             const std::vector<Sentence>& sources, const SearchOptions& options) {
  std::vector<Sentence> outputs;
  for (std::vector<Hypothesis>& found : beam_search(network, positions, sources, options)) {
    const bool is_output = !found.empty() && !std::isnan(found.front().log_probability);
    outputs.push_back(is_output ? std::move(found.front().tokens) : Sentence{});
  }
  return outputs;
}

}  // namespace tapestry
