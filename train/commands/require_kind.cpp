#include "train/commands/require_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "train/config/choices.h"
#include "train/config/domains.h"
#include "train/refuse_option.h"

namespace tapestry {

void require_kind(const TrainedModel& trained, std::initializer_list<ModelKind> kinds,
                  std::string_view command) {
  const ModelKind kind = trained.config.model.kind;
  if (std::ranges::find(kinds, kind) != kinds.end()) return;
  std::vector<std::string> names;
  for (const ModelKind wanted : kinds) names.emplace_back(choice_name(wanted));
  refuse_option(
      command,
      fmt::format("the model is of kind {}, expected {}", choice_name(kind), list_in_words(names)),
      "`tapestry evaluate RUN` shows what any model does");
}

}  // namespace tapestry
