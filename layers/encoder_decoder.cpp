// SPDX-License-Identifier: BSD-3-Clause
#include "layers/encoder_decoder.h"

namespace tapestry {
namespace {

/// The layers of a stack, whose stochastic depth grows with their position.
template <class Layer, class StackOptions>
std::vector<Layer> make_layers(const Scope& scope, std::size_t d_model,
                               const StackOptions& options) {
  std::vector<Layer> layers;
  auto layer = options.layer;
  for (std::size_t i = 0; i < options.num_layers; ++i) {
    layer.residual = at_depth(options.layer.residual, i + 1, options.num_layers);
    layers.emplace_back(scope / i, d_model, layer);
  }
  return layers;
}

/// The norm after the last layer of a stack; nullopt with post-norm.
std::optional<Norm> make_final_norm(const Scope& scope, std::size_t d_model,
                                    const ResidualOptions& residual) {
  if (residual.placement != NormPlacement::pre) return std::nullopt;
  return Norm(scope, d_model, residual.norm);
}

}  // namespace

EncoderLayer::EncoderLayer(const Scope& scope, std::size_t d_model,
                           const EncoderLayerOptions& options)
    : self_attn_(scope / "self_attn", d_model, options.self_attn),
      ff_(scope / "ff", d_model, options.ff),
      self_attn_residual_(scope / "self_attn_residual", d_model, options.residual),
      ff_residual_(scope / "ff_residual", d_model, options.residual) {}

Tensor EncoderLayer::operator()(const Tensor& x, const AttentionMask& mask,
                                const Mode& mode) const {
  const Tensor self_attended = self_attn_residual_(
      x, mask.lengths(), mode, [&](const Tensor& v) { return self_attn_(v, v, mask, mode); });
  return ff_residual_(self_attended, mask.lengths(), mode,
                      [&](const Tensor& v) { return ff_(v, mode); });
}

Tensor EncoderLayer::extend(const Tensor& x, KeyValueCache& cache) const {
  const Mode mode = Mode::inference();
  const Tensor self_attended = self_attn_residual_(
      x, {}, mode, [&](const Tensor& v) { return self_attn_.extend(v, cache); });
  return ff_residual_(self_attended, {}, mode, [&](const Tensor& v) { return ff_(v, mode); });
}

Encoder::Encoder(const Scope& scope, std::size_t d_model, const EncoderOptions& options)
    : layers_(make_layers<EncoderLayer>(scope / "layers", d_model, options)),
      norm_(make_final_norm(scope / "norm", d_model, options.layer.residual)) {}

Tensor Encoder::operator()(const Tensor& x, const AttentionMask& mask, const Mode& mode) const {
  Tensor y = x;
  for (const EncoderLayer& layer : layers_) y = layer(y, mask, mode);
  return norm_ ? (*norm_)(y, mask.lengths(), mode) : y;
}

Tensor Encoder::extend(const Tensor& x, std::vector<KeyValueCache>& caches) const {
  caches.resize(layers_.size());
  Tensor y = x;
  for (std::size_t i = 0; i < layers_.size(); ++i) y = layers_[i].extend(y, caches[i]);
  return norm_ ? (*norm_)(y, {}, Mode::inference()) : y;
}

DecoderLayer::DecoderLayer(const Scope& scope, std::size_t d_model,
                           const DecoderLayerOptions& options)
    : self_attn_(scope / "self_attn", d_model, options.self_attn),
      cross_attn_(scope / "cross_attn", d_model, options.cross_attn),
      ff_(scope / "ff", d_model, options.ff),
      self_attn_residual_(scope / "self_attn_residual", d_model, options.residual),
      cross_attn_residual_(scope / "cross_attn_residual", d_model, options.residual),
      ff_residual_(scope / "ff_residual", d_model, options.residual) {}

Tensor DecoderLayer::operator()(const Tensor& x, const Tensor& memory, const DecoderMasks& masks,
                                const Mode& mode) const {
  const Tensor self_attended =
      self_attn_residual_(x, masks.self.lengths(), mode,
                          [&](const Tensor& v) { return self_attn_(v, v, masks.self, mode); });
  const Tensor cross_attended = cross_attn_residual_(
      self_attended, masks.self.lengths(), mode,
      [&](const Tensor& v) { return cross_attn_(v, memory, masks.cross, mode); });
  return ff_residual_(cross_attended, masks.self.lengths(), mode,
                      [&](const Tensor& v) { return ff_(v, mode); });
}

Tensor DecoderLayer::extend(const Tensor& x, DecoderLayerCache& cache,
                            const AttentionMask& cross) const {
  const Mode mode = Mode::inference();
  const Tensor self_attended = self_attn_residual_(
      x, {}, mode, [&](const Tensor& v) { return self_attn_.extend(v, cache.self); });
  const Tensor cross_attended = cross_attn_residual_(self_attended, {}, mode, [&](const Tensor& v) {
    return cross_attn_.attend(v, cache.cross, cross);
  });
  return ff_residual_(cross_attended, {}, mode, [&](const Tensor& v) { return ff_(v, mode); });
}

Decoder::Decoder(const Scope& scope, std::size_t d_model, const DecoderOptions& options)
    : layers_(make_layers<DecoderLayer>(scope / "layers", d_model, options)),
      norm_(make_final_norm(scope / "norm", d_model, options.layer.residual)) {}

Tensor Decoder::operator()(const Tensor& x, const Tensor& memory, const DecoderMasks& masks,
                           const Mode& mode) const {
  Tensor y = x;
  for (const DecoderLayer& layer : layers_) y = layer(y, memory, masks, mode);
  return norm_ ? (*norm_)(y, masks.self.lengths(), mode) : y;
}

std::vector<DecoderLayerCache> Decoder::read(const Tensor& memory) const {
  std::vector<DecoderLayerCache> caches;
  for (const DecoderLayer& layer : layers_) caches.push_back(layer.read(memory));
  return caches;
}

Tensor Decoder::extend(const Tensor& x, std::vector<DecoderLayerCache>& caches,
                       const AttentionMask& cross) const {
  Tensor y = x;
  for (std::size_t i = 0; i < layers_.size(); ++i) y = layers_[i].extend(y, caches.at(i), cross);
  return norm_ ? (*norm_)(y, {}, Mode::inference()) : y;
}

}  // namespace tapestry
