#pragma once

#include <cstddef>
#include <optional>

namespace tapestry {

/// Where a residual block normalises: before its sublayer, x + f(norm(x)), with one more norm at
/// the end of the stack [1]; or after the addition, norm(x + f(x)) [2].
///
/// [1] Xiong et al. 2020, "On Layer Normalization in the Transformer Architecture".
/// [2] Vaswani et al. 2017, "Attention Is All You Need".
enum class NormPlacement { pre, post };

/// How a norm brings a token vector to a common scale: by its own mean and deviation [3], by its
/// own root mean square [4], or feature by feature by the moments of the batch [5], the way of
/// convolutional networks, which language learns less well with [6].
///
/// [3] Ba, Kiros & Hinton 2016, "Layer Normalization".
/// [4] Zhang & Sennrich 2019, "Root Mean Square Layer Normalization".
/// [5] Ioffe & Szegedy 2015, "Batch Normalization".
/// [6] Shen et al. 2020, "PowerNorm: Rethinking Batch Normalization in Transformers".
enum class Normalization { layer_norm, rms_norm, batch_norm };

/// What stands between the two linear maps of a feed-forward block; gelu is the exact form (erf),
/// gelu_tanh its approximation by tanh. swiglu and geglu [1] are gated: the first map is twice as
/// wide and gives values and gates, and value * silu(gate) or value * gelu(gate) goes on.
///
/// [1] Shazeer 2020, "GLU Variants Improve Transformer".
enum class Activation { relu, gelu, gelu_tanh, silu, swiglu, geglu };

constexpr bool is_gated(Activation activation) {
  return activation == Activation::swiglu || activation == Activation::geglu;
}

/// How well a query q and a key k of one head fit: <k, q> / sqrt(d_head) [1]; the same without the
/// scale; <w, tanh(q + k)> with a learned vector w [2]; <k, W q> with a learned matrix W [3].
///
/// [1] Vaswani et al. 2017, eq. 1.
/// [2] Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning to Align and
/// Translate". [3] Luong et al. 2015, "Effective Approaches to Attention-based Neural Machine
/// Translation".
enum class AttentionScore { scaled_dot_product, dot_product, additive, bilinear };

/// What attention is made of: heads with projections of their own [1]; or nothing but the vectors
/// themselves, with weights softmax(X X^T) (scaled as the score says) and weights X as output.
///
/// [1] Vaswani et al. 2017, section 3.2.2.
enum class AttentionKind { multi_head, parameter_free };

/// How a token learns where it stands: by what is added to its vector (fixed sines and cosines, or
/// one learned vector a position); not at all; or in self-attention, by a rotation of queries and
/// keys [1] or by scores that fall with the distance [2].
///
/// [1] Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding".
/// [2] Press et al. 2022, "Train Short, Test Long: Attention with Linear Biases Enables
///     Input Length Extrapolation".
enum class PositionKind { sinusoidal, learned, none, rotary, alibi };

/// Which embeddings share one matrix: none; `target`, the target embedding and the output
/// projection; `all`, the source embedding too (both sides then need one common vocabulary). A tied
/// model has fewer parameters and starts half a nat or more above a loss of ln(vocabulary), since
/// its first logits have variance 1.
enum class TiedEmbeddings { none, target, all };

/// What stands for a whole sequence: its first token, or the mean of all.
enum class PoolingKind { class_token, mean };

/// Sizes and choices of a model. The member initialisers are the defaults.
struct TransformerOptions {
  std::size_t d_model = 128;  ///< width of every token vector
  std::size_t num_heads = 4;
  AttentionKind attention = AttentionKind::multi_head;
  AttentionScore score = AttentionScore::scaled_dot_product;
  std::size_t d_head = 0;  ///< width of a head; 0: d_model / num_heads, which must divide it
  std::size_t window = 0;  ///< farthest position that self-attention sees; 0: all are seen
  std::size_t num_encoder_layers = 2;
  std::size_t num_decoder_layers = 2;
  std::size_t d_ff = 512;  ///< width between the two maps of a feed-forward block
  double dropout = 0.1;    ///< rate in [0, 1), wherever none of the next four says another
  std::optional<double> embedding_dropout = {};   ///< of token vectors with their positions
  std::optional<double> attention_dropout = {};   ///< of attention weights
  std::optional<double> activation_dropout = {};  ///< inside feed-forward blocks
  std::optional<double> residual_dropout = {};    ///< of what a sublayer adds to its input
  double stochastic_depth = 0.0;  ///< in [0, 1): rate at which the last layer is left out of a row
  double skip_scale = 1.0;        ///< of the input in a residual sum
  double sublayer_scale = 1.0;    ///< of what a sublayer adds to it
  NormPlacement norm = NormPlacement::pre;
  Normalization normalization = Normalization::layer_norm;
  Activation activation = Activation::relu;
  PositionKind positions = PositionKind::sinusoidal;
  std::size_t max_length = 256;  ///< longest sequence in tokens, <bos> and <eos> included
  TiedEmbeddings tie_embeddings = TiedEmbeddings::none;
  PoolingKind pooling = PoolingKind::class_token;  ///< classifier, vision_transformer
  std::size_t patch_size = 2;        ///< vision_transformer: pixels on a side of a patch
  double layer_norm_epsilon = 1e-5;  ///< added to the variance or mean square of any norm, > 0

  double embedding_dropout_rate() const { return embedding_dropout.value_or(dropout); }
  double attention_dropout_rate() const { return attention_dropout.value_or(dropout); }
  double activation_dropout_rate() const { return activation_dropout.value_or(dropout); }
  double residual_dropout_rate() const { return residual_dropout.value_or(dropout); }
};

/// The options of one layer of a stack, counted from 1: stochastic depth grows linearly from 0 at
/// the input to its rate at the last layer [1].
///
/// [1] Huang et al. 2016, "Deep Networks with Stochastic Depth", eq. 4.
inline TransformerOptions at_depth(TransformerOptions options, std::size_t layer,
                                   std::size_t layers) {
  options.stochastic_depth *= static_cast<double>(layer) / static_cast<double>(layers);
  return options;
}

/// The width of a head of attention.
inline std::size_t head_width(const TransformerOptions& options) {
  return options.d_head != 0 ? options.d_head : options.d_model / options.num_heads;
}

}  // namespace tapestry
