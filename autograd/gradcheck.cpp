#include "autograd/gradcheck.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "autograd/error.h"
#include "autograd/gradcheck/audit.h"
#include "autograd/gradcheck/objectives.h"
#include "autograd/gradcheck/tensor_check.h"

namespace tapestry {
namespace {

using gradcheck_detail::Audit;
using gradcheck_detail::Objectives;

void require_checkable(const NamedTensor& named) {
  if (named.tensor.dtype() != DType::float64) {
    throw DTypeError(
        fmt::format("gradcheck: `{}` is {}, expected float64: differences of float32 "
                    "values are too coarse",
                    named.name, name(named.tensor.dtype())));
  }
  if (!named.tensor.requires_gradient()) {
    throw ValueError(fmt::format("gradcheck: `{}` requires no gradient", named.name));
  }
}

void require_usable(const GradcheckOptions& options) {
  const auto require = [](bool usable, const char* field, double value) {
    if (usable) return;
    throw ValueError(
        fmt::format("gradcheck: {} is {}, expected a finite number > 0", field, value));
  };
  require(std::isfinite(options.step) && options.step > 0, "step", options.step);
  require(std::isfinite(options.tolerance) && options.tolerance > 0, "tolerance",
          options.tolerance);
}

/// The operations on the way to the output of the first wrong row are checked one by one.
std::optional<FaultyOperation> locate(const GradcheckReport& report, const Objectives& objectives,
                                      std::span<const NamedTensor> tensors,
                                      const GradcheckOptions& options) {
  const auto wrong =
      std::ranges::find(report.rows, GradcheckVerdict::wrong, &GradcheckRow::verdict);
  if (wrong == report.rows.end()) return std::nullopt;
  const auto output = static_cast<std::size_t>(wrong - report.rows.begin()) / tensors.size();
  Audit audit;
  objectives.gradients(output, tensors, &audit);
  return audit.first_wrong(options);
}

}  // namespace

const char* name(GradcheckVerdict verdict) {
  switch (verdict) {
    case GradcheckVerdict::agrees:
      return "agrees";
    case GradcheckVerdict::wrong:
      return "wrong";
    case GradcheckVerdict::cannot_tell:
      return "cannot tell";
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

GradcheckReport gradcheck_outputs(const std::function<std::vector<NamedTensor>()>& function,
                                  std::span<const NamedTensor> tensors,
                                  const GradcheckOptions& options) {
  require_usable(options);
  std::ranges::for_each(tensors, require_checkable);
  const Objectives objectives(function, options.seed);
  GradcheckReport report;
  report.rows = gradcheck_detail::check(objectives, tensors, options);
  if (options.locate) report.first_wrong = locate(report, objectives, tensors, options);
  return report;
}

GradcheckReport gradcheck(const std::function<Tensor()>& function,
                          std::span<const NamedTensor> tensors, const GradcheckOptions& options) {
  return gradcheck_outputs(
      [&] {
        return std::vector<NamedTensor>{{"", function()}};
      },
      tensors, options);
}

}  // namespace tapestry
