#include "layers/encoder.h"

namespace tapestry {

EncoderLayer::EncoderLayer(const Scope& scope, const TransformerOptions& o)
    : self_attn_(scope / "self_attn", o, AttentionRole::self),
      ff_(scope / "ff", o.d_model, o.d_ff, o.activation, o.activation_dropout_rate()),
      self_attn_residual_(scope / "self_attn_residual", o),
      ff_residual_(scope / "ff_residual", o) {}

Tensor EncoderLayer::operator()(const Tensor& x, const AttentionMask& mask,
                                const Mode& mode) const {
  const Tensor attended = self_attn_residual_(
      x, mask.lengths(), mode, [&](const Tensor& v) { return self_attn_(v, v, mask, mode); });
  return ff_residual_(attended, mask.lengths(), mode,
                      [&](const Tensor& v) { return ff_(v, mode); });
}

Encoder::Encoder(const Scope& scope, const TransformerOptions& o) {
  for (std::size_t i = 0; i < o.num_encoder_layers; ++i) {
    layers_.emplace_back(scope / "layers" / i, at_depth(o, i + 1, o.num_encoder_layers));
  }
  if (o.norm == NormPlacement::pre) norm_.emplace(scope / "norm", o);
}

Tensor Encoder::operator()(const Tensor& x, const AttentionMask& mask, const Mode& mode) const {
  Tensor y = x;
  for (const EncoderLayer& layer : layers_) y = layer(y, mask, mode);
  return norm_ ? (*norm_)(y, mask.lengths(), mode) : y;
}

}  // namespace tapestry
