#include "train/inference/greedy_decoder.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "autograd/ops/reductions.h"
#include "autograd/ops/shape_ops.h"
#include "data/batch_schedule.h"
#include "data/text/vocabulary.h"
#include "train/inference/batch_tensors.h"

namespace tapestry {
namespace {

TokenBatch source_batch(const std::vector<Sentence>& sources) {
  std::vector<Example> pairs;
  for (const Sentence& source : sources) pairs.push_back({source, {}});
  std::vector<std::size_t> all(pairs.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return network_input(make_batch(pairs, all), DType::float32).source;
}

/// <bos> followed by the outputs so far, which all have the same length.
TokenBatch prefixes(const std::vector<Sentence>& outputs, std::size_t length) {
  TokenBatch batch{
      .ids = Ids(Shape{outputs.size(), length + 1}),
      .lengths = std::vector<std::int32_t>(outputs.size(), static_cast<std::int32_t>(length + 1))};
  for (std::size_t row = 0; row < outputs.size(); ++row) {
    batch.ids(row, 0) = bos_id;
    for (std::size_t t = 0; t < length; ++t) {
      batch.ids(row, t + 1) = t < outputs[row].size() ? outputs[row][t] : pad_id;
    }
  }
  return batch;
}

/// The maximum output length for a source; does not depend on other sources in the batch.
std::size_t longest_output(const Sentence& source, std::size_t max_length,
                           std::size_t max_positions) {
  const std::size_t wanted = max_length != 0 ? max_length : source.size() + 50;
  return std::min(wanted, max_positions - 1);
}

/// Adds the next token to an output; returns whether it is complete.
bool extend(Sentence& output, std::int32_t next, std::size_t longest) {
  if (next == eos_id) return true;
  output.push_back(next);
  return output.size() >= longest;
}

/// next_tokens  (prefixes) -> the most likely next token of each row
template <class NextTokens>
std::vector<Sentence> decode(const std::vector<Sentence>& sources, std::size_t max_length,
                             std::size_t positions, const NextTokens& next_tokens) {
  std::vector<Sentence> outputs(sources.size());
  std::vector<bool> ended(sources.size(), false);
  for (std::size_t t = 0; std::ranges::find(ended, false) != ended.end(); ++t) {
    const Ids next = next_tokens(prefixes(outputs, t));
    for (std::size_t row = 0; row < outputs.size(); ++row) {
      if (ended[row]) continue;
      ended[row] =
          extend(outputs[row], next[row], longest_output(sources[row], max_length, positions));
    }
  }
  return outputs;
}

/// The features of the last position.
Tensor last_of(const Tensor& features) {
  const std::size_t length = features.shape()[1];
  return slice(features, 1, length - 1, length);
}

}  // namespace

std::vector<Sentence> greedy_decode(const Transformer& model, const std::vector<Sentence>& sources,
                                    std::size_t max_length) {
  if (sources.empty()) return {};
  const TokenBatch source = source_batch(sources);
  const Tensor memory = model.encode(source, Mode::inference());
  return decode(sources, max_length, model.options().max_length, [&](const TokenBatch& prefix) {
    return argmax(model.logits(last_of(model.decode(prefix, memory, source, Mode::inference()))));
  });
}

std::vector<Sentence> greedy_decode(const Network& network, std::size_t positions,
                                    const std::vector<Sentence>& sources, std::size_t max_length) {
  if (sources.empty()) return {};
  if (const auto* model = dynamic_cast<const Transformer*>(&network.unwrapped())) {
    return greedy_decode(*model, sources, max_length);
  }
  NetworkInput input{.source = source_batch(sources)};
  return decode(sources, max_length, positions, [&](TokenBatch prefix) {
    input.target = std::move(prefix);
    const Mode mode = Mode::inference();
    return argmax(
        network.logits(last_of(network.features(network.embed(input, mode), input, mode))));
  });
}

double score_exact_matches(const Network& network, std::size_t positions,
                           const std::vector<Example>& pairs, std::size_t batch_size,
                           std::size_t max_decode_length) {
  std::size_t matches = 0;
  for (const BatchIndices& indices : evaluation_batches(pairs, batch_size)) {
    std::vector<Sentence> sources;
    for (const std::size_t i : indices) sources.push_back(pairs[i].source);
    const auto outputs = greedy_decode(network, positions, sources, max_decode_length);
    for (std::size_t row = 0; row < indices.size(); ++row) {
      matches += outputs[row] == pairs[indices[row]].target ? 1 : 0;
    }
  }
  return pairs.empty() ? 0.0 : static_cast<double>(matches) / static_cast<double>(pairs.size());
}

}  // namespace tapestry
