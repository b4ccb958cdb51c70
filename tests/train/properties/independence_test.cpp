#include <doctest/doctest.h>

#include "autograd/ops/add.h"
#include "autograd/ops/scale.h"
#include "autograd/ops/sum.h"
#include "tests/train/properties/subject.h"
#include "train/properties/properties.h"

/// Causality, padding and permutation, of models that violate them.
namespace tapestry {
namespace {

using test::contains;
using test::logits_changed;
using test::tiny_subject;

/// Every logit depends a little on all that the decoder reads.
const test::Change sees_all_of_target =
    logits_changed([](const Tensor& logits, const TokenVectors& read) {
      return logits + scale(sum(read.target), 1e-6);
    });

const test::Change sees_all_of_source =
    logits_changed([](const Tensor& logits, const TokenVectors& read) {
      return logits + scale(sum(read.source), 1e-6);
    });

TEST_CASE("causality fails for a model that sees what comes later") {
  const PropertyResult result = causality(tiny_subject(sees_all_of_target));
  CHECK(result.verdict == PropertyVerdict::fails);
  CHECK(result.text.starts_with("logits of sentence 1 at token 1 depend on target input 2 by "));
  CHECK(result.text.ends_with(", expected exactly 0"));
}

TEST_CASE("causality fails for a model that sees the padding of its source") {
  const PropertyResult result = causality(tiny_subject(sees_all_of_source));
  CHECK(result.verdict == PropertyVerdict::fails);
  CHECK(result.text.starts_with("logits of sentence 1 at token 1 depend on source input "));
}

TEST_CASE("causality fails for a model that reads nothing, which proves no mask") {
  const auto deaf_to = [](bool to_target) {
    return causality(tiny_subject([to_target](ExaminedModel& model) {
      model.logits = [to_target, whole = model.logits](const TokenVectors& read,
                                                       const NetworkInput& input,
                                                       const RandomStream& random) {
        TokenVectors kept = read;
        Tensor& lost = to_target ? kept.target : kept.source;
        lost = lost.copied(lost.dtype());
        return whole(kept, input, random);
      };
    }));
  };
  CHECK(deaf_to(true).text == "logits of sentence 1 at token 1 depend on no target input up to 1");
  CHECK(deaf_to(true).verdict == PropertyVerdict::fails);
  CHECK(contains(deaf_to(false).text, "at token 1 depend on no source input up to "));
  CHECK(deaf_to(false).verdict == PropertyVerdict::fails);
}

TEST_CASE("padding fails for a model that reads it") {
  for (const test::Change& change : {sees_all_of_source, sees_all_of_target}) {
    const PropertyResult result = padding(tiny_subject(change));
    CHECK(result.verdict == PropertyVerdict::fails);
    CHECK(result.text.starts_with("logits of sentence 1 at token 1 went from "));
    CHECK(result.text.ends_with(" with other values in the padding"));
  }
}

TEST_CASE("padding fails for a model that counts its columns") {
  const auto counting = logits_changed([](const Tensor& logits, const TokenVectors& read) {
    return scale(logits, 1.0 + 1e-6 * static_cast<double>(read.source.shape()[1]));
  });
  const PropertyResult result = padding(tiny_subject(counting));
  CHECK(result.verdict == PropertyVerdict::fails);
  CHECK(result.text.ends_with(" with 3 more columns of source padding and 3 of target padding"));
}

TEST_CASE("padding fails for a loss that counts it") {
  const PropertyResult result = padding(tiny_subject([](ExaminedModel& model) {
    model.loss = [](const Tensor& logits, const Ids& labels, const CrossEntropyOptions&) {
      Ids counted = labels;
      for (std::int32_t& id : counted) id = std::max(id, 0);
      return cross_entropy(logits, counted);
    };
  }));
  CHECK(result.verdict == PropertyVerdict::fails);
  CHECK(result.text.starts_with("loss went from "));
}

TEST_CASE("padding adds no more columns than the model has positions for") {
  Subject subject = tiny_subject();
  subject.max_source_length = subject.max_target_length = subject.batch.source_length;
  const PropertyResult result = padding(subject);
  CHECK(result.verdict == PropertyVerdict::holds);
  CHECK(contains(result.text, "0 + 0 more columns change them by 0"));
}

TEST_CASE("permutation fails for a model that counts sentences") {
  const auto counting = logits_changed([](const Tensor& logits, auto&) {
    Tensor number = Tensor::zeros({logits.shape()[0], 1, 1}, logits.dtype());
    dispatch(logits.dtype(),
             [&]<class T>() { number.mutable_values<T>()[0] = static_cast<T>(1e-6); });
    return logits + number;
  });
  const PropertyResult result = permutation(tiny_subject(counting));
  CHECK(result.verdict == PropertyVerdict::fails);
  CHECK(result.text.starts_with("logits of sentence "));
  CHECK(result.text.ends_with(" in a batch back to front"));
}

TEST_CASE("padding is not asked where there is none and no room for any") {
  Subject subject = tiny_subject();
  subject.batch = rows_of(subject.batch, 0, 1);
  subject.max_source_length = subject.batch.source_length;
  subject.max_target_length = subject.batch.target_length;
  CHECK(padding(subject).verdict == PropertyVerdict::not_asked);
  subject.max_target_length = subject.batch.target_length + 2;
  CHECK(contains(padding(subject).text, "0 + 2 more columns change them by 0"));
}

TEST_CASE("permutation is not asked of one sentence") {
  Subject subject = tiny_subject();
  subject.batch = rows_of(subject.batch, 0, 1);
  CHECK(permutation(subject).verdict == PropertyVerdict::not_asked);
}

}  // namespace
}  // namespace tapestry
