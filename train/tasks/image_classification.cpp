// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include "data/io/utf8.h"
#include "layers/encoder_models.h"
#include "train/config/error.h"
#include "train/tasks/data_rules.h"
#include "train/tasks/sentence_classification.h"
#include "train/tasks/task.h"

namespace tapestry {
namespace {

Corpus load(const DataOptions& o, const FixedVocabularies* fixed) {
  const Vocabulary* classes = fixed != nullptr && fixed->target ? &*fixed->target : nullptr;
  return load_images(o.images,
                     {.validation = o.generated.validation_size, .test = o.generated.test_size},
                     ".", classes, o.on_bad_line);
}

HeldOutParts held_out(const DataOptions& o) {
  return {.validation = o.images.validation_images.empty() && o.generated.validation_size > 0,
          .test = o.images.test_images.empty() && o.generated.test_size > 0};
}

/// Test images are held out of the training file before validation images. A separate test file
/// would change which images are held out for validation, and the model was trained on most of
/// the new validation images.
void check_other_files(const DataOptions& trained, const DataOptions& now) {
  const bool test_is_new = held_out(trained).test && !now.images.test_images.empty();
  if (!test_is_new || !held_out(now).validation) return;
  reject_option(
      "data.test_images",
      "a test file would change the images that the run holds out of data.train_images for "
      "validation",
      "name the images to score as data.validation_images");
}

void check_patches(const Config& config, const ConfigCheck& check) {
  const DataOptions& data = config.data;
  const std::size_t side = config.model.patch_size;
  if (data.images.image_height % side != 0 || data.images.image_width % side != 0) {
    return check.reject({"model.patch_size", "data.image_height", "data.image_width", "model.kind"},
                        fmt::format("`patch_size` is {}, which does not divide images of {} x {}",
                                    side, data.images.image_height, data.images.image_width),
                        "set `patch_size` to a number that divides height and width");
  }
  const std::size_t tokens =
      (data.images.image_height / side) * (data.images.image_width / side) + 1;
  if (tokens <= config.model.max_length) return;
  check.reject({"model.max_length", "model.patch_size", "data.image_height", "data.image_width",
                "model.kind"},
               fmt::format("an image has {} patches, which are {} tokens with the class token; "
                           "`model.max_length` is {}",
                           tokens - 1, tokens, config.model.max_length),
               fmt::format("set `model.max_length` to {} or more", tokens));
}

void check_batches(const Config& config, const ConfigCheck& check) {
  if (config.train.batch_tokens == 0) return;
  check.reject({"train.batch_tokens", "model.kind"},
               "`batch_tokens` is only used with text, since all images have the same size",
               "remove `batch_tokens`, and set `batch_size`");
}

/// The values of keys that suit an image file: the shape and the scale of its images, and the
/// smallest patch size that divides an image into at most 64 patches. If no size does, the largest
/// size that divides an image.
std::vector<std::pair<std::string, std::string>> measure(const std::string& path) {
  constexpr std::size_t max_patches = 64;
  const auto found = measure_images(path);
  if (!found) return {};
  const auto [height, width, channels, maximum] = *found;
  std::size_t size = 1;
  for (std::size_t each = 1; each <= std::min(height, width); ++each) {
    if (height % each != 0 || width % each != 0) continue;
    size = each;
    if ((height / each) * (width / each) <= max_patches) break;
  }
  const double scale = maximum <= 1.0 ? 1.0 : maximum > 127.0 && maximum <= 255.0 ? 255.0 : maximum;
  return {{"data.image_height", fmt::to_string(height)},
          {"data.image_width", fmt::to_string(width)},
          {"data.image_channels", fmt::to_string(channels)},
          {"data.pixel_maximum", fmt::format("{}", scale)},
          {"model.patch_size", fmt::to_string(size)}};
}

class ImageClasses : public ClassAnswers {
 public:
  std::optional<Example> read_line(const std::string& line, std::size_t number,
                                   const std::string& place,
                                   const TrainedModel& trained) const override {
    const ImageOptions& options = trained.config.data.images;
    const bool heading = number == 1 && is_image_heading(line, options);
    if (heading || is_blank(line)) return std::nullopt;
    return Example{.target = {first_word_id}, .pixels = parse_image(line, place, options)};
  }

