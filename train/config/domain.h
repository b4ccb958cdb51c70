#pragma once

#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "autograd/shape.h"
#include "data/corpus.h"
#include "data/metrics/bleu.h"
#include "data/readers/training_set.h"
#include "data/text/tokenizer.h"
#include "layers/transformer.h"
#include "optim/optimizer.h"
#include "train/config/config.h"
#include "train/config/error.h"

/// The valid values of config keys, with their text in a config.
namespace tapestry {

// ---- The names of the values of enumerations.

/// A value of an enumeration and its name in a config.
template <class E>
struct Named {
  E value;                ///< the value
  std::string_view name;  ///< its name
};

/// Deduces E from a value: Named{DType::float32, "float32"}. Clang before 17 needs it.
template <class E>
Named(E, std::string_view) -> Named<E>;

/// All values of the enumeration E, in the order of messages; specialized for each
/// enumeration that is the value of a key. The key is the one whose member has the type E.
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
/// The name of `value` in a config; "?" if it has none.
template <class E>
constexpr std::string_view choice_name(E value) {
  for (const Named<E>& choice : choices_of<E>) {
    if (choice.value == value) return choice.name;
  }
  return "?";
}

// ---- Domains.

/// A value that was read, or why a text is not a valid value; a Diagnostic without a place.
template <class T>
using Parsed = std::variant<T, Diagnostic>;

/// A domain: the set of valid values of a key, with their text in a config. This one is the whole
/// numbers in [low, high], written in decimal digits only.
///
/// Every domain has the three functions of this one. parse() never throws and does not depend on
/// the locale; parsing what print() returns, without quotes, gives the same value.
struct WholeNumber {
  std::uint64_t low = 0;                                           ///< the smallest number
  std::uint64_t high = std::numeric_limits<std::uint64_t>::max();  ///< the largest number

  /// Describes the set in messages: "a whole number >= 1".
  std::string expected() const;
  /// The value of a text, or why it is not in the set.
  Parsed<std::uint64_t> parse(std::string_view text) const;
  /// The value as YAML text.
  static std::string print(std::uint64_t value);
};

/// Whole numbers >= low.
constexpr WholeNumber at_least(std::uint64_t low) { return {.low = low}; }
/// Whole numbers in [low, high].
constexpr WholeNumber between(std::uint64_t low, std::uint64_t high) { return {low, high}; }

/// A number of steps: a whole number, or a percentage of train.steps in (0%, 100%], such as 5%.
struct StepCount : WholeNumber {
  /// The percentage of a text such as "5%" or "2.5%"; nullopt for other texts.
  static std::optional<double> parse_percentage(std::string_view text);

  /// Describes the set in messages.
  std::string expected() const;
  /// The number of a text, or why it is not a number. Rejects percentages, see parse_percentage().
  Parsed<std::uint64_t> parse(std::string_view text) const;
};

/// Numbers of steps >= low.
constexpr StepCount steps_from(std::uint64_t low) { return {{.low = low}}; }
/// Numbers of steps in [low, high].
constexpr StepCount steps_between(std::uint64_t low, std::uint64_t high) { return {{low, high}}; }

/// A finite number such as 0.1 or 1e-3, in an interval whose ends are each open or closed.
struct RealNumber {
  double low = 0.0;                                       ///< the lower end
  double high = std::numeric_limits<double>::infinity();  ///< the upper end
  bool has_low = true;   ///< whether the lower end is in the interval
  bool has_high = true;  ///< whether the upper end is in the interval

  std::string expected() const;                       ///< see WholeNumber
  Parsed<double> parse(std::string_view text) const;  ///< see WholeNumber
  static std::string print(double value);  ///< the shortest text that parses to the same double
};

/// Numbers >= 0.
constexpr RealNumber not_negative() { return {}; }
/// Numbers > 0.
constexpr RealNumber positive() { return {.has_low = false}; }
/// Numbers in [low, high].
constexpr RealNumber between_reals(double low, double high) { return {.low = low, .high = high}; }
/// Numbers in [0, 1).
constexpr RealNumber from_0_below_1() { return {.high = 1.0, .has_high = false}; }

/// A number, or a word that means no number.
struct NumberOrWord {
  RealNumber number;      ///< the numbers
  std::string_view word;  ///< the text of nullopt

  std::string expected() const;                                      ///< see WholeNumber
  Parsed<std::optional<double>> parse(std::string_view text) const;  ///< see WholeNumber
  std::string print(std::optional<double> value) const;              ///< see WholeNumber
};

/// A time in days, hours, minutes and seconds, such as 3h50m; at most 10,000 days.
struct Duration {
  static std::string expected() { return "a time such as 3h50m, 90s or 1d12h"; }  ///< likewise
  static Parsed<std::chrono::seconds> parse(std::string_view text);  ///< see WholeNumber
  static std::string print(std::chrono::seconds value);              ///< see WholeNumber
};

/// `true` or `false`.
struct Flag {
  static std::string expected() { return "true or false"; }                  ///< see WholeNumber
  static Parsed<bool> parse(std::string_view text);                          ///< see WholeNumber
  static std::string print(bool value) { return value ? "true" : "false"; }  ///< see WholeNumber
};

/// Any text, including the empty text.
struct Text {
  static std::string expected() { return "a text"; }  ///< see WholeNumber
  static Parsed<std::string> parse(std::string_view text) { return std::string(text); }  ///< as is
  static std::string print(std::string_view value);  ///< see WholeNumber
};

/// The path of a file; empty for none. load_config() makes it absolute.
struct FilePath : Text {
  static std::string expected() { return "a path"; }  ///< see WholeNumber
};

/// The paths of files: one, or a list such as `[a.txt, b.txt]`; empty for none. load_config() makes
/// them absolute.
struct FilePaths {
  static std::string expected() { return "a path or a list of paths"; }  ///< see WholeNumber
  static Parsed<FileList> parse(std::string_view text);                  ///< see WholeNumber
  static std::string print(const FileList& value);                       ///< see WholeNumber
};

/// A list of whole numbers, such as `[1, 3]`; one number is a list of one.
struct WholeNumbers {
  WholeNumber number;  ///< the numbers

