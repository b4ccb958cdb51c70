// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "train/config/domain.h"

/// The syntax of numbers and times in configs, which class Domain uses.
namespace tapestry {

// Describe a set in messages: "a whole number >= 1".
std::string expected(const WholeNumber& set);
std::string expected(const StepCount& set);
std::string expected(const RealNumber& set);
std::string expected(const NumberOrWord& set);
std::string expected(const Duration& set);

// Parse a value like Domain::parse().
Parsed parse(const WholeNumber& set, std::string_view text);
Parsed parse(const StepCount& set, std::string_view text);
Parsed parse(const RealNumber& set, std::string_view text);
Parsed parse(const NumberOrWord& set, std::string_view text);
Parsed parse(const Duration& set, std::string_view text);

/// The number of a percentage in (0%, 100%], such as 5 for "5%"; nullopt for other texts.
std::optional<double> parse_percentage(std::string_view text);

/// Formats a time such as 1d2h. parse() reads this format.
std::string to_text(std::chrono::seconds value);

}  // namespace tapestry
