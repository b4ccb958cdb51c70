#include "layers/decoder.h"

namespace tapestry {

DecoderLayer::DecoderLayer(const Scope& scope, const TransformerOptions& o)
    : self_attn_(scope / "self_attn", o, AttentionRole::self),
      cross_attn_(scope / "cross_attn", o, AttentionRole::cross),
      ff_(scope / "ff", o.d_model, o.d_ff, o.activation, o.activation_dropout_rate()),
      self_attn_residual_(scope / "self_attn_residual", o),
      cross_attn_residual_(scope / "cross_attn_residual", o),
      ff_residual_(scope / "ff_residual", o) {}

Tensor DecoderLayer::operator()(const Tensor& x, const Tensor& memory, const DecoderMasks& masks,
                                const Mode& mode) const {
  const Tensor own = self_attn_residual_(x, masks.self.lengths(), mode, [&](const Tensor& v) {
    return self_attn_(v, v, masks.self, mode);
  });
  const Tensor crossed = cross_attn_residual_(
      own, masks.self.lengths(), mode,
      [&](const Tensor& v) { return cross_attn_(v, memory, masks.cross, mode); });
  return ff_residual_(crossed, masks.self.lengths(), mode,
                      [&](const Tensor& v) { return ff_(v, mode); });
}

Decoder::Decoder(const Scope& scope, const TransformerOptions& o) {
  for (std::size_t i = 0; i < o.num_decoder_layers; ++i) {
    layers_.emplace_back(scope / "layers" / i, at_depth(o, i + 1, o.num_decoder_layers));
  }
  if (o.norm == NormPlacement::pre) norm_.emplace(scope / "norm", o);
}

Tensor Decoder::operator()(const Tensor& x, const Tensor& memory, const DecoderMasks& masks,
                           const Mode& mode) const {
  Tensor y = x;
  for (const DecoderLayer& layer : layers_) y = layer(y, memory, masks, mode);
  return norm_ ? (*norm_)(y, masks.self.lengths(), mode) : y;
}

}  // namespace tapestry
