#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

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

// Clang before 17 cannot deduce the arguments of an aggregate template without this guide.
template <class E>
Named(E, std::string_view) -> Named<E>;

/// All values of E, in the order in which messages list them.
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
inline constexpr std::array choices_of<KernelChoice>{
    Named{KernelChoice::automatic, "auto"}, Named{KernelChoice::baseline, "baseline"},
    Named{KernelChoice::avx2, "avx2"}, Named{KernelChoice::avx512, "avx512"}};

template <>
inline constexpr std::array choices_of<Matmul>{Named{Matmul::automatic, "auto"},
                                               Named{Matmul::tapestry, "tapestry"},
                                               Named{Matmul::openblas, "openblas"}};

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

/// Why a text is not a valid value of a key.
struct Mistake {
  std::string message;  ///< `expected a whole number >= 1, found "abc"`
  std::string hint;     ///< one action, or empty
};

template <class T>
using Parsed = std::variant<T, Mistake>;

// A domain is the set of valid values of a key, with their text in a config:
//
//   expected()   describes the set in messages
//   parse(text)  the value, or a Mistake; never throws and does not depend on the locale
//   print(value) the value as YAML text; parsing that text, without quotes, gives the same value

/// A number in [low, high], written in decimal digits only.
struct WholeNumber {
  std::uint64_t low = 0;
  std::uint64_t high = std::numeric_limits<std::uint64_t>::max();

  std::string expected() const;
  Parsed<std::uint64_t> parse(std::string_view text) const;
  static std::string print(std::uint64_t value);
};

constexpr WholeNumber at_least(std::uint64_t low) { return {.low = low}; }
constexpr WholeNumber between(std::uint64_t low, std::uint64_t high) { return {low, high}; }

/// A finite number such as 0.1 or 1e-3, in an interval whose ends are each open or closed.
struct RealNumber {
  double low = 0.0;
  double high = std::numeric_limits<double>::infinity();
  bool has_low = true;
  bool has_high = true;

  std::string expected() const;
  Parsed<double> parse(std::string_view text) const;
  static std::string print(double value);  ///< the shortest text that parses to the same double
};

constexpr RealNumber not_negative() { return {}; }
constexpr RealNumber positive() { return {.has_low = false}; }
constexpr RealNumber from_0_below_1() { return {.high = 1.0, .has_high = false}; }

/// A number, or a word that means that there is none.
struct NumberOrWord {
  RealNumber number;
  std::string_view word;

  std::string expected() const;
  Parsed<std::optional<double>> parse(std::string_view text) const;
  std::string print(std::optional<double> value) const;
};

/// A time in days, hours, minutes and seconds, such as 3h50m; at most 10,000 days.
struct Duration {
  static std::string expected() { return "a time such as 3h50m, 90s or 1d12h"; }
  static Parsed<std::chrono::seconds> parse(std::string_view text);
  static std::string print(std::chrono::seconds value);
};

/// `true` or `false`.
struct Flag {
  static std::string expected() { return "true or false"; }
  static Parsed<bool> parse(std::string_view text);
  static std::string print(bool value) { return value ? "true" : "false"; }
};

/// Any text, including the empty text.
struct Text {
  static std::string expected() { return "a text"; }
  static Parsed<std::string> parse(std::string_view text) { return std::string(text); }
  static std::string print(std::string_view value);
};

/// The path of a file; empty for none. load_config() makes it absolute.
struct FilePath : Text {
  static std::string expected() { return "a path"; }
};

/// `a`, `a or b`, `a, b or c`.
std::string list_in_words(const std::vector<std::string>& words);

/// The index of the value in `names`, or a Mistake.
Parsed<std::size_t> parse_choice(std::string_view text, const std::vector<std::string>& names);

/// One of a list of names.
struct OneOf {
  std::vector<std::string> names;

  std::string expected() const { return list_in_words(names); }
  Parsed<std::string> parse(std::string_view text) const {
    const Parsed<std::size_t> index = parse_choice(text, names);
    if (const auto* mistake = std::get_if<Mistake>(&index)) return *mistake;
    return names[std::get<std::size_t>(index)];
  }
  static std::string print(const std::string& value) { return value; }
};

/// One of the names of an enumeration.
template <class E>
struct Choice {
  static std::vector<std::string> names() {
    std::vector<std::string> result;
    for (const Named<E>& choice : choices_of<E>) result.emplace_back(choice.name);
    return result;
  }

  static std::string expected() { return list_in_words(names()); }

  static Parsed<E> parse(std::string_view text) {
    const Parsed<std::size_t> index = parse_choice(text, names());
    if (const auto* mistake = std::get_if<Mistake>(&index)) return *mistake;
    return choices_of<E>[std::get<std::size_t>(index)].value;
  }

  static std::string print(E value) { return std::string(choice_name(value)); }
};

}  // namespace tapestry
