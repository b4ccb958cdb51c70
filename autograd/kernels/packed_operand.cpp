#include "autograd/kernels/gemm.h"

namespace tapestry::kernels {

template <class T>
PackedOperand<T>::PackedOperand(std::size_t k, std::size_t n, Operand<T> b)
    : k_(k), n_(n), b_(b), memory_(pack_operand(k, n, b)) {}

template class PackedOperand<float>;
template class PackedOperand<double>;

}  // namespace tapestry::kernels
