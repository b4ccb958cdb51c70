// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// The namespace of kernels: one for each instruction set that they are compiled for, such as
/// `kernels::avx2`, so that no function for one processor can be linked into code that runs on
/// another. The types of kernel arguments are in `kernels` itself.
///
/// All other code uses `in_use`, whose functions call the selected set (registry.h).
#if !defined(TAPESTRY_KERNELS_NAMESPACE)
#define TAPESTRY_KERNELS_NAMESPACE in_use
#endif
