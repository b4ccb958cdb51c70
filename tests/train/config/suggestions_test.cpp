#include "train/config/help.h"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "train/config/config.h"
#include "train/config/error.h"

namespace tapestry {
namespace {

using Paths = std::vector<std::string>;

/// The hint for `text` in a config or, if `yaml` is empty, as an override.
std::string hint(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  try {
    (void)parse_config(yaml, "c.yaml", overrides);
  } catch (const ConfigError& error) {
    return error.diagnostics().front().hint;
  }
  return "accepted";
}

std::string override_hint(const std::string& override) {
  return hint("model: {d_ff: 8}\n", {override});
}

TEST_CASE("names of keys in other programs are recognized with any case and dashes") {
  CHECK(keys_meant_by("lr") == Paths{"schedule.learning_rate"});
  CHECK(keys_meant_by("LR") == Paths{"schedule.learning_rate"});
  CHECK(keys_meant_by("hidden-size") == Paths{"model.d_model"});
  CHECK(keys_meant_by("layers") == Paths{"model.num_encoder_layers", "model.num_decoder_layers"});
  CHECK(keys_meant_by("flavour").empty());
  CHECK(keys_meant_by("").empty());
}

TEST_CASE("a key of several sections is suggested for each, the most likely first") {
  CHECK(keys_meant_by("seed") == Paths{"train.seed", "data.seed"});
  CHECK(keys_meant_by("kind") == Paths{"model.kind", "optimizer.kind", "schedule.kind"});
  CHECK(keys_meant_by("dropout") == Paths{"model.dropout"});
}

TEST_CASE("every recognized foreign name has existing keys") {
  std::set<std::string> known;
  for (const ConfigKey& key : config_keys()) known.insert(key.path());
  for (const std::string_view name : foreign_key_names()) {
    CAPTURE(name);
    CHECK_FALSE(keys_meant_by(name).empty());
    for (const std::string& path : keys_meant_by(name)) {
      CAPTURE(path);
      CHECK(known.contains(path));
    }
  }
}

TEST_CASE("an override without a section gets the keys for which its value is valid") {
  CHECK(override_hint("seed=3") == "write `train.seed=...` or `data.seed=...`");
  CHECK(override_hint("lr=1e-3") == "write `schedule.learning_rate=...`");
  CHECK(override_hint("kind=adam") == "write `optimizer.kind=...`");
  CHECK(override_hint("kind=cosine") == "write `schedule.kind=...`");
  CHECK(override_hint("kind=best") ==
        "write `model.kind=...`, `optimizer.kind=...` or `schedule.kind=...`");
  CHECK(override_hint("train.seed") == "write `train.seed=...`");
  CHECK(override_hint("flavour=3") == "write for example `model.d_model=128`");
}

TEST_CASE("a foreign key name is answered by the key of this program and its section") {
  CHECK(override_hint("model.heads=2") == "did you mean `num_heads`?");
  CHECK(override_hint("model.n_head=2") == "did you mean `num_heads`?");
  CHECK(override_hint("train.lr=2") == "did you mean `learning_rate` in `schedule`?");
  CHECK(override_hint("model.layers=2") ==
        "did you mean `num_encoder_layers` or `num_decoder_layers`?");
  CHECK(hint("lr: 3\n") == "did you mean `learning_rate` in `schedule`?");
  CHECK(hint("train:\n  batch: 8\n") == "did you mean `batch_size`?");
}

TEST_CASE("of equally close keys, one that the kind of model or task uses is suggested") {
  CHECK(hint("model: {num_coder_layers: 2}\n") == "did you mean `num_encoder_layers`?");
  CHECK(hint("model: {num_coder_layers: 2, kind: language_model}\n") ==
        "did you mean `num_decoder_layers`?");
  CHECK(hint("data: {task: toy_sentences}\nmodel: {kind: language_model}\n",
             {"model.num_coder_layers=2"}) == "did you mean `num_decoder_layers`?");
  CHECK(hint("model: {kind: classifier, num_coder_layers: 2}\n") ==
        "did you mean `num_encoder_layers`?");
}

}  // namespace
}  // namespace tapestry
