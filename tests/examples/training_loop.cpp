// SPDX-License-Identifier: BSD-3-Clause
// Trains a Transformer with a custom loop: layers, a tape and an optimizer, without the trainer,
// configs or run directories. The model learns to reverse sequences of five symbols.

#include <tapestry/autograd/random.h>
#include <tapestry/autograd/tape.h>
#include <tapestry/layers/parameters.h>
#include <tapestry/layers/transformer.h>
#include <tapestry/optim/adam.h>
#include <tapestry/optim/optimizer.h>

#include <cstdint>
#include <cstdio>
#include <vector>

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
  Example batch{.source = {.ids = Ids::zeros({rows, length}),
                           .lengths = std::vector<std::int32_t>(rows, length)},
                .target = {},
                .labels = Ids::zeros({rows, length})};
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
  const std::size_t vocabulary = first_symbol + symbols;
  // README.md quotes from here
  Parameters parameters(DType::float32, /*seed=*/1);
  const Transformer model(parameters, {.d_model = 32, .num_heads = 2, .d_ff = 64}, vocabulary,
                          vocabulary, padding);
  parameters.gather();
  Adam adam(parameters.list(), {});
  for (std::size_t step = 0; step < 400; ++step) {
    const Example batch = draw(step);
    const Mode mode = Mode::training(RandomStream(1).named("dropout").at(step));
    parameters.zero_grad();
    Tape tape;
    const Tensor memory = model.encode(batch.source, mode);
    const Tensor decoded = model.decode(batch.target, memory, batch.source, mode);
    const Tensor loss = model.loss(decoded, batch.labels, {}).mean;
    tape.backward(loss);
    adam.step(3e-3, clip_factor(global_gradient_norm(parameters.list()), 1.0));
    if (step % 100 == 0) std::printf("step %3zu  loss %.4f\n", step, loss.item());
  }
  // to here.
  const Example held_out = draw(400);
  const Tensor memory = model.encode(held_out.source, Mode::inference());
  const Tensor decoded = model.decode(held_out.target, memory, held_out.source, Mode::inference());
  const double loss = model.loss(decoded, held_out.labels, {}).mean.item();
  std::printf("%zu parameters, loss on a new batch %.4f\n", parameters.num_values(), loss);
  return loss < 0.1 ? 0 : 1;
}
