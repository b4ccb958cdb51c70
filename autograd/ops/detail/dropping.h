#pragma once

#include <cstdint>

#include "autograd/kernels/target.h"
#include "autograd/random.h"
#include "autograd/tensor.h"

/// Shared by dropout and the operations fused with it. Internal.
namespace tapestry {

/// False if dropout changes nothing: at rate 0, or with a stream that is off. Throws ValueError,
/// naming `operation`, unless 0 <= rate <= 1.
bool drops_anything(const char* operation, double rate, const RandomStream& random);

/// y = dropout(x) on all threads, with random numbers of the stream that has this key.
template <class T>
void drop(std::uint64_t key, double rate, const Tensor& x, kernels::Target<T> y);

}  // namespace tapestry
