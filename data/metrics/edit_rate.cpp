#include "data/metrics/edit_rate.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

namespace tapestry {

namespace {

// The limits of TERCOM and sacreBLEU.
constexpr std::size_t max_shift_size = 10;
constexpr std::size_t max_shift_distance = 50;
constexpr std::size_t beam_width = 25;
constexpr std::size_t max_candidates = 1000;

/// One step of turning a hypothesis into a reference.
enum class Edit : std::uint8_t { unreached, keep, substitute, insert, erase };

struct Cell {
  std::uint32_t cost;
  Edit edit;
};

/// Cost of cells outside the beam; larger than any edit distance.
constexpr std::uint32_t unreachable = 1U << 30;

/// What an edit distance says about words: which are wrong, and where each reference word is.
struct Alignment {
  std::vector<std::size_t> positions;  ///< of reference words: 1 + index of the last hypothesis
                                       ///< word at or before each, 0 if there is none
  std::vector<bool> wrong_in_reference, wrong_in_hypothesis;
};

/// Levenshtein distance of hypotheses of one length to a reference. Of equal costs, substitution
/// (or keeping) goes before deletion and deletion before insertion.
class EditDistance {
 public:
  /// `length`: the number of words of every hypothesis.
  EditDistance(const Symbols& reference, std::size_t length)
      : reference_(reference),
        columns_(reference.size() + 1),
        ratio_(length == 0 ? 1.0
                           : static_cast<double>(reference.size()) / static_cast<double>(length)),
        cells_((length + 1) * columns_) {
    for (std::size_t j = 0; j < columns_; ++j) {
      cells_[j] = {static_cast<std::uint32_t>(j), Edit::insert};
    }
    if (static_cast<double>(beam_width) < ratio_ / 2.0) {
      beam_ = static_cast<std::size_t>(std::ceil(ratio_ / 2.0 + static_cast<double>(beam_width)));
    }
  }

  /// The distance of a hypothesis. Rows of the words that it has in common with the one before,
  /// from the first word on, are not computed again.
  std::size_t operator()(const Symbols& hypothesis) {
    const std::size_t known =
        computed_ ? static_cast<std::size_t>(std::ranges::mismatch(hypothesis, last_).in1 -
                                             hypothesis.begin())
                  : 0;
    for (std::size_t i = known + 1; i <= hypothesis.size(); ++i) compute_row(i, hypothesis);
    last_ = hypothesis;
    computed_ = true;
    return cells_.back().cost;
  }

  /// The alignment of the last hypothesis.
  Alignment alignment() const {
    std::vector<Edit> edits;  // backwards
    for (std::size_t i = last_.size(), j = reference_.size(); i > 0 || j > 0;) {
      const Edit edit = cells_[i * columns_ + j].edit;
      edits.push_back(edit);
      if (edit != Edit::insert) --i;
      if (edit != Edit::erase) --j;
    }
    Alignment result;
    std::size_t words = 0;
    for (auto edit = edits.rbegin(); edit != edits.rend(); ++edit) {
      if (*edit != Edit::insert) {
        ++words;
        result.wrong_in_hypothesis.push_back(*edit != Edit::keep);
      }
      if (*edit != Edit::erase) {
        result.positions.push_back(words);
        result.wrong_in_reference.push_back(*edit != Edit::keep);
      }
    }
    return result;
  }

 private:
  /// Row i, 1 <= i <= words, from row i - 1, near the diagonal.
  void compute_row(std::size_t i, const Symbols& hypothesis) {
    Cell* row = &cells_[i * columns_];
    const Cell* above = row - columns_;
    std::fill(row, row + columns_, Cell{unreachable, Edit::unreached});
    const auto diagonal = static_cast<std::size_t>(std::floor(static_cast<double>(i) * ratio_));
    const std::size_t first = diagonal > beam_ ? diagonal - beam_ : 0;
    const std::size_t end =
        i == hypothesis.size() ? columns_ : std::min(columns_, diagonal + beam_);
    for (std::size_t j = first; j < end; ++j) {
      Cell& cell = row[j];
      const auto offer = [&](std::uint32_t cost, Edit edit) {
        if (cost < cell.cost) cell = {cost, edit};
      };
      if (j > 0) {
        const bool equal = hypothesis[i - 1] == reference_[j - 1];
        offer(above[j - 1].cost + (equal ? 0U : 1U), equal ? Edit::keep : Edit::substitute);
      }
      offer(above[j].cost + 1U, Edit::erase);
      if (j > 0) offer(row[j - 1].cost + 1U, Edit::insert);
    }
  }

