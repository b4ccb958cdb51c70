#include "train/parallel/transfer_memory.h"

namespace tapestry {

void TransferMemory::keep(const kernels::Memory& block) {
  std::vector<kernels::Memory>& list = blocks_->list;
  if (list.empty() || list.back().data() != block.data()) list.push_back(block);
}

/// Objects of several threads may do this at the same time.
void TransferMemory::abandon() {
  if (blocks_->list.empty()) return;
  Blocks* const kept = blocks_.release();
  kept->next = never_freed_.load();
  while (!never_freed_.compare_exchange_weak(kept->next, kept)) {
  }
}

}  // namespace tapestry
