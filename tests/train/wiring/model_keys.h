#pragma once

#include <string>
#include <vector>

#include "tests/support/model_kind.h"

namespace tapestry::test {

/// The kinds of models that use a key.
enum class Users { all, encoding, decoding, token_models, classifiers, vision };

inline bool uses(Users users, ModelKind kind) {
  using enum ModelKind;
  switch (users) {
    case Users::all:
      return true;
    case Users::encoding:
      return kind != language_model;
    case Users::decoding:
      return kind == seq2seq || kind == language_model;
    case Users::token_models:
      return kind == seq2seq || kind == language_model || kind == masked_language_model;
    case Users::classifiers:
      return kind == classifier || kind == vision_transformer;
    case Users::vision:
      return kind == vision_transformer;
  }
  return false;
}

/// What changes with the key, if the model uses it: names or shapes of tensors, and so everything;
/// the computation in inference and training; training alone; or nothing but what is refused.
enum class Effect { tensors, computation, training, limit };

/// One other value of a key.
struct ModelKeyRow {
  std::string key, value;
  Users users;
  Effect effect;
  void (*set)(TransformerOptions&);
  /// Other keys that both models share.
  std::vector<std::string> context = {};
  void (*set_context)(TransformerOptions&) = [](TransformerOptions&) {};
};

using Opt = TransformerOptions;

/// Every key of the section `model` but `kind` stands here with each of its choices, or with
/// another number; more than once where what else is chosen decides where the key comes in.
inline const std::vector<ModelKeyRow> key_rows = {
    {"d_model", "12", Users::all, Effect::tensors, [](Opt& o) { o.d_model = 12; }},
    {"num_heads", "4", Users::all, Effect::computation, [](Opt& o) { o.num_heads = 4; }},
    {"attention",
     "parameter_free",
     Users::all,
     Effect::tensors,
     [](Opt& o) { o.attention = AttentionKind::parameter_free; },
     {"num_heads=1"},
     [](Opt& o) { o.num_heads = 1; }},
    {"score", "dot_product", Users::all, Effect::computation,
     [](Opt& o) { o.score = AttentionScore::dot_product; }},
    {"score", "additive", Users::all, Effect::tensors,
     [](Opt& o) { o.score = AttentionScore::additive; }},
    {"score", "bilinear", Users::all, Effect::tensors,
     [](Opt& o) { o.score = AttentionScore::bilinear; }},
    {"d_head", "6", Users::all, Effect::tensors, [](Opt& o) { o.d_head = 6; }},
    {"window", "1", Users::all, Effect::computation, [](Opt& o) { o.window = 1; }},
    {"num_encoder_layers", "4", Users::encoding, Effect::tensors,
     [](Opt& o) { o.num_encoder_layers = 4; }},
    {"num_decoder_layers", "1", Users::decoding, Effect::tensors,
     [](Opt& o) { o.num_decoder_layers = 1; }},
    {"d_ff", "10", Users::all, Effect::tensors, [](Opt& o) { o.d_ff = 10; }},
    {"dropout", "0.3", Users::all, Effect::training, [](Opt& o) { o.dropout = 0.3; }},
    {"embedding_dropout", "0.3", Users::all, Effect::training,
     [](Opt& o) { o.embedding_dropout = 0.3; }},
    {"attention_dropout", "0.3", Users::all, Effect::training,
     [](Opt& o) { o.attention_dropout = 0.3; }},
    {"attention_dropout",
     "0.3",
     Users::all,
     Effect::training,
     [](Opt& o) { o.attention_dropout = 0.3; },
     {"num_heads=1", "attention=parameter_free"},
     [](Opt& o) {
       o.num_heads = 1;
       o.attention = AttentionKind::parameter_free;
     }},
    {"activation_dropout", "0.3", Users::all, Effect::training,
     [](Opt& o) { o.activation_dropout = 0.3; }},
    {"residual_dropout", "0.3", Users::all, Effect::training,
     [](Opt& o) { o.residual_dropout = 0.3; }},
    {"stochastic_depth", "0.4", Users::all, Effect::training,
     [](Opt& o) { o.stochastic_depth = 0.4; }},
    {"skip_scale", "0.5", Users::all, Effect::computation, [](Opt& o) { o.skip_scale = 0.5; }},
    {"sublayer_scale", "2", Users::all, Effect::computation, [](Opt& o) { o.sublayer_scale = 2; }},
    {"norm", "post", Users::all, Effect::tensors, [](Opt& o) { o.norm = NormPlacement::post; }},
    {"normalization", "rms_norm", Users::all, Effect::tensors,
     [](Opt& o) { o.normalization = Normalization::rms_norm; }},
    {"normalization", "batch_norm", Users::all, Effect::computation,
     [](Opt& o) { o.normalization = Normalization::batch_norm; }},
    {"activation", "gelu", Users::all, Effect::computation,
     [](Opt& o) { o.activation = Activation::gelu; }},
    {"activation", "gelu_tanh", Users::all, Effect::computation,
     [](Opt& o) { o.activation = Activation::gelu_tanh; }},
    {"activation", "silu", Users::all, Effect::computation,
     [](Opt& o) { o.activation = Activation::silu; }},
    {"activation", "swiglu", Users::all, Effect::tensors,
     [](Opt& o) { o.activation = Activation::swiglu; }},
    {"activation", "geglu", Users::all, Effect::tensors,
     [](Opt& o) { o.activation = Activation::geglu; }},
    {"positions", "none", Users::all, Effect::computation,
     [](Opt& o) { o.positions = PositionKind::none; }},
    {"positions", "learned", Users::all, Effect::tensors,
     [](Opt& o) { o.positions = PositionKind::learned; }},
    {"positions", "rotary", Users::all, Effect::computation,
     [](Opt& o) { o.positions = PositionKind::rotary; }},
    {"positions", "alibi", Users::all, Effect::computation,
     [](Opt& o) { o.positions = PositionKind::alibi; }},
    {"max_length", "10", Users::all, Effect::limit, [](Opt& o) { o.max_length = 10; }},
    {"max_length",
     "10",
     Users::all,
     Effect::tensors,
     [](Opt& o) { o.max_length = 10; },
     {"positions=learned"},
     [](Opt& o) { o.positions = PositionKind::learned; }},
    {"tie_embeddings", "target", Users::token_models, Effect::tensors,
     [](Opt& o) { o.tie_embeddings = TiedEmbeddings::target; }},
    {"tie_embeddings", "all", Users::token_models, Effect::tensors,
     [](Opt& o) { o.tie_embeddings = TiedEmbeddings::all; }},
    {"pooling", "mean", Users::classifiers, Effect::computation,
     [](Opt& o) { o.pooling = PoolingKind::mean; }},
    {"patch_size", "4", Users::vision, Effect::tensors, [](Opt& o) { o.patch_size = 4; }},
    {"layer_norm_epsilon", "0.1", Users::all, Effect::computation,
     [](Opt& o) { o.layer_norm_epsilon = 0.1; }},
    {"layer_norm_epsilon",
     "0.1",
     Users::all,
     Effect::computation,
     [](Opt& o) { o.layer_norm_epsilon = 0.1; },
     {"normalization=rms_norm"},
     [](Opt& o) { o.normalization = Normalization::rms_norm; }},
    {"layer_norm_epsilon",
     "0.1",
     Users::all,
     Effect::computation,
     [](Opt& o) { o.layer_norm_epsilon = 0.1; },
     {"normalization=batch_norm"},
     [](Opt& o) { o.normalization = Normalization::batch_norm; }},
    {"dropout",
     "0.3",
     Users::all,
     Effect::training,
     [](Opt& o) { o.dropout = 0.3; },
     {"normalization=batch_norm"},
     [](Opt& o) { o.normalization = Normalization::batch_norm; }},
};

}  // namespace tapestry::test
