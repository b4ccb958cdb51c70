#include "train/properties/properties.h"

#include <doctest/doctest.h>

#include <limits>
#include <new>
#include <stdexcept>

#include "autograd/ops/scale.h"
#include "tests/train/properties/subject.h"

namespace tapestry {
namespace {

using test::tiny_subject;

void check_that_all_hold(const Config& config) {
  const Subject subject = tiny_subject({}, config);
  for (const Property& property : properties()) {
    const PropertyResult result = examine(property, subject);
    CAPTURE(property.name);
    CAPTURE(result.text);
    CHECK(result.verdict == PropertyVerdict::holds);
  }
}

TEST_CASE("a small model has all properties") { check_that_all_hold(test::tiny_config()); }

TEST_CASE("so does one of the other choices, in float64") {
  Config config = test::tiny_config();
  config.model.norm = NormPlacement::post;
  config.model.activation = Activation::gelu;
  config.model.positions = PositionKind::learned;
  config.model.tie_embeddings = TiedEmbeddings::all;
  config.train.dtype = DType::float64;
  check_that_all_hold(config);
}

TEST_CASE("a model that answers NaN has none") {
  const Subject subject = tiny_subject(test::logits_changed([](const Tensor& logits, auto&) {
    return scale(logits, std::numeric_limits<double>::quiet_NaN());
  }));
  for (const Property& property : properties()) {
    CAPTURE(property.name);
    CHECK(examine(property, subject).verdict == PropertyVerdict::fails);
  }
}

TEST_CASE("what a property throws makes it fail with the text, but for a lack of memory") {
  Subject subject = tiny_subject();
  subject.copy = [](DType) -> ExaminedModel { throw std::runtime_error("linear: no such shape"); };
  for (const Property& property : properties()) {
    const PropertyResult result = examine(property, subject);
    CHECK(result.verdict == PropertyVerdict::fails);
    CHECK(result.text == "linear: no such shape");
  }
  subject.copy = [](DType) -> ExaminedModel { throw std::bad_alloc(); };
  for (const Property& property : properties()) {
    CHECK_THROWS_AS(examine(property, subject), std::bad_alloc);
  }
}

}  // namespace
}  // namespace tapestry
