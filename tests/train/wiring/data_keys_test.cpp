#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "data/text/codec.h"
#include "tests/train/kind_properties.h"
#include "tests/train/wiring/data_reference.h"
#include "tests/train/wiring/keys_tasks.h"
#include "train/tasks/data_source.h"

/// Every key of the section `data` on every task that uses it: the data become what the key says,
/// and what the key does not name keeps its bytes.
namespace tapestry {
namespace {

using namespace test;

/// What of a corpus is compared.
enum class Part {
  source_words,
  target_words,
  train_input,
  train_target,
  validation_input,
  validation_target,
  test_input,
  test_target
};

using enum Part;
using Parts = std::set<Part>;

const Parts words = {source_words, target_words};
const Parts train = {train_input, train_target};
const Parts validation = {validation_input, validation_target};
const Parts test_set = {test_input, test_target};

Parts operator+(Parts a, const Parts& b) {
  a.insert(b.begin(), b.end());
  return a;
}

/// A key on some tasks, and another value of it.
struct DataRow {
  std::string key;
  std::set<std::string> tasks;
  std::string value;
  Parts changes;                      ///< all others stay as they are
  std::vector<std::string> before{};  ///< overrides without and with the value
  std::string part{};                 ///< grows or shrinks at its end alone
};

const std::set<std::string> symbols = {"copy", "reverse", "sort"};
const std::set<std::string> generated = {"copy",          "reverse",      "sort", "toy_translation",
                                         "toy_sentences", "toy_agreement"};
const std::set<std::string> texts = {"text"}, pairs = {"parallel_text"}, labels = {"labelled_text"},
                            tags = {"tagged_text"}, images = {"images"};
const std::vector<std::string> held_out_share = {"data.validation_text="};
const std::vector<std::string> held_out_files = {"data.validation_images=validation.csv",
                                                 "data.test_images=test.csv"};
const Parts examples = train + validation + test_set;
const Parts everything = words + examples;

const std::vector<DataRow> rows = {
    {"num_symbols", symbols, "7", everything},
    {"num_symbols", symbols, "30", everything},
    {"min_length", symbols, "2", examples},
    {"max_length", symbols, "3", examples},
    {"train_size", generated, "25", train, {}, "train"},
    {"train_size", generated, "11", train, {}, "train"},
    {"validation_size", generated, "9", validation, {}, "validation"},
    {"validation_size", generated, "0", validation, {}, "validation"},
    {"test_size", generated, "8", test_set, {}, "test"},
    {"test_size", generated, "2", test_set, {}, "test"},
    {"seed", generated, "3", examples},

    {"train_source",
     pairs,
     "train_other.source",
     {source_words, train_input, validation_input, test_input}},
    {"train_target",
     pairs,
     "train_other.target",
     {target_words, train_target, validation_target, test_target}},
    {"validation_source", pairs, "validation_other.source", {validation_input}},
    {"validation_target", pairs, "validation_other.target", {validation_target}},
    {"test_source", pairs, "test_other.source", {test_input}},
    {"test_target", pairs, "test_other.target", {test_target}},
    {"lowercase", pairs, "true", everything},
    {"min_frequency", pairs, "3", everything},
    {"max_vocabulary", pairs, "4", everything},
    {"shared_vocabulary", pairs, "true", everything},
    {"max_tokens", pairs, "3", everything},

    {"train_text", texts, "train_other.text", everything},
    {"validation_text", texts, "validation_other.text", validation},
    {"validation_text", texts, "", train + validation},
    {"test_text", texts, "test_other.text", test_set},
    {"test_text", texts, "", test_set},
    {"unit", texts, "word", everything},
    {"context", texts, "5", examples},
    {"validation_share", texts, "0.4", everything, held_out_share},
    {"validation_share", texts, "0", train + validation, held_out_share},
    {"lowercase", texts, "true", everything},
    {"lowercase", texts, "true", everything, {"data.unit=word"}},
    {"min_frequency", texts, "4", everything},
    {"min_frequency", texts, "2", everything, {"data.unit=word"}},
    {"max_vocabulary", texts, "5", everything},
    {"max_vocabulary", texts, "3", everything, {"data.unit=word"}},

    {"train_text",
     labels,
     "train_other.labels",
     {source_words, train_input, train_target, validation_input, test_input}},
    {"validation_text", labels, "validation_other.labels", validation},
    {"validation_text", labels, "", validation},
    {"test_text", labels, "test_other.labels", test_set},
    {"test_text", labels, "", test_set},
    {"lowercase", labels, "true", {source_words, train_input, validation_input, test_input}},
    {"min_frequency", labels, "9", {source_words, train_input, validation_input, test_input}},
    {"max_vocabulary", labels, "4", {source_words, train_input, validation_input, test_input}},

    {"train_text",
     tags,
     "train_other.tags",
     {source_words, train_input, train_target, validation_input, test_input}},
    {"validation_text", tags, "validation_other.tags", validation},
    {"validation_text", tags, "", validation},
    {"test_text", tags, "test_other.tags", test_set},
    {"test_text", tags, "", test_set},
    {"min_frequency", tags, "9", {source_words, train_input, validation_input, test_input}},
    {"max_vocabulary", tags, "4", {source_words, train_input, validation_input, test_input}},

    {"train_images", images, "train_other.csv", examples},
    {"train_images", images, "train_other.csv", train, held_out_files},
    {"validation_images", images, "validation.csv", train + validation},
    {"test_images", images, "test.csv", examples},
    {"validation_size", images, "9", train + validation},
    {"validation_size", images, "0", train + validation},
    {"test_size", images, "8", examples},
    {"test_size", images, "0", examples},
    {"pixel_maximum", images, "18", {train_input, validation_input, test_input}},
};

/// Keys that say what an image is have tests of their own: of an image the others follow.
const std::set<std::string> keys_of_images = {"image_height", "image_width", "image_channels"};

/// Keys without an effect on data that are correct; see bad_lines_test.cpp.
const std::set<std::string> keys_of_bad_data = {"on_bad_line"};

/// See config/file_test.cpp.
const std::set<std::string> keys_of_paths = {"folder"};

/// See readers/training_set_test.cpp and program/cache_test.cpp.
const std::set<std::string> keys_of_training_sets = {"cache", "corpus_weights"};

/// See subword_keys_test.cpp.
const std::set<std::string> keys_of_subwords = {"subwords"};

template <class Side>
auto side(const std::vector<Example>& part, Side member) {
  std::vector<std::pair<std::vector<std::int32_t>, std::vector<float>>> values;
  for (const Example& example : part) {
    values.emplace_back(example.*member,
                        member == &Example::source ? example.pixels : std::vector<float>{});
  }
  return values;
}

bool same(const Corpus& a, const Corpus& b, Part part) {
  switch (part) {
    case Part::source_words:
      return a.source_vocabulary == b.source_vocabulary;
    case Part::target_words:
      return a.target_vocabulary == b.target_vocabulary;
    case Part::train_input:
      return side(a.train, &Example::source) == side(b.train, &Example::source);
    case Part::train_target:
      return side(a.train, &Example::target) == side(b.train, &Example::target);
    case Part::validation_input:
      return side(a.validation, &Example::source) == side(b.validation, &Example::source);
    case Part::validation_target:
      return side(a.validation, &Example::target) == side(b.validation, &Example::target);
    case Part::test_input:
      return side(a.test, &Example::source) == side(b.test, &Example::source);
    case Part::test_target:
      break;
  }
  return side(a.test, &Example::target) == side(b.test, &Example::target);
}

/// A side that neither corpus has anything on.
bool is_empty(const Corpus& corpus, Part part) {
  const auto nothing = [](const std::vector<Example>& part_examples, bool input) {
    return std::ranges::all_of(part_examples, [&](const Example& e) {
      return input ? e.source.empty() && e.pixels.empty() : e.target.empty();
    });
  };
  if (part == train_input) return nothing(corpus.train, true);
  if (part == validation_input) return nothing(corpus.validation, true);
  if (part == test_input) return nothing(corpus.test, true);
  return false;
}

const std::vector<Example>& part_of(const Corpus& corpus, const std::string& part) {
  return part == "train" ? corpus.train : part == "validation" ? corpus.validation : corpus.test;
}

/// Of two parts the shorter is the beginning of the longer.
void check_prefix(const std::vector<Example>& a, const std::vector<Example>& b) {
  const std::size_t both = std::min(a.size(), b.size());
  CHECK(std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(both), b.begin()));
}

/// The corpus is what the options say, whatever they are.
void check_meaning(const DataOptions& options, const Corpus& corpus) {
  if (options.task == "images") return check_images(options, corpus);
  const std::set<std::string> read{"parallel_text", "text", "labelled_text", "tagged_text"};
  if (read.contains(options.task)) return check_same(corpus, read_plainly(options));
  check_generated(options, corpus);
}

/// What a trained model reads of its users is encoded as the training lines were.
void check_codec(const DataOptions& o, const Corpus& corpus) {
  const TextCodec codec = make_codec(o, corpus.source_vocabulary, corpus.target_vocabulary);
  const auto read_lines = [](const std::string& file) {
    std::vector<std::string> lines(1);
    for (const char c : read_text(file)) {
      c == '\n' ? lines.emplace_back() : lines.back() += c;
    }
    lines.pop_back();
    return lines;
  };
  if (o.task == "parallel_text") {
    const auto sources = read_lines(o.pairs.test_source), targets = read_lines(o.pairs.test_target);
    for (std::size_t i = 0; i < corpus.test.size(); ++i) {
      CHECK(codec.encode_source(sources[i]) == corpus.test[i].source);
      CHECK(codec.encode_target(targets[i]) == corpus.test[i].target);
    }
  } else if (o.task == "labelled_text" && !o.text.test_text.empty()) {
    const auto lines = read_lines(o.text.test_text);
    for (std::size_t i = 0; i < corpus.test.size(); ++i) {
      auto expected = codec.encode_source(lines[i].substr(lines[i].find('\t') + 1));
      expected.insert(expected.begin(), bos_id);
      CHECK(expected == corpus.test[i].source);
    }
  } else if (o.task == "text" && !o.text.test_text.empty()) {
    const auto ids = codec.encode_target(read_text(o.text.test_text));
    const auto& first = corpus.test.front().target;
    REQUIRE(ids.size() >= first.size());
    CHECK(std::equal(first.begin(), first.end(), ids.begin()));
  }
}

void check_data_row(const TaskWorkplace& work, const TaskCase& task, const DataRow& row) {
  CAPTURE(task.name());
  CAPTURE(row.key);
  CAPTURE(row.value);
  std::vector<std::string> overrides = row.before;
  const DataOptions before = work.config(task, overrides).data;
  overrides.push_back("data." + row.key + "=" + row.value);
  const DataOptions after = work.config(task, overrides).data;
  const Corpus without = load_corpus(before), with = load_corpus(after);
  check_meaning(before, without);
  check_meaning(after, with);
  check_codec(after, with);
  CHECK(with.fingerprint != without.fingerprint);
  for (const Part part : everything) {
    if (is_empty(without, part) && is_empty(with, part)) continue;
    CAPTURE(static_cast<int>(part));
    // The classes stay as they are, whatever the examples.
    const bool of_classes = part == target_words && predicts_classes(task.kind);
    const bool changes = row.changes.contains(part) && !of_classes;
    CHECK(same(without, with, part) == !changes);
  }
  if (!row.part.empty()) check_prefix(part_of(without, row.part), part_of(with, row.part));
}

TEST_CASE("every data key has its documented effect on every task that uses it, and no other") {
  const TaskWorkplace work;
  for (const TaskCase& task : task_cases) {
    for (const DataRow& row : rows) {
      if (row.tasks.contains(task.task)) check_data_row(work, task, row);
    }
  }
}

TEST_CASE("every data key that a task uses has a row for that task") {
  const TaskWorkplace work;
  std::set<std::string> listed;
  for (const TaskCase& task : task_cases) {
    listed.insert(task.name());
    CAPTURE(task.name());
    for (const std::string& key : keys_in_use(work.config(task), "data")) {
      CAPTURE(key);
      const bool has_row = std::ranges::any_of(rows, [&](const DataRow& row) {
        return row.key == key && row.tasks.contains(task.task);
      });
      CHECK_MESSAGE((has_row || key == "task" || keys_of_images.contains(key) ||
                     keys_of_bad_data.contains(key) || keys_of_paths.contains(key) ||
                     keys_of_subwords.contains(key) || keys_of_training_sets.contains(key)),
                    "no row with this key and task in the table `rows` of data_keys_test.cpp");
    }
  }
  for (const ConfigKind& kind : model_kinds()) {
    for (const std::string& task : data_tasks_for(kind.name)) {
      const std::string name = TaskCase{std::string(kind.name), task}.name();
      CHECK_MESSAGE(listed.contains(name), name,
                    " is not in kind_cases in tests/train/kind_cases.h");
    }
  }
}

TEST_CASE("symbol tasks have different targets for the same sequences") {
  const TaskWorkplace work;
  const Corpus copy = load_corpus(work.config({"seq2seq", "copy"}).data);
  for (const char* task : {"reverse", "sort"}) {
    CAPTURE(task);
    const Corpus other =
        load_corpus(work.config({"seq2seq", "copy"}, {std::string("data.task=") + task}).data);
    CHECK(same(copy, other, train_input));
    CHECK(same(copy, other, validation_input));
    CHECK(same(copy, other, test_input));
    CHECK_FALSE(same(copy, other, train_target));
    CHECK(same(other, load_corpus(work.config({"seq2seq", task}).data), train_target));
  }
}

}  // namespace
}  // namespace tapestry
