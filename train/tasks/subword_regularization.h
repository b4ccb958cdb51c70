#pragma once

#include "data/batch.h"
#include "data/batch_schedule.h"
#include "data/corpus.h"
#include "train/config/config.h"

namespace tapestry {

/// Subword regularization of training examples: other segmentations of the same text, drawn as
/// data.subword_alpha or data.subword_dropout say; empty if neither is set. A pure function of the
/// example, its index, the epoch and train.seed.
///
/// An example that would not fit the model keeps its own segmentation; a window of a text is cut to
/// its number of tokens, at a place that is drawn as well.
///
/// throws  DataError if the model of subwords is of another kind than the key.
ExampleTransform subword_regularization(const Config& config, const Corpus& corpus);

/// The lengths of training examples in an epoch, by which they are divided into batches; empty
/// without subword regularization, and for windows, which keep their lengths.
///
/// corpus  must outlive the function
/// throws  DataError as subword_regularization().
LengthsInEpoch lengths_in_epoch(const Config& config, const Corpus& corpus);

}  // namespace tapestry