  /// Token names: "class", and the row and column of each patch, such as "0,1".
  StackTokens stack_tokens(const Batch&, const Config& config, const TextCodec&) const override {
    const std::size_t size = config.model.patch_size;
    Tokens names{"class"};
    for (std::size_t row = 0; row < config.data.images.image_height / size; ++row) {
      for (std::size_t column = 0; column < config.data.images.image_width / size; ++column) {
        names.push_back(fmt::format("{},{}", row, column));
      }
    }
    return {.encoder = names, .decoder = names};
  }

 private:
  std::string describe(const Example&, std::size_t i, const TextCodec&) const override {
    return fmt::format("image {}", i + 1);
  }
};

class ImageClassification : public Task {
 public:
  const ConfigKind& kind() const override {
    static const ConfigKind kind{
        .name = "vision_transformer",
        .keys = {"model.num_encoder_layers", "model.pooling", "model.patch_size"},
        .check = [](const Config& config, const ConfigCheck& check) {
          check_patches(config, check);
          check_batches(config, check);
        }};
    return kind;
  }

  std::vector<const DataSource*> sources() const override {
    static const DataSource images{
        .kind = {.name = "images",
                 .keys = {"data.folder", "data.train_images", "data.validation_images",
                          "data.test_images", "data.image_height", "data.image_width",
                          "data.image_channels", "data.pixel_maximum", "data.validation_size",
                          "data.test_size", "data.on_bad_line"},
                 .check =
                     [](const Config& config, const ConfigCheck& check) {
                       require_file(config, check, "data.train_images",
                                    config.data.images.train_images);
                     }},
        .load = load,
        .has_classes = true,
        .held_out = held_out,
        .check_other_files = check_other_files};
    return {&images};
  }

  const TaskQuestions* questions() const override {
    static const TaskQuestions questions{
        .description = "classify images",
        .files = {{"data.train_images", "Training images: a CSV, HDF5 or NumPy file"},
                  {"data.validation_images",
                   "Validation images (empty: a tenth of the training images)", false},
                  {"data.test_images", "Test images (empty: a tenth of the training images)",
                   false}},
        .numbers = {{"data.image_height", "Height of an image in pixels", "8"},
                    {"data.image_width", "Width of an image in pixels", "8"},
                    {"data.image_channels", "Values per pixel", "1"},
                    {"data.pixel_maximum", "Largest value of a pixel", "255"},
                    {"model.patch_size", "Height and width of a patch in pixels", "2"}},
        .measure = measure,
        .values = {{"data.task", "images"}, {"model.positions", "learned"}}};
    return &questions;
  }

  TaskWords words(const Config&) const override {
    return {.examples = "images",
            .targets = "images",
            .input_hint = "give it a table, the pixels of one image per line, such as `< FILE`"};
  }

  std::string describe_vocabularies(const Corpus& corpus) const override {
    return describe_classes(corpus);
  }

  std::string describe_size(const Batch& batch) const override {
    return fmt::format("{} images", batch.rows);
  }

  const RowLayout& layout() const override { return class_rows; }

  TaskTraits traits() const override {
    return {.reads_images = true, .one_label_per_example = true};
  }

  std::unique_ptr<Network> make_network(const Scope& scope, const Config& config,
                                        const NetworkSizes& sizes) const override {
    return std::make_unique<VisionTransformer>(scope, config.model, sizes.image, sizes.target);
  }

  std::string format_scores(const Scores& scores, const Config&) const override {
    return format_class_scores(scores);
  }

  const TaskAnswers& answers() const override {
    static const ImageClasses answers;
    return answers;
  }
};

}  // namespace

/// model.kind: vision_transformer. Predicts the class of an image from its patches (Dosovitskiy et
/// al. 2021); `tapestry classify` prints the most likely class of each line of pixels.
const Task& image_classification() {
  static const ImageClassification task;
  return task;
}

}  // namespace tapestry
