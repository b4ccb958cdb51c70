// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/gradcheck/tensor_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "autograd/error.h"

namespace tapestry {

const char* name(GradcheckVerdict verdict) {
  switch (verdict) {
    case GradcheckVerdict::agrees:
      return "agrees";
    case GradcheckVerdict::wrong:
      return "wrong";
    case GradcheckVerdict::inconclusive:
      return "inconclusive";
    case GradcheckVerdict::too_small:
      return "too small";
  }
  return "";
}

std::size_t GradcheckReport::count(GradcheckVerdict verdict) const {
  return static_cast<std::size_t>(std::ranges::count(rows, verdict, &GradcheckRow::verdict));
}

double GradcheckReport::worst_relative_error() const {
  double worst = 0.0;
  for (const GradcheckRow& row : rows) worst = std::max(worst, row.worst_relative_error);
  return worst;
}

bool GradcheckReport::passed() const {
  if (count(GradcheckVerdict::wrong) > 0) return false;
  return rows.empty() || std::ranges::any_of(rows, [](const GradcheckRow& row) {
           return row.verdict == GradcheckVerdict::agrees ||
                  (row.verdict != GradcheckVerdict::too_small &&
                   row.coordinates.conclusive() + row.directions.conclusive() > 0);
         });
}

namespace gradcheck_detail {
namespace {

bool close(double a, double b) { return std::abs(a - b) <= 1e-6 * std::abs(b); }

/// The likely cause of a gradient that is wrong by this factor.
std::string likely_cause(double factor, const Shape& shape) {
  if (close(factor, -1.0)) return "its sign is wrong";
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
    const auto n = static_cast<double>(shape[axis]);
    if (n < 2) continue;
    if (close(factor, n))
      return fmt::format("axis {} has length {}: a division by it is missing", axis, n);
    if (close(factor, 1.0 / n)) {
      return fmt::format("axis {} has length {}: there is an extra division by it", axis, n);
    }
  }
  const auto size = static_cast<double>(shape.size());
  if (size > 1 && close(factor, size))
    return fmt::format("a division by the size {} is missing", size);
  if (size > 1 && close(factor, 1.0 / size)) {
    return fmt::format("there is an extra division by the size {}", size);
  }
  if (close(factor, 2.0)) return "a contribution may be counted twice";
  if (close(factor, 0.5))
    return "a factor of 2 (from a square?) may be missing, or one of two contributions";
  return "a factor is missing or extra";
}

std::string kind_of_error(const GradcheckRow& row) {
  if (std::isinf(row.worst_relative_error)) return "not finite";
  if (!row.has_gradient) return "missing, but the output depends on the tensor";
  if (row.gradient_norm == 0.0) return "all zero, but the output depends on the tensor";
  if (std::isnan(row.cosine)) {
    return "different from finite differences (single coordinates are inconclusive)";
  }
  if (std::abs(row.factor - 1.0) < 1e-4 && row.cosine > 1.0 - 1e-4) {
    return "correct except for small or isolated errors";
  }
  if (row.cosine * row.cosine > 1.0 - 1e-9) {
    return fmt::format("{:.6g} times the correct gradient: {}", row.factor,
                       likely_cause(row.factor, row.shape));
  }
  return fmt::format("not a multiple of the correct gradient (cosine {:.6g})", row.cosine);
}

}  // namespace

std::string format_place(const Shape& shape, std::optional<std::size_t> coordinate) {
  if (!coordinate) return "a direction";
  return shape.size() == 0 ? "" : place_in(shape, *coordinate);
}

std::string explanation(const GradcheckRow& row) {
  const std::string place = row.worst_coordinate
                                ? "at " + format_place(row.shape, row.worst_coordinate)
                                : "along a random direction";
  return fmt::format("the gradient is {}; {} backward gives {:.9g}, finite differences give {:.9g}",
                     kind_of_error(row), place, printable(row.analytic), printable(row.numeric));
}

}  // namespace gradcheck_detail

