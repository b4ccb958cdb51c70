#pragma once

#include <initializer_list>
#include <string_view>

#include "train/checkpoint.h"

namespace tapestry {

/// throws  UsageError naming `command` if the model is of none of these kinds.
void require_kind(const TrainedModel& trained, std::initializer_list<ModelKind> kinds,
                  std::string_view command);

}  // namespace tapestry
