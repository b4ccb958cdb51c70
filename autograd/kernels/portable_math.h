// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// Functions of one double whose bits are the same on every processor: libm's functions use fused
/// multiply-adds where the processor has them, and differ between versions of libm. Use these
/// functions for everything that a training result depends on; kernels use their vector forms.
///
/// Largest relative errors measured against long double, in units of 2^-53: exp 1.3, log 1.4, sin
/// and cos 2 for |x| <= 7 and 3 for |x| <= 1e5, pow 4 + |y log x|.
namespace tapestry::portable {

/// 0 where the result would be below the smallest normal number, infinity from 709.43 on.
double exp(double x);
double log(double x);
double sin(double x);
double cos(double x);
/// x^y, by multiplications if y is an integer of at most 64, otherwise e^(y log |x|), with the sign
/// of x for odd y. NaN for x < 0 unless y is an integer, and if y is NaN, even if x is 1.
/// A zero x counts as positive.
double pow(double x, double y);

}  // namespace tapestry::portable
