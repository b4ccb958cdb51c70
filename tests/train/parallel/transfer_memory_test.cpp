#include "train/parallel/transfer_memory.h"

#include <doctest/doctest.h>

#include <cstddef>

namespace tapestry {
namespace {

using kernels::Memory;

constexpr std::size_t bytes = 256;

TEST_CASE("memory of transfers is shared until it is released") {
  const Memory first(bytes), second(bytes);
  TransferMemory memory;
  memory.keep(first);
  memory.keep(first);
  memory.keep(second);
  CHECK_FALSE(first.unique());
  CHECK_FALSE(second.unique());
  memory.release();
  CHECK(first.unique());
  CHECK(second.unique());
  memory.keep(first);
  CHECK_FALSE(first.unique());
}

TEST_CASE("memory of transfers is given up with its object, unless it is abandoned") {
  const Memory freed(bytes), kept(bytes), also_kept(bytes);
  { TransferMemory().keep(freed); }
  CHECK(freed.unique());
  for (const Memory* const block : {&kept, &also_kept}) {
    TransferMemory memory;
    memory.keep(*block);
    memory.abandon();
  }
  CHECK_FALSE(kept.unique());
  CHECK_FALSE(also_kept.unique());
}

}  // namespace
}  // namespace tapestry
