// SPDX-License-Identifier: BSD-3-Clause
#include "train/cli/open_model.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "autograd/kernels/parallel.h"
#include "tests/support/temporary_folder.h"
#include "train/cli/open_trained.h"
#include "train/config/error.h"

namespace tapestry {
namespace {

/// The config of a run that holds out images of its training file.
Config images_config(std::size_t validation_size, std::size_t test_size) {
  Config config;
  config.model_kind = "vision_transformer";
  config.data.task = "images";
  config.data.images.train_images = "/data/all.csv";
  config.data.generated.validation_size = validation_size;
  config.data.generated.test_size = test_size;
  return config;
}

std::string rejection(const Config& trained, const std::vector<std::string>& overrides) {
  try {
    with_other_data("runs/x", trained, overrides);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST_CASE("an override of a data file is a path relative to the working folder") {
  const Config trained = images_config(5, 5);
  const Config other = with_other_data("runs/x", trained, {"data.validation_images=more.csv"});
  CHECK(other.data.images.validation_images ==
        (std::filesystem::current_path() / "more.csv").string());
  CHECK(other.data.images.train_images == "/data/all.csv");
  CHECK(other.data.images.test_images.empty());
  CHECK(other.data.generated.test_size == 5);
}

TEST_CASE("keys of a trained model other than data files and decoding are rejected") {
  for (const char* override :
       {"data.test_size=3", "train.steps=3", "model.d_model=64", "data.test_images"}) {
    CAPTURE(override);
    CHECK(rejection(images_config(5, 5), {override})
              .starts_with("command line: " + std::string(override) +
                           ": expected only data files, such as data.test_text=more.txt, and "
                           "decoding keys after runs/x"));
  }
  CHECK(rejection(images_config(5, 5), {"data.test_images="})
            .starts_with("command line: data.test_images=: found no file, expected one\n"
                         "hint: write data.test_images=FILE"));
}

TEST_CASE("a test file is rejected if it would change which images are held out for validation") {
  const std::vector<std::string> test_file{"data.test_images=more.csv"};
  const std::string rejected =
      "command line: data.test_images: a test file would change the images";
  CHECK(rejection(images_config(5, 5), test_file).starts_with(rejected));
  CHECK(rejection(images_config(1, 1), test_file).starts_with(rejected));
  CHECK(rejection(images_config(0, 5), test_file) ==
        "accepted");  // no validation images are held out
  CHECK(rejection(images_config(5, 0), test_file) == "accepted");  // no test images were held out
  CHECK(rejection(images_config(5, 5), {"data.validation_images=more.csv"}) == "accepted");
  CHECK(rejection(images_config(5, 5), {test_file[0], "data.validation_images=more.csv"}) ==
        "accepted");
  Config with_files = images_config(5, 5);
  with_files.data.images.validation_images = "/data/valid.csv";
  CHECK(rejection(with_files, test_file) == "accepted");
  with_files = images_config(5, 5);
  with_files.data.images.test_images = "/data/test.csv";
  CHECK(rejection(with_files, test_file) == "accepted");
}

TEST_CASE("opening a model sets the number of threads of the config") {
  const std::size_t before = kernels::num_threads();
  const test::TemporaryFolder folder;
  const auto path = folder.write("tiny.yaml",
                                 "data: {train_size: 4, validation_size: 0, test_size: 0}\n"
                                 "model: {d_model: 4, num_heads: 1, d_ff: 4}\n");
  for (const std::size_t threads : {3u, 1u}) {
    open_model(path, {fmt::format("train.threads={}", threads)});
    CHECK(kernels::num_threads() == threads);
  }
  kernels::set_num_threads(before);
}

}  // namespace
}  // namespace tapestry
