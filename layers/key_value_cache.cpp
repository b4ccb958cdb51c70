#include "layers/key_value_cache.h"

#include <fmt/format.h>

#include <algorithm>

#include "autograd/dtype.h"
#include "autograd/error.h"
#include "autograd/kernels/copy.h"

namespace tapestry {
namespace {

/// Copies the first `count` tokens of every sequence to the tokens of `room` from `position` on.
void write(const Tensor& tokens, std::size_t count, std::size_t position, Tensor& room) {
  const Shape& shape = tokens.shape();
  dispatch(tokens.dtype(), [&]<class T>() {
    kernels::copy_rows<T>(
        shape[0], count * shape[2], tokens.values<T>().data(), shape[1] * shape[2],
        {room.mutable_values<T>().data() + position * shape[2]}, room.shape()[1] * shape[2]);
  });
}

/// Room for `length` tokens and half as many again, so that appending one token at a time copies
/// each of them a bounded number of times; holds the first `used` tokens of `old`.
Tensor with_room(const Tensor& old, std::size_t length, std::size_t used) {
  const Shape& shape = old.shape();
  Tensor room = Tensor::empty({shape[0], length + length / 2 + 8, shape[2]}, old.dtype());
  write(old, used, 0, room);
  return room;
}

void require_same_sequences(const Tensor& cached, const Tensor& added, const char* which) {
  const bool fits = added.rank() == 3 && added.shape()[0] == cached.shape()[0] &&
                    added.shape()[2] == cached.shape()[2];
  if (fits && added.dtype() == cached.dtype()) return;
  throw ShapeError(fmt::format("key-value cache: {} have shape {}, expected ({}, length, {}) of {}",
                               which, to_string(added.shape()), cached.shape()[0],
                               cached.shape()[2], name(cached.dtype())));
}

/// Whether every sequence that is copied stays in its place, so that no copy overwrites the source
/// of another one.
bool can_copy_in_place(std::span<const std::size_t> rows, std::size_t old_rows) {
  if (rows.size() != old_rows) return false;
  return std::ranges::all_of(rows, [&](std::size_t source) { return rows[source] == source; });
}

/// Copies the first `length` tokens of sequence rows[i] of `from` to place i of `to`, which may be
/// the same tensor.
void copy_sequences(const Tensor& from, std::span<const std::size_t> rows, std::size_t length,
                    Tensor& to) {
  const std::size_t sequence = from.shape()[1] * from.shape()[2];
  const bool in_place = from.memory().data() == to.memory().data();
  dispatch(from.dtype(), [&]<class T>() {
    T* const out = to.mutable_values<T>().data();
    const T* const in = in_place ? out : from.values<T>().data();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (in_place && rows[i] == i) continue;
      kernels::copy_rows<T>(1, length * from.shape()[2], in + rows[i] * sequence, sequence,
                            {out + i * sequence}, sequence);
    }
  });
}

Tensor selected(const Tensor& old, std::span<const std::size_t> rows, std::size_t length,
                bool may_overwrite) {
  const Shape& shape = old.shape();
  Tensor chosen = may_overwrite && can_copy_in_place(rows, shape[0])
                      ? old
                      : Tensor::empty({rows.size(), shape[1], shape[2]}, old.dtype());
  copy_sequences(old, rows, length, chosen);
  return chosen;
}

}  // namespace

KeyValueCache::KeyValueCache(const Tensor& keys, const Tensor& values)
    : keys_(keys), values_(values), length_(keys.shape()[1]) {
  require_same_sequences(keys, values, "values");
}

std::size_t KeyValueCache::rows() const { return keys_.defined() ? keys_.shape()[0] : 0; }

void KeyValueCache::append(const Tensor& keys, const Tensor& values) {
  if (keys_.defined()) {
    require_same_sequences(keys_, keys, "keys");
    require_same_sequences(values_, values, "values");
  }
  const std::size_t added = keys.shape()[1], length = length_ + added;
  if (!owned_ || length > keys_.shape()[1]) {
    keys_ = with_room(keys_.defined() ? keys_ : keys, length, length_);
    values_ = with_room(values_.defined() ? values_ : values, length, length_);
    owned_ = true;
  }
  write(keys, added, length_, keys_);
  write(values, added, length_, values_);
  length_ = length;
}

void KeyValueCache::select(std::span<const std::size_t> rows) {
  if (!keys_.defined()) return;
  for (const std::size_t row : rows) {
    if (row < this->rows()) continue;
    throw ValueError(
        fmt::format("key-value cache: sequence {} of {} is selected", row, this->rows()));
  }
  keys_ = selected(keys_, rows, length_, owned_);
  values_ = selected(values_, rows, length_, owned_);
  owned_ = true;
}

}  // namespace tapestry
