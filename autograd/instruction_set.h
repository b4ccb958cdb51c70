// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <span>
#include <string_view>

namespace tapestry {

/// The sets of kernels in this build, from the narrowest vectors to the widest: "baseline"
/// (supported by every processor of the architecture), "avx2" (AVX2 and FMA) and "avx512" (AVX-512
/// F, BW, CD, DQ and VL), or only "native" in a build with TAPESTRY_KERNELS=native.
///
/// The bits of results depend on the set and on no other property of the processor.
std::span<const std::string_view> compiled_kernels();

/// Whether this processor can execute the set `name`, one of compiled_kernels().
bool processor_can_execute(std::string_view name);

/// Makes all operations use the set `name`. "auto" is the set that the environment variable
/// TAPESTRY_KERNELS names, or else the last of compiled_kernels() that the processor can execute;
/// it is used from the start of the program. Call this only while no operation runs.
///
/// throws  ValueError if this build has no set `name`, or the processor cannot execute it.
void use_kernels(std::string_view name);

/// The name of the set in use.
std::string_view kernels_in_use();

}  // namespace tapestry
