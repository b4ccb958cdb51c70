// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/attention_mask.h"

#include <fmt/format.h>

#include <algorithm>

#include "autograd/error.h"

namespace tapestry {

std::shared_ptr<const AttentionMask::Lengths> AttentionMask::shared(Lengths lengths) {
  return std::allocate_shared<const Lengths>(kernels::PoolAllocator<Lengths>(), std::move(lengths));
}

AttentionMask AttentionMask::padding(std::span<const std::int32_t> lengths) {
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    if (lengths[b] < 0) {
      throw ValueError(
          fmt::format("attention mask: length {} of sentence {} is negative", lengths[b], b));
    }
  }
  AttentionMask mask;
  mask.lengths_ = shared({lengths.begin(), lengths.end()});
  return mask;
}

AttentionMask AttentionMask::causal() {
  AttentionMask mask;
  mask.causal_ = true;
  return mask;
}

AttentionMask AttentionMask::window(std::size_t radius) {
  AttentionMask mask;
  mask.radius_ = radius;
  return mask;
}

AttentionMask AttentionMask::keep(std::size_t batch, std::size_t n_q, std::size_t n_k,
                                  std::vector<std::uint8_t> keep) {
  if (keep.size() != batch * n_q * n_k) {
    throw ShapeError(fmt::format("attention mask: found {} entries, expected {} for ({}, {}, {})",
                                 keep.size(), batch * n_q * n_k, batch, n_q, n_k));
  }
  AttentionMask mask;
  mask.keep_ = std::make_shared<const Keep>(Keep{batch, n_q, n_k, std::move(keep)});
  return mask;
}

AttentionMask AttentionMask::operator&(const AttentionMask& other) const {
  AttentionMask both = *this;
  both.causal_ = causal_ || other.causal_;
  both.radius_ = std::min(radius_, other.radius_);
  if (lengths_ == nullptr) {
    both.lengths_ = other.lengths_;
  } else if (other.lengths_ != nullptr) {
    other.require_batch("attention mask", lengths_->size());
    Lengths shorter = *lengths_;
    for (std::size_t b = 0; b < shorter.size(); ++b) {
      shorter[b] = std::min(shorter[b], (*other.lengths_)[b]);
    }
    both.lengths_ = shared(std::move(shorter));
  }
  if (keep_ == nullptr) {
    both.keep_ = other.keep_;
  } else if (other.keep_ != nullptr) {
    other.require_keep("attention mask", keep_->batch, keep_->n_q, keep_->n_k);
    Keep common = *keep_;
    for (std::size_t i = 0; i < common.values.size(); ++i) {
      if (other.keep_->values[i] == 0) common.values[i] = 0;
    }
    both.keep_ = std::make_shared<const Keep>(std::move(common));
  }
  return both;
}

std::span<const std::int32_t> AttentionMask::lengths() const {
  if (lengths_ == nullptr) return {};
  return *lengths_;
}

void AttentionMask::require_batch(const char* operation, std::size_t batch) const {
  if (lengths_ != nullptr && lengths_->size() != batch) {
    throw ShapeError(
        fmt::format("{}: the padding mask has {} lengths, expected {} (the batch size)", operation,
                    lengths_->size(), batch));
  }
}

void AttentionMask::require_keep(const char* operation, std::size_t batch, std::size_t n_q,
                                 std::size_t n_k) const {
  if (keep_ != nullptr && (keep_->batch != batch || keep_->n_q != n_q || keep_->n_k != n_k)) {
    throw ShapeError(fmt::format("{}: the keep-mask is ({}, {}, {}), expected ({}, {}, {})",
                                 operation, keep_->batch, keep_->n_q, keep_->n_k, batch, n_q, n_k));
  }
}

void AttentionMask::require_fitting(const char* operation, std::size_t batch, std::size_t n_q,
                                    std::size_t n_k) const {
  require_batch(operation, batch);
  require_keep(operation, batch, n_q, n_k);
  for (std::size_t b = 0; b < lengths().size(); ++b) {
    const auto length = static_cast<std::size_t>(lengths()[b]);
    if (length > n_k) {
      throw ValueError(
          fmt::format("{}: the length of sentence {} in the padding mask is {}, expected at most "
                      "{} (the number of keys)",
                      operation, b, length, n_k));
    }
  }
}

AttentionMask::Range AttentionMask::keys(std::size_t b, std::size_t i, std::size_t n_q,
                                         std::size_t n_k) const {
  // Positions may be negative if there are more queries than keys.
  const auto position = static_cast<std::ptrdiff_t>(i + n_k) - static_cast<std::ptrdiff_t>(n_q);
  std::ptrdiff_t first = 0;
  auto last = static_cast<std::ptrdiff_t>(n_k);
  if (lengths_ != nullptr) last = std::min<std::ptrdiff_t>(last, (*lengths_)[b]);
  if (causal_) last = std::min(last, position + 1);
  if (radius_ < n_q + n_k) {
    const auto radius = static_cast<std::ptrdiff_t>(radius_);
    first = std::max(first, position - radius);
    last = std::min(last, position + radius + 1);
  }
  last = std::max(first, last);
  return {.first = static_cast<std::size_t>(first), .last = static_cast<std::size_t>(last)};
}

const std::uint8_t* AttentionMask::keep_row(std::size_t b, std::size_t i) const {
  return keep_ == nullptr ? nullptr : keep_->values.data() + (b * keep_->n_q + i) * keep_->n_k;
}

}  // namespace tapestry
