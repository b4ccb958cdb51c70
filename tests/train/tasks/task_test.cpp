// SPDX-License-Identifier: BSD-3-Clause
#include "train/tasks/task.h"
#include "train/tasks/task_data.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <typeinfo>
#include <vector>

#include "data/io/error.h"
#include "layers/encoder_models.h"
#include "layers/transformer.h"
#include "tests/support/contains.h"
#include "tests/support/model_kind.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/error_text.h"
#include "tests/train/hand_made_model.h"
#include "tests/train/kinds.h"
#include "train/config/fields.h"
#include "train/config/rules.h"

namespace tapestry {
namespace {

using Ids = std::vector<std::int32_t>;

const std::vector<std::string> every_kind(test::model_kind_names.begin(),
                                          test::model_kind_names.end());

Config make_config(const std::string& kind, const std::string& task = "copy") {
  Config config;
  config.model_kind = kind;
  config.data.task = task;
  config.data.windows.unit = TextUnit::word;
  return config;
}

// ---- Config

std::set<std::string> paths_of_all_keys() {
  std::set<std::string> keys;
  for (const Field& field : fields_of(Config())) keys.insert(field.path());
  return keys;
}

TEST_CASE("`config new` offers every task, and lists only existing keys and data sources") {
  const std::set<std::string> keys = paths_of_all_keys();
  for (const std::string& kind : every_kind) {
    CAPTURE(kind);
    const TaskQuestions* const questions = find_task(make_config(kind)).questions();
    REQUIRE(questions != nullptr);
    CHECK_FALSE(questions->description.empty());
    CHECK_FALSE(questions->files.empty());
    for (const auto& file : questions->files) CHECK(keys.contains(std::string(file.key)));
    for (const auto& number : questions->numbers) CHECK(keys.contains(std::string(number.key)));
    std::string source;
    for (const auto& assignment : questions->values) {
      CHECK(keys.contains(std::string(assignment.first)));
      if (assignment.first == "data.task") source = assignment.second;
    }
    const std::vector<std::string> sources = data_tasks_for(kind);
    CHECK(std::ranges::find(sources, source) != sources.end());
  }
}

TEST_CASE("every key that a task or a source lists is a key of the config") {
  const std::set<std::string> keys = paths_of_all_keys();
  for (const auto* kinds : {&model_kinds(), &data_tasks()}) {
    for (const ConfigKind& kind : *kinds) {
      for (const std::string_view key : kind.keys) {
        CAPTURE(kind.name);
        CAPTURE(key);
        CHECK(keys.contains(std::string(key)));
      }
    }
  }
}

TEST_CASE("tasks and data sources have unique names") {
  std::set<std::string_view> kinds, sources;
  for (const ConfigKind& kind : model_kinds()) CHECK(kinds.insert(kind.name).second);
  for (const ConfigKind& source : data_tasks()) CHECK(sources.insert(source.name).second);
  for (const std::string_view kind : kinds) {
    CHECK_MESSAGE(std::ranges::count(every_kind, kind) == 1, kind,
                  " is not in model_kind_names in tests/support/model_kind.h");
  }
  CHECK(kinds.size() == every_kind.size());
  CHECK_THROWS_AS(find_task(make_config("parrot")), std::invalid_argument);
  DataOptions options;
  options.task = "songs";
  CHECK_THROWS_AS(data_source(options), std::invalid_argument);
}

// ---- Descriptions

TEST_CASE("each task has its own names for examples and predictions") {
  const auto words = [](const char* kind, const char* source) {
    const Config config = make_config(kind, source);
    const Task& task = find_task(config);
    return task.words(config).examples + ", " + task.words(config).targets;
  };
  CHECK(words("seq2seq", "copy") == "pairs, tokens");
  CHECK(words("language_model", "text") == "windows, tokens");
  CHECK(words("language_model", "toy_sentences") == "sentences, tokens");
  CHECK(words("masked_language_model", "text") == "windows, tokens");
  CHECK(words("masked_language_model", "toy_sentences") == "sentences, tokens");
  CHECK(words("classifier", "toy_agreement") == "sentences, sentences");
  CHECK(words("vision_transformer", "images") == "images, images");
  CHECK(words("tagger", "tagged_text") == "sentences, tokens");
}

TEST_CASE("the size of a batch is stated in the units of its rows, such as tokens or images") {
  const auto size = [](const char* kind, const std::vector<Example>& examples) {
    const Task& task = find_task(make_config(kind));
    return task.describe_size(
        make_batch(examples, std::vector<std::size_t>{0}, {.layout = task.layout()}));
  };
  const Example pair{{4, 5}, {6, 7, 8}};
  CHECK(size("seq2seq", {pair}) == "1 x 3 x 4 tokens");
  CHECK(size("language_model", {pair}) == "1 x 2 tokens");
  CHECK(size("classifier", {pair}) == "1 x 3 tokens");
  CHECK(size("tagger", {{{4, 5, 6}, {4, 5, 4}}}) == "1 x 3 tokens");
  CHECK(size("vision_transformer", {{.target = {4}, .pixels = {0.5F}}}) == "1 images");
}

TEST_CASE("format_scores() of each task prints its scores") {
  const Scores scores{.loss = 1.5,
                      .perplexity = 4.4817,
                      .token_accuracy = 0.5,
                      .others = {{"exact_match", 0.875}, {"bleu", 41.016}, {"chrf", 60.5}}};
  const auto text = [&](const Config& config) {
    return find_task(config).format_scores(scores, config);
  };
  const std::string tokens = "loss 1.5000  perplexity 4.482  accuracy 50.00 %";
  CHECK(text(make_config("seq2seq")) == tokens + "  exact match 87.50 %  BLEU 41.02  chrF 60.50");
  CHECK(find_task(make_config("seq2seq")).format_scores({}, Config()) ==
        "loss 0.0000  perplexity 0.000  accuracy 0.00 %");
  CHECK(text(make_config("language_model", "text")) == tokens + "  bits per word 2.1640");
  Config characters = make_config("language_model", "text");
  characters.data.windows.unit = TextUnit::character;
  CHECK(text(characters) == tokens + "  bits per character 2.1640");
  characters.data.task = "toy_sentences";  // its tokens are always words
  CHECK(text(characters) == tokens + "  bits per word 2.1640");
  CHECK(text(make_config("masked_language_model")) == tokens);
  CHECK(text(make_config("classifier")) == "loss 1.5000  accuracy 50.00 %");
  CHECK(text(make_config("vision_transformer")) == "loss 1.5000  accuracy 50.00 %");
}

// ---- Networks

TransformerOptions small_options() {
  return {.d_model = 12,
          .num_heads = 3,
          .num_encoder_layers = 3,
          .num_decoder_layers = 2,
          .d_ff = 20,
          .max_length = 17};
}

constexpr NetworkSizes sizes{
    .source = 37, .target = 41, .image = {.height = 4, .width = 8, .channels = 3}};

Model small_model(const std::string& kind) {
  return test::make_model(kind, small_options(), sizes, DType::float32, 1);
}

std::uint64_t counted(const std::string& kind) {
  Config config = make_config(kind);
  config.model = small_options();
  return count_values(network_maker(config, sizes)).parameters;
}

TEST_CASE("each task makes its network") {
  CHECK_NOTHROW(small_model("seq2seq").as<Transformer>());
  CHECK_NOTHROW(small_model("language_model").as<LanguageModel>());
  CHECK_NOTHROW(small_model("masked_language_model").as<MaskedLanguageModel>());
  CHECK_NOTHROW(small_model("classifier").as<Classifier>());
  CHECK_NOTHROW(small_model("vision_transformer").as<VisionTransformer>());
  CHECK_NOTHROW(small_model("tagger").as<Tagger>());
  const Model model = small_model("language_model");
  CHECK_THROWS_AS(model.as<Transformer>(), std::logic_error);
  for (const std::string& kind : every_kind) {
    CHECK(find_task(make_config(kind)).traits().has_two_stacks() == (kind == "seq2seq"));
  }
}

TEST_CASE("every task computes the number of parameters of its model") {
  for (const std::string& kind : every_kind) {
    CAPTURE(kind);
    CHECK(counted(kind) == small_model(kind).parameters.num_values());
  }
  // Patches of 2 x 2 x 3 values, a class token, three layers, the final norm and a head.
  const std::uint64_t layer = 4 * (12 * 12 + 12) + 2 * 12 * 20 + 20 + 12 + 4 * 12;
  CHECK(counted("vision_transformer") == (12 * 12 + 12) + 12 + 3 * layer + 2 * 12 + (12 * 41 + 41));
}

TEST_CASE("class labels are counted without special symbols, and words are counted with them") {
  const Vocabulary source({"a", "b", "c"}), target({"x", "y"});
  for (const std::string& kind : every_kind) {
    Config config = make_config(kind);
    config.data.images.image_height = 3;
    config.data.images.image_width = 5;
    config.data.images.image_channels = 2;
    const NetworkSizes made = network_sizes(config, source, target);
    CHECK(made.source == 7);
    CHECK(made.target == (test::predicts_classes(kind) ? 2 : 6));
    CHECK(made.image.values() == 30);
  }
}

// ---- Batches

TEST_CASE("masking depends on the seed of the run, the epoch and the vocabulary") {
  Config config = make_config("masked_language_model", "text");
  config.train.seed = 5;
  config.data.generated.seed = 6;
  const BatchRules rules = batch_rules(config, 70, 8);
  CHECK((rules.layout.write == masked_rows.write));
  CHECK(rules.vocabulary == 70);
  CHECK(rules.seed == 5);
  CHECK(rules.epoch == 8);
  CHECK(batch_rules(config, 70).epoch == 0);
}

TEST_CASE("batches mix examples of all lengths only if the model has a batch norm") {
  Config config;
  CHECK(batch_lengths(config) == BatchLengths::alike);
  config.model.normalization = Normalization::batch_norm;
  CHECK(batch_lengths(config) == BatchLengths::mixed);
}

TEST_CASE("an epoch has batches with the given number of examples or of tokens") {
  Config config = make_config("seq2seq");
  config.model.max_length = 10;
  config.train.seed = 3;
  config.train.batch_size = 2;
  Corpus corpus;
  corpus.train = {{{4, 5, 6}, {4}}, {{4}, {4}}, {{4}, {4}}, {{4}, {4}}, {{4}, {4, 5}}};
  const auto epoch = [&] { return make_batch_schedule(corpus, config).epoch(0); };
  CHECK(epoch() == BatchSchedule(corpus.train, 2, 3).epoch(0));
  config.train.batch_tokens = 4;
  CHECK(epoch() == BatchSchedule(corpus.train, BatchTokens{4}, 3).epoch(0));
  CHECK(epoch().size() == 4);
  config.train.batch_tokens = 3;
  CHECK(test::contains(test::error_text<DataError>(epoch), "at most 3 (train.batch_tokens)"));
  // A window of text has no source, and one token fewer than a sentence.
  config = make_config("language_model", "text");
  config.train.batch_tokens = 4;
  corpus.train = {{.target = {4, 5, 6}}, {.target = {4, 5, 6}}};
  CHECK(epoch().size() == 1);
}

TEST_CASE("train.batch_tokens limits only training examples, and longer examples may be skipped") {
  const test::TemporaryFolder folder;
  Config config = make_config("classifier", "labelled_text");
  config.data.text.train_text = folder.write("train", "no\ta\nyes\ta b c\nyes\tb\n").string();
  config.data.text.validation_text = folder.write("validation", "no\ta b c\n");
  config.train.batch_tokens = 4;
  config.data.on_bad_line = OnBadLine::skip;
  const Corpus corpus = load_fitting_corpus(config);
  CHECK(corpus.train.size() == 2);
  CHECK(corpus.validation.size() == 1);
  CHECK(corpus.train_lines.lines == std::vector<std::size_t>{1, 3});
  REQUIRE(corpus.notes.size() == 1);
  CHECK(corpus.notes[0].starts_with("train: 1 of 3 "));
}

TEST_CASE("examples are not masked for inference") {
  const auto batch = [](const char* kind, const Example& example) {
    return inference_batch(find_task(make_config(kind)), example);
  };
  const Example text{.target = {bos_id, 5, 6, eos_id}};
  CHECK(batch("masked_language_model", text).input == Ids{bos_id, 5, 6, eos_id});
  CHECK(batch("language_model", text).input == Ids{bos_id, 5, 6});
  const Batch pair = batch("seq2seq", {{4, 5}, {6}});
  CHECK(pair.source == Ids{4, 5, eos_id});
  CHECK(pair.input == Ids{bos_id, 6});
}

// ---- Text

Example read_text(const char* kind, const char* source, std::string_view text) {
  const Config config = make_config(kind, source);
  // The source vocabulary has the words a, b and c, the target vocabulary b and c.
  const TextCodec codec = make_codec(config.data, symbol_vocabulary(3), Vocabulary({"b", "c"}));
  return find_task(config).answers().read_text(text, codec);
}

TEST_CASE("a text is encoded to the same example as in the data") {
  CHECK(read_text("seq2seq", "copy", "b c") == Example{.source = {5, 6}});
  CHECK(read_text("classifier", "toy_agreement", "b c") ==
        Example{.source = {bos_id, 5, 6}, .target = {first_word_id}});
  CHECK(read_text("tagger", "tagged_text", "b z c") ==
        Example{.source = {5, unk_id, 6}, .target = {4, 4, 4}});
  CHECK(read_text("language_model", "toy_sentences", "b c") ==
        Example{.target = {bos_id, 4, 5, eos_id}});
  CHECK(read_text("masked_language_model", "toy_sentences", "b c") ==
        Example{.target = {bos_id, 4, 5, eos_id}});
  // A window can begin anywhere in a text, so it has no <bos>. A language model does not read the
  // last token.
  CHECK(read_text("language_model", "text", "b c") == Example{.target = {4, 5, eos_id}});
  CHECK(read_text("masked_language_model", "text", "b c") == Example{.target = {4, 5}});
}

TEST_CASE("a text without words gives an empty example") {
  for (const char* kind :
       {"seq2seq", "classifier", "language_model", "masked_language_model", "tagger"}) {
    CHECK(read_text(kind, "toy_sentences", " \t") == Example{});
  }
}

TEST_CASE("the maximum number of tokens is the number of positions, or data.context") {
  const auto limit = [](const char* kind, const char* source, std::size_t context) {
    Config config = make_config(kind, source);
    config.data.windows.context = context;
    config.model.max_length = 8;
    const TokenLimit found = find_task(config).answers().token_limit(config);
    return std::to_string(found.tokens) + " by " + found.key;
  };
  CHECK(limit("language_model", "text", 6) == "6 by data.context");
  CHECK(limit("language_model", "text", 7) == "7 by data.context");
  CHECK(limit("language_model", "text", 8) == "8 by model.max_length");
  CHECK(limit("masked_language_model", "text", 6) == "7 by data.context");
  CHECK(limit("masked_language_model", "text", 7) == "8 by model.max_length");
  CHECK(limit("language_model", "toy_sentences", 6) == "8 by model.max_length");
  CHECK(limit("seq2seq", "copy", 6) == "8 by model.max_length");
}

// ---- Examples that are too long

/// The position of an example that is too long, in three training files of three lines each.
struct Misfit {
  std::size_t index;
  bool in_target;
};

TEST_CASE("the error for an example that is too long names its file and line") {
  const test::TemporaryFolder folder;
  for (const bool pairs : {true, false}) {
    // Each example has 5 tokens, including <eos> or, for a single text, <bos> and <eos>.
    const std::string too_long = pairs ? "a b c d\n" : "a b c\n";
    for (const Misfit& each : std::vector<Misfit>{{0, false},
                                                  {2, false},
                                                  {2, true},
                                                  {3, false},
                                                  {3, true},
                                                  {5, false},
                                                  {6, true},
                                                  {6, false},
                                                  {8, true}}) {
      if (!pairs && each.in_target) continue;
      CAPTURE(each.index);
      const auto names = [&](const std::string& kind) {
        std::vector<std::string> files;
        for (std::size_t file = 0; file < 3; ++file) {
          std::string lines;
          for (std::size_t line = 0; line < 3; ++line) {
            const bool is_long =
                3 * file + line == each.index && each.in_target == (kind == "target");
            // A blank line precedes each example, so that example numbers differ from line numbers.
            const std::string label = pairs ? "" : line % 2 == 0 ? "yes\t" : "no\t";
            lines += "\n" + label + (is_long ? too_long : "a b\n");
          }
          files.push_back(folder.write(kind + std::to_string(file), lines).string());
        }
        return files;
      };
      Config config = pairs ? make_config("seq2seq", "parallel_text")
                            : make_config("classifier", "labelled_text");
      config.model.max_length = 4;
      const std::string kind = each.in_target ? "target" : "source";
      if (pairs) {
        config.data.pairs.train_source = names("source");
        config.data.pairs.train_target = names("target");
        config.data.pairs.validation_source = folder.write("v.source", "a\n").string();
        config.data.pairs.validation_target = folder.write("v.target", "a\n").string();
      } else {
        config.data.text.train_text = names("source");
      }
      const std::string place = (folder / (kind + std::to_string(each.index / 3))).string() + ":" +
                                std::to_string(2 * (each.index % 3) + 2) + ": found 5 tokens ";
      for (const CacheUse cache : {CacheUse::never, CacheUse::always}) {
        config.data.training.cache = cache;
        config.data.on_bad_line = OnBadLine::stop;
        const Corpus all = load_fitting_corpus(config);
        const std::string found =
            test::error_text<DataError>([&] { require_fitting_examples(all, config); });
        CHECK_MESSAGE(found.starts_with(place), found);
        config.data.on_bad_line = OnBadLine::skip;
        const Corpus corpus = load_fitting_corpus(config);
        CHECK(corpus.training().size() == 8);
        REQUIRE(corpus.notes.size() >= 1);
        CHECK_MESSAGE(test::contains(corpus.notes.back(), place), corpus.notes.back());
        for (std::size_t file = 0; file < 3; ++file) {
          CHECK(corpus.train_weights[file].count == (file == each.index / 3 ? 2 : 3));
        }
      }
    }
  }
}

TEST_CASE("the hint for examples that are too long has the maximum length over all parts") {
  Config config = make_config("seq2seq");
  config.model.max_length = 3;
  const auto pair = [](std::size_t tokens) {
    return Example{.source = std::vector<std::int32_t>(tokens, 4), .target = {4}};
  };
  Corpus corpus;
  corpus.train = {pair(2), pair(9), pair(5)};
  corpus.validation = {pair(6)};
  corpus.test = {pair(2), pair(19), pair(7)};
  const auto hint = [&] {
    try {
      require_fitting_examples(corpus, config);
    } catch (const DataError& error) {
      return error.hint();
    }
    return std::string("fits");
  };
  CHECK(test::contains(hint(), "set model.max_length to 20 or more"));
  config.model.max_length = 20;
  CHECK(hint() == "fits");
}

TEST_CASE("an example with too many tokens for the model is rejected, and its part is named") {
  const Example sentence{.source = {bos_id, 4, 5}, .target = {4}}, pair{{4, 5, 6}, {4, 5, 6}};
  const Example longer{.source = {bos_id, 4, 5, 6}, .target = {4}};
  const Example four{.target = {bos_id, 4, 5, eos_id}}, five{.target = {bos_id, 4, 5, 6, eos_id}};
  const std::vector<std::string> fits{"nothing was thrown"};
  const std::vector<std::string> read{"found 5 tokens to read", "at most 4 (model.max_length)",
                                      "set model.max_length to 5 or more"};
  const std::vector<std::string> of_pair{"training pair 2: found 5 tokens with <eos>", "at most 4",
                                         "skip long training pairs with data.max_tokens"};
  const auto in = [](const char* part, std::vector<std::string> words) {
    words.push_back(part + std::string(" sentence 2: "));
    return words;
  };
  struct {
    const char* kind;
    std::vector<Example> examples;
    std::vector<Example> Corpus::*part;
    std::vector<std::string> words;
  } const cases[] = {
      {"classifier", {sentence, sentence}, &Corpus::test, fits},
      {"classifier", {sentence, longer}, &Corpus::train, in("training", read)},
      {"classifier", {sentence, longer}, &Corpus::validation, in("validation", read)},
      {"classifier", {sentence, longer}, &Corpus::test, in("test", read)},
      {"language_model", {four, five}, &Corpus::train, fits},  // the last token is only a label
      {"masked_language_model", {four, four}, &Corpus::train, fits},
      {"masked_language_model", {four, five}, &Corpus::train, in("training", read)},
      {"seq2seq", {pair, pair}, &Corpus::train, fits},
      {"seq2seq", {pair, {{4, 5, 6, 7}, {4}}}, &Corpus::train, of_pair},
      {"seq2seq", {pair, {{4}, {4, 5, 6, 7}}}, &Corpus::train, of_pair},
  };
  for (const auto& [kind, examples, part, words] : cases) {
    Corpus corpus;
    corpus.*part = examples;
    Config config = make_config(kind);
    config.model.max_length = 4;
    const std::string error =
        test::error_text<DataError>([&] { require_fitting_examples(corpus, config); });
    for (const std::string& word : words) {
      CAPTURE(error);
      CAPTURE(word);
      CHECK(test::contains(error, word));
    }
  }
}

}  // namespace
}  // namespace tapestry
