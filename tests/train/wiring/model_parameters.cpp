#include "tests/train/wiring/model_parameters.h"

#include <cmath>
#include <cstddef>

namespace tapestry::test {
namespace {

using Kind = InitialValues::Kind;

class Builder {
 public:
  Builder(const KindOptions& options, const NetworkSizes& sizes)
      : o_(options), sizes_(sizes), d_(options.d_model) {}

  ExpectedTensors build() {
    switch (o_.kind) {
      case ModelKind::seq2seq:
        embedding("target_embedding", sizes_.target);
        if (o_.tie_embeddings != TiedEmbeddings::all) embedding("source_embedding", sizes_.source);
        positions("source_positions");
        positions("target_positions");
        stack("encoder", o_.num_encoder_layers, false);
        stack("decoder", o_.num_decoder_layers, true);
        output();
        break;
      case ModelKind::language_model:
        embedding("embedding", sizes_.target);
        positions("positions");
        stack("decoder", o_.num_decoder_layers, false);
        output();
        break;
      case ModelKind::masked_language_model:
        embedding("embedding", sizes_.target);
        positions("positions");
        stack("encoder", o_.num_encoder_layers, false);
        output();
        break;
      case ModelKind::classifier:
      case ModelKind::tagger:
        embedding("embedding", sizes_.source);
        positions("positions");
        stack("encoder", o_.num_encoder_layers, false);
        linear("head", d_, sizes_.target);
        break;
      case ModelKind::vision_transformer:
        linear("patches.projection", o_.patch_size * o_.patch_size * sizes_.image.channels, d_);
        normal("patches.class_token", {1, 1, d_}, 1 / std::sqrt(static_cast<double>(d_)));
        positions("positions");
        stack("encoder", o_.num_encoder_layers, false);
        linear("head", d_, sizes_.target);
        break;
    }
    return tensors_;
  }

 private:
  void constant(const std::string& name, const Shape& shape, double value) {
    tensors_.parameters.push_back({name, shape, {Kind::constant, value}});
  }

  void normal(const std::string& name, const Shape& shape, double deviation) {
    tensors_.parameters.push_back({name, shape, {Kind::normal, deviation}});
  }

  /// Glorot & Bengio 2010, eq. 16.
  void glorot(const std::string& name, const Shape& shape, std::size_t fans) {
    tensors_.parameters.push_back(
        {name, shape, {Kind::uniform, std::sqrt(6.0 / static_cast<double>(fans))}});
  }

  void linear(const std::string& path, std::size_t in, std::size_t out) {
    glorot(path + ".weight", {out, in}, in + out);
    constant(path + ".bias", {out}, 0);
  }

  void embedding(const std::string& path, std::size_t vocabulary) {
    normal(path + ".weight", {vocabulary, d_}, 1 / std::sqrt(static_cast<double>(d_)));
  }

  void positions(const std::string& path) {
    if (o_.positions != PositionKind::learned) return;
    normal(path + ".weight", {o_.max_length, d_}, 1 / std::sqrt(static_cast<double>(d_)));
  }

  void norm(const std::string& path) {
    constant(path + ".weight", {d_}, 1);
    if (o_.normalization != Normalization::rms_norm) constant(path + ".bias", {d_}, 0);
    if (o_.normalization != Normalization::batch_norm) return;
    tensors_.buffers.push_back({path + ".running_mean", {d_}, {Kind::constant, 0}});
    tensors_.buffers.push_back({path + ".running_var", {d_}, {Kind::constant, 1}});
  }

  void attention(const std::string& path) {
    if (o_.attention == AttentionKind::parameter_free) return;
    const std::size_t heads = o_.num_heads, d_head = o_.d_head != 0 ? o_.d_head : d_ / heads;
    for (const char* projection : {".q_proj", ".k_proj", ".v_proj"}) {
      linear(path + projection, d_, heads * d_head);
    }
    linear(path + ".out_proj", heads * d_head, d_);
    if (o_.score == AttentionScore::additive) {
      glorot(path + ".score.weight", {heads, d_head}, d_head + 1);
    }
    if (o_.score == AttentionScore::bilinear) {
      normal(path + ".score.weight", {heads, d_head, d_head}, 1 / static_cast<double>(d_head));
    }
  }

  void feed_forward(const std::string& path) {
    const bool gated = o_.activation == Activation::swiglu || o_.activation == Activation::geglu;
    linear(path + ".linear1", d_, gated ? 2 * o_.d_ff : o_.d_ff);
    linear(path + ".linear2", o_.d_ff, d_);
  }

  void stack(const std::string& path, std::size_t layers, bool attends_to_memory) {
    for (std::size_t i = 0; i < layers; ++i) {
      const std::string layer = path + ".layers." + std::to_string(i);
      attention(layer + ".self_attn");
      norm(layer + ".self_attn_residual.norm");
      if (attends_to_memory) {
        attention(layer + ".cross_attn");
        norm(layer + ".cross_attn_residual.norm");
      }
      feed_forward(layer + ".ff");
      norm(layer + ".ff_residual.norm");
    }
    if (o_.norm == NormPlacement::pre) norm(path + ".norm");
  }

  void output() {
    if (o_.tie_embeddings == TiedEmbeddings::none) {
      glorot("output.weight", {sizes_.target, d_}, d_ + sizes_.target);
    }
    constant("output.bias", {sizes_.target}, 0);
  }

  const KindOptions& o_;
  const NetworkSizes& sizes_;
  std::size_t d_;
  ExpectedTensors tensors_;
};

}  // namespace

ExpectedTensors expected_tensors(const KindOptions& options, const NetworkSizes& sizes) {
  return Builder(options, sizes).build();
}

}  // namespace tapestry::test
