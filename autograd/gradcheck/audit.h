#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autograd/gradcheck.h"
#include "autograd/tape_observer.h"

namespace tapestry::gradcheck_detail {

/// Keeps every operation of a tape with copies of its inputs, and checks each by itself afterwards,
/// under random weights of those elements of its output whose gradient was not exactly zero: behind
/// masks and at padding an operation may leave things out that nothing depends on.
class Audit final : public TapeObserver {
 public:
  void forward_ran(const RecordedCall& call) override;
  void backward_ran(const GradientSlot& output, const Tensor& dy) override;

  /// The first operation with a wrong gradient, in the order in which they ran.
  std::optional<FaultyOperation> first_wrong(const GradcheckOptions& options) const;

 private:
  struct Call {
    std::string operation, layer_path;
    std::vector<Tensor> inputs;  ///< copies; leaves where a gradient was wanted
    std::function<Tensor(std::span<const Tensor>)> again;
    const GradientSlot* output;  ///< tells calls apart while the tape lives
    Tensor dy;                   ///< no tensor if backward did not come by
  };

  std::optional<GradcheckRow> wrong_row(const Call& call, const GradcheckOptions& options) const;

  std::vector<Call> calls_;
};

}  // namespace tapestry::gradcheck_detail
