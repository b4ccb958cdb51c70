#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "autograd/ops/add.h"
#include "autograd/ops/scale.h"
#include "autograd/ops/sum.h"
#include "tests/train/properties/subject.h"
#include "train/properties/properties.h"

/// Precision, first loss, by heart and reached, of models that violate them.
namespace tapestry {
namespace {

using test::contains;
using test::logits_changed;
using test::tiny_subject;

test::Change scaled_by(double factor) {
  return logits_changed([factor](const Tensor& logits, auto&) { return scale(logits, factor); });
}

TEST_CASE("precision fails for float32 that computes something else") {
  const PropertyResult result = precision(tiny_subject([](ExaminedModel& model) {
    if (model.dtype() == DType::float32) scaled_by(1.01)(model);
  }));
  CHECK(result.verdict == PropertyVerdict::fails);
  CHECK(contains(result.text, " in float32, "));
}

TEST_CASE("precision fails for float32 whose gradients alone are wrong") {
  const PropertyResult result = precision(tiny_subject([](ExaminedModel& model) {
    if (model.dtype() == DType::float64) return;
    model.embed = [whole = model.embed](const NetworkInput& input,
                                        const RandomStream& random) -> TokenVectors {
      const TokenVectors read = whole(input, random);
      return {.source = read.source.copied(DType::float32), .target = read.target};
    };
  }));
  CHECK(result.verdict == PropertyVerdict::fails);
  CHECK(result.text ==
        "gradients of source_embedding.weight differ by inf (relative), allowed 1e-03");
}

TEST_CASE("first loss allows tied embeddings to favour the token that was just read") {
  Subject subject = tiny_subject();
  CHECK(first_loss(subject).text.ends_with(", allowed 1.5 more or less"));
  subject.tied_width = 16;
  subject.vocabulary = 9;  // ln(1 + exp(4) / 9) is 1.956
  CHECK(first_loss(subject).text.ends_with(", allowed 3.46 more or less"));
}

TEST_CASE("first loss fails for logits that are too large to begin with") {
  const PropertyResult result = first_loss(tiny_subject(scaled_by(10.0)));
  CHECK(result.verdict == PropertyVerdict::fails);
  CHECK(result.text.ends_with(", ln(9) is 2.197, allowed 1.5 more or less"));
}

TEST_CASE("first loss is not asked of a trained model, whose loss is told") {
  Subject subject = tiny_subject(scaled_by(0.0));
  subject.label_smoothing = 0.0;
  subject.trained = true;
  const PropertyResult result = first_loss(subject);
  CHECK(result.verdict == PropertyVerdict::not_asked);
  CHECK(result.text == "loss 2.197 of a trained model");
}

TEST_CASE("by heart fails for a model that cannot tell its inputs apart") {
  const PropertyResult result = by_heart(tiny_subject([](ExaminedModel& model) {
    model.embed = [whole = model.embed](const NetworkInput& input,
                                        const RandomStream& random) -> TokenVectors {
      const TokenVectors read = whole(input, random);
      return {.source = scale(read.source, 0.0), .target = scale(read.target, 0.0)};
    };
  }));
  CHECK(result.verdict == PropertyVerdict::fails);
  CHECK(contains(result.text, " in 599 steps, expected less than 0.05"));
}

TEST_CASE("by heart is not asked of a model that cannot learn all, unless it does") {
  const auto blind = [](ExaminedModel& model) {
    model.embed = [whole = model.embed](const NetworkInput& input,
                                        const RandomStream& random) -> TokenVectors {
      const TokenVectors read = whole(input, random);
      return {.source = scale(read.source, 0.0), .target = scale(read.target, 0.0)};
    };
  };
  Subject subject = tiny_subject(blind);
  subject.handicap = "it is blind";
  const PropertyResult result = by_heart(subject);
  CHECK(result.verdict == PropertyVerdict::not_asked);
  CHECK(contains(result.text, " in 599 steps: it is blind"));
  subject = tiny_subject();
  subject.handicap = "it is blind";
  CHECK(by_heart(subject).verdict == PropertyVerdict::holds);
}

TEST_CASE("reached fails for a parameter that nothing depends on") {
  const PropertyResult result = reached(tiny_subject([](ExaminedModel& model) {
    model.parameters.push_back({"forgotten", Tensor::zeros({2}, model.dtype()).require_gradient()});
  }));
  CHECK(result.verdict == PropertyVerdict::fails);
  CHECK(result.text == "forgotten has no gradient");
}

TEST_CASE("reached counts the biases of keys apart, which nothing depends on") {
  const Subject subject = tiny_subject();
  const std::size_t tensors = subject.copy(DType::float64).parameters.size();
  CHECK(reached(subject).text == std::to_string(tensors - 3) + " of " + std::to_string(tensors) +
                                     " tensors have a gradient; that of 3 key biases is 0 by "
                                     "nature");
}

TEST_CASE("first loss is not asked of running averages that have seen nothing") {
  Subject subject = tiny_subject(scaled_by(0.0));
  subject.label_smoothing = 0.0;
  subject.has_averages = true;
  const PropertyResult result = first_loss(subject);
  CHECK(result.verdict == PropertyVerdict::not_asked);
  CHECK(result.text == "loss 2.197 by running averages that have seen nothing");
}

TEST_CASE("by heart does not ask for what nobody can learn") {
  Subject subject = tiny_subject();
  // Two equal sources, the targets of which differ in their first token.
  const std::vector<Example> pairs = {{{4}, {5}}, {{4}, {6}}};
  subject.batch = make_batch(pairs, std::vector<std::size_t>{0, 1});
  const PropertyResult result = by_heart(subject);
  CHECK(result.verdict == PropertyVerdict::holds);
  CHECK(contains(result.text, "loss of 2 sentences from "));
  CHECK(result.text.ends_with(", 0.3466 of which nobody can learn"));  // 2 ln(2) / 4
}

TEST_CASE("reached fails for a parameter whose gradient is zero") {
  const PropertyResult result = reached(tiny_subject([](ExaminedModel& model) {
    const Tensor cut = Tensor::zeros({2}, model.dtype()).require_gradient();
    model.parameters.push_back({"cut", cut});
    logits_changed([cut](const Tensor& logits, auto&) { return logits + scale(sum(cut), 0.0); })(
        model);
  }));
  CHECK(result.verdict == PropertyVerdict::fails);
  CHECK(result.text.starts_with("the gradient of cut is at most 0.0e+00, the largest of all is "));
}

}  // namespace
}  // namespace tapestry
