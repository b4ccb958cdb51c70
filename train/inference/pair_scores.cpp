#include "train/inference/pair_scores.h"

#include <algorithm>
#include <span>

#include "autograd/kernels/parallel.h"
#include "autograd/kernels/softmax.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/shape_ops.h"
#include "train/inference/batch_tensors.h"
#include "train/inference/pair_batches.h"

namespace tapestry {
namespace {

/// The most positions whose logits are in memory at once.
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

}  // namespace tapestry
