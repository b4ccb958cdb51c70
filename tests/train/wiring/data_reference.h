#pragma once

#include <string>
#include <vector>

#include "data/corpus.h"
#include "tests/train/program.h"
#include "train/config/config.h"

/// What the data of a task must be, by the meaning of the keys alone: another, plainer reader of
/// files, and the rules of generated tasks.
namespace tapestry::test {

/// The corpus of parallel_text, text or labelled_text whose lines are words with single spaces.
Corpus read_plainly(const DataOptions& options);

/// Images of a table, all three parts from files of their own or held out of `train_images`.
void check_images(const DataOptions& options, const Corpus& corpus);

/// Sizes, vocabularies, lengths, answers, and that no held-out sentence occurs twice or in
/// training.
void check_generated(const DataOptions& options, const Corpus& corpus);

/// Both have the same words in the same order, and the same examples.
void check_same(const Corpus& found, const Corpus& expected);

}  // namespace tapestry::test
