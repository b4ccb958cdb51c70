#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "tests/train/wiring/data_reference.h"

/// What images and generated examples must be.
namespace tapestry::test {
namespace {

using Words = std::vector<std::string>;

struct PlainImages {
  std::vector<std::vector<float>> pixels;
  Words labels;
};

PlainImages images_of(const std::string& file, double maximum) {
  PlainImages images;
  std::istringstream lines(read_text(file));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::vector<float> pixels;
    for (std::string field; std::getline(fields, field, ',');) {
      if (fields.eof()) {
        images.labels.push_back(field);
      } else {
        pixels.push_back(static_cast<float>(std::stod(field) / maximum));
      }
    }
    images.pixels.push_back(pixels);
  }
  return images;
}

using Image = std::pair<std::vector<float>, std::string>;

std::vector<Image> shown(const std::vector<Example>& examples, const Vocabulary& classes) {
  std::vector<Image> images;
  for (const Example& example : examples) {
    CHECK(example.source.empty());
    REQUIRE(example.target.size() == 1);
    images.emplace_back(example.pixels, classes.token(example.target.front()));
  }
  return images;
}

/// Of each class a part has its share of all images that it was taken from, up to rounding.
void check_shares(const std::vector<Image>& part, const std::vector<Image>& all) {
  std::map<std::string, double> in_part, in_all;
  for (const Image& image : part) ++in_part[image.second];
  for (const Image& image : all) ++in_all[image.second];
  for (const auto& of_class : in_all) {
    const std::string& label = of_class.first;
    const double count = of_class.second;
    const double share = count * static_cast<double>(part.size()) / static_cast<double>(all.size());
    CAPTURE(label);
    CHECK(std::abs(in_part[label] - share) < 1.0);
  }
}

bool learns_symbols(const std::string& task) {
  return task == "copy" || task == "reverse" || task == "sort";
}

/// The sentence by which examples of a generated task are told apart.
const std::vector<std::int32_t>& sentence_of(const Example& example) {
  return example.source.empty() ? example.target : example.source;
}

void check_symbols(const DataOptions& o, const Corpus& corpus) {
  std::set<std::size_t> lengths;
  std::set<std::int32_t> symbols;
  for (const auto* part : {&corpus.train, &corpus.validation, &corpus.test}) {
    for (const Example& example : *part) {
      std::vector<std::int32_t> answer = example.source;
      if (o.task == "reverse") std::ranges::reverse(answer);
      if (o.task == "sort") std::ranges::sort(answer);
      CHECK(example.target == answer);
      lengths.insert(example.source.size());
      symbols.insert(example.source.begin(), example.source.end());
    }
  }
  CHECK(*lengths.begin() == o.symbols.min_length);
  CHECK(*lengths.rbegin() == o.symbols.max_length);
  CHECK(*symbols.begin() == first_word_id);
  CHECK(*symbols.rbegin() == first_word_id + static_cast<std::int32_t>(o.symbols.num_symbols) - 1);
  CHECK(corpus.source_vocabulary.size() == first_word_id + o.symbols.num_symbols);
  CHECK(corpus.source_vocabulary == corpus.target_vocabulary);
}

/// What examples of the toy language look like, by task.
void check_toy_language(const DataOptions& o, const Corpus& corpus) {
  const auto knows = [](const Vocabulary& words, const char* word) {
    return words.id(word) != unk_id;
  };
  CHECK(knows(corpus.source_vocabulary, "chien"));
  CHECK(knows(corpus.target_vocabulary, "dog") == (o.task == "toy_translation"));
  CHECK(knows(corpus.target_vocabulary, "wrong") == (o.task == "toy_agreement"));
  for (const auto* part : {&corpus.train, &corpus.validation, &corpus.test}) {
    for (const Example& example : *part) {
      const auto& words = sentence_of(example);
      CHECK(std::ranges::count(words, unk_id) == 0);
      CHECK(example.source.empty() == (o.task == "toy_sentences"));
      CHECK((words.front() == bos_id) == (o.task != "toy_translation"));
      CHECK((words.back() == eos_id) == (o.task == "toy_sentences"));
      CHECK((example.target.size() == 1) == (o.task == "toy_agreement"));
    }
  }
}

}  // namespace

void check_images(const DataOptions& o, const Corpus& corpus) {
  const auto in_file = [&](const std::string& file) {
    const PlainImages plain = images_of(file, o.images.pixel_maximum);
    std::vector<Image> images;
    for (std::size_t i = 0; i < plain.labels.size(); ++i) {
      REQUIRE(plain.pixels[i].size() ==
              o.images.image_height * o.images.image_width * o.images.image_channels);
      images.emplace_back(plain.pixels[i], plain.labels[i]);
    }
    return images;
  };
  const Vocabulary& classes = corpus.target_vocabulary;
  CHECK(corpus.source_vocabulary == Vocabulary());
  const auto train = shown(corpus.train, classes);
  const auto validation = shown(corpus.validation, classes), test = shown(corpus.test, classes);
  std::vector<Image> left = in_file(o.images.train_images);
  std::set<std::string> labels;
  for (const Image& image : left) labels.insert(image.second);
  CHECK(classes == Vocabulary(Words(labels.begin(), labels.end())));
  // The test set is cut first, then the validation set out of what is left.
  const auto check_part = [&](const std::string& file, std::size_t size,
                              const std::vector<Image>& part) {
    if (!file.empty()) {
      CHECK(part == in_file(file));
      return;
    }
    CHECK(part.size() == size);
    check_shares(part, left);
    for (const Image& image : part) {
      const auto found = std::ranges::find(left, image);
      REQUIRE(found != left.end());
      left.erase(found);
    }
  };
  check_part(o.images.test_images, o.generated.test_size, test);
  check_part(o.images.validation_images, o.generated.validation_size, validation);
  CHECK(train == left);
}

void check_generated(const DataOptions& o, const Corpus& corpus) {
  CHECK(corpus.train.size() == o.generated.train_size);
  CHECK(corpus.validation.size() == o.generated.validation_size);
  CHECK(corpus.test.size() == o.generated.test_size);
  std::set<std::vector<std::int32_t>> held_out;
  for (const auto* part : {&corpus.validation, &corpus.test}) {
    for (const Example& example : *part) CHECK(held_out.insert(sentence_of(example)).second);
  }
  for (const Example& example : corpus.train) CHECK_FALSE(held_out.contains(sentence_of(example)));
  learns_symbols(o.task) ? check_symbols(o, corpus) : check_toy_language(o, corpus);
}

}  // namespace tapestry::test