  const Symbols& reference_;
  std::size_t columns_, beam_ = beam_width;
  double ratio_;             ///< words of the reference per word of a hypothesis
  std::vector<Cell> cells_;  ///< (words of a hypothesis + 1, words of the reference + 1)
  Symbols last_;
  bool computed_ = false;
};

/// Moves `length` words from `start` to before the word `target`; a target inside the moved words
/// moves them on by target - start.
Symbols shifted(const Symbols& words, std::size_t start, std::size_t length, std::size_t target) {
  Symbols result = words;
  const auto begin = result.begin() + static_cast<std::ptrdiff_t>(start);
  const auto end = begin + static_cast<std::ptrdiff_t>(length);
  if (target < start) {
    std::rotate(result.begin() + static_cast<std::ptrdiff_t>(target), begin, end);
  } else {
    const std::size_t behind = target > start + length ? target : length + target;
    std::rotate(begin, end,
                result.begin() + static_cast<std::ptrdiff_t>(std::min(behind, words.size())));
  }
  return result;
}

/// A shift and what it gains.
struct Shift {
  std::int64_t gain;  ///< reduction of the edit distance
  std::size_t length, start, target;
  Symbols words;  ///< the hypothesis after it

  /// The order in which TERCOM prefers shifts: by gain, then longer ones, then earlier ones.
  bool is_better_than(const Shift& other) const {
    return std::tuple(gain, length, other.start, other.target) >
           std::tuple(other.gain, other.length, start, target);
  }
};

bool any_in(const std::vector<bool>& wrong, std::size_t begin, std::size_t length) {
  const auto first = wrong.begin() + static_cast<std::ptrdiff_t>(begin);
  return std::find(first, first + static_cast<std::ptrdiff_t>(length), true) !=
         first + static_cast<std::ptrdiff_t>(length);
}

/// Looks for the best shift of a hypothesis, counting the candidates it computes.
class ShiftSearch {
 public:
  ShiftSearch(const Symbols& reference, EditDistance& distance)
      : reference_(reference), distance_(distance) {}

  bool is_exhausted() const { return candidates_ >= max_candidates; }

  /// The shift with the highest gain, which may be 0 or negative; nullopt if there is none.
  std::optional<Shift> find_best(const Symbols& words) {
    before_ = static_cast<std::int64_t>(distance_(words));
    alignment_ = distance_.alignment();
    best_.reset();
    for (std::size_t start = 0; start < words.size(); ++start) {
      for (std::size_t at = 0; at < reference_.size(); ++at) {
        const std::size_t apart = start > at ? start - at : at - start;
        if (apart > max_shift_distance) continue;
        for (std::size_t length = 1; length <= max_shift_size && start + length <= words.size() &&
                                     at + length <= reference_.size() &&
                                     words[start + length - 1] == reference_[at + length - 1];
             ++length) {
          if (!may_help(start, at, length)) continue;
          try_targets(words, start, at, length);
          if (is_exhausted()) return best_;
        }
      }
    }
    return best_;
  }

 private:
  /// Whether words of the sequence and of where it belongs are wrong, and it is somewhere else.
  bool may_help(std::size_t start, std::size_t at, std::size_t length) const {
    const std::size_t aligned = alignment_.positions[at];
    return any_in(alignment_.wrong_in_hypothesis, start, length) &&
           any_in(alignment_.wrong_in_reference, at, length) &&
           !(start + 1 <= aligned && aligned < start + length + 1);
  }

  /// Shifts the sequence to where the reference word before it, its own first one and so on are.
  void try_targets(const Symbols& words, std::size_t start, std::size_t at, std::size_t length) {
    std::optional<std::size_t> previous;
    for (std::size_t offset = 0; offset <= length; ++offset) {
      const std::size_t target = at + offset == 0 ? 0 : alignment_.positions[at + offset - 1];
      if (target == previous) continue;
      previous = target;
      Shift shift{0, length, start, target, shifted(words, start, length, target)};
      shift.gain = before_ - static_cast<std::int64_t>(distance_(shift.words));
      ++candidates_;
      if (!best_ || shift.is_better_than(*best_)) best_ = std::move(shift);
    }
  }

  const Symbols& reference_;
  EditDistance& distance_;
  std::int64_t before_ = 0;
  Alignment alignment_;
  std::optional<Shift> best_;
  std::size_t candidates_ = 0;
};

}  // namespace

std::size_t translation_edits(const Symbols& hypothesis, const Symbols& reference) {
  if (reference.empty()) return hypothesis.size();
  EditDistance distance(reference, hypothesis.size());
  ShiftSearch search(reference, distance);
  Symbols words = hypothesis;
  std::size_t shifts = 0;
  while (true) {
    auto best = search.find_best(words);
    if (search.is_exhausted() || !best || best->gain <= 0) break;
    ++shifts;
    words = std::move(best->words);
  }
  return shifts + distance(words);
}

}  // namespace tapestry
