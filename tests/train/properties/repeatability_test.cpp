#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "autograd/kernels/parallel.h"
#include "autograd/ops/scale.h"
#include "tests/support/threads.h"
#include "tests/train/properties/subject.h"
#include "train/properties/properties.h"

/// Threads, halves and twice, of models that violate them.
namespace tapestry {
namespace {

using test::contains;
using test::logits_changed;
using test::tiny_subject;

TEST_CASE("threads fails for a model that depends on their number, and puts it back") {
  const std::size_t before = kernels::num_threads();
  const auto depending = logits_changed([](const Tensor& logits, auto&) {
    return scale(logits, 1.0 + 1e-6 * static_cast<double>(kernels::num_threads()));
  });
  const PropertyResult result = threads(tiny_subject(depending));
  CHECK(result.verdict == PropertyVerdict::fails);
  CHECK(result.text.starts_with("on 1 thread and then 2: loss"));
  CHECK(kernels::num_threads() == before);
}

TEST_CASE("halves fails for a loss that is a mean over each half") {
  const PropertyResult result = halves(tiny_subject([](ExaminedModel& model) {
    model.loss = [](const Tensor& logits, const Ids& labels, CrossEntropyOptions options) {
      options.normalizer = 0;
      return cross_entropy(logits, labels, options);
    };
  }));
  CHECK(result.verdict == PropertyVerdict::fails);
  CHECK(result.text.starts_with("the losses of the halves add up to "));
}

/// Forgets the gradients so far whenever a new loss is computed, as `=` for `+=` would.
void forget(ExaminedModel& model) {
  model.loss = [parameters = model.parameters, whole = model.loss](
                   const Tensor& logits, const Ids& labels, const CrossEntropyOptions& options) {
    for (NamedTensor parameter : parameters) parameter.tensor.clear_gradient();
    return whole(logits, labels, options);
  };
}

TEST_CASE("halves fails where the second half replaces the gradients of the first") {
  const PropertyResult result = halves(tiny_subject(forget));
  CHECK(result.verdict == PropertyVerdict::fails);
  CHECK(contains(result.text, "differ from those of the whole batch by "));
}

TEST_CASE("halves says how many sentences it compared, of which the second half has the odd one") {
  Subject subject = tiny_subject();
  subject.batch = rows_of(subject.batch, 0, 5);
  const PropertyResult result = halves(subject);
  CHECK(result.verdict == PropertyVerdict::holds);
  CHECK(result.text.starts_with("gradients of 2 + 3 sentences add up to those of 5 (largest "));
}

TEST_CASE("threads says what it compared, and on which numbers") {
  Subject subject = tiny_subject();
  subject.large_batch = rows_of(subject.large_batch, 0, 7);
  const testing::Threads five(5);
  const PropertyResult result = threads(subject);
  CHECK(result.verdict == PropertyVerdict::holds);
  const std::size_t tensors = subject.copy(DType::float32).parameters.size();
  CHECK(result.text == "logits, loss and " + std::to_string(tensors) +
                           " gradients have the same bits on 1, 2, 3, 5 threads (float32, 7 "
                           "sentences)");
}

TEST_CASE("halves is not asked of one sentence") {
  Subject subject = tiny_subject();
  subject.batch = rows_of(subject.batch, 0, 1);
  CHECK(halves(subject).verdict == PropertyVerdict::not_asked);
}

TEST_CASE("twice fails for a model that remembers") {
  const auto calls = std::make_shared<double>(0.0);
  const auto remembering = logits_changed(
      [calls](const Tensor& logits, auto&) { return scale(logits, 1.0 + 1e-12 * ++*calls); });
  const PropertyResult result = backward_twice(tiny_subject(remembering));
  CHECK(result.verdict == PropertyVerdict::fails);
  CHECK(result.text.starts_with("done again: l"));
}

TEST_CASE("twice fails where gradients do not add up") {
  const PropertyResult result = backward_twice(tiny_subject(forget));
  CHECK(result.verdict == PropertyVerdict::fails);
  CHECK(contains(result.text, " that were not cleared differ by 5.0e-01 (relative) from twice"));
}

}  // namespace
}  // namespace tapestry
