#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "autograd/ops/add.h"
#include "autograd/tape.h"
#include "train/batch_tensors.h"
#include "train/properties/batch_rows.h"
#include "train/properties/properties.h"
#include "train/properties/step.h"

namespace tapestry {
namespace {

constexpr std::size_t sentences = 3;
constexpr std::size_t columns_of_padding = 2;

/// Weights of +-[0.5, 1.5] for the logits of position t, 0 for all others.
Tensor weights_at(std::size_t t, const Shape& logits, DType dtype) {
  Tensor weights = Tensor::zeros(logits, dtype);
  const std::size_t length = logits[1], vocabulary = logits[2];
  dispatch(dtype, [&]<class T>() {
    const auto values = weights.mutable_values<T>();
    for (std::size_t row = 0; row < logits[0]; ++row) {
      for (std::size_t j = 0; j < vocabulary; ++j) {
        const double u = RandomStream(1).uniform(row * vocabulary + j);
        values[(row * length + t) * vocabulary + j] = static_cast<T>(u < 0.5 ? u - 1.5 : u + 0.5);
      }
    }
  });
  return weights;
}

/// d(weighted logits of one position) / d(token vectors), the largest magnitude in each: (rows,
/// length); empty for a side that the model does not have.
struct Influence {
  std::vector<double> source, target;
};

std::vector<double> largest_of_each(const Tensor& gradient) {
  const std::vector<double> values = values_of(gradient);
  const std::size_t width = gradient.shape()[2];
  std::vector<double> largest(values.size() / width, 0.0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    double& most = largest[i / width];
    if (!(std::abs(values[i]) <= most)) most = std::abs(values[i]);  // NaN stays
  }
  return largest;
}

Influence influence_on(std::size_t t, const ExaminedModel& model, const Batch& batch) {
  const NetworkInput input = network_input(batch, model.dtype());
  const TokenVectors vectors = model.embed(input, {});
  const auto leaf = [&](const Tensor& x) {
    return x ? x.copied(model.dtype()).require_gradient() : Tensor();
  };
  const TokenVectors read{.source = leaf(vectors.source), .target = leaf(vectors.target)};
  Tape tape;
  const Tensor logits = model.logits(read, input, {});
  tape.backward(logits, weights_at(t, logits.shape(), model.dtype()));
  const auto of = [](const Tensor& x) -> std::vector<double> {
    if (!x) return {};
    const Tensor gradient = x.gradient();
    return largest_of_each(gradient ? gradient : Tensor::zeros(x.shape(), x.dtype()));
  };
  return {.source = of(read.source), .target = of(read.target)};
}

/// What is wrong with the influence of `length` inputs, of which the first `allowed` alone may and
/// must have some; empty if nothing is.
std::string mistake(std::span<const double> influence, std::size_t allowed, const char* input) {
  for (std::size_t i = allowed; i < influence.size(); ++i) {
    if (influence[i] != 0.0) {
      return fmt::format("depend on {} {} by {:.3g}, expected exactly 0", input, i + 1,
                         influence[i]);
    }
  }
  const auto up_to = influence.first(allowed);
  if (std::ranges::any_of(up_to, [](double g) { return g != 0.0; })) return "";
  return fmt::format("depend on no {} up to {}", input, allowed);
}

std::string mistake_at(std::size_t t, const Influence& influence, const Batch& batch, bool causal) {
  for (std::size_t row = 0; row < batch.rows; ++row) {
    if (t >= batch.target_lengths[row]) continue;
    const auto mistake_in = [&](const std::vector<double>& all, std::size_t allowed,
                                const char* input) {
      const std::size_t length = all.size() / batch.rows;
      if (allowed == 0) allowed = length;  // images have no padding
      return all.empty() ? ""
                         : mistake(std::span(all).subspan(row * length, length), allowed, input);
    };
    std::string found =
        mistake_in(influence.target, causal ? t + 1 : batch.target_lengths[row], "target input");
    if (found.empty()) {
      found = mistake_in(influence.source, batch.source_lengths[row], "source input");
    }
    if (!found.empty()) {
      return fmt::format("logits of sentence {} at token {} {}", row + 1, t + 1, found);
    }
  }
  return "";
}

/// Padding behind every sentence, as far as there are places for it.
Batch with_some_padding(const Batch& batch, const Subject& subject) {
  const auto columns = [](std::size_t length, std::size_t places) {
    return std::min(columns_of_padding, places - std::min(places, length));
  };
  return widened(batch, columns(batch.source_length, subject.max_source_length),
                 columns(batch.target_length, subject.max_target_length));
}

}  // namespace

PropertyResult causality(const Subject& subject) {
  if (!subject.batch.pixels.empty()) {
    return not_asked("images have no padding, and nothing comes after another");
  }
  const Batch few = rows_of(subject.batch, 0, std::min(sentences, subject.batch.rows));
  const Batch batch = with_some_padding(few, subject);
  const ExaminedModel model = subject.copy(DType::float64);
  for (std::size_t t = 0; t < batch.target_length; ++t) {
    const std::string found = mistake_at(t, influence_on(t, model, batch), batch, subject.causal);
    if (!found.empty()) return fails(found);
  }
  return holds(fmt::format("{} is exactly 0 ({} sentences, {} positions)",
                           subject.causal
                               ? "d(logits at t)/d(target input after t), like that of padding,"
                               : "d(logits)/d(padding)",
                           batch.rows, batch.target_length));
}

}  // namespace tapestry
