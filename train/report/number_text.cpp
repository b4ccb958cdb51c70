#include "train/report/number_text.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <limits>

#include "data/io/number.h"
#include "train/report/attention_text.h"

namespace tapestry {
namespace {

/// The sizes of a format.
struct Format {
  std::size_t characters;  ///< of a number
  int decades;             ///< number of exponents
};

Format number_format(NumberDigits digits) {
  switch (digits) {
    case NumberDigits::three:
      return {.characters = 2, .decades = 4};
    case NumberDigits::four:
      return {.characters = 3, .decades = 36};
    case NumberDigits::six:
      break;
  }
  return {.characters = 4, .decades = 31};
}

/// The least number with these digits: 100000 for six.
std::int64_t least_mantissa(NumberDigits digits) {
  std::int64_t power = 1;
  for (int i = 1; i < static_cast<int>(digits); ++i) power *= 10;
  return power;
}

/// A number in decimal: mantissa 10^(exponent - digits + 1).
struct Decimal {
  std::int64_t mantissa;
  int exponent;
};

/// x  finite and not 0
Decimal decimal(double x, NumberDigits digits) {
  std::array<char, 40> text{};
  const auto end = fmt::format_to_n(text.data(), text.size() - 1, "{:.{}e}", std::abs(x),
                                    static_cast<int>(digits) - 1)
                       .out;
  *end = '\0';
  std::int64_t mantissa = 0;
  const char* c = text.data();
  for (; *c != 'e'; ++c) {
    if (*c != '.') mantissa = 10 * mantissa + (*c - '0');
  }
  return {.mantissa = mantissa, .exponent = std::atoi(c + 1)};
}

bool has_digits(double x) { return std::isfinite(x) && x != 0.0; }

/// The greatest exponent; 0 if there are only zeros and numbers that are not finite.
int greatest_exponent(std::span<const double> numbers, NumberDigits digits) {
  double greatest = 0.0;
  for (const double x : numbers) {
    if (has_digits(x)) greatest = std::max(greatest, std::abs(x));
  }
  return greatest == 0.0 ? 0 : decimal(greatest, digits).exponent;
}

class Writer {
 public:
  Writer(int exponent, NumberDigits digits)
      : exponent_(exponent),
        digits_(digits),
        format_(number_format(digits)),
        least_(least_mantissa(digits)) {}

  void put(double x) {
    if (x == 0.0) {
      if (++zeros_ == alphabet_.size()) end_zeros();
      return;
    }
    end_zeros();
    if (!std::isfinite(x)) {
      text_ += ' ';
      text_ += std::isnan(x) ? 'n' : x > 0 ? 'p' : 'm';
      return;
    }
    put_digits(x);
  }

  std::string finish() {
    end_zeros();
    return std::move(text_);
  }

 private:
  void end_zeros() {
    if (zeros_ == 0) return;
    text_ += '~';
    text_ += alphabet_[zeros_ - 1];
    zeros_ = 0;
  }

  void put_digits(double x) {
    const auto [mantissa, exponent] = decimal(x, digits_);
    const int decade = exponent_ - exponent;
    if (decade >= format_.decades) {
      text_ += x > 0 ? " t" : " u";
      return;
    }
    std::int64_t code = (decade * 2 + (x < 0 ? 1 : 0)) * 9 * least_ + mantissa - least_;
    const auto base = static_cast<std::int64_t>(alphabet_.size());
    std::array<char, 4> characters{};
    for (std::size_t i = format_.characters; i-- > 0; code /= base) {
      characters[i] = alphabet_[static_cast<std::size_t>(code % base)];
    }
    text_.append(characters.data(), format_.characters);
  }

  std::string_view alphabet_ = level_characters();
  int exponent_;
  NumberDigits digits_;
  Format format_;
  std::int64_t least_;
  std::size_t zeros_ = 0;
  std::string text_;
};

double special(char kind) {
  switch (kind) {
    case 'n':
      return std::numeric_limits<double>::quiet_NaN();
    case 'p':
      return std::numeric_limits<double>::infinity();
    case 'm':
      return -std::numeric_limits<double>::infinity();
    case 'u':
      return -0.0;
    default:
      return 0.0;
  }
}

}  // namespace

std::size_t characters_per_number(NumberDigits digits) { return number_format(digits).characters; }

NumberText numbers_to_text(std::span<const double> numbers, NumberDigits digits) {
  const int exponent = greatest_exponent(numbers, digits);
  Writer writer(exponent, digits);
  for (const double x : numbers) writer.put(x);
  return {.exponent = exponent, .text = writer.finish()};
}

std::vector<double> numbers_from_text(const NumberText& text, NumberDigits digits) {
  const std::string_view alphabet = level_characters();
  const std::size_t characters = number_format(digits).characters;
  const std::int64_t least = least_mantissa(digits);
  std::vector<double> numbers;
  for (std::size_t at = 0; at < text.text.size();) {
    const char first = text.text[at];
    if (first == '~') {
      numbers.insert(numbers.end(), alphabet.find(text.text.at(at + 1)) + 1, 0.0);
      at += 2;
    } else if (first == ' ') {
      numbers.push_back(special(text.text.at(at + 1)));
      at += 2;
    } else {
      std::int64_t code = 0;
      for (std::size_t i = 0; i < characters; ++i) {
        code = code * static_cast<std::int64_t>(alphabet.size()) +
               static_cast<std::int64_t>(alphabet.find(text.text.at(at + i)));
      }
      at += characters;
      const std::int64_t mantissa = code % (9 * least) + least, rest = code / (9 * least);
      const auto exponent =
          text.exponent - static_cast<int>(rest / 2) - static_cast<int>(digits) + 1;
      const std::string number =
          fmt::format("{}{}e{}", rest % 2 == 1 ? "-" : "", mantissa, exponent);
      numbers.push_back(parse_number<double>(number).value());
    }
  }
  return numbers;
}

}  // namespace tapestry
