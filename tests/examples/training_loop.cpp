// Trains a Transformer with a loop of one's own: the layers, a tape and an optimizer, without the
// trainer, configs or run directories. It learns to say a sequence of five symbols backwards.

#include <algorithm>
#include <cstdio>

#include "autograd/random.h"
#include "autograd/tape.h"
#include "layers/parameters.h"
#include "layers/transformer.h"
#include "optim/adam.h"
#include "optim/clip.h"

using namespace tapestry;

namespace {

constexpr std::size_t rows = 32, length = 5, symbols = 8;
constexpr std::int32_t padding = 0, begin = 1, first_symbol = 2;

struct Example {
  TokenBatch source, target;
  Ids labels;
};

/// Random sequences; the decoder reads <begin> and the answer, and predicts the answer.
Example draw(std::size_t step) {
  const RandomStream random = RandomStream(1).at(step);
  Example batch{.source = {.ids = Ids(Shape{rows, length}),
                           .lengths = std::vector<std::int32_t>(rows, length)},
                .target = {},
                .labels = Ids(Shape{rows, length})};
  batch.target = batch.source;
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < length; ++i) {
      const double u = random.uniform(row * length + i);
      batch.source.ids(row, i) = first_symbol + static_cast<std::int32_t>(u * symbols);
    }
    for (std::size_t i = 0; i < length; ++i) {
      batch.labels(row, i) = batch.source.ids(row, length - 1 - i);
      batch.target.ids(row, i) = i == 0 ? begin : batch.labels(row, i - 1);
    }
  }
  return batch;
}

}  // namespace

int main() {
  Parameters parameters(DType::float32, /*seed=*/1);
  const std::size_t vocabulary = first_symbol + symbols;
  const Transformer model(Scope(parameters),
                          {.d_model = 32,
                           .num_heads = 2,
                           .num_encoder_layers = 1,
                           .num_decoder_layers = 1,
                           .d_ff = 64,
                           .dropout = 0.0,
                           .max_length = length},
                          vocabulary, vocabulary, padding);
  parameters.gather();
  Adam adam(parameters.list(), {});

  double loss_value = 0.0;
  for (std::size_t step = 0; step < 400; ++step) {
    const Example batch = draw(step);
    parameters.clear_gradients();
    Tape tape;
    const Tensor memory = model.encode(batch.source);
    const Tensor decoded = model.decode(batch.target, memory, batch.source);
    const Tensor loss = model.loss(decoded, batch.labels, {}).mean;
    tape.backward(loss);
    adam.step(3e-3, clip_factor(global_gradient_norm(parameters.list()), 1.0));
    loss_value = loss.item();
    if (step % 100 == 0) std::printf("step %3zu  loss %.4f\n", step, loss_value);
  }
  std::printf("%zu parameters, loss %.4f\n", parameters.num_values(), loss_value);
  return loss_value < 0.1 ? 0 : 1;
}
