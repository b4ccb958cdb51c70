#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "autograd/dtype.h"
#include "data/text/tokenizer.h"
#include "layers/transformer_options.h"
#include "optim/options.h"
#include "train/config/config.h"

namespace tapestry {

/// A value of an enumeration and its name in a config.
template <class E>
struct Named {
  E value;
  std::string_view name;
};

// Clang before 17 finds no guide for an aggregate by itself.
template <class E>
Named(E, std::string_view) -> Named<E>;

/// All values of E, in the order in which they are listed to the user.
template <class E>
inline constexpr std::array<Named<E>, 0> choices_of{};

template <>
inline constexpr std::array choices_of<TextUnit>{Named{TextUnit::character, "character"},
                                                 Named{TextUnit::word, "word"}};

template <>
inline constexpr std::array choices_of<PoolingKind>{Named{PoolingKind::class_token, "class_token"},
                                                    Named{PoolingKind::mean, "mean"}};

template <>
inline constexpr std::array choices_of<NormPlacement>{Named{NormPlacement::pre, "pre"},
                                                      Named{NormPlacement::post, "post"}};

template <>
inline constexpr std::array choices_of<Normalization>{
    Named{Normalization::layer_norm, "layer_norm"}, Named{Normalization::rms_norm, "rms_norm"},
    Named{Normalization::batch_norm, "batch_norm"}};

template <>
inline constexpr std::array choices_of<Activation>{
    Named{Activation::relu, "relu"},           Named{Activation::gelu, "gelu"},
    Named{Activation::gelu_tanh, "gelu_tanh"}, Named{Activation::silu, "silu"},
    Named{Activation::swiglu, "swiglu"},       Named{Activation::geglu, "geglu"}};

template <>
inline constexpr std::array choices_of<AttentionKind>{
    Named{AttentionKind::multi_head, "multi_head"},
    Named{AttentionKind::parameter_free, "parameter_free"}};

template <>
inline constexpr std::array choices_of<AttentionScore>{
    Named{AttentionScore::scaled_dot_product, "scaled_dot_product"},
    Named{AttentionScore::dot_product, "dot_product"}, Named{AttentionScore::additive, "additive"},
    Named{AttentionScore::bilinear, "bilinear"}};

template <>
inline constexpr std::array choices_of<PositionKind>{
    Named{PositionKind::sinusoidal, "sinusoidal"}, Named{PositionKind::learned, "learned"},
    Named{PositionKind::none, "none"}, Named{PositionKind::rotary, "rotary"},
    Named{PositionKind::alibi, "alibi"}};

template <>
inline constexpr std::array choices_of<TiedEmbeddings>{Named{TiedEmbeddings::none, "none"},
                                                       Named{TiedEmbeddings::target, "target"},
                                                       Named{TiedEmbeddings::all, "all"}};

template <>
inline constexpr std::array choices_of<OptimizerKind>{Named{OptimizerKind::sgd, "sgd"},
                                                      Named{OptimizerKind::adam, "adam"},
                                                      Named{OptimizerKind::adamw, "adamw"}};

template <>
inline constexpr std::array choices_of<ScheduleKind>{
    Named{ScheduleKind::constant, "constant"}, Named{ScheduleKind::linear_warmup, "linear_warmup"},
    Named{ScheduleKind::inverse_sqrt, "inverse_sqrt"}, Named{ScheduleKind::cosine, "cosine"}};

template <>
inline constexpr std::array choices_of<DType>{Named{DType::float32, "float32"},
                                              Named{DType::float64, "float64"}};

template <>
inline constexpr std::array choices_of<OnNan>{
    Named{OnNan::stop, "stop"}, Named{OnNan::skip, "skip"}, Named{OnNan::rollback, "rollback"}};

/// The name of `value` in a config.
template <class E>
constexpr std::string_view choice_name(E value) {
  for (const Named<E>& choice : choices_of<E>) {
    if (choice.value == value) return choice.name;
  }
  return "?";
}

}  // namespace tapestry
