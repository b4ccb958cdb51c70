// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "data/batch.h"
#include "layers/model.h"
#include "train/inference/sampler.h"

namespace tapestry {

struct Config;

/// Token ids of a sentence, with neither <bos> nor <eos>.
using Sentence = std::vector<std::int32_t>;

/// Options of search_outputs(). The member initializers are the defaults: greedy decoding.
struct SearchOptions {
  std::size_t beam_size = 1;  ///< hypotheses kept for each source, >= 1; 1: greedy
  std::size_t num_best = 1;   ///< outputs of each source, in [1, beam_size], or >= 1 samples
  /// Exponent alpha >= 0 of the length normalization [1]: finished hypotheses Y are ordered by log
  /// p(Y | X) / ((5 + |Y|) / 6)^alpha, where |Y| includes <eos>, even for outputs that are cut and
  /// have no <eos>. With 0, they are ordered by log p(Y | X).
  double length_penalty = 0.0;
  /// Minimum number of tokens in an output; <eos> is excluded until the minimum is reached. At most
  /// max_length, unless max_length is 0. An output may be shorter if it is cut at the maximum
  /// length for its source or the network.
  std::size_t min_length = 0;
  std::size_t max_length = 0;    ///< maximum tokens of an output; 0: 50 more than the source has
  std::size_t batch_size = 64;   ///< maximum sources of a batch, >= 1
  std::size_t batch_tokens = 0;  ///< maximum source tokens of a batch with padding; 0: any number
  /// Whether each token, by id, is forbidden in outputs. Ids beyond the end and <eos> are allowed.
  std::vector<bool> forbidden{};
  /// Length of the token sequences that must not occur twice in an output; 0: no limit.
  std::size_t no_repeat_ngram = 0;
  /// Samples num_best outputs instead of searching for them; beam_size is not used.
  std::optional<SamplingOptions> sampling{};
};

/// Input of search_outputs().
struct SearchInput {
  Sentence source;           ///< source tokens without <eos>
  Sentence prefix{};         ///< the first tokens of every output, regardless of probability
  std::uint64_t number = 0;  ///< keys the random numbers of sampling, together with the seed
};

/// An output of search_outputs(). Probabilities come from the model, without the effect of
/// forbidden tokens and sampling options.
struct Hypothesis {
  Sentence tokens;             ///< tokens of the output
  double log_probability = 0;  ///< log p(tokens, <eos> | source); without <eos> if the output was
                               ///< cut; NaN if the logits after the tokens are NaN or infinite
  double score = 0;            ///< log_probability after length normalization
};

/// Translates sources by beam search [1, 2], or samples translations. At each step the beam_size
/// most likely unfinished extensions of a source's hypotheses by one token are kept. Among equally
/// likely extensions, the more likely hypothesis is preferred, and then the lower token id.
/// Extensions by <eos> that are among the beam_size most likely of all extensions are finished, in
/// addition to the kept extensions. The search for a source ends when no unfinished hypothesis can
/// become better than num_best finished hypotheses; with length_penalty > 0 also when beam_size
/// hypotheses are finished. An output that has reached its maximum length is cut: it ends without
/// <eos>. An output contains <pad> and <bos> only if its prefix does.
///
/// A prefix is never changed: forbidden tokens, no_repeat_ngram and max_length constrain only the
/// tokens after it. Its tokens count for lengths, and its n-grams cannot be repeated.
///
/// With beam_size 1, the search is greedy decoding. Sources are decoded in batches of similar
/// length. A source leaves its batch when its search ends. The bits of each result depend only on
/// its input.
///
/// Each thread decodes a part of a batch, so that several threads call `network` at the same time.
/// With few sources, the threads divide each operation instead. All threads together decode about
/// one batch at a time, or 64 rows each if that is more; a source has a row for each of its
/// hypotheses.
///
/// Sampling draws each token of each output with draw_token(). Token t of output i depends only
/// on the seed, the number of the input, i, t and the preceding tokens.
///
/// network    reads source and target tokens
/// positions  maximum number of target tokens that the network reads; outputs have at most
///            positions - 1 tokens, since <bos> takes one position
/// returns    for each input, in order, its num_best outputs or fewer, the best first; empty if no
///            output satisfies the constraints. If logits are NaN or infinite, only the unfinished
///            output before them, with the log-probability NaN
/// throws     std::invalid_argument for options outside their range, for a prefix of positions or
///            more tokens, and for a token of a prefix that is not in the vocabulary; ShapeError
///            for a source longer than the network's positions
///
/// [1] Wu et al. 2016, "Google's Neural Machine Translation System", section 7; without coverage
///     penalty.
/// [2] Sutskever et al. 2014, "Sequence to Sequence Learning with Neural Networks", section 3.2.
std::vector<std::vector<Hypothesis>> search_outputs(const Network& network, std::size_t positions,
                                                    const std::vector<SearchInput>& inputs,
                                                    const SearchOptions& options = {});

/// Same as search_outputs() for inputs without prefixes, which are numbered from 0.
std::vector<std::vector<Hypothesis>> beam_search(const Network& network, std::size_t positions,
                                                 const std::vector<Sentence>& sources,
                                                 const SearchOptions& options = {});

/// The best output of each source; empty if the source has no output, or if its logits are NaN or
/// infinite.
std::vector<Sentence> decode(const Network& network, std::size_t positions,
                             const std::vector<Sentence>& sources,
                             const SearchOptions& options = {});

/// The maximum number of sources of a batch, in [1, batch_size], such that the logits of a step,
/// with one row per hypothesis of each source, have at most 64 Mi values: 256 MiB in float32. The
/// number of source tokens does not bound the logits: 1,000 sources of one word with a beam of 5
/// and a vocabulary of 32,000 would have 160 million logits.
std::size_t bounded_batch_size(const SearchOptions& options, std::size_t vocabulary);

/// The options in section `decoding` of a config, with train.max_decode_length and batches of
/// train.batch_size sources.
SearchOptions search_options(const Config& config);

}  // namespace tapestry
