// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <stdexcept>
#include <string>
#include <string_view>

#include "autograd/shape.h"
#include "data/corpus.h"
#include "data/metrics/bleu.h"
#include "data/readers/training_set.h"
#include "data/text/tokenizer.h"
#include "layers/transformer.h"
#include "optim/optimizer.h"
#include "train/config/config.h"

/// The names of enumerations in configs.
namespace tapestry {

/// A value of an enumeration and its name in a config.
template <class E>
struct Named {
  E value;                ///< the value
  std::string_view name;  ///< its name in a config
};

/// Deduces E from a value: Named{DType::float32, "float32"}. Clang before version 17 needs this
/// guide.
template <class E>
Named(E, std::string_view) -> Named<E>;

/// All values of the enumeration E, in the order in which messages list them. Specialized
/// for each enumeration that is the type of a key.
template <class E>
inline constexpr std::array<Named<E>, 0> choices_of{};
/// @cond
template <>
inline constexpr std::array choices_of<TextUnit>{Named{TextUnit::character, "character"},
                                                 Named{TextUnit::word, "word"}};

template <>
inline constexpr std::array choices_of<SubwordKind>{
    Named{SubwordKind::none, "none"}, Named{SubwordKind::unigram, "unigram"},
    Named{SubwordKind::bpe, "bpe"}, Named{SubwordKind::file, "file"}};

template <>
inline constexpr std::array choices_of<TextNormalization>{
    Named{TextNormalization::nmt_nfkc, "nmt_nfkc"}, Named{TextNormalization::nfkc, "nfkc"},
    Named{TextNormalization::nmt_nfkc_cf, "nmt_nfkc_cf"},
    Named{TextNormalization::nfkc_cf, "nfkc_cf"}, Named{TextNormalization::identity, "identity"}};

template <>
inline constexpr std::array choices_of<OnBadLine>{Named{OnBadLine::stop, "stop"},
                                                  Named{OnBadLine::skip, "skip"}};

template <>
inline constexpr std::array choices_of<CacheUse>{Named{CacheUse::automatic, "auto"},
                                                 Named{CacheUse::always, "always"},
                                                 Named{CacheUse::never, "never"}};

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
inline constexpr std::array choices_of<GradientFormat>{Named{GradientFormat::full, "full"},
                                                       Named{GradientFormat::bfloat16, "bfloat16"}};

template <>
inline constexpr std::array choices_of<KernelChoice>{
    Named{KernelChoice::automatic, "auto"}, Named{KernelChoice::baseline, "baseline"},
    Named{KernelChoice::avx2, "avx2"}, Named{KernelChoice::avx512, "avx512"}};

template <>
inline constexpr std::array choices_of<Matmul>{Named{Matmul::automatic, "auto"},
                                               Named{Matmul::tapestry, "tapestry"},
                                               Named{Matmul::openblas, "openblas"}};

template <>
inline constexpr std::array choices_of<BleuTokenizer>{
    Named{BleuTokenizer::mteval_13a, "13a"}, Named{BleuTokenizer::none, "none"},
    Named{BleuTokenizer::character, "char"}, Named{BleuTokenizer::international, "intl"},
    Named{BleuTokenizer::chinese, "zh"}};

template <>
inline constexpr std::array choices_of<OnNan>{
    Named{OnNan::stop, "stop"}, Named{OnNan::skip, "skip"}, Named{OnNan::rollback, "rollback"}};
/// @endcond

/// The name of `value` in a config; "?" if it has no name.
template <class E>
constexpr std::string_view choice_name(E value) {
  static_assert(!choices_of<E>.empty(), "specialize choices_of for this enumeration");
  for (const Named<E>& choice : choices_of<E>) {
    if (choice.value == value) return choice.name;
  }
  return "?";
}

/// The value with this name in choices_of<E>. Throws std::logic_error for other names.
template <class E>
constexpr E choice_named(std::string_view name) {
  static_assert(!choices_of<E>.empty(), "specialize choices_of for this enumeration");
  for (const Named<E>& choice : choices_of<E>) {
    if (choice.name == name) return choice.value;
  }
  throw std::logic_error("an enumeration has no value of this name: " + std::string(name));
}

}  // namespace tapestry
