// SPDX-License-Identifier: BSD-3-Clause
#include "tests/train/wiring/model_reference.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "autograd/ops/activations.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/losses.h"
#include "autograd/ops/reductions.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/tape.h"
#include "layers/model.h"
#include "tests/support/parameters.h"
#include "tests/support/values.h"

namespace tapestry::test {
namespace {

Tensor filled(const Shape& shape, const std::function<double(std::size_t)>& value) {
  std::vector<double> values(shape.size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = value(i);
  return Tensor::from(shape, values, DType::float64);
}

Tensor constant(double value) { return Tensor::scalar(value, DType::float64); }

/// Returns (rows, n, 1): 1 for the tokens of each row, 0 for its padding.
Tensor real_tokens(const Tensor& x, const std::vector<std::int32_t>& lengths) {
  const std::size_t n = x.shape()[1];
  return filled({x.shape()[0], n, 1}, [&](std::size_t i) {
    return lengths.empty() || i % n < static_cast<std::size_t>(lengths[i / n]) ? 1.0 : 0.0;
  });
}

/// Part c, from 0, of n equal parts of the last axis.
Tensor part(const Tensor& x, std::size_t c, std::size_t n) {
  const std::size_t width = x.shape().back() / n;
  return slice(x, -1, c * width, (c + 1) * width);
}

/// The forward computation, made of operations that a tape records, so that gradients can be
/// compared as well.
class Reference {
 public:
  /// Reads the parameters and buffers of a model by name. Computes without dropout.
  ///
  /// training  whether a batch norm uses the moments of the batch or its running moments
  Reference(const Parameters& parameters, const KindOptions& options, bool training)
      : parameters_(parameters), o_(options), training_(training) {}

  /// (rows, labels per row, scores).
  Tensor logits(const NetworkInput& input) {
    const TokenBatch &source = input.source, &target = input.target;
    const Mask reads{.keys = source.lengths}, writes{.keys = target.lengths, .causal = true};
    switch (o_.kind) {
      case ModelKind::seq2seq: {
        const bool shared = o_.tie_embeddings == TiedEmbeddings::all;
        const Tensor memory = stack("encoder", o_.num_encoder_layers,
                                    embedded(shared ? "target_embedding" : "source_embedding",
                                             source.ids, "source_positions"),
                                    reads);
        const Tensor x = embedded("target_embedding", target.ids, "target_positions");
        return token_scores(
            stack("decoder", o_.num_decoder_layers, x, writes, memory, source.lengths),
            "target_embedding");
      }
      case ModelKind::language_model:
        return token_scores(stack("decoder", o_.num_decoder_layers,
                                  embedded("embedding", target.ids, "positions"), writes),
                            "embedding");
      case ModelKind::masked_language_model:
        return token_scores(
            stack("encoder", o_.num_encoder_layers, embedded("embedding", target.ids, "positions"),
                  {.keys = target.lengths}),
            "embedding");
      case ModelKind::classifier: {
        const Tensor x = embedded("embedding", source.ids, "positions");
        return linear_map(
            "head", pooled(stack("encoder", o_.num_encoder_layers, x, reads), source.lengths));
      }
      case ModelKind::tagger:
        return linear_map("head", stack("encoder", o_.num_encoder_layers,
                                        embedded("embedding", target.ids, "positions"),
                                        {.keys = target.lengths}));
      case ModelKind::vision_transformer:
        return linear_map(
            "head", pooled(stack("encoder", o_.num_encoder_layers, patches(input.images), {}), {}));
    }
    throw std::runtime_error("the reference has no such kind of model");
  }

  struct Moments {
    std::vector<double> mean, unbiased_variance;
  };
  /// The batch moments that each batch norm computes in training, by path.
  const std::map<std::string, Moments>& moments() const { return moments_; }

 private:
  using Lengths = std::vector<std::int32_t>;
  using Sublayer = std::function<Tensor(const Tensor&)>;
  /// The keys that a query may attend to.
  struct Mask {
    Lengths keys;  ///< number of tokens in each row; empty if no row has padding
    bool causal = false;
  };

  Tensor parameter(const std::string& name) const {
    const NamedTensor* found = parameters_.find(name);
    if (found == nullptr) throw std::runtime_error("the model has no parameter " + name);
    return found->tensor;
  }

  Tensor linear_map(const std::string& path, const Tensor& x) const {
    return linear(x, parameter(path + ".weight"), parameter(path + ".bias"));
  }

  Tensor with_positions(const Tensor& x, const std::string& path) const {
    const std::size_t n = x.shape()[1], d = o_.d_model;
    if (o_.positions == PositionKind::learned) {
      return x + slice(parameter(path + ".weight"), 0, 0, n);
    }
    if (o_.positions != PositionKind::sinusoidal) return x;
    return x + filled({n, d}, [&](std::size_t i) {
             const auto pair = static_cast<double>(i % d / 2);
             const double angle =
                 static_cast<double>(i / d) / std::pow(10000.0, 2 * pair / static_cast<double>(d));
             return i % d % 2 == 0 ? std::sin(angle) : std::cos(angle);
           });
  }

  Tensor embedded(const std::string& path, const Ids& ids, const std::string& positions) const {
    const double factor = std::sqrt(static_cast<double>(o_.d_model));
    return with_positions(embedding(parameter(path + ".weight"), ids, 0, factor), positions);
  }

  /// The class token and the patches of images with 4 x 8 pixels in 2 channels.
  Tensor patches(const Tensor& images) const {
    constexpr std::size_t height = 4, width = 8, channels = 2;
    const std::size_t side = o_.patch_size, across = width / side, rows = images.shape()[0];
    const std::size_t count = height / side * across, values = side * side * channels;
    const std::vector<double> pixels = values_of(images);
    const Tensor squares = filled({rows, count, values}, [&](std::size_t i) {
      const std::size_t row = i / (count * values), patch = i / values % count, v = i % values;
      const std::size_t y = patch / across * side + v / (side * channels);
      const std::size_t x = patch % across * side + v / channels % side;
      return pixels[((row * height + y) * width + x) * channels + v % channels];
    });
    const Tensor tokens = linear_map("patches.projection", squares);
    const Tensor first =
        parameter("patches.class_token") + Tensor::zeros({rows, 1, o_.d_model}, DType::float64);
    return with_positions(concat({first, tokens}, 1), "positions");
  }

  Tensor norm(const std::string& path, const Tensor& x, const Lengths& lengths) {
    if (o_.normalization == Normalization::batch_norm) return batch_norm(path, x, lengths);
    const Tensor gain = parameter(path + ".weight");
    const Tensor epsilon = constant(o_.layer_norm_epsilon);
    if (o_.normalization == Normalization::rms_norm) {
      return x / sqrt(mean(square(x), {-1}, true) + epsilon) * gain;
    }
    const Tensor centered = x - mean(x, {-1}, true);
    return centered / sqrt(mean(square(centered), {-1}, true) + epsilon) * gain +
           parameter(path + ".bias");
  }

  Tensor batch_norm(const std::string& path, const Tensor& x, const Lengths& lengths) {
    const Tensor real = real_tokens(x, lengths);
    const double count = sum(real).item();
    const auto buffer = [&](const std::string& name) {
      return std::ranges::find(parameters_.buffers(), path + name, &NamedTensor::name)->tensor;
    };
    Tensor average, variance;
    if (training_) {
      average = sum(x * real, {0, 1}) * (1 / count);
      variance = sum(square(x - average) * real, {0, 1}) * (1 / count);
      moments_[path] = {values_of(average), values_of(variance * (count / (count - 1)))};
    } else {
      average = buffer(".running_mean");
      variance = buffer(".running_var");
    }
    const Tensor scaled = (x - average) / sqrt(variance + constant(o_.layer_norm_epsilon));
    return scaled * parameter(path + ".weight") + parameter(path + ".bias");
  }

  Tensor activation(const Tensor& x) const {
    switch (o_.activation) {
      case Activation::relu:
        return relu(x);
      case Activation::gelu:
        return gelu(x);
      case Activation::gelu_tanh:
        return gelu_tanh(x);
      case Activation::silu:
        return silu(x);
      case Activation::swiglu:
        return part(x, 0, 2) * silu(part(x, 1, 2));
      case Activation::geglu:
        return part(x, 0, 2) * gelu(part(x, 1, 2));
    }
    throw std::runtime_error("the reference has no such activation");
  }

  Tensor feed_forward(const std::string& path, const Tensor& x) const {
    return linear_map(path + ".linear2", activation(linear_map(path + ".linear1", x)));
  }

  /// (rows, n, heads * d) -> (rows, heads, n, d).
  Tensor heads(const Tensor& x, std::size_t d) const {
    return permute(reshape(x, {x.shape()[0], x.shape()[1], o_.num_heads, d}), {0, 2, 1, 3});
  }

  /// Rotates elements (2i, 2i + 1) of the vector at position m by m 10000^(-2i / d).
  Tensor rotated(const Tensor& x) const {
    const std::size_t n = x.shape()[2], d = x.shape()[3], pairs = d / 2;
    const auto table = [&](double (*f)(double)) {
      return filled({n, pairs, 1}, [&](std::size_t i) {
        return f(static_cast<double>(i / pairs) *
                 std::pow(10000.0, -2.0 * static_cast<double>(i % pairs) / static_cast<double>(d)));
      });
    };
    const Tensor cosine = table([](double a) { return std::cos(a); });
    const Tensor sine = table([](double a) { return std::sin(a); });
    const Tensor split = reshape(x, {x.shape()[0], x.shape()[1], n, pairs, 2});
    const Tensor even = part(split, 0, 2), odd = part(split, 1, 2);
    return reshape(concat({even * cosine - odd * sine, even * sine + odd * cosine}, -1), x.shape());
  }

  /// Returns (rows, heads, n_q, n_k) for q (rows, heads, n_q, d) and k (rows, heads, n_k, d).
  Tensor scores(const std::string& path, Tensor q, Tensor k, bool self) const {
    const std::size_t rows = q.shape()[0], h = o_.num_heads, d = q.shape()[3];
    const std::size_t n_q = q.shape()[2], n_k = k.shape()[2];
    if (o_.score == AttentionScore::additive) {
      const Tensor sums = reshape(q, {rows, h, n_q, 1, d}) + reshape(k, {rows, h, 1, n_k, d});
      return sum(tanh(sums) * reshape(parameter(path + ".score.weight"), {1, h, 1, 1, d}), {-1});
    }
    if (o_.score == AttentionScore::bilinear) {
      const Tensor matrix = reshape(parameter(path + ".score.weight"), {1, h, d, d});
      q = matmul(q, matrix, {.transpose_b = true});
    }
    if (self && o_.positions == PositionKind::rotary) {
      q = rotated(q);
      k = rotated(k);
    }
    const bool scaled = o_.score == AttentionScore::scaled_dot_product;
    return matmul(
        q, k, {.transpose_b = true, .scale = scaled ? 1 / std::sqrt(static_cast<double>(d)) : 1.0});
  }

  /// The bias of the scores, (rows, heads, n_q, n_k): -inf for masked keys. In self-attention with
  /// alibi, a slope times the distance for other keys. The number of heads is a power of two.
  Tensor allowed(const Mask& mask, std::size_t rows, std::size_t n_q, std::size_t n_k,
                 bool self) const {
    return filled({rows, o_.num_heads, n_q, n_k}, [&](std::size_t i) {
      const std::size_t key = i % n_k, query = i / n_k % n_q;
      const std::size_t head = i / (n_k * n_q) % o_.num_heads, row = i / (n_k * n_q * o_.num_heads);
      const std::size_t distance = key > query ? key - query : query - key;
      const bool padding = !mask.keys.empty() && key >= static_cast<std::size_t>(mask.keys[row]);
      const bool outside = self && o_.window != 0 && distance > o_.window;
      if (padding || outside || (mask.causal && key > query)) {
        return -std::numeric_limits<double>::infinity();
      }
      if (!self || o_.positions != PositionKind::alibi) return 0.0;
      const double slope =
          std::pow(2.0, -8.0 * static_cast<double>(head + 1) / static_cast<double>(o_.num_heads));
      return -slope * static_cast<double>(distance);
    });
  }

  Tensor attention(const std::string& path, const Tensor& queries, const Tensor& keys,
                   const Mask& mask, bool self) const {
    const bool bare = o_.attention == AttentionKind::parameter_free;
    const std::size_t d = o_.d_head != 0 ? o_.d_head : o_.d_model / o_.num_heads;
    const auto projected = [&](const char* name, const Tensor& x) {
      return heads(bare ? x : linear_map(path + name, x), d);
    };
    const Tensor q = projected(".q_proj", queries), k = projected(".k_proj", keys);
    const Tensor v = projected(".v_proj", keys);
    const std::size_t rows = q.shape()[0], n_q = q.shape()[2], n_k = k.shape()[2];
    const Tensor weights = softmax(scores(path, q, k, self) + allowed(mask, rows, n_q, n_k, self));
    const Tensor side_by_side =
        reshape(permute(matmul(weights, v), {0, 2, 1, 3}), {rows, n_q, o_.num_heads * d});
    return bare ? side_by_side : linear_map(path + ".out_proj", side_by_side);
  }

  Tensor residual(const std::string& path, const Tensor& x, const Lengths& lengths,
                  const Sublayer& f) {
    const auto sum_with = [&](const Tensor& y) {
      return x * o_.skip_scale + y * o_.sublayer_scale;
    };
    if (o_.norm == NormPlacement::pre) return sum_with(f(norm(path + ".norm", x, lengths)));
    return norm(path + ".norm", sum_with(f(x)), lengths);
  }

  Tensor stack(const std::string& path, std::size_t layers, Tensor x, const Mask& mask,
               const Tensor& memory = {}, const Lengths& memory_lengths = {}) {
    for (std::size_t i = 0; i < layers; ++i) {
      const std::string layer = path + ".layers." + std::to_string(i);
      x = residual(layer + ".self_attn_residual", x, mask.keys, [&](const Tensor& v) {
        return attention(layer + ".self_attn", v, v, mask, true);
      });
      if (memory.defined()) {
        x = residual(layer + ".cross_attn_residual", x, mask.keys, [&](const Tensor& v) {
          return attention(layer + ".cross_attn", v, memory, {.keys = memory_lengths}, false);
        });
      }
      x = residual(layer + ".ff_residual", x, mask.keys,
                   [&](const Tensor& v) { return feed_forward(layer + ".ff", v); });
    }
    return o_.norm == NormPlacement::pre ? norm(path + ".norm", x, mask.keys) : x;
  }

  Tensor pooled(const Tensor& x, const Lengths& lengths) const {
    if (o_.pooling == PoolingKind::class_token) return slice(x, 1, 0, 1);
    const Tensor real = real_tokens(x, lengths);
    return sum(x * real, {1}, true) / sum(real, {1}, true);
  }

  Tensor token_scores(const Tensor& x, const std::string& embedding) const {
    const bool tied = o_.tie_embeddings != TiedEmbeddings::none;
    return linear(x, parameter(tied ? embedding + ".weight" : "output.weight"),
                  parameter("output.bias"));
  }

  const Parameters& parameters_;
  KindOptions o_;
  bool training_;
  std::map<std::string, Moments> moments_{};
};

CrossEntropyOptions loss_options() { return {.ignored_id = ignored_label, .label_smoothing = 0.1}; }

std::vector<double> labelled(const Tensor& logits, const Ids& labels) {
  const std::vector<double> all = values_of(logits);
  const std::size_t n = logits.shape().back();
  std::vector<double> kept;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels.data()[i] == ignored_label) continue;
    for (std::size_t j = 0; j < n; ++j) kept.push_back(all[i * n + j]);
  }
  return kept;
}

/// Returns the gradients and clears them in the parameters.
std::map<std::string, std::vector<double>> taken_gradients(Parameters& parameters) {
  std::map<std::string, std::vector<double>> gradients;
  for (NamedTensor p : parameters) {
    const Tensor gradient = p.tensor.grad();
    gradients[p.name] =
        gradient.defined() ? values_of(gradient) : std::vector<double>(p.tensor.size(), 0.0);
    p.tensor.zero_grad();
  }
  return gradients;
}

Results results_of(Reference& reference, Model& model, ModelKind kind) {
  const Ids labels = wiring_labels(kind);
  Results results;
  Tape tape;
  const Tensor logits = reference.logits(wiring_input());
  results.logits = labelled(logits, labels);
  const Tensor loss = cross_entropy(logits, labels, loss_options()).mean;
  results.loss = loss.item();
  tape.backward(loss);
  results.gradients = taken_gradients(model.parameters);
  return results;
}

/// The maximum difference between two lists, relative to `scale` or to their largest value if that
/// is larger; infinite if the lists have different lengths.
double difference(const std::vector<double>& a, const std::vector<double>& b, double scale = 1) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(a[i] - b[i]);
    worst = d <= worst ? worst : d;  // keeps NaN
    scale = std::max(scale, std::abs(b[i]));
  }
  return worst / scale;
}

}  // namespace