  std::string expected() const;                                         ///< see WholeNumber
  Parsed<std::vector<std::size_t>> parse(std::string_view text) const;  ///< see WholeNumber
  static std::string print(const std::vector<std::size_t>& value);      ///< see WholeNumber
};

/// `["a", "b"]`: the text of a list, as the parse functions of lists take it.
std::string print_list(const std::vector<std::string>& items);

/// The path of a folder of data; empty for the folder of the config file.
struct FolderPath : Text {
  static std::string expected() { return "a path"; }  ///< see WholeNumber
};

/// The path of a run directory; empty for the default. A path that could not be created, or could
/// not be written into a config, is rejected: a name of more than 255 bytes, a path of more than
/// 4000, control characters, bytes that are not UTF-8. So is `~`, which only a shell expands.
struct RunPath : Text {
  static std::string expected() { return "a path"; }        ///< see WholeNumber
  static Parsed<std::string> parse(std::string_view text);  ///< see WholeNumber
};

/// `a`, `a or b`, `a, b or c`.
std::string list_in_words(const std::vector<std::string>& words);

/// The index of the value in `names`, or a Diagnostic.
Parsed<std::size_t> parse_choice(std::string_view text, const std::vector<std::string>& names);

/// One of a list of names.
struct OneOf {
  std::vector<std::string> names;                                ///< the valid texts
  std::string expected() const { return list_in_words(names); }  ///< see WholeNumber
  /// See WholeNumber.
  Parsed<std::string> parse(std::string_view text) const {
    const Parsed<std::size_t> index = parse_choice(text, names);
    if (const auto* error = std::get_if<Diagnostic>(&index)) return *error;
    return names[std::get<std::size_t>(index)];
  }
  static std::string print(const std::string& value) { return value; }  ///< see WholeNumber
};

/// One of the names of an enumeration.
template <class E>
struct Choice {
  /// The names of all values.
  static std::vector<std::string> names() {
    std::vector<std::string> result;
    for (const Named<E>& choice : choices_of<E>) result.emplace_back(choice.name);
    return result;
  }

  static std::string expected() { return list_in_words(names()); }  ///< see WholeNumber
  /// See WholeNumber.
  static Parsed<E> parse(std::string_view text) {
    const Parsed<std::size_t> index = parse_choice(text, names());
    if (const auto* error = std::get_if<Diagnostic>(&index)) return *error;
    return choices_of<E>[std::get<std::size_t>(index)].value;
  }

  static std::string print(E value) { return std::string(choice_name(value)); }  ///< likewise
};

/// The value of any key; the value of an enumeration is its name.
using FieldValue =
    std::variant<bool, std::uint64_t, double, std::optional<double>, std::chrono::seconds,
                 std::string, FileList, std::vector<std::size_t>>;

/// The domain of any key: one of those above. The domain of an enumeration is OneOf its
/// names.
class Domain {
 public:
  /// One of the domains.
  using Any = std::variant<WholeNumber, StepCount, RealNumber, NumberOrWord, Duration, Flag, Text,
                           FilePath, FilePaths, FolderPath, RunPath, WholeNumbers, OneOf>;

  /// Not explicit: a function that takes a Domain takes any of them.
  template <class D>
  requires std::constructible_from<Any, D> Domain(D domain) : domain_(std::move(domain)) {}
  /// The domain of an enumeration.
  template <class E>
  Domain(Choice<E>) : domain_(OneOf{Choice<E>::names()}) {}

  /// Describes the set in messages.
  std::string expected() const;  ///< see WholeNumber
  /// The value of a text, or why it is not in the set.
  Parsed<FieldValue> parse(std::string_view text) const;  ///< see WholeNumber
  /// The value as YAML text.
  std::string print(const FieldValue& value) const;  ///< see WholeNumber

  /// Whether this is the domain D.
  template <class D>
  bool is() const {
    return std::holds_alternative<D>(domain_);
  }
  /// Whether a value may be a list in YAML.
  bool is_list() const { return is<FilePaths>() || is<WholeNumbers>(); }
  /// Whether the values are paths of data files.
  bool is_file() const { return is<FilePath>() || is<FilePaths>(); }
  /// Whether the values are paths of data files or of their folder.
  bool is_path() const { return is_file() || is<FolderPath>(); }
  /// Whether a value may be any text.
  bool is_text() const { return is_path() || is<Text>() || is<RunPath>(); }
  /// The values that are words; none for other numbers and texts.
  std::vector<std::string> words() const;

  /// The domain itself.
  const Any& any() const { return domain_; }

 private:
  Any domain_;
};

/// Calls f(path) for each path in the value of a path domain that is not empty.
void for_each_path(FieldValue& value, const std::function<void(std::string&)>& f);
/// Read-only version.
void for_each_path(const FieldValue& value, const std::function<void(const std::string&)>& f);

}  // namespace tapestry
