#include "tests/train/wiring/model_reference.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "autograd/random.h"
#include "tests/support/threads.h"
#include "tests/train/wiring/model_kinds.h"
#include "tests/train/wiring/model_results.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// Draws one of several values; the n-th draw of a seed is always the same.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : random_(RandomStream(seed).named("combinations")) {}

  template <class T, std::size_t n>
  T one_of(const T (&values)[n]) {
    return values[static_cast<std::size_t>(random_.uniform(count_++) * n)];
  }

 private:
  RandomStream random_;
  std::uint64_t count_ = 0;
};

/// Options that a config allows, with every choice drawn by itself.
KindOptions combination(const KindCase& kind, std::uint64_t seed) {
  Draws draws(seed);
  KindOptions o = base_options(kind);
  o.d_model = draws.one_of<std::size_t>({4, 8, 12});
  o.num_heads = draws.one_of<std::size_t>({1, 2, 4});
  o.d_head = draws.one_of<std::size_t>({0, 2, 6});
  o.score = draws.one_of({AttentionScore::scaled_dot_product, AttentionScore::dot_product,
                          AttentionScore::additive, AttentionScore::bilinear});
  o.window = draws.one_of<std::size_t>({0, 1, 2});
  o.num_encoder_layers = draws.one_of<std::size_t>({1, 2, 3});
  o.num_decoder_layers = draws.one_of<std::size_t>({1, 2, 3});
  o.d_ff = draws.one_of<std::size_t>({5, 16});
  o.skip_scale = draws.one_of({1.0, 0.5, 0.0});
  o.sublayer_scale = draws.one_of({1.0, 2.0, 0.7});
  o.norm = draws.one_of({NormPlacement::pre, NormPlacement::post});
  o.normalization =
      draws.one_of({Normalization::layer_norm, Normalization::rms_norm, Normalization::batch_norm});
  o.activation = draws.one_of({Activation::relu, Activation::gelu, Activation::gelu_tanh,
                               Activation::silu, Activation::swiglu, Activation::geglu});
  o.positions = draws.one_of({PositionKind::sinusoidal, PositionKind::learned, PositionKind::none,
                              PositionKind::rotary, PositionKind::alibi});
  o.tie_embeddings =
      draws.one_of({TiedEmbeddings::none, TiedEmbeddings::target, TiedEmbeddings::all});
  o.pooling = draws.one_of({PoolingKind::class_token, PoolingKind::mean});
  o.patch_size = draws.one_of<std::size_t>({2, 4});
  o.layer_norm_epsilon = draws.one_of({1e-5, 0.1});
  if (predicts_classes(kind.name)) o.tie_embeddings = TiedEmbeddings::none;
  if (draws.one_of({0, 0, 0, 1}) == 1) {
    o.attention = AttentionKind::parameter_free;
    o.num_heads = 1;
    o.d_head = 0;
    o.score = draws.one_of({AttentionScore::scaled_dot_product, AttentionScore::dot_product});
  }
  const bool odd = o.d_head == 0 && o.d_model / o.num_heads % 2 == 1;
  if (o.positions == PositionKind::rotary && (odd || o.score == AttentionScore::additive)) {
    o.positions = PositionKind::alibi;
  }
  return o;
}

double norm_of(const std::vector<double>& values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
}

#if defined(TAPESTRY_ASAN) || defined(TAPESTRY_TSAN)
constexpr std::uint64_t combinations = 12;
#else
constexpr std::uint64_t combinations = 80;
#endif

}  // namespace

TEST_CASE("models of every kind compute what their options say, in every combination") {
  const Threads one(1);
  for (const KindCase& kind : kind_cases) {
    CAPTURE(kind.name);
    for (std::uint64_t seed = 1; seed <= combinations; ++seed) {
      CAPTURE(seed);
      check_against_reference(combination(kind, seed));
    }
  }
}

TEST_CASE("every tensor of a model affects the comparison with the reference") {
  for (const KindCase& kind : kind_cases) {
    CAPTURE(kind.name);
    const KindOptions options = base_options(kind);
    Model model = perturbed_model(options);
    Reference reference(model.parameters, options, false);
    const Results results = results_of(reference, model, kind.kind);
    for (const auto& gradient : results.gradients) {
      const std::string& name = gradient.first;
      CAPTURE(name);
      // A key's bias adds one number to all scores of a query, which softmax does not see.
      CHECK((norm_of(gradient.second) > 1e-4) == !name.ends_with("k_proj.bias"));
    }
  }
}
