#include "autograd/kernels/parallel.h"

#include <omp.h>

namespace tapestry::kernels {
namespace {

std::size_t& threads_setting() {
  static std::size_t threads = static_cast<std::size_t>(omp_get_num_procs());
  return threads;
}

}  // namespace

void set_num_threads(std::size_t threads) {
  threads_setting() = threads != 0 ? threads : static_cast<std::size_t>(omp_get_num_procs());
}

std::size_t num_threads() { return threads_setting(); }

namespace detail {

void run_pieces(std::size_t pieces, void (*body)(void*, std::size_t), void* context) {
  const std::size_t threads = std::min(num_threads(), pieces);
  if (threads <= 1 || omp_in_parallel() != 0) {
    for (std::size_t i = 0; i < pieces; ++i) body(context, i);
    return;
  }
#pragma omp parallel for schedule(dynamic) num_threads(static_cast<int>(threads))
  for (std::size_t i = 0; i < pieces; ++i) body(context, i);
}

}  // namespace detail
}  // namespace tapestry::kernels
