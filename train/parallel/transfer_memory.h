#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "autograd/kernels/memory.h"

namespace tapestry {

/// Blocks of memory that transfers read from and write to, which must not be freed before these are
/// done.
class TransferMemory {
 public:
  /// Shares the block until release().
  void keep(const kernels::Memory& block);
  /// Gives up all blocks: when all transfers are done.
  void release() { blocks_->list.clear(); }
  /// Keeps all blocks until the program ends, for transfers that nothing waits for. Allocates no
  /// memory. The object must not be used afterwards.
  void abandon();

 private:
  struct Blocks {
    std::vector<kernels::Memory> list{};
    Blocks* next = nullptr;  ///< in the list of those that are never freed
  };
  /// Those that are never freed; a list, so that leak checkers find them.
  inline static std::atomic<Blocks*> never_freed_ = nullptr;

  std::unique_ptr<Blocks> blocks_ = std::make_unique<Blocks>();
};

}  // namespace tapestry
