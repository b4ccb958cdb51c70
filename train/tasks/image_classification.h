#pragma once

#include "train/tasks/task.h"

namespace tapestry {

/// model.kind: vision_transformer. The class of an image by its patches (Dosovitskiy et al. 2021);
/// `tapestry classify` prints the most likely class of each line of pixels.
const Task& image_classification();

}  // namespace tapestry
