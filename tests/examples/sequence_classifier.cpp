// SPDX-License-Identifier: BSD-3-Clause
// Trains a Transformer, composed of single layers, to classify sequences of different lengths: does
// the first token occur again? sequence_classifier.py is the same program in PyTorch.

#include <tapestry.h>

#include <chrono>
#include <cstdio>

using namespace tapestry;

namespace {

constexpr std::size_t vocabulary = 16, min_length = 6, max_length = 16, d_model = 64, classes = 2;
constexpr std::int32_t padding = 0;

struct Sequences {
  Ids tokens;   // (n, max_length)
  Ids lengths;  // (n)
  Ids labels;   // (n, 1)

  Sequences operator[](const Ids& rows) const {
    return {tokens[rows], lengths[rows], labels[rows]};
  }
};

Sequences random_sequences(std::size_t n, const RandomStream& random) {
  Sequences all{random_ids({n, max_length}, random.named("tokens"), 1, vocabulary),
                random_ids({n}, random.named("lengths"), min_length, max_length + 1),
                Ids::zeros({n, 1})};
  for (std::size_t row = 0; row < n; ++row) {
    for (std::size_t i = 1; i < max_length; ++i) {
      if (std::cmp_greater_equal(i, all.lengths[row])) all.tokens(row, i) = padding;
      if (all.tokens(row, i) == all.tokens(row, 0)) all.labels[row] = 1;
    }
  }
  return all;
}

/// Self-attention and feed-forward, each in a residual block with pre-norm.
struct Block {
  Scope scope;
  LayerNorm norm1{scope / "norm1", d_model}, norm2{scope / "norm2", d_model};
  MultiHeadAttention attention{scope / "attention", d_model, {.num_heads = 4, .dropout = 0.1}};
  FeedForward feed_forward{scope / "feed_forward", d_model, {.d_ff = 128, .dropout = 0.1}};
  Dropout dropout1{scope / "dropout1", 0.1}, dropout2{scope / "dropout2", 0.1};

  Tensor operator()(const Tensor& x, const AttentionMask& mask, const Mode& mode) const {
    const Tensor h = norm1(x);
    const Tensor y = x + dropout1(attention(h, h, mask, mode), mode);
    return y + dropout2(feed_forward(norm2(y), mode), mode);
  }
};

struct SequenceClassifier {
  Scope scope;
  Embedding embedding{scope / "embedding", vocabulary, d_model, {.padding_id = padding}};
  Positions positions{
      scope / "positions", d_model, {.kind = PositionKind::learned, .max_length = max_length}};
  Block block1{scope / "block1"}, block2{scope / "block2"};
  LayerNorm norm{scope / "norm", d_model};
  Linear output{scope / "output", d_model, classes};

  /// Logits (rows, 1, classes).
  Tensor operator()(const Sequences& batch, const Mode& mode) const {
    const AttentionMask mask = AttentionMask::padding(batch.lengths);
    Tensor x = positions(embedding(batch.tokens));
    x = block2(block1(x, mask, mode), mask, mode);
    return output(pool(PoolingKind::mean, norm(x), batch.lengths));
  }
};

}  // namespace

int main() {
  set_num_threads(2);
  const Sequences train = random_sequences(20000, RandomStream(1));
  const Sequences test = random_sequences(1000, RandomStream(2));
  Parameters parameters(DType::float32, /*seed=*/1);
  const SequenceClassifier model{parameters};
  Adam optimizer(parameters.list(), {});
  const DataLoader loader(train.labels.size(), {.batch_size = 64});
  const auto start = std::chrono::steady_clock::now();
  for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
    double loss_sum = 0.0;
    for (const auto& indices : loader.epoch(epoch)) {
      parameters.zero_grad();
      const Sequences batch = train[Ids(indices)];
      const Mode mode = Mode::training(RandomStream(1).at(optimizer.steps()));
      Tape tape;
      const Tensor loss = cross_entropy(model(batch, mode), batch.labels).mean;
      tape.backward(loss);
      optimizer.step(2e-3, clip_factor(global_gradient_norm(parameters.list()), 1.0));
      loss_sum += loss.item();
    }
    const double batches = double(loader.batches_per_epoch());
    std::printf("epoch %d  loss %.4f\n", int(epoch) + 1, loss_sum / batches);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("trained in %.3f s\n", seconds.count());

  const double score = accuracy(model(test, Mode::inference()), test.labels);
  std::printf("accuracy on %zu held-out sequences: %.1f %%\n", test.labels.size(), 100.0 * score);
  return score > 0.95 ? 0 : 1;
}
