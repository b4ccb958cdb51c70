// SPDX-License-Identifier: BSD-3-Clause
#include "train/inference/forced_decoding.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <span>
#include <stdexcept>
#include <string_view>

#include "autograd/attention_trace.h"
#include "autograd/kernels/parallel.h"
#include "autograd/kernels/softmax.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/shape_ops.h"
#include "train/inference/batch_tensors.h"

namespace tapestry {
namespace {

/// The maximum number of positions whose logits are in memory at the same time.
constexpr std::size_t positions_at_once = 256;

/// log_softmax(logits)[label] of each row.
TokenScores label_scores(const Tensor& logits, std::span<const std::int32_t> labels) {
  const std::size_t width = logits.shape()[1];
  TokenScores scores(labels.size());
  dispatch(logits.dtype(), [&]<class T>() {
    const T* const values = logits.values<T>().data();
    kernels::parallel_rows(labels.size(), width, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        if (labels[i] == no_label) continue;
        const T* const row = values + i * width;
        const kernels::LogSumExp<T> sum = kernels::log_sum_exp(width, row);
        scores[i] = (row[labels[i]] - sum.largest) - sum.log_total;
      }
    });
  });
  return scores;
}

/// The scores of all labels of a batch, (rows, target_length).
TokenScores batch_scores(const Network& network, const Batch& batch) {
  const NetworkInput input = network_input(batch, DType::float32);
  const Mode mode = Mode::inference();
  const Tensor features = network.features(network.embed(input, mode), input, mode);
  const std::size_t count = batch.labels.size();
  const Tensor rows = reshape(features, {count, features.shape().back()});
  TokenScores scores;
  for (std::size_t begin = 0; begin < count; begin += positions_at_once) {
    const std::size_t end = std::min(count, begin + positions_at_once);
    const Tensor logits = network.logits(
        slice(rows, 0, static_cast<std::ptrdiff_t>(begin), static_cast<std::ptrdiff_t>(end)));
    const TokenScores part =
        label_scores(logits, std::span(batch.labels).subspan(begin, end - begin));
    scores.insert(scores.end(), part.begin(), part.end());
  }
  return scores;
}

}  // namespace

std::vector<TokenScores> score_pairs(const Network& network, const std::vector<Example>& pairs,
                                     std::size_t batch_tokens) {
  const PackedWeights packed;
  std::vector<TokenScores> scores(pairs.size());
  for (const std::vector<std::size_t>& indices : pair_batches(pairs, batch_tokens)) {
    const Batch batch = make_batch(pairs, indices);
    const TokenScores all = batch_scores(network, batch);
    for (std::size_t row = 0; row < indices.size(); ++row) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(row * batch.target_length);
      const auto length = static_cast<std::ptrdiff_t>(batch.target_lengths[row]);
      scores[indices[row]].assign(begin, begin + length);
    }
  }
  return scores;
}

std::vector<std::vector<std::size_t>> pair_batches(const std::vector<Example>& pairs,
                                                   std::size_t tokens) {
  const auto target = [&](std::size_t i) { return pairs[i].target.size() + 1; };
  const auto source = [&](std::size_t i) { return pairs[i].source.size() + 1; };
  std::vector<std::size_t> order(pairs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t i) { return source(i) + target(i); });
  std::vector<std::vector<std::size_t>> batches;
  std::size_t max_source = 0, max_target = 0;
  for (const std::size_t i : order) {
    const std::size_t with_source = std::max(max_source, source(i));
    const std::size_t with_target = std::max(max_target, target(i));
    const bool fits =
        !batches.empty() && (batches.back().size() + 1) * (with_source + with_target) <= tokens;
    if (!fits) batches.emplace_back();
    max_source = fits ? with_source : source(i);
    max_target = fits ? with_target : target(i);
    batches.back().push_back(i);
  }
  return batches;
}

