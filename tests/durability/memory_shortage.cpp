// SPDX-License-Identifier: BSD-3-Clause
#include "tests/durability/memory_shortage.h"

#include <execinfo.h>
#include <link.h>
#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <limits>

// The allocator of the C library, under names that this file does not replace.
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);
}

namespace {

// Shared by all threads, since checkpoints are written on a separate thread.
std::atomic<bool> counting = false;
bool lasting = false;
std::atomic<std::uint64_t> asked = 0;
std::uint64_t failing = 0;
constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max() / 2;
std::atomic<std::int64_t> taken = 0;  // bytes allocated and not freed
std::int64_t limit = no_limit;
thread_local bool looking = false;  // this thread is in is_inside_hdf5(), which may allocate

std::uintptr_t hdf5_begin = 0, hdf5_end = 0;  // addresses of the code of libhdf5

/// Shared with forked processes, which may crash.
bool& hdf5_met_failure = *static_cast<bool*>(
    ::mmap(nullptr, sizeof(bool), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));

int find_hdf5(dl_phdr_info* library, std::size_t /*size*/, void* /*data*/) {
  if (std::strstr(library->dlpi_name, "libhdf5") == nullptr) return 0;
  for (int i = 0; i < library->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = library->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    hdf5_begin = library->dlpi_addr + part.p_vaddr;
    hdf5_end = hdf5_begin + part.p_memsz;
  }
  return 1;
}

bool is_inside_hdf5() {
  std::array<void*, 64> frames{};
  const int count = ::backtrace(frames.data(), static_cast<int>(frames.size()));
  return std::any_of(frames.begin(), frames.begin() + count, [](const void* frame) {
    const auto address = reinterpret_cast<std::uintptr_t>(frame);
    return address >= hdf5_begin && address < hdf5_end;
  });
}

/// Whether an allocation must fail.
///
/// more  bytes that it allocates minus bytes that it frees
bool fails(std::uint64_t more) {
  if (!counting || looking) return false;
  const std::uint64_t number = ++asked;
  const bool is_chosen = failing != 0 && (lasting ? number >= failing : number == failing);
  if (!is_chosen && taken + static_cast<std::int64_t>(more) <= limit) return false;
  looking = true;
  if (is_inside_hdf5()) hdf5_met_failure = true;
  looking = false;
  errno = ENOMEM;
  return true;
}

void* counted(void* memory) {
  taken += static_cast<std::int64_t>(::malloc_usable_size(memory));
  return memory;
}

}  // namespace

// Definitions in a program replace the definitions in libraries, even for calls from libraries.
extern "C" {
void* malloc(std::size_t size) { return fails(size) ? nullptr : counted(__libc_malloc(size)); }

void* calloc(std::size_t count, std::size_t size) {
  return fails(count * size) ? nullptr : counted(__libc_calloc(count, size));
}

void* realloc(void* memory, std::size_t size) {
  const std::size_t old = ::malloc_usable_size(memory);
  if (fails(size > old ? size - old : 0)) return nullptr;
  taken -= static_cast<std::int64_t>(old);
  return counted(__libc_realloc(memory, size));
}

void* memalign(std::size_t alignment, std::size_t size) {
  return fails(size) ? nullptr : counted(__libc_memalign(alignment, size));
}

void* aligned_alloc(std::size_t alignment, std::size_t size) { return memalign(alignment, size); }

int posix_memalign(void** memory, std::size_t alignment, std::size_t size) {
  void* const block = memalign(alignment, size);
  if (block == nullptr) return ENOMEM;
  *memory = block;
  return 0;
}

void free(void* memory) {
  taken -= static_cast<std::int64_t>(::malloc_usable_size(memory));
  __libc_free(memory);
}
}

namespace tapestry::test {

void fail_allocation(std::uint64_t n, Shortage shortage) {
  ::dl_iterate_phdr(find_hdf5, nullptr);
  is_inside_hdf5();  // the first backtrace loads a library
  hdf5_met_failure = false;
  limit = no_limit;
  asked = 0;
  failing = n;
  lasting = shortage == Shortage::lasting;
  counting = true;
}

void limit_memory(std::uint64_t bytes) {
  fail_allocation(0, Shortage::once);
  limit = taken + static_cast<std::int64_t>(bytes);
}

bool failed_in_hdf5() { return hdf5_met_failure; }

std::uint64_t end_shortage() {
  counting = false;
  return asked;
}

}  // namespace tapestry::test
