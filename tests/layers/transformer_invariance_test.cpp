#include "layers/transformer.h"

#include <doctest/doctest.h>

#include "autograd/ops/losses.h"
#include "autograd/tape.h"
#include "tests/layers/transformer_cases.h"
#include "tests/support/parameters.h"
#include "tests/support/threads.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// The batch with its rows in another order.
TokenBatch permuted(const TokenBatch& tokens, const std::vector<std::size_t>& order) {
  TokenBatch result = tokens;
  for (std::size_t r = 0; r < order.size(); ++r) {
    result.lengths[r] = tokens.lengths[order[r]];
    for (std::size_t t = 0; t < tokens.ids.shape()[1]; ++t)
      result.ids(r, t) = tokens.ids(order[r], t);
  }
  return result;
}

/// The logits (vocabulary) of position t in row r.
std::vector<double> at(const Tensor& logits, std::size_t r, std::size_t t) {
  const auto all = values_of(logits);
  const auto begin =
      all.begin() + static_cast<std::ptrdiff_t>((r * logits.shape()[1] + t) * logits.shape()[2]);
  return {begin, begin + static_cast<std::ptrdiff_t>(logits.shape()[2])};
}

/// Equal but for what BLAS makes of a row that stands elsewhere in a matrix.
void check_close(const std::vector<double>& found, const std::vector<double>& expected) {
  check_values(Tensor::from({found.size()}, found, DType::float64), expected, 1e-13);
}

}  // namespace

TEST_CASE("a later target token changes no bit of the logits before it") {
  for (const TransformerOptions& options : every_choice()) {
    const TestTransformer model(options);
    TokenBatch other = target;
    other.ids(0, 2) = 10;
    const Tensor before = model.transformer(source, target, Mode::inference());
    const Tensor after = model.transformer(source, other, Mode::inference());
    CHECK(at(before, 0, 0) == at(after, 0, 0));
    CHECK(at(before, 0, 1) == at(after, 0, 1));
    CHECK(at(before, 0, 2) != at(after, 0, 2));
    CHECK(at(before, 1, 2) == at(after, 1, 2));
  }
}

TEST_CASE("every target position depends on all tokens of its source sentence") {
  const TestTransformer model(small());
  for (std::size_t changed = 0; changed < 4; ++changed) {
    TokenBatch other = source;
    other.ids(0, changed) = 10;
    const Tensor before = model.transformer(source, target, Mode::inference());
    const Tensor after = model.transformer(other, target, Mode::inference());
    for (std::size_t t = 0; t < 3; ++t) CHECK(at(before, 0, t) != at(after, 0, t));
    CHECK(at(before, 1, 0) == at(after, 1, 0));
  }
}

TEST_CASE("more columns of padding with any ids change no logits of tokens") {
  for (const TransformerOptions& options : every_choice()) {
    const TestTransformer model(options);
    const Tensor before = model.transformer(source, target, Mode::inference());
    const Tensor after =
        model.transformer(padded(source, 3, 7), padded(target, 2, 9), Mode::inference());
    for (std::size_t r = 0; r < 3; ++r) {
      for (std::size_t t = 0; t < static_cast<std::size_t>(target.lengths[r]); ++t) {
        check_close(at(after, r, t), at(before, r, t));
      }
    }
  }
}

TEST_CASE("permuting the sentences of a batch permutes the logits") {
  const TestTransformer model(small());
  const std::vector<std::size_t> order = {2, 0, 1};
  const Tensor before = model.transformer(source, target, Mode::inference());
  const Tensor after =
      model.transformer(permuted(source, order), permuted(target, order), Mode::inference());
  for (std::size_t r = 0; r < 3; ++r) {
    for (std::size_t t = 0; t < 3; ++t) check_close(at(after, r, t), at(before, order[r], t));
  }
}