namespace {

/// The maximum number of source and target tokens of a batch. It limits memory, which holds the
/// attention weights of all layers at the same time.
constexpr std::size_t batch_tokens = 2048;

std::vector<RecordedAttention> recorded(const Network& network, const Batch& batch) {
  const NetworkInput input = network_input(batch, DType::float32);
  const Mode mode = Mode::inference();
  const AttentionRecorder recorder;
  network.features(network.embed(input, mode), input, mode);
  return recorder.records();
}

/// The sum over heads of the weights of one pair, (target tokens, source tokens of the batch).
std::vector<double> summed_heads(const Tensor& weights, std::size_t row) {
  const std::size_t heads = weights.shape()[1], size = weights.shape()[2] * weights.shape()[3];
  std::vector<double> sum(size, 0.0);
  dispatch(weights.dtype(), [&]<class T>() {
    const T* const of_row = weights.values<T>().data() + row * heads * size;
    for (std::size_t h = 0; h < heads; ++h) {
      for (std::size_t i = 0; i < size; ++i) sum[i] += of_row[h * size + i];
    }
  });
  return sum;
}

}  // namespace

std::vector<std::string> cross_attention_layers(const Network& network) {
  const std::vector<Example> one{Example{}};
  std::vector<std::string> names;
  for (const RecordedAttention& record :
       recorded(network, make_batch(one, std::vector<std::size_t>{0}))) {
    if (record.path.ends_with("cross_attn")) names.push_back(record.path);
  }
  return names;
}

std::vector<std::vector<std::size_t>> align_tokens(const Network& network,
                                                   const std::vector<Example>& pairs,
                                                   const std::string& layer) {
  std::vector<std::vector<std::size_t>> alignments(pairs.size());
  for (const std::vector<std::size_t>& indices : pair_batches(pairs, batch_tokens)) {
    const auto records = recorded(network, make_batch(pairs, indices));
    const auto record = std::ranges::find(records, layer, &RecordedAttention::path);
    if (record == records.end()) {
      throw std::invalid_argument(fmt::format("align_tokens: there is no layer {}", layer));
    }
    const std::size_t width = record->weights.shape()[3];
    for (std::size_t row = 0; row < indices.size(); ++row) {
      const Example& pair = pairs[indices[row]];
      if (pair.source.empty()) continue;
      const std::vector<double> sum = summed_heads(record->weights, row);
      for (std::size_t t = 0; t < pair.target.size(); ++t) {
        const auto begin = sum.begin() + static_cast<std::ptrdiff_t>(t * width);
        const auto end = begin + static_cast<std::ptrdiff_t>(pair.source.size());
        alignments[indices[row]].push_back(
            static_cast<std::size_t>(std::max_element(begin, end) - begin));
      }
    }
  }
  return alignments;
}

std::vector<std::size_t> word_indices(const Vocabulary& vocabulary,
                                      std::span<const std::int32_t> ids) {
  constexpr std::string_view space_mark = "\u2581";
  const bool subwords = vocabulary.subwords() != nullptr;
  std::vector<std::size_t> words;
  std::size_t word = 0;
  bool only_marks = true;  // whether the word consists only of space marks so far
  for (const std::int32_t id : ids) {
    const std::string& token = vocabulary.token(id);
    const bool begins = !subwords || token.starts_with(space_mark);
    if (begins && !words.empty() && !(subwords && only_marks)) {
      ++word;
      only_marks = true;
    }
    only_marks = only_marks && token == space_mark;
    words.push_back(word);
  }
  return words;
}

std::vector<WordLink> link_words(const std::vector<std::size_t>& alignment,
                                 const std::vector<std::size_t>& source_words,
                                 const std::vector<std::size_t>& target_words) {
  std::set<WordLink> links;
  for (std::size_t t = 0; t < alignment.size(); ++t) {
    links.insert({.target = target_words.at(t), .source = source_words.at(alignment[t])});
  }
  return {links.begin(), links.end()};
}

}  // namespace tapestry
