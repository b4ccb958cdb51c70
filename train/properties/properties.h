#pragma once

#include <span>

#include "train/properties/property.h"

/// What goes wrong in a model without a word, one property each. Where bits are compared nothing is
/// allowed for; every other allowance stands beside its property and in its result.
namespace tapestry {

/// dlogits[t] / d(target input after t) is exactly 0, and not all of it is 0 up to t; the same for
/// inputs behind and within a sentence that is read as a whole.
PropertyResult causality(const Subject& subject);

/// What stands in the padding changes no bit of any token's logits, nor do more columns of it, nor
/// of the loss (up to allowed_rounding()).
PropertyResult padding(const Subject& subject);

/// The sentences of a batch in another order have the same logits in that order, to the last bit
/// (up to allowed_rounding()).
PropertyResult permutation(const Subject& subject);

/// Logits, loss and gradients, with dropout, have the same bits on 1, 2, 3 and all threads.
PropertyResult threads(const Subject& subject);

/// The gradients of two halves of a batch, each divided by the tokens of both, add up to those of
/// the whole.
PropertyResult halves(const Subject& subject);

/// A step done again has the same bits, with dropout; gradients that are not cleared double, up to
/// rounding.
PropertyResult backward_twice(const Subject& subject);

/// Loss and gradients in float32 are those in float64, up to rounding.
PropertyResult precision(const Subject& subject);

/// Before training, every word is about as likely as any other: the loss is near ln(vocabulary), or
/// somewhat above; half a nat or more with tied embeddings.
PropertyResult first_loss(const Subject& subject);

/// A few sentences can be learned until hardly any loss is left above least_loss(), in float32,
/// without dropout and smoothing.
PropertyResult by_heart(const Subject& subject);

/// The loss depends on every parameter.
PropertyResult reached(const Subject& subject);

/// All of the above, in this order.
std::span<const Property> properties();

}  // namespace tapestry
