#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/train/storage/image_arrays.h"

/// The labels of HDF5 image files.
namespace tapestry {
namespace {

using hdf5::Dataset;
using test::ArrayFolder;
using test::Fill;
using test::put;
using test::TextType;

TEST_CASE("integer labels keep all their digits and their sign") {
  const ArrayFolder arrays;
  const auto label_vocabulary = [&](auto... labels) {
    using T = std::common_type_t<decltype(labels)...>;
    arrays.write([&](hid_t file) {
      put<std::uint8_t>(file, "images", {2, 1, 2}, {1, 2, 3, 4});
      put<T>(file, "labels", {2}, {labels...});
    });
    return arrays.load().target_vocabulary;
  };
  CHECK(label_vocabulary(std::int64_t{-1}, std::numeric_limits<std::int64_t>::min()) ==
        Vocabulary({"-9223372036854775808", "-1"}));
  CHECK(label_vocabulary(std::uint64_t{1}, std::numeric_limits<std::uint64_t>::max()) ==
        Vocabulary({"1", "18446744073709551615"}));
}

/// A file of so many images, with `labels` as the type is in memory.
Fill with_labels(std::size_t count, const TextType& text, const void* labels,
                 bool compressed = false) {
  return [=](hid_t file) {
    put<std::uint8_t>(file, "images", {count, 1, 2}, std::vector<std::uint8_t>(2 * count, 255));
    const hdf5::PropertyList options = hdf5::dataset_options();
    if (compressed) {
      const hsize_t chunk = 2;
      H5Pset_chunk(options.get(), 1, &chunk);
      H5Pset_deflate(options.get(), 4);
    }
    const hdf5::Datatype type = text.make();
    const Dataset dataset = hdf5::create(file, "labels", type.get(), {count}, options);
    REQUIRE(H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, labels) >= 0);
  };
}

std::vector<std::string> label_names(const Corpus& corpus) {
  std::vector<std::string> names;
  for (const Example& image : corpus.train) {
    names.push_back(corpus.target_vocabulary.token(image.target.front()));
  }
  return names;
}

TEST_CASE("labels may be text of fixed length, with any padding") {
  const ArrayFolder arrays;
  using Names = std::vector<std::string>;
  arrays.write(with_labels(3, TextType{5}, "cat\0\0horsedog\0\0"));
  CHECK(label_names(arrays.load()) == Names{"cat", "horse", "dog"});
  arrays.write(with_labels(3, TextType{5, H5T_STR_NULLTERM}, "cat\0xhors\0dog\0y"));
  CHECK(label_names(arrays.load()) == Names{"cat", "hors", "dog"});
  arrays.write(with_labels(3, TextType{5, H5T_STR_SPACEPAD}, "cat  horsedog  "));
  CHECK(label_names(arrays.load()) == Names{"cat", "horse", "dog"});
  arrays.write(with_labels(2, TextType{5, H5T_STR_NULLPAD, H5T_CSET_UTF8}, "h\xC3\xA9\0\0mut\0\0"));
  CHECK(label_names(arrays.load()) == Names{"hé", "mut"});
}

TEST_CASE("labels may be text of any length, compressed or not") {
  const ArrayFolder arrays;
  const std::vector<const char*> labels{"cat", "a_name_of_some_length", "hé", "cat", "x"};
  const TextType type{.characters = H5T_CSET_UTF8};
  for (const bool compressed : {false, true}) {
    arrays.write(with_labels(labels.size(), type, labels.data(), compressed));
    CHECK(label_names(arrays.load()) == std::vector<std::string>(labels.begin(), labels.end()));
  }
}

TEST_CASE("text labels that are no valid class name are refused with the index of the image") {
  const ArrayFolder arrays;
  CHECK(arrays.message(with_labels(2, TextType{3}, "catd g")) ==
        "image 1: found the label \"d g\", expected one word");
  CHECK(arrays.message(with_labels(2, TextType{3}, "cat\0\0\0")) ==
        "image 1: found the label \"\", expected one word");
  CHECK(arrays.message(with_labels(2, TextType{3}, "ca\xFFx\0y")) ==
        "image 0: found the label \"ca\\xFF\", expected one word");
  CHECK(arrays.message(with_labels(2, TextType{3}, "catx\0y")) ==
        "image 1: found the label \"x\\x00y\", expected one word");
  const std::string long_name(1001, 'x');
  CHECK(arrays.message(with_labels(1, TextType{1001}, long_name.data())) ==
        "labels: found text of 1001 bytes, expected at most 1000");
  const std::vector<const char*> labels{"x", long_name.c_str()}, none{"x", nullptr};
  CHECK(arrays.message(with_labels(2, TextType{}, labels.data())) ==
        "labels: found text of 1001 bytes, expected at most 1000");
  CHECK(arrays.message(with_labels(2, TextType{}, none.data())) ==
        "image 1: found the label \"\", expected one word");
  const std::vector<const char*> longest{"x", long_name.c_str() + 1};
  arrays.write(with_labels(2, TextType{}, longest.data()));
  CHECK(label_names(arrays.load()).back() == std::string(1000, 'x'));
}

}  // namespace
}  // namespace tapestry