TEST_CASE("initial values depend on seed and name, the same in both precisions up to rounding") {
  const TestTransformer exact(small());
  const TestTransformer rounded(small(), DType::float32);
  const TestTransformer other(small(), DType::float64, 2);
  TransformerOptions deeper = small();
  deeper.num_encoder_layers = 3;
  deeper.tie_embeddings = TiedEmbeddings::none;
  const TestTransformer larger(deeper);
  for (const NamedTensor& p : exact.parameters) {
    CAPTURE(p.name);
    const auto values = values_of(p.tensor);
    const auto singles = values_of(parameter(rounded.parameters, p.name));
    for (std::size_t i = 0; i < values.size(); ++i) {
      CHECK(singles[i] == static_cast<float>(values[i]));
    }
    CHECK(values_of(parameter(larger.parameters, p.name)) == values);
    const bool random = p.name.ends_with("weight") && !p.name.ends_with("norm.weight");
    CHECK((values_of(parameter(other.parameters, p.name)) != values) == random);
  }
  CHECK(values_of(parameter(exact.parameters, "encoder.layers.0.self_attn.q_proj.weight")) !=
        values_of(parameter(exact.parameters, "encoder.layers.1.self_attn.q_proj.weight")));
}

TEST_CASE("a step in float32 has the same bits on any number of threads") {
  TransformerOptions options = small();
  options.d_model = 64;
  options.d_ff = 256;
  options.dropout = 0.1;
  options.max_length = 24;
  const TokenBatch tokens{.ids = random_ids(12, 24, 500, 1),
                          .lengths = std::vector<std::int32_t>(12, 24)};
  const auto step = [&] {
    const TestTransformer model(options, DType::float32, 1, 500);
    Tape tape;
    const Tensor logits = model.transformer(tokens, tokens, Mode::training(RandomStream(1)));
    tape.backward(cross_entropy(logits, tokens.ids).mean);
    std::vector<std::vector<double>> results{values_of(logits)};
    for (const NamedTensor& p : model.parameters) results.push_back(values_of(p.tensor.gradient()));
    return results;
  };
  CHECK(same_on_any_number_of_threads(step));
}

TEST_CASE("a gathered model gives the same bits as one that is not") {
  const auto step = [](bool gather) {
    TestTransformer model(small());
    if (gather) model.parameters.gather();
    Tape tape;
    const Tensor logits = model.transformer(source, target, Mode::training(RandomStream(1)));
    tape.backward(logits, logits);
    std::vector<std::vector<double>> results{values_of(logits)};
    for (const NamedTensor& p : model.parameters) results.push_back(values_of(p.tensor.gradient()));
    return results;
  };
  CHECK(step(true) == step(false));
}

TEST_CASE("dropout follows the stream and is off without one") {
  TransformerOptions options = small();
  const TestTransformer plain(options);
  options.dropout = 0.2;
  const TestTransformer model(options);
  const auto logits =
      values_of(model.transformer(source, target, Mode::training(RandomStream(1).at(1))));
  CHECK(values_of(model.transformer(source, target, Mode::training(RandomStream(1).at(1)))) ==
        logits);
  CHECK(values_of(model.transformer(source, target, Mode::training(RandomStream(1).at(2)))) !=
        logits);
  CHECK(values_of(model.transformer(source, target, Mode::inference())) ==
        values_of(plain.transformer(source, target, Mode::inference())));
}

TEST_CASE("source and target have different dropout, even for the same tokens") {
  TransformerOptions options = small();
  options.num_encoder_layers = 0;
  options.num_decoder_layers = 0;
  options.norm = NormPlacement::post;
  options.tie_embeddings = TiedEmbeddings::all;
  options.dropout = 0.2;
  const Transformer model = TestTransformer(options).transformer;
  const auto encoded = [&](const Mode& mode) { return values_of(model.encode(source, mode)); };
  const auto decoded = [&](const Mode& mode) {
    return values_of(model.decode(source, model.encode(source, Mode::inference()), source, mode));
  };
  CHECK(encoded(Mode::inference()) == decoded(Mode::inference()));
  CHECK(encoded(Mode::training(RandomStream(1))) != decoded(Mode::training(RandomStream(1))));
}
