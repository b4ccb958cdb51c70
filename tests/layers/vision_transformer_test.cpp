#include "layers/encoder_models.h"

#include <doctest/doctest.h>

#include "autograd/error.h"
#include "tests/layers/network_cases.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

KindOptions seeing(TransformerOptions options = small(),
                   PoolingKind pooling = PoolingKind::class_token) {
  options.pooling = pooling;
  return with_kind(options, ModelKind::vision_transformer);
}

constexpr PoolingKind both_kinds[] = {PoolingKind::class_token, PoolingKind::mean};

}  // namespace

TEST_CASE("a vision Transformer without layers scores its class token, or the mean of all tokens") {
  for (const PoolingKind pooling : both_kinds) {
    KindOptions options = seeing(small(), pooling);
    options.d_model = 1;
    options.num_heads = 1;
    options.num_encoder_layers = 0;
    options.norm = NormPlacement::post;
    options.positions = PositionKind::learned;
    options.patch_size = 1;
    options.max_length = 3;
    Parameters parameters(DType::float64, 1);
    const VisionTransformer model(Scope(parameters), options,
                                  {.height = 1, .width = 2, .channels = 1}, 2);
    set_values(parameters, "patches.projection.weight", {2});
    set_values(parameters, "patches.class_token", {7});
    set_values(parameters, "positions.weight", {100, 200, 300});
    set_values(parameters, "head.weight", {1, -1});
    set_values(parameters, "head.bias", {0.5, 0});
    const Network& network = model;
    const Tensor y =
        network({.images = Tensor::from({1, 2}, {4, 5}, DType::float64)}, Mode::inference());
    CHECK(y.shape() == Shape{1, 1, 2});
    // The tokens are 7 + 100, 8 + 200 and 10 + 300.
    const double pooled = pooling == PoolingKind::mean ? 625.0 / 3 : 107.0;
    check_values(y, {pooled + 0.5, -pooled});
  }
}

TEST_CASE("parameters of a vision Transformer outside its stack: patches, positions and head") {
  KindOptions options = seeing();
  CHECK(outside("encoder.", MadeNetwork(options).parameters) ==
        std::vector<std::string>{"patches.projection.weight (8, 8)", "patches.projection.bias (8)",
                                 "patches.class_token (1, 1, 8)", "head.weight (3, 8)",
                                 "head.bias (3)"});
  options.positions = PositionKind::learned;
  const MadeNetwork learned(options);
  CHECK(parameter(learned.parameters, "positions.weight").shape() == Shape{7, 8});
}

TEST_CASE("logits of an image depend on every pixel of it and on no other image") {
  for (const PoolingKind pooling : both_kinds) {
    const MadeNetwork made(seeing(small(), pooling));
    CHECK_FALSE(made.network->causal());
    const NetworkInput input = network_input();
    const Tensor before = (*made.network)(input, Mode::inference());
    CHECK(before.shape() == Shape{2, 1, classes});
    for (std::size_t pixel = 0; pixel < image_shape.values(); ++pixel) {
      Tensor images = input.images.copied(DType::float64);
      images.mutable_values<double>()[image_shape.values() + pixel] += 1.0;
      const Tensor after = (*made.network)({.images = images}, Mode::inference());
      CHECK(scores_at(before, 0, 0) == scores_at(after, 0, 0));
      CHECK(scores_at(before, 1, 0) != scores_at(after, 1, 0));
    }
  }
}

TEST_CASE("patches that change places change the logits, because of their positions only") {
  KindOptions options = seeing();
  const ImageShape image{.height = 1, .width = 2, .channels = 1};
  options.patch_size = 1;
  Parameters parameters(DType::float64, 1);
  const VisionTransformer model(Scope(parameters), options, image, classes);
  const Network& network = model;
  const auto scores = [&](double left, double right) {
    return values_of(network({.images = Tensor::from({1, 2}, {left, right}, DType::float64)},
                             Mode::inference()));
  };
  CHECK(scores(1, 2) != scores(2, 1));
}

TEST_CASE("the gradient of a vision Transformer agrees with differences, for every choice") {
  for (const PoolingKind pooling : both_kinds) {
    for (const TransformerOptions& options : every_choice()) {
      CAPTURE(static_cast<int>(options.norm));
      CAPTURE(static_cast<int>(options.activation));
      const MadeNetwork made(seeing(options, pooling));
      perturb(made.parameters);
      const Tensor images = random_leaf({2, image_shape.values()}, 3);
      const auto run = [&] {
        return (*made.network)({.images = images}, Mode::training(RandomStream(4)));
      };
      check_gradients(run, made.parameters, {images}, {.max_coordinates = 6});
    }
  }
}

TEST_CASE("a vision Transformer refuses images of another shape and more patches than positions") {
  const MadeNetwork made(seeing());
  CHECK_THROWS_WITH_AS(
      (*made.network)({.images = Tensor::zeros({2, 16}, DType::float64)}, Mode::inference()),
      "patches: patch embedding: images have shape (2, 16), expected (rows, 4 * 4 * "
      "2 values)",
      ShapeError);
  KindOptions options = seeing();
  options.patch_size = 1;
  const MadeNetwork finer(options);
  CHECK_THROWS_WITH_AS((*finer.network)(network_input(), Mode::inference()),
                       "positions: positions: the sequence has 17 tokens, expected at most 7 "
                       "(max_length)",
                       ShapeError);
}