Model model_of(const KindOptions& options) {
  return {network_maker(options, sizes_of(options)), DType::float64, 1};
}

Model perturbed_model(const KindOptions& options) {
  Model model = model_of(options);
  perturb(model.parameters);
  for (NamedTensor buffer : model.parameters.buffers()) {
    const RandomStream random = RandomStream(8).named(buffer.name);
    std::uint64_t counter = 0;
    for (double& value : buffer.tensor.mutable_values<double>()) {
      const double u = random.uniform(counter++);
      value += buffer.name.ends_with("running_var") ? 30 * u : u - 0.5;
    }
  }
  return model;
}

Results results_of(Model& model, ModelKind kind, const Mode& mode) {
  const NetworkInput input = wiring_input();
  const Ids labels = wiring_labels(kind);
  const Network& network = *model.network;
  Results results;
  Tape tape;
  const Mode deferred = mode.with_deferred_averages();
  const Tensor features = network.features(network.embed(input, deferred), input, deferred);
  results.logits = labelled(network.logits(features), labels);
  const Tensor loss = network.loss(features, labels, loss_options()).mean;
  results.loss = loss.item();
  tape.backward(loss);
  results.gradients = taken_gradients(model.parameters);
  return results;
}

Results results_of_reference(Model& model, const KindOptions& options) {
  Reference reference(model.parameters, options, false);
  return results_of(reference, model, options.kind);
}

