// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/train/kinds.h"

/// Tests `tapestry explain`; tests/train/report tests the contents of traces and pages.
namespace tapestry {
namespace {

using Json = nlohmann::json;
using test::contains;
using test::Words;

/// The pixels of an image for images.yaml.
const std::string pixels = "5,8,6,9,7,5,8,6,4,2,0,3,1,4,2,0";

struct ExplainWorkplace : test::KindWorkplace {
  ExplainWorkplace() {
    write("pairs.yaml",
          "data: {task: copy, num_symbols: 6, min_length: 2, max_length: 5, train_size: 20, "
          "validation_size: 3, test_size: 2}\n"
          "model: {d_model: 16, num_heads: 2, num_encoder_layers: 1, num_decoder_layers: 1, "
          "d_ff: 16, max_length: 12}\n"
          "schedule: {learning_rate: 0.003}\n"
          "train: {steps: 30, batch_size: 8, threads: 1, log_every: 10, validate_every: 15, "
          "save_every: 15}\n");
  }

  Json json(const std::string& arguments) const {
    return Json::parse(run("explain " + arguments + " --json").out);
  }
};

Words labels_of(const Json& data) {
  Words labels;
  for (const Json& prediction : data.at("predictions")) {
    const Json& label = prediction.at("label");
    labels.push_back(label.is_null() ? "none" : label.at("token").get<std::string>());
  }
  return labels;
}

Words top_tokens(const Json& data) {
  Words best;
  for (const Json& prediction : data.at("predictions")) {
    best.push_back(prediction.at("top").at(0).at("token"));
  }
  return best;
}

/// A config, an input, and the expected numbers of predictions and of attention calls.
struct Case {
  std::string config, text;
  std::size_t predictions, attentions;
};

const std::vector<Case> cases{{"pairs", "c a b", 0, 3},        {"language", "a bad", 5, 1},
                              {"words", "le chat dort", 4, 1}, {"masked", "le _ dort", 5, 1},
                              {"classes", "a fine day", 1, 1}, {"agreement", "le chat dort", 1, 1},
                              {"tags", "in New York", 3, 1},   {"images", pixels, 1, 1}};

void check_data(const Json& data, const Case& of) {
  CHECK(std::isfinite(data.at("loss").get<double>()));
  if (of.predictions != 0) CHECK(data["predictions"].size() == of.predictions);
  std::size_t attentions = 0;
  for (const Json& step : data.at("steps")) {
    CAPTURE(step["layer"].get<std::string>());
    CHECK(step["gradient"].is_number());
    CHECK_FALSE(step["formula"].get<std::string>().empty());
    CHECK_FALSE(step["gradient_formula"].get<std::string>().empty());
    attentions += step.contains("attention") ? 1 : 0;
  }
  CHECK(attentions == of.attentions);
}

TEST_CASE("explain supports every kind of model, before and after training") {
  const ExplainWorkplace work;
  for (const Case& of : cases) {
    CAPTURE(of.config);
    const std::string text = " '" + of.text + "'";
    const Json initial = work.json(of.config + ".yaml" + text);
    check_data(initial, of);
    CHECK(initial["model"] == of.config + ".yaml, initial values");
    CHECK(work.run("train " + of.config + ".yaml --quiet").code == 0);
    const Json trained = work.json("runs/" + of.config + text);
    check_data(trained, of);
    CHECK(trained["steps"].size() == initial["steps"].size());
    CHECK(trained["loss"] != initial["loss"]);
    CHECK(contains(trained["model"].get<std::string>(), "runs/" + of.config + "/checkpoints/"));
  }

  // The weights equal the output of `attention`.
  const Json data = work.json("runs/classes 'a fine day'");
  const Json heads = Json::parse(
      work.run("attention runs/classes --text 'a fine day' --json").out)["layers"][0]["heads"];
  const std::size_t n = data["tokens"]["encoder"].size();
  for (const Json& step : data["steps"]) {
    if (!step.contains("attention")) continue;
    const Json& weights =
        data["tensors"][step["attention"]["weights"].get<std::size_t>()]["values"];
    REQUIRE(weights.size() == 2 * n * n);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      CHECK(weights[i] == heads[i / (n * n)]["weights"][i / n % n][i % n]);
    }
  }
}

TEST_CASE("explain writes its page to the run directory, the working folder or --output") {
  const ExplainWorkplace work;
  work.out("train classes.yaml");
  CHECK(contains(work.run("explain runs/classes 'a fine day'").out, "runs/classes/explain.html: "));
  const std::string page = work.read("runs/classes/explain.html");
  CHECK(page.starts_with("<!DOCTYPE html>"));
  CHECK(page.ends_with("</html>\n"));
  CHECK(contains(page, "encoder.layers.0.self_attn.q_proj"));
  CHECK(work.out("explain classes.yaml 'a fine day'").starts_with("explain.html: "));
  CHECK(work.has("explain.html"));
  CHECK(work.out("explain classes.yaml 'a day' --output here.html").starts_with("here.html: "));
  CHECK(work.has("here.html"));
  check_rejected(work, "explain classes.yaml 'a fine day' --output none/here.html", 5,
                 {"none/here.html: could not open its folder", "create the folder none"});
}

TEST_CASE("explain uses the labels of --target, or by default the output of the model") {
  const ExplainWorkplace work;
  work.out("train pairs.yaml --quiet");
  const Json own = work.json("runs/pairs 'c a b'");
  CHECK(contains(own["labels"].get<std::string>(), "greedy output"));
  CHECK(labels_of(own) == top_tokens(own));
  // The greedy output equals `translate --beam-size 1`, regardless of decoding.beam_size.
  std::size_t differ = 0;
  for (const std::string source : {"a b", "f f c", "d e a b c", "e", "b d f"}) {
    const auto translation = [&](const std::string& beam) {
      return work.run("translate runs/pairs --beam-size " + beam, source + "\n").out;
    };
    std::string text;
    for (const std::string& label :
         labels_of(work.json("runs/pairs '" + source + "' decoding.beam_size=20"))) {
      if (label != "<eos>") text += (text.empty() ? "" : " ") + label;
    }
    CHECK(text + "\n" == translation("1"));
    differ += translation("1") == translation("20") ? 0 : 1;
  }
  CHECK(differ > 0);
  const Json given = work.json("runs/pairs 'c a b' --target 'b b'");
  CHECK(given["labels"] == "the text of --target");
  CHECK(labels_of(given) == Words{"b", "b", "<eos>"});
  CHECK(given["tokens"]["encoder"] == Json{"c", "a", "b", "<eos>"});
  CHECK(given["tokens"]["decoder"] == Json{"<bos>", "b", "b"});
  for (const char* text : {"a", "'c a b f'"}) {  // no longer than the source
    const Json data = work.json(std::string("pairs.yaml ") + text);
    CHECK(data["predictions"].size() <= data["tokens"]["encoder"].size());
  }

  const auto labels = [&](const std::string& arguments) { return labels_of(work.json(arguments)); };
  CHECK(labels("words.yaml 'le chat'") == Words{"le", "chat", "<eos>"});
  CHECK(labels("language.yaml bad") == Words{"a", "d", "none"});
  CHECK(labels("language.yaml b") == top_tokens(work.json("language.yaml b")));
  const Json blank = work.json("masked.yaml 'le _ dort'");
  CHECK(labels_of(blank) == Words{"none", "none", top_tokens(blank)[2], "none", "none"});
  CHECK(labels("masked.yaml 'le _ dort' --target 'le chat dort'") ==
        Words{"none", "none", "chat", "none", "none"});
  CHECK(labels("masked.yaml 'le chat'") == Words{"<bos>", "le", "chat", "<eos>"});
  CHECK(labels("tags.yaml 'in New'") == top_tokens(work.json("tags.yaml 'in New'")));
  CHECK(labels("tags.yaml 'in New' --target 'O B-LOC'") == Words{"O", "B-LOC"});
  CHECK(labels("classes.yaml 'a day' --target yes") == Words{"yes"});
  CHECK(labels("classes.yaml 'a day' --target no") == Words{"no"});
  CHECK(labels("images.yaml " + pixels + " --target bottom") == Words{"bottom"});
}

TEST_CASE("explain shows a formula, queries, keys and values for every variant of a layer") {
  const ExplainWorkplace work;
  for (const std::string variant :
       {"model.score=additive", "model.score=bilinear", "model.score=dot_product model.window=1",
        "model.positions=alibi",
        "model.positions=rotary model.normalization=rms_norm model.activation=swiglu",
        "model.positions=learned model.activation=geglu model.skip_scale=0.5",
        "model.positions=none model.activation=gelu model.normalization=batch_norm",
        "model.attention=parameter_free model.num_heads=1 model.norm=post",
        "model.activation=gelu_tanh model.tie_embeddings=target",
        "model.activation=silu model.d_head=4 train.dtype=float64"}) {
    CAPTURE(variant);
    const Json data = work.json("words.yaml 'le chat dort' --top 3 " + variant);
    check_data(data, {"words", "", 4, 1});
    for (const Json& step : data["steps"]) {
      if (!step.contains("attention")) continue;
      for (std::size_t i = 0; i < 3; ++i) CHECK(step["inputs"][i].contains("step"));
      CHECK((variant == "model.positions=alibi") == step["attention"]["biased"].is_number());
    }
    for (const Json& prediction : data["predictions"]) {
      REQUIRE(prediction["top"].size() == 3);
      std::set<std::string> names;
      for (const Json& likely : prediction["top"]) names.insert(likely["token"]);
      CHECK(names.size() == 3);
    }
  }
}

TEST_CASE("each step of explain has one row per encoder or decoder token") {
  const ExplainWorkplace work;
  const Json data = work.json("pairs.yaml 'c a b' --target 'a b c' model.tie_embeddings=all");
  std::size_t checked = 0;
  for (const auto& [layer, rows] : std::vector<std::pair<std::string, std::string>>{
           {"source_positions", "encoder"},
           {"target_positions", "decoder"},
           {"encoder.layers.0.self_attn.k_proj", "encoder"},
           {"decoder.layers.0.self_attn.k_proj", "decoder"},
           {"decoder.layers.0.cross_attn.k_proj", "encoder"},
           {"decoder.layers.0.cross_attn.q_proj", "decoder"},
           {"output", "decoder"}}) {
    for (const Json& step : data["steps"]) {
      if (step["layer"] != layer || step["rows"].is_null()) continue;
      CHECK(step["rows"] == rows);
      ++checked;
    }
  }
  CHECK(checked == 7);
  Words embeddings;
  for (const Json& step : data["steps"]) {
    if (step["operation"] == "embedding") embeddings.push_back(step["rows"]);
  }
  CHECK(embeddings == Words{"encoder", "decoder"});
  const Json images = work.json("images.yaml " + pixels);
  CHECK(images["steps"][0]["rows"] == "patches");
  // `-` reads the input from standard input.
  CHECK(Json::parse(work.out("explain images.yaml - --json", pixels + "\n"))["steps"] ==
        images["steps"]);
}

TEST_CASE("explain rejects unsuitable inputs and targets, and writes no file") {
  const auto row = [](const std::string& arguments, const Words& words, int code = 2) {
    return test::CommandRow{"explain " + arguments, code, words};
  };
  check_rows(
      ExplainWorkplace(),
      {row("words.yaml", {"TEXT is required"}), row("words.yaml ' '", {"TEXT: found no word"}),
       row("images.yaml ''", {"TEXT: found no pixels", "separated by commas"}),
       row("images.yaml -", {"found no line on standard input", "`< FILE`"}),
       row("language.yaml 'a bad cab'", {"found 9 tokens", "at most 6 (data.context)"}, 3),
       row("words.yaml 'le chat' --target x", {"--target: a language model predicts the next"}),
       row("masked.yaml 'le _ dort' --target 'le chat'", {"found 4 tokens, expected 5"}),
       row("classes.yaml 'a day' --target maybe", {"there is no class `maybe`", "no or yes"}),
       row("classes.yaml 'a day' --target 'yes no'", {"found 2 labels, expected 1"}),
       row("tags.yaml 'in New' --target O", {"found 1 label, expected 2"}),
       row("pairs.yaml 'a b' --target 'a b c d e f a b c d e f'", {"13 tokens", "at most 12"}),
       row("words.yaml 'le chat' --json --output x.html", {"--output excludes --json"})});
}

}  // namespace
}  // namespace tapestry
