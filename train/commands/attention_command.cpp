#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "autograd/kernels/parallel.h"
#include "train/attention_view.h"
#include "train/commands/attention_output.h"
#include "train/commands/attention_subject.h"
#include "train/commands/commands.h"
#include "train/config/domains.h"
#include "train/exit_code.h"
#include "train/refuse_option.h"

namespace tapestry {
namespace {

/// Of all layers those that are asked for.
std::vector<LayerAttention> chosen_layers(std::vector<LayerAttention> layers,
                                          const std::string& path) {
  if (path.empty()) return layers;
  std::vector<std::string> paths;
  for (const LayerAttention& layer : layers) paths.push_back(layer.layer);
  const auto found = std::ranges::find(paths, path);
  if (found == paths.end()) {
    refuse_option("--layer " + path, "there is no such layer",
                  fmt::format("use {}", list_in_words(paths)));
  }
  return {std::move(layers[static_cast<std::size_t>(found - paths.begin())])};
}

/// Of all heads those that are asked for.
HeadRange chosen_heads(const LayerAttention& layer, const std::optional<std::size_t>& head) {
  if (!head) return {.begin = 0, .end = layer.num_heads};
  if (*head >= layer.num_heads) {
    refuse_option(fmt::format("--head {}", *head),
                  fmt::format("there are {} heads", layer.num_heads),
                  fmt::format("use 0 to {}", layer.num_heads - 1));
  }
  return {.begin = *head, .end = *head + 1};
}

}  // namespace

int attention_command(const AttentionArguments& arguments) {
  const AttentionSubject subject = attention_subject(arguments);
  kernels::set_num_threads(subject.config.train.threads);
  const auto layers =
      chosen_layers(attention_of(*subject.model, subject.config, subject.codec, subject.example),
                    arguments.layer);
  const HeadRange heads = chosen_heads(layers.front(), arguments.head);
  if (arguments.json) {
    fmt::print("{}\n", attention_json(layers, heads, subject.origin.place, subject.name));
  } else {
    fmt::print("{}, {}\n{}", subject.origin.in_words(), subject.name,
               attention_tables(layers, heads));
  }
  return static_cast<int>(ExitCode::done);
}

}  // namespace tapestry
