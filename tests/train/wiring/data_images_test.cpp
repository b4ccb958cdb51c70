#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "layers/model.h"
#include "tests/support/contains.h"
#include "tests/support/hdf5_files.h"
#include "tests/support/values.h"
#include "tests/train/wiring/data_reference.h"
#include "tests/train/wiring/keys_tasks.h"
#include "train/inference/batch_tensors.h"
#include "train/tasks/task.h"

/// The keys that say what an image is: data.image_height, image_width and image_channels.
namespace tapestry {
namespace {

using namespace test;

const TaskCase of_images{"vision_transformer", "images"};

struct Sizes {
  std::size_t height, width, channels;
};

std::vector<std::string> overrides_of(const Sizes& sizes) {
  return {fmt::format("data.image_height={}", sizes.height),
          fmt::format("data.image_width={}", sizes.width),
          fmt::format("data.image_channels={}", sizes.channels)};
}

/// All sizes of 24 values that patches of 2 x 2 pixels fit into, each away from the others.
const std::vector<Sizes> all_sizes = {{4, 6, 1}, {6, 4, 1}, {2, 12, 1}, {2, 4, 3},
                                      {4, 2, 3}, {2, 2, 6}, {2, 6, 2}};

TEST_CASE("height, width and channels of an image determine the patches of a model") {
  const TaskWorkplace work;
  std::set<std::vector<double>> different;
  for (const Sizes& sizes : all_sizes) {
    CAPTURE(sizes.height);
    CAPTURE(sizes.width);
    CAPTURE(sizes.channels);
    std::vector<std::string> overrides = overrides_of(sizes);
    for (const char* also : {"model.positions=none", "model.pooling=mean", "model.dropout=0"}) {
      overrides.emplace_back(also);
    }
    const Config config = work.config(of_images, overrides);
    const Corpus corpus = load_corpus(config.data);
    check_images(config.data, corpus);
    const NetworkSizes of_network = network_sizes(config, corpus);
    const Model model(network_maker(config, of_network), DType::float64, 1);
    const auto logits_of = [&](const Example& image) {
      const Batch batch = make_batch({image}, std::vector<std::size_t>{0}, {.layout = class_rows});
      return test::values_of(
          (*model.network)(network_input(batch, DType::float64), Mode::inference()));
    };
    // Without positions, and with the mean of all patches, their order means nothing, while that of
    // the pixels in them does.
    Example image = corpus.train.front();
    const std::vector<double> expected = logits_of(image);
    CHECK(different.insert(expected).second);
    const auto value = [&](std::size_t row, std::size_t column, std::size_t channel) -> float& {
      return image.pixels[(row * sizes.width + column) * sizes.channels + channel];
    };
    const std::size_t last_row = sizes.height - 2, last_column = sizes.width - 2;
    for (std::size_t i = 0; i < 4; ++i) {
      for (std::size_t channel = 0; channel < sizes.channels; ++channel) {
        std::swap(value(i / 2, i % 2, channel),
                  value(last_row + i / 2, last_column + i % 2, channel));
      }
    }
    const auto swapped = logits_of(image);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CHECK(swapped[i] == doctest::Approx(expected[i]).epsilon(1e-10));
    }
    value(0, 0, 0) = 0.0F;
    value(1, 1, 0) = 1.0F;
    const auto before = logits_of(image);
    std::swap(value(0, 0, 0), value(1, 1, 0));
    const bool in_one_patch = logits_of(image) == before;
    CHECK_FALSE(in_one_patch);
  }
}

TEST_CASE("a table of images is refused if height, width or channels do not fit its values") {
  const TaskWorkplace work;
  for (const auto& [override, values] :
       {std::pair("data.image_height=2", 12), std::pair("data.image_width=2", 8),
        std::pair("data.image_channels=3", 72)}) {
    const Outcome refused = work.run({"train", of_images.name() + ".yaml", override});
    CHECK(refused.code == 3);
    CHECK_MESSAGE(contains(refused.err, fmt::format("{}", values)), refused.err);
  }
}

/// An HDF5 file of two images of these sizes.
void write_arrays(const TaskWorkplace& work, const std::string& name,
                  const std::vector<hsize_t>& shape) {
  const auto bytes = hdf5::file_with([&](hid_t file) {
    std::vector<std::uint8_t> pixels(2 * 24);
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i % 9);
    const std::vector<std::int64_t> labels = {1, 2};
    H5Dwrite(hdf5::create(file, "images", H5T_STD_U8LE, shape).get(), H5T_NATIVE_UINT8, H5S_ALL,
             H5S_ALL, H5P_DEFAULT, pixels.data());
    H5Dwrite(hdf5::create(file, "labels", H5T_STD_I64LE, {2}).get(), H5T_NATIVE_INT64, H5S_ALL,
             H5S_ALL, H5P_DEFAULT, labels.data());
  });
  work.write(name, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

TEST_CASE("arrays of images have the height, width and channels of the keys") {
  const TaskWorkplace work;
  for (const Sizes& sizes : {Sizes{4, 6, 1}, Sizes{2, 4, 3}}) {
    write_arrays(work, "arrays.h5", {2, sizes.height, sizes.width, sizes.channels});
    const auto run = [&](const Sizes& said) {
      std::vector<std::string> arguments = {
          "train",         of_images.name() + ".yaml", "data.train_images=arrays.h5",
          "train.steps=1", "data.validation_size=0",   "data.test_size=0"};
      for (const std::string& override : overrides_of(said)) arguments.push_back(override);
      std::filesystem::remove_all(work / "runs");
      return work.run(arguments);
    };
    CHECK(run(sizes).code == 0);
    for (const Sizes& other : all_sizes) {
      const bool same = other.height == sizes.height && other.width == sizes.width;
      if (!same) CHECK(run(other).code == 3);
    }
  }
}

}  // namespace
}  // namespace tapestry
