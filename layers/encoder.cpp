#include "layers/encoder.h"

namespace tapestry {

EncoderLayer::EncoderLayer(const Scope& scope, std::size_t d_model,
                           const EncoderLayerOptions& options)
    : self_attn_(scope / "self_attn", d_model, options.self_attn),
      ff_(scope / "ff", d_model, options.ff),
      self_attn_residual_(scope / "self_attn_residual", d_model, options.residual),
      ff_residual_(scope / "ff_residual", d_model, options.residual) {}

Tensor EncoderLayer::operator()(const Tensor& x, const AttentionMask& mask,
                                const Mode& mode) const {
  const Tensor attended = self_attn_residual_(
      x, mask.lengths(), mode, [&](const Tensor& v) { return self_attn_(v, v, mask, mode); });
  return ff_residual_(attended, mask.lengths(), mode,
                      [&](const Tensor& v) { return ff_(v, mode); });
}

Encoder::Encoder(const Scope& scope, std::size_t d_model, const EncoderOptions& options) {
  EncoderLayerOptions layer = options.layer;
  for (std::size_t i = 0; i < options.num_layers; ++i) {
    layer.residual = at_depth(options.layer.residual, i + 1, options.num_layers);
    layers_.emplace_back(scope / "layers" / i, d_model, layer);
  }
  const ResidualOptions& residual = options.layer.residual;
  if (residual.placement == NormPlacement::pre)
    norm_.emplace(scope / "norm", d_model, residual.norm);
}

Tensor Encoder::operator()(const Tensor& x, const AttentionMask& mask, const Mode& mode) const {
  Tensor y = x;
  for (const EncoderLayer& layer : layers_) y = layer(y, mask, mode);
  return norm_ ? (*norm_)(y, mask.lengths(), mode) : y;
}

}  // namespace tapestry
