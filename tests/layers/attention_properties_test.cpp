#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "autograd/attention_trace.h"
#include "layers/encoder_decoder.h"
#include "tests/layers/transformer_cases.h"
#include "tests/support/parameters.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

/// What attention is and is not, whatever its scores: blind to order but for positions, blind to
/// the future in a decoder, and between encoder and decoder a question to the one by the other.
namespace {

constexpr PositionKind every_position[] = {PositionKind::sinusoidal, PositionKind::learned,
                                           PositionKind::rotary, PositionKind::alibi};

/// Every way to attend, without positions.
std::vector<TransformerOptions> every_attention() {
  std::vector<TransformerOptions> all;
  using enum AttentionScore;
  for (const AttentionScore score : {scaled_dot_product, dot_product, additive, bilinear}) {
    TransformerOptions options = small();
    options.score = score;
    options.positions = PositionKind::none;
    all.push_back(options);
  }
  TransformerOptions wide = all[0];
  wide.d_head = 10;
  TransformerOptions bare = all[0];
  bare.attention = AttentionKind::parameter_free;
  bare.num_heads = 1;
  all.insert(all.end(), {wide, bare});
  return all;
}

const std::vector<std::size_t> order = {3, 0, 4, 2, 1};

TokenBatch sentence(const std::vector<std::size_t>& places) {
  const std::vector<std::int32_t> ids = {5, 6, 7, 8, 9};
  TokenBatch batch{.ids = {{0, 0, 0, 0, 0}}, .lengths = {5}};
  for (std::size_t t = 0; t < 5; ++t) batch.ids(0, t) = ids[places[t]];
  return batch;
}

/// The largest difference between what the encoder makes of a token in the sentence and of the same
/// token in the sentence in another order.
double dependence_on_order(const TransformerOptions& options) {
  const TestTransformer model(options);
  const auto plain =
      values_of(model.transformer.encode(sentence({0, 1, 2, 3, 4}), Mode::inference()));
  const auto permuted = values_of(model.transformer.encode(sentence(order), Mode::inference()));
  double largest = 0.0;
  for (std::size_t t = 0; t < 5; ++t) {
    for (std::size_t c = 0; c < options.d_model; ++c) {
      const double difference =
          permuted[t * options.d_model + c] - plain[order[t] * options.d_model + c];
      largest = std::max(largest, std::abs(difference));
    }
  }
  return largest;
}

/// A decoder layer, d_model 2 and one head, whose self-attention and feed-forward add nothing and
/// whose cross-attention projects by identities.
void leave_cross_attention_alone(const Parameters& parameters) {
  set_values(parameters, "decoder.self_attn.out_proj.weight", {0, 0, 0, 0});
  for (const char* projection : {"q", "k", "v", "out"}) {
    set_values(parameters, std::string("decoder.cross_attn.") + projection + "_proj.weight",
               {1, 0, 0, 1});
  }
  set_values(parameters, "decoder.ff.linear2.weight", {0, 0, 0, 0, 0, 0});
}

}  // namespace

TEST_CASE("an encoder without positions is equivariant to permutations, for every attention") {
  for (const TransformerOptions& options : every_attention()) {
    CHECK(dependence_on_order(options) < 1e-12);
  }
}

TEST_CASE("with positions of any kind the encoder depends on the order") {
  for (const PositionKind positions : every_position) {
    TransformerOptions options = small();
    options.positions = positions;
    CHECK(dependence_on_order(options) > 1e-4);
  }
}

TEST_CASE("an encoder with a window mask alone depends on the order") {
  TransformerOptions options = small();
  options.positions = PositionKind::none;
  options.window = 1;
  CHECK(dependence_on_order(options) > 1e-4);
}

TEST_CASE("the decoder never attends to later tokens, for every attention and position kind") {
  std::vector<TransformerOptions> all = every_attention();
  for (const PositionKind positions : every_position) {
    TransformerOptions options = small();
    options.positions = positions;
    all.push_back(options);
    options.window = 2;
    all.push_back(options);
  }
  const TokenBatch read = sentence({0, 1, 2, 3, 4});
  for (const TransformerOptions& options : all) {
    const TestTransformer model(options);
    const auto logits = [&](const TokenBatch& written) {
      return values_of(model.transformer(read, written, Mode::inference()));
    };
    const auto before = logits(read);
    for (std::size_t changed = 0; changed < 5; ++changed) {
      TokenBatch other = read;
      other.ids(0, changed) = 10;
      const auto after = logits(other);
      const auto first = static_cast<std::ptrdiff_t>(changed * vocabulary);
      CHECK(std::equal(before.begin(), before.begin() + first, after.begin()));
      CHECK_FALSE(std::equal(before.begin() + first, before.begin() + first + vocabulary,
                             after.begin() + first));
    }
  }
}

TEST_CASE("cross-attention takes queries from the decoder, keys and values from the encoder") {
  Parameters parameters(DType::float64, 1);
  const DecoderLayer layer(Scope(parameters) / "decoder", 2,
                           {.self_attn = {.num_heads = 1},
                            .cross_attn = {.num_heads = 1},
                            .ff = {.d_ff = 3},
                            .residual = {.norm = {.epsilon = 1e-12}}});
  leave_cross_attention_alone(parameters);
  const double a = std::log(3.0) / std::sqrt(2.0);
  // The norm of (1, 3) is (-1, 1), that of (9, 5) is (1, -1). Scores q.k / sqrt(2) with the keys
  // (a, -a), (0, 0), (0, 2a): -ln 3, 0, ln 3 and their negatives.
  const Tensor x = Tensor::from({1, 2, 2}, {1, 3, 9, 5}, DType::float64);
  const Tensor memory = Tensor::from({1, 3, 2}, {a, -a, 0, 0, 0, 2 * a}, DType::float64);
  const AttentionRecorder recorder;
  const Tensor y = layer(x, memory, {}, Mode::inference());
  REQUIRE(recorder.records().size() == 2);
  CHECK(recorder.records()[0].path == "decoder.self_attn");
  CHECK(recorder.records()[0].weights.shape() == Shape{1, 1, 2, 2});
  CHECK(recorder.records()[1].path == "decoder.cross_attn");
  const double total = 1. / 3 + 1 + 3, small = 1. / 3 / total, middle = 1 / total, big = 3 / total;
  check_values(recorder.records()[1].weights, {small, middle, big, big, middle, small}, 1e-9);
  check_values(y,
               {1 + small * a, 3 - small * a + 2 * big * a,  //
                9 + big * a, 5 - big * a + 2 * small * a},
               1e-9);
}

TEST_CASE("an AttentionRecorder has the weights of every layer and head, in the order of calls") {
  const TestTransformer model(small());
  const AttentionRecorder recorder;
  model.transformer(source, target, Mode::inference());
  std::vector<std::string> lines;
  for (const auto& [path, weights] : recorder.records()) {
    lines.push_back(path + " " + to_string(weights.shape()));
  }
  CHECK(lines == std::vector<std::string>{
                     "encoder.layers.0.self_attn (3, 2, 4, 4)",
                     "encoder.layers.1.self_attn (3, 2, 4, 4)",
                     "decoder.layers.0.self_attn (3, 2, 3, 3)",
                     "decoder.layers.0.cross_attn (3, 2, 3, 4)",
                     "decoder.layers.1.self_attn (3, 2, 3, 3)",
                     "decoder.layers.1.cross_attn (3, 2, 3, 4)",
                 });
}
