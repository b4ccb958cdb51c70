#pragma once

#include <cstdint>
#include <span>

#include "autograd/tensor.h"
#include "layers/transformer_options.h"

namespace tapestry {

/// One vector for a whole sequence: that of its first token, which stands for the class [1], or the
/// mean over its tokens.
///
/// x        (rows, length, d_model)
/// lengths  (rows): tokens of each, 1 to length; none if no row has padding
/// returns  (rows, 1, d_model)
/// throws   ShapeError for the mean, if there are lengths and they do not fit x
///
/// [1] Devlin et al. 2019, "BERT", section 3; Dosovitskiy et al. 2021, section 3.1.
Tensor pool(PoolingKind kind, const Tensor& x, std::span<const std::int32_t> lengths);

}  // namespace tapestry