void check_close(const Results& found, const Results& expected) {
  constexpr double rounding = 1e-9;
  CHECK(difference(found.logits, expected.logits) < rounding);
  CHECK(difference({found.loss}, {expected.loss}) < rounding);
  REQUIRE(found.gradients.size() == expected.gradients.size());
  // Some gradients cancel out, such as the gradient of a key projection's bias. Their absolute
  // error is as large as the error of the largest gradients.
  double largest = 1;
  for (const auto& gradient : expected.gradients) {
    for (const double value : gradient.second) largest = std::max(largest, std::abs(value));
  }
  for (const auto& gradient : expected.gradients) {
    CAPTURE(gradient.first);
    CHECK(difference(found.gradients.at(gradient.first), gradient.second, largest) < rounding);
  }
}

void check_against_reference(const KindOptions& options) {
  Model model = perturbed_model(options);
  check_close(results_of(model, options.kind, Mode::inference()),
              results_of_reference(model, options));

  model.parameters.discard_pending();
  Reference training(model.parameters, options, true);
  const Results trained = results_of(model, options.kind, Mode::training(RandomStream(3)));
  check_close(trained, results_of(training, model, options.kind));

  std::map<std::string, std::vector<double>> before;
  for (const NamedTensor& b : model.parameters.buffers()) before[b.name] = values_of(b.tensor);
  model.parameters.commit_buffers();
  for (const NamedTensor& buffer : model.parameters.buffers()) {
    CAPTURE(buffer.name);
    const std::size_t dot = buffer.name.rfind('.');
    const auto& seen = training.moments().at(buffer.name.substr(0, dot));
    std::vector<double> expected =
        buffer.name.ends_with("mean") ? seen.mean : seen.unbiased_variance;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expected[i] = 0.9 * before[buffer.name][i] + 0.1 * expected[i];
    }
    CHECK(difference(values_of(buffer.tensor), expected) < 1e-12);
  }
}

}  // namespace tapestry::test
