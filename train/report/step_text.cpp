#include "train/report/step_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "layers/transformer_options.h"

namespace tapestry {
namespace {

/// What an operation computes, whatever layer runs it.
struct OperationText {
  std::string_view name, title, formula, gradient, file;
};

constexpr std::array operations{
    OperationText{"abs", "Absolute value", "y = |x|", "dL/dx = sign(x) · dL/dy",
                  "autograd/ops/comparison.cpp"},
    OperationText{"add", "Sum", "y = a + b",
                  "dL/da = dL/dy, dL/db = dL/dy, each summed over broadcast axes",
                  "autograd/ops/elementwise.cpp"},
    OperationText{"additive_attention", "Attention, head by head",
                  "y = softmax(scale · wᵀ tanh(qᵢ + kⱼ) + mask) V",
                  "see the steps of each head below", "autograd/ops/attention.cpp"},
    OperationText{"batch_norm_given", "Batch norm",
                  "y = γ (x − running mean) / √(running variance + ε) + β",
                  "dL/dx = γ dL/dy / √(running variance + ε)", "autograd/ops/norms.cpp"},
    OperationText{"concat", "Concatenation", "y = [a; b]", "each input gets its part of dL/dy",
                  "autograd/ops/shape_ops.cpp"},
    OperationText{
        "cross_entropy", "Loss: cross entropy",
        "L = −1/n Σₜ log p(labelₜ), p = softmax(logits), over the n positions with a label",
        "dL/dlogits = (p − onehot(label)) / n, 0 without a label", "autograd/ops/losses.cpp"},
    OperationText{"div", "Quotient", "y = a / b", "dL/da = dL/dy / b, dL/db = −dL/dy · a / b²",
                  "autograd/ops/elementwise.cpp"},
    OperationText{"embedding", "Token embedding", "yᵢ = W[idᵢ]",
                  "dL/dW[id] = Σ dL/dyᵢ over the positions i of id", "autograd/ops/indexing.cpp"},
    OperationText{"geglu", "Activation: GEGLU", "y = value · GELU(gate)",
                  "dL/dvalue = dL/dy · GELU(gate), dL/dgate = dL/dy · value · GELU′(gate)",
                  "autograd/ops/activations.cpp"},
    OperationText{"gelu", "Activation: GELU", "y = x Φ(x)", "dL/dx = dL/dy · (Φ(x) + x φ(x))",
                  "autograd/ops/activations.cpp"},
    OperationText{"gelu_tanh", "Activation: GELU, tanh approximation",
                  "y = x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³)))", "dL/dx = dL/dy · y′(x)",
                  "autograd/ops/activations.cpp"},
    OperationText{"head_linear", "Bilinear score matrix", "q′ = W q, head by head",
                  "dL/dq = Wᵀ dL/dq′, dL/dW = Σ dL/dq′ qᵀ", "autograd/ops/linear.cpp"},
    OperationText{"layer_norm", "Layer norm",
                  "y = γ (x − mean(x)) / √(var(x) + ε) + β, token by token",
                  "dL/dx = (g − mean(g) − x̂ · mean(g · x̂)) / √(var(x) + ε), g = γ dL/dy; dL/dγ = Σ "
                  "dL/dy · x̂; dL/dβ = Σ dL/dy",
                  "autograd/ops/norms.cpp"},
    OperationText{"linear", "Linear map", "y = x Wᵀ + b",
                  "dL/dx = dL/dy W, dL/dW = (dL/dy)ᵀ x, dL/db = Σ dL/dy",
                  "autograd/ops/linear.cpp"},
    OperationText{"linear_cross_entropy", "Loss: cross entropy of a linear map",
                  "L = 1/n Σₜ ((1 − α) lₜ[labelₜ] + α/V Σⱼ lₜ[j]), l = −log softmax(x Wᵀ + b)",
                  "dL/dx = G W, dL/dW = Gᵀ x, dL/db = Σ G, G the gradient of x Wᵀ + b",
                  "autograd/ops/losses.cpp"},
    OperationText{"log_softmax", "Log-softmax", "y = log softmax(x)",
                  "dL/dx = dL/dy − softmax(x) · Σ dL/dy", "autograd/ops/activations.cpp"},
    OperationText{"matmul", "Matrix product", "y = A B", "dL/dA = dL/dy Bᵀ, dL/dB = Aᵀ dL/dy",
                  "autograd/ops/linear.cpp"},
    OperationText{"mean", "Mean", "y = mean of x over some axes",
                  "dL/dx = dL/dy / n, for n values of each mean", "autograd/ops/reductions.cpp"},
    OperationText{"mul", "Product", "y = a · b", "dL/da = dL/dy · b, dL/db = dL/dy · a",
                  "autograd/ops/elementwise.cpp"},
    OperationText{"permute", "Other order of axes", "y = x with its axes in another order",
                  "dL/dx = dL/dy with the axes of x", "autograd/ops/shape_ops.cpp"},
    OperationText{"relu", "Activation: ReLU", "y = max(x, 0)", "dL/dx = dL/dy where x > 0, else 0",
                  "autograd/ops/activations.cpp"},
    OperationText{"relu_dropout", "Activation: ReLU", "y = max(x, 0)",
                  "dL/dx = dL/dy where x > 0, else 0", "autograd/ops/dropout.cpp"},
    OperationText{"reshape", "Other shape", "y = x with another shape",
                  "dL/dx = dL/dy with the shape of x", "autograd/ops/shape_ops.cpp"},
    OperationText{"residual_add", "Residual connection", "y = skip_scale · x + sublayer_scale · f",
                  "dL/dx = skip_scale · dL/dy, dL/df = sublayer_scale · dL/dy",
                  "autograd/ops/dropout.cpp"},
    OperationText{
        "rms_norm", "RMS norm", "y = γ x / √(mean(x²) + ε), token by token",
        "dL/dx = (g − x̂ · mean(g · x̂)) / √(mean(x²) + ε), g = γ dL/dy; dL/dγ = Σ dL/dy · x̂",
        "autograd/ops/norms.cpp"},
    OperationText{"rotary", "Rotary positions",
                  "(y₂ᵢ, y₂ᵢ₊₁) = (x₂ᵢ, x₂ᵢ₊₁) rotated by pos / 10000^(2i/d_head)",
                  "dL/dx = dL/dy rotated by the negative angles", "autograd/ops/attention.cpp"},
    OperationText{"scale", "Scaling", "y = c x, for a constant c", "dL/dx = c dL/dy",
                  "autograd/ops/elementwise.cpp"},
    OperationText{"scaled_dot_product_attention", "Attention, head by head",
                  "y = softmax(scale · Q Kᵀ + mask) V", "see the steps of each head below",
                  "autograd/ops/attention.cpp"},
    OperationText{"sigmoid", "Activation: sigmoid", "y = σ(x)", "dL/dx = dL/dy · y (1 − y)",
                  "autograd/ops/activations.cpp"},
    OperationText{"silu", "Activation: SiLU", "y = x σ(x)",
                  "dL/dx = dL/dy · σ(x) (1 + x (1 − σ(x)))", "autograd/ops/activations.cpp"},
    OperationText{"slice", "Slice", "y = a range of indices of an axis of x",
                  "dL/dx = dL/dy in the range, 0 elsewhere", "autograd/ops/shape_ops.cpp"},
    OperationText{"softmax", "Softmax", "y = softmax(x)", "dL/dx = y · (dL/dy − Σ y · dL/dy)",
                  "autograd/ops/activations.cpp"},
    OperationText{"sub", "Difference", "y = a − b",
                  "dL/da = dL/dy, dL/db = −dL/dy, each summed over broadcast axes",
                  "autograd/ops/elementwise.cpp"},
    OperationText{"sum", "Sum over axes", "y = sum of x over some axes",
                  "dL/dx = dL/dy, for each value of the sum", "autograd/ops/reductions.cpp"},
    OperationText{"swiglu", "Activation: SwiGLU", "y = value · SiLU(gate)",
                  "dL/dvalue = dL/dy · SiLU(gate), dL/dgate = dL/dy · value · SiLU′(gate)",
                  "autograd/ops/activations.cpp"},
    OperationText{"tanh", "Activation: tanh", "y = tanh(x)", "dL/dx = dL/dy · (1 − y²)",
                  "autograd/ops/activations.cpp"},
};

/// What the end of a layer's path says about the step.
struct LayerText {
  std::string_view end;    ///< of the path
  std::string_view title;  ///< in place of the title of the operation; empty: that one
  std::string_view file;   ///< source file of the layer
  std::string_view keys;   ///< separated by spaces
};

constexpr std::array layers{
    LayerText{"q_proj", "Queries Q", "layers/multi_head_attention.cpp",
              "model.d_model model.num_heads model.d_head model.attention"},
    LayerText{"k_proj", "Keys K", "layers/multi_head_attention.cpp",
              "model.d_model model.num_heads model.d_head model.attention"},
    LayerText{"v_proj", "Values V", "layers/multi_head_attention.cpp",
              "model.d_model model.num_heads model.d_head model.attention"},
    LayerText{"out_proj", "Output projection of all heads", "layers/multi_head_attention.cpp",
              "model.d_model model.num_heads model.d_head model.attention"},
    LayerText{"_attn", "", "layers/multi_head_attention.cpp",
              "model.num_heads model.d_head model.score model.window model.positions"},
    LayerText{"linear1", "Feed-forward: first linear map", "layers/feed_forward.cpp",
              "model.d_ff model.activation"},
    LayerText{"linear2", "Feed-forward: second linear map", "layers/feed_forward.cpp",
              "model.d_ff"},
    LayerText{"ff", "", "layers/feed_forward.cpp", "model.activation model.d_ff"},
    LayerText{"ff.dropout", "", "layers/feed_forward.cpp", "model.activation model.d_ff"},
    LayerText{"residual.dropout", "", "layers/residual.cpp",
              "model.norm model.skip_scale model.sublayer_scale"},
    LayerText{"norm", "", "layers/norm.cpp",
              "model.norm model.normalization model.layer_norm_epsilon"},
    LayerText{"embedding", "", "layers/embedding.cpp", "model.d_model model.tie_embeddings"},
    LayerText{"positions", "Positions added", "layers/embedding.cpp",
              "model.positions model.max_length"},
    LayerText{"patches.projection", "Patch embedding", "layers/embedding.cpp",
              "model.patch_size model.d_model data.image_height data.image_width"},
    LayerText{"patches", "", "layers/embedding.cpp", "model.patch_size"},
    LayerText{"output", "Logits", "layers/heads.cpp", "model.tie_embeddings"},
    LayerText{"head", "Logits", "layers/heads.cpp", "model.d_model"},
};

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

/// The entry with the longest end of the path, or null.
const LayerText* find_layer(std::string_view path) {
  const LayerText* found = nullptr;
  for (const LayerText& layer : layers) {
    if (!path.ends_with(layer.end)) continue;
    if (found == nullptr || layer.end.size() > found->end.size()) found = &layer;
  }
  return found;
}

std::string positions_formula(const Config& config) {
  return config.model.positions == PositionKind::sinusoidal
             ? "y = x + PE, PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(the "
               "same)"
             : "y = x + P[pos], a learned vector for each position";
}

std::string scale_text(double scale) { return scale == 1.0 ? "" : fmt::format("{} · ", scale); }

/// The pooling of a classifier's tokens, which runs outside of layers.
StepText pooling_text(std::string_view operation) {
  const bool mean = operation == "matmul";
  return {.title = mean ? "Pooling: mean of the tokens" : "Pooling: the first token",
          .formula = mean ? "y = 1/n Σᵢ xᵢ" : "y = x₀",
          .gradient = mean ? "dL/dxᵢ = dL/dy / n" : "dL/dx₀ = dL/dy, 0 for the other tokens",
          .keys = {"model.pooling"},
          .files = {"layers/heads.cpp",
                    mean ? "autograd/ops/linear.cpp" : "autograd/ops/shape_ops.cpp"}};
}

/// Whether a path ends with the name of a layer, not in the middle of a word.
bool ends_with_layer(std::string_view path, std::string_view end) {
  if (!path.ends_with(end)) return false;
  path.remove_suffix(end.size());
  return path.empty() || end.front() == '_' || path.back() == '.' || path.back() == '_';
}

}  // namespace

StepText operation_text(std::string_view operation) {
  StepText text;
  const auto found = std::ranges::find(operations, operation, &OperationText::name);
  if (found == operations.end()) {
    text.title = operation;
    return text;
  }
  text.title = found->title;
  text.formula = found->formula;
  text.gradient = found->gradient;
  text.files.emplace_back(found->file);
  if (operation.ends_with("_attention")) {
    text.files.emplace_back("autograd/kernels/attention.cpp");
    text.files.emplace_back("autograd/kernels/attention_softmax.cpp");
  }
  return text;
}

StepText custom_step_text(std::string_view operation, std::string_view layer) {
  StepText text = operation_text(operation);
  if (operation == "embedding") text.title = "Embedding";
  const LayerText* const known = find_layer(layer);
  if (known != nullptr && ends_with_layer(layer, known->end)) text.keys = words(known->keys);
  return text;
}

void add_scale(StepText& embedding, double scale, std::size_t width) {
  if (scale == 1.0) return;
  const double root = std::sqrt(static_cast<double>(width));
  const std::string factor =
      std::abs(scale - root) <= 1e-6 * root ? "√d_model" : fmt::format("{:.6g}", scale);
  embedding.formula = fmt::format("yᵢ = {} · W[idᵢ]", factor);
  embedding.gradient = fmt::format("dL/dW[id] = {} · Σ dL/dyᵢ over the positions i of id", factor);
}

void set_own_cross_entropy(StepText& loss) {
  loss.formula =
      "L = 1/n Σₜ ((1 − α) lₜ[labelₜ] + α/V Σⱼ lₜ[j]), l = −log softmax(logits), with n and α of "
      "the model";
  loss.gradient = "dL/dlogits = (p − (1 − α) onehot(label) − α/V) / n, 0 without a label";
}

StepText step_text(std::string_view operation, std::string_view layer, const Config& config) {
  if (layer.empty() && (operation == "matmul" || operation == "slice")) {
    return pooling_text(operation);
  }
  StepText text = operation_text(operation);
  if (const LayerText* const known = find_layer(layer)) {
    text.files.insert(text.files.begin(), std::string(known->file));
    text.keys = words(known->keys);
    const bool is_main = operation == "linear" || layer.ends_with("positions");
    if (!known->title.empty() && is_main) text.title = known->title;
  }
  if (layer.ends_with("positions")) {
    text.formula = operation == "slice" ? "P = the learned vectors of these positions"
                                        : positions_formula(config);
    if (operation == "slice") text.title = "Learned position vectors";
  }
  if (operation == "residual_add" || layer.ends_with("residual.dropout")) {
    const auto residual = std::ranges::find(operations, "residual_add", &OperationText::name);
    text.title = residual->title;
    text.gradient = residual->gradient;
    text.formula = fmt::format("y = {}x + {}f(x)", scale_text(config.model.skip_scale),
                               scale_text(config.model.sublayer_scale));
  }
  if (operation == "concat" && layer.ends_with("patches")) {
    text.title = "Class token and patches";
    text.formula = "y = [class token; patches]";
  }
  return text;
}

std::string score_formula(std::string_view operation) {
  return operation == "additive_attention" ? "sᵢⱼ = wᵀ tanh(qᵢ + kⱼ)" : "S = Q Kᵀ";
}

std::string score_formula(const Config& config) {
  switch (config.model.score) {
    case AttentionScore::additive:
      return "sᵢⱼ = wᵀ tanh(qᵢ + kⱼ)";
    case AttentionScore::bilinear:
      return "S = Q Kᵀ, where Q is W q";
    case AttentionScore::scaled_dot_product:
    case AttentionScore::dot_product:
      break;
  }
  return "S = Q Kᵀ";
}

}  // namespace tapestry
