// SPDX-License-Identifier: BSD-3-Clause
// Trains a multilayer perceptron to recognize digits of 8 x 8 pixels, and saves its parameters.
//
//     digits_mlp [digits.csv]
//
// Each line of the file has 64 pixels from 0 to 16 and a label, like the handwritten digits of the
// UCI repository [1] in scikit-learn. Without a file, noisy images of a font are generated.
// digits_mlp.py is the same program in PyTorch.
//
// [1] Alpaydin & Kaynak 1998, "Optical Recognition of Handwritten Digits".

#include <tapestry.h>
#include <tapestry/data/batch.h>
#include <tapestry/data/readers/images.h>

#include <chrono>
#include <cstdio>
#include <numeric>

using namespace tapestry;

namespace {

constexpr std::size_t pixels = 64, classes = 10;

struct Digits {
  Tensor images;  // (n, 64)
  Ids labels;     // (n)
};

/// n images of the digits of a font, with noise. Each byte of the font is a row of 8 pixels.
Digits generated_digits(std::size_t n, const RandomStream& random) {
  constexpr std::uint64_t font[] = {0x3E63737B6F673E00, 0x0C0E0C0C0C0C3F00, 0x1E33301C06333F00,
                                    0x1E33301C30331E00, 0x383C36337F307800, 0x3F031F3030331E00,
                                    0x1C06031F33331E00, 0x3F3330180C0C0C00, 0x1E33331E33331E00,
                                    0x1E33333E30180E00};
  std::vector<float> bits;
  for (const std::uint64_t glyph : font) {
    for (std::size_t bit = 0; bit < pixels; ++bit) bits.push_back(glyph >> bit & 1 ? 1.0F : 0.0F);
  }
  const Ids labels = random_ids({n}, random.named("labels"), 0, classes);
  const Tensor noise = random_normal({n, pixels}, random.named("noise"), 0.0, 0.5);
  return {Tensor::from({classes, pixels}, bits)[labels] + noise, labels};
}

Digits to_digits(const std::vector<Example>& examples) {
  std::vector<std::size_t> all(examples.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  const Batch batch = make_batch(examples, all, {.layout = class_rows});
  return {Tensor::from({batch.rows, pixels}, batch.pixels), Ids(batch.labels)};
}

auto make_model(Parameters& parameters) {
  const Scope scope(parameters);
  return Sequential{Linear(scope / 0, pixels, 128), relu, Dropout(scope / 2, 0.1),
                    Linear(scope / 3, 128, 64),     relu, Linear(scope / 5, 64, classes)};
}

}  // namespace

int main(int argc, char** argv) {
  set_num_threads(2);
  Digits train = generated_digits(1437, RandomStream(1));
  Digits test = generated_digits(360, RandomStream(2));
  if (argc > 1) {
    const Corpus corpus = load_images({.train_images = argv[1], .pixel_maximum = 16.0},
                                      {.validation = 0, .test = 360}, ".");
    train = to_digits(corpus.train);
    test = to_digits(corpus.test);
  }

  Parameters parameters(DType::float32, /*seed=*/1);
  const auto model = make_model(parameters);
  AdamW optimizer(parameters.list(), {.weight_decay = 0.01});
  const DataLoader loader(train.labels.size(), {.batch_size = 32});
  const auto start = std::chrono::steady_clock::now();
  for (std::uint64_t epoch = 0; epoch < 20; ++epoch) {
    double loss_sum = 0.0;
    for (const auto& batch : loader.epoch(epoch)) {
      parameters.zero_grad();
      const Mode mode = Mode::training(RandomStream(1).at(optimizer.steps()));
      Tape tape;
      const Tensor logits = model(train.images[Ids(batch)], mode);
      const Tensor loss = cross_entropy(logits, train.labels[Ids(batch)]).mean;
      tape.backward(loss);
      optimizer.step(2e-3);
      loss_sum += loss.item();
    }
    const double batches = double(loader.batches_per_epoch());
    if (epoch % 5 == 4) std::printf("epoch %2d  loss %.4f\n", int(epoch) + 1, loss_sum / batches);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("trained in %.3f s\n", seconds.count());

  save_parameters(parameters, "digits_mlp.h5");
  Parameters loaded(DType::float32, /*seed=*/2);
  const auto same_model = make_model(loaded);
  load_parameters(loaded, "digits_mlp.h5");
  const double score = accuracy(same_model(test.images, Mode::inference()), test.labels);
  std::printf("accuracy on %zu held-out images: %.1f %%\n", test.labels.size(), 100.0 * score);
  return score > 0.95 ? 0 : 1;
}
