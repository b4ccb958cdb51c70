#include <doctest/doctest.h>

#include <string>

#include "autograd/ops/comparison.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reductions.h"
#include "autograd/ops/shape_ops.h"
#include "tests/train/checks/context.h"
#include "train/checks/check.h"

/// The checks of independence, on models that are wrong.
namespace tapestry {
namespace {

using test::contains;
using test::logits_changed;
using test::tiny_context;

/// Every logit depends a little on all that the decoder reads.
const test::Change sees_all_of_target =
    logits_changed([](const Tensor& logits, const TokenVectors& read) {
      return logits + scale(sum(read.target), 1e-6);
    });

const test::Change sees_all_of_source =
    logits_changed([](const Tensor& logits, const TokenVectors& read) {
      return logits + scale(sum(read.source), 1e-6);
    });

TEST_CASE("causality fails for a model that reads later tokens") {
  const CheckResult result = causality(tiny_context(sees_all_of_target));
  CHECK(result.status == CheckStatus::failed);
  CHECK(result.details.starts_with("logits of example 1 at token 1 depend on target input 2 by "));
  CHECK(result.details.ends_with(", expected exactly 0"));
}

TEST_CASE("causality fails for a model that reads the padding of its source") {
  const CheckResult result = causality(tiny_context(sees_all_of_source));
  CHECK(result.status == CheckStatus::failed);
  CHECK(result.details.starts_with("logits of example 1 at token 1 depend on source input "));
}

TEST_CASE("causality fails for a model that does not read its input") {
  const auto deaf_to = [](bool to_target) {
    return causality(tiny_context([to_target](CheckedModel& model) {
      model.features = [to_target, whole = model.features](
                           const TokenVectors& read, const NetworkInput& input, const Mode& mode) {
        TokenVectors kept = read;
        Tensor& lost = to_target ? kept.target : kept.source;
        lost = lost.copied(lost.dtype());
        return whole(kept, input, mode);
      };
    }));
  };
  CHECK(deaf_to(true).details ==
        "logits of example 1 at token 1 depend on no target input up to 1");
  CHECK(deaf_to(true).status == CheckStatus::failed);
  CHECK(contains(deaf_to(false).details, "at token 1 depend on no source input up to "));
  CHECK(deaf_to(false).status == CheckStatus::failed);
}

TEST_CASE("padding fails for a model that reads it") {
  for (const test::Change& change : {sees_all_of_source, sees_all_of_target}) {
    const CheckResult result = padding(tiny_context(change));
    CHECK(result.status == CheckStatus::failed);
    CHECK(result.details.starts_with("logits of example 1 at token 1 went from "));
    CHECK(result.details.ends_with(" with other values in the padding"));
  }
}

TEST_CASE("padding fails for a model that depends on values of padding") {
  // The same offset for all values of a vector would change neither order nor differences.
  const auto comparing = logits_changed([](const Tensor& logits, const TokenVectors& read) {
    const Tensor rises = select(read.source, 2, 0) < select(read.source, 2, 1);
    return logits + sum(rises);
  });
  const CheckResult result = padding(tiny_context(comparing));
  CHECK(result.status == CheckStatus::failed);
  CHECK(result.details.ends_with(" with other values in the padding"));
}

TEST_CASE("padding fails for a model that depends on the number of columns") {
  const auto counting = logits_changed([](const Tensor& logits, const TokenVectors& read) {
    return scale(logits, 1.0 + 1e-6 * static_cast<double>(read.source.shape()[1]));
  });
  const CheckResult result = padding(tiny_context(counting));
  CHECK(result.status == CheckStatus::failed);
  CHECK(result.details.ends_with(" with 3 more columns of source padding and 3 of target padding"));
}

TEST_CASE("padding fails for a loss that includes padding") {
  const CheckResult result = padding(tiny_context([](CheckedModel& model) {
    model.loss = [whole = model.loss](const Tensor& features, const Ids& labels,
                                      const CrossEntropyOptions&) {
      Ids counted = labels;
      for (std::int32_t& id : counted) id = std::max(id, 0);
      return whole(features, counted, {});
    };
  }));
  CHECK(result.status == CheckStatus::failed);
  CHECK(result.details.starts_with("loss went from "));
  CHECK(result.details.ends_with(" with more padding"));
}

TEST_CASE("padding adds only as many columns as the model has positions") {
  CheckContext context = tiny_context();
  context.max_source_length = context.max_target_length = context.batch.source_length;
  const CheckResult result = padding(context);
  CHECK(result.status == CheckStatus::passed);
  CHECK(contains(result.details, "0 + 0 more columns change the logits by 0"));
}

TEST_CASE("permutation fails for a model that depends on the index of a sentence") {
  const auto counting = logits_changed([](const Tensor& logits, auto&) {
    Tensor number = Tensor::zeros({logits.shape()[0], 1, 1}, logits.dtype());
    dispatch(logits.dtype(),
             [&]<class T>() { number.mutable_values<T>()[0] = static_cast<T>(1e-6); });
    return logits + number;
  });
  const CheckResult result = permutation(tiny_context(counting));
  CHECK(result.status == CheckStatus::failed);
  CHECK(result.details.starts_with("logits of example "));
  CHECK(result.details.ends_with(" with the examples in reverse order"));
}

TEST_CASE("padding is skipped without padding and free positions") {
  CheckContext context = tiny_context();
  context.batch = select_rows(context.batch, 0, 1);
  context.max_source_length = context.batch.source_length;
  context.max_target_length = context.batch.target_length;
  CHECK(padding(context).status == CheckStatus::skipped);
  context.max_target_length = context.batch.target_length + 2;
  CHECK(contains(padding(context).details, "0 + 2 more columns change the logits by 0"));
}

TEST_CASE("checks that pass print the numbers of examples, positions and columns") {
  CheckContext context = tiny_context();
  const auto positions = [&](std::size_t rows, std::size_t padding) {
    return std::to_string(select_rows(context.batch, 0, rows).target_length + padding);
  };
  CHECK(causality(context).details ==
        "d(logits at t)/d(target input after t), and for padding, is exactly 0 (3 examples, " +
            positions(3, 2) + " positions)");
  CHECK(permutation(context).details.starts_with("6 examples in reverse order: logits differ by "));
  context.max_target_length = context.batch.target_length + 1;
  CHECK(padding(context).details.starts_with(
      "its values change no bit of the logits; 3 + 1 more columns change the logits by "));
  context.batch = select_rows(context.batch, 0, 2);
  context.max_target_length = context.batch.target_length + 1;
  CHECK(causality(context).details.ends_with(" is exactly 0 (2 examples, " + positions(2, 1) +
                                             " positions)"));
  CHECK(permutation(context).details.starts_with("2 examples in reverse order: "));
  context.causal = false;
  CHECK(causality(context).details.starts_with("d(logits)/d(padding) is exactly 0 (2 examples, "));
}

TEST_CASE("permutation is skipped for one sentence") {
  CheckContext context = tiny_context();
  context.batch = select_rows(context.batch, 0, 1);
  CHECK(permutation(context).status == CheckStatus::skipped);
}

}  // namespace
}  // namespace tapestry