namespace {

using gradcheck_detail::explanation;
using gradcheck_detail::format_place;

std::string number(double value, int digits) {
  return std::isnan(value) ? "-" : fmt::format("{:.{}g}", value, digits);
}

/// A line of a table whose names are at most `width` long.
template <class... Cells>
std::string table_line(std::size_t width, const std::string& name, const Cells&... cells) {
  return fmt::format("{:<{}}  {:<14} {:>9} {:>9}  {:<16} {:>13} {:>13} {:>9} {:>9}  {}\n", name,
                     width, cells...);
}

std::string line(std::size_t width, const GradcheckRow& row) {
  return table_line(width, row.name, to_string(row.shape), number(row.gradient_norm, 3),
                    fmt::format("{:.1e}", row.worst_relative_error),
                    format_place(row.shape, row.worst_coordinate), number(row.analytic, 6),
                    number(row.numeric, 6), number(row.cosine, 6), number(row.factor, 5),
                    name(row.verdict));
}

/// One line per tensor, under a heading for each output.
std::string table(const GradcheckReport& report) {
  std::size_t width = 6;
  for (const GradcheckRow& row : report.rows) width = std::max(width, row.name.size());
  std::string text;
  for (std::size_t i = 0; i < report.rows.size(); ++i) {
    const std::string& output = report.rows[i].output;
    if (i == 0 || output != report.rows[i - 1].output) {
      text += table_line(width, output.empty() ? "tensor" : "gradients of the " + output, "shape",
                         "norm", "error", "at", "backward", "numerical", "cosine", "factor", "");
    }
    text += line(width, report.rows[i]);
  }
  return text;
}

std::string named(const GradcheckRow& row) {
  return row.output.empty() ? row.name : fmt::format("{} (of {})", row.name, row.output);
}

template <class Condition>
std::string listed(const GradcheckReport& report, const char* title, Condition applies) {
  std::string names;
  for (const GradcheckRow& row : report.rows) {
    if (applies(row)) names += fmt::format("\n  {}", named(row));
  }
  return names.empty() ? "" : fmt::format("{}{}\n", title, names);
}

std::string inconclusive(const GradcheckReport& report) {
  std::string text;
  for (const GradcheckRow& row : report.rows) {
    const std::size_t count = row.coordinates.inconclusive + row.directions.inconclusive;
    if (count == 0) continue;
    text += fmt::format("\n  {}: {} of {} comparisons{}", named(row), count,
                        row.coordinates.checked + row.directions.checked,
                        row.inconclusive_coordinate
                            ? ", such as at " + format_place(row.shape, row.inconclusive_coordinate)
                            : "");
  }
  return text.empty() ? "" : "inconclusive (a kink or cancellation):" + text + "\n";
}

std::string too_small(const GradcheckReport& report) {
  std::string text;
  for (const GradcheckRow& row : report.rows) {
    if (row.verdict != GradcheckVerdict::too_small) continue;
    text += fmt::format("\n  {}: norm {:.1e}; norms below {:.1e} cannot be distinguished from zero",
                        named(row), row.gradient_norm, row.least_norm);
  }
  return text.empty()
             ? ""
             : "not distinguishable from zero (zero, or below the rounding error):" + text + "\n";
}

std::string wrong(const GradcheckReport& report) {
  std::string text;
  for (const GradcheckRow& row : report.rows) {
    if (row.verdict != GradcheckVerdict::wrong) continue;
    text += fmt::format("wrong: {}: {}\n", named(row), explanation(row));
  }
  return text;
}

std::string shapes(const std::vector<Shape>& inputs) {
  std::string text;
  for (const Shape& shape : inputs) text += (text.empty() ? "" : ", ") + to_string(shape);
  return text;
}

std::string located(const GradcheckReport& report) {
  if (report.first_wrong) {
    const FaultyOperation& found = *report.first_wrong;
    std::string text =
        fmt::format("first wrong operation: {} (number {} of {} recorded), {}, inputs {}\n",
                    found.operation, found.index + 1, found.recorded,
                    found.layer_path.empty() ? "outside of layers" : "in " + found.layer_path,
                    shapes(found.inputs));
    for (const auto& [input, row] : found.wrong_inputs) {
      text += fmt::format("  input {}: {}\n", input + 1, explanation(row));
    }
    return text;
  }
  const bool missing = std::ranges::any_of(report.rows, [](const GradcheckRow& row) {
    return row.verdict == GradcheckVerdict::wrong && !row.has_gradient;
  });
  return fmt::format(
      "every operation is correct when checked separately: look for values that leave the tape "
      "through detach(), viewed_as(), to_vector() or a NoGrad guard{}\n",
      missing ? ""
              : "; then check how contributions to one gradient are added, and look for values "
                "that change between calls");
}

}  // namespace

std::string to_string(const GradcheckReport& report) {
  std::string text = table(report);
  text += listed(report,
                 "without a gradient:", [](const GradcheckRow& row) { return !row.has_gradient; });
  text += listed(report, "zero everywhere:", [](const GradcheckRow& row) {
    return row.has_gradient && row.zero && row.verdict != GradcheckVerdict::too_small;
  });
  text += too_small(report) + inconclusive(report) + wrong(report);
  if (report.count(GradcheckVerdict::wrong) > 0) {
    text += located(report);
  } else if (!report.passed()) {
    text +=
        report.count(GradcheckVerdict::too_small) == 0
            ? "no gradient could be checked: all comparisons are inconclusive\n"
            : "no gradient could be checked: all are inconclusive or below the rounding error\n";
  }
  const std::size_t small = report.count(GradcheckVerdict::too_small);
  return text + fmt::format(
                    "{} gradient{}: {} agree, {}{} wrong, {} inconclusive; worst relative "
                    "error {:.1e}\n",
                    report.rows.size(), report.rows.size() == 1 ? "" : "s",
                    report.count(GradcheckVerdict::agrees),
                    small > 0 ? fmt::format("{} too small, ", small) : "",
                    report.count(GradcheckVerdict::wrong),
                    report.count(GradcheckVerdict::inconclusive), report.worst_relative_error());
}

}  // namespace tapestry
