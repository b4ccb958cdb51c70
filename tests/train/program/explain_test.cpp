#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/support/contains.h"
#include "tests/train/kind_configs.h"
#include "tests/train/refusal.h"

/// `tapestry explain`.
namespace tapestry {
namespace {

using Json = nlohmann::json;
using test::Arguments;
using test::check_refusal;
using test::contains;
using test::KindWorkplace;
using test::Outcome;

/// The pixels of an image of images.yaml.
const std::string pixels = "5,8,6,9,7,5,8,6,4,2,0,3,1,4,2,0";

struct ExplainWorkplace : KindWorkplace {
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

  Json json(Arguments arguments) const {
    arguments.insert(arguments.begin(), "explain");
    arguments.emplace_back("--json");
    const Outcome done = run(arguments);
    CHECK(done.code == 0);
    return Json::parse(done.out);
  }

  std::string read(const std::string& name) const {
    std::ifstream in(*this / name);
    return {std::istreambuf_iterator<char>(in), {}};
  }
};

std::vector<std::string> labels_of(const Json& data) {
  std::vector<std::string> labels;
  for (const Json& prediction : data.at("predictions")) {
    const Json& label = prediction.at("label");
    labels.push_back(label.is_null() ? "none" : label.at("token").get<std::string>());
  }
  return labels;
}

std::vector<std::string> top_tokens(const Json& data) {
  std::vector<std::string> best;
  for (const Json& prediction : data.at("predictions")) {
    best.push_back(prediction.at("top").at(0).at("token"));
  }
  return best;
}

using Words = std::vector<std::string>;

/// A kind of model with an input.
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

TEST_CASE("explain shows every kind of model, with initial and with trained values") {
  const ExplainWorkplace work;
  for (const Case& of : cases) {
    CAPTURE(of.config);
    const Json initial = work.json({of.config + ".yaml", of.text});
    check_data(initial, of);
    CHECK(initial["model"] == of.config + ".yaml, initial values");
    REQUIRE(work.run({"train", of.config + ".yaml", "--quiet"}).code == 0);
    const Json trained = work.json({"runs/" + of.config, of.text});
    check_data(trained, of);
    CHECK(trained["steps"].size() == initial["steps"].size());
    CHECK(trained["loss"] != initial["loss"]);
    CHECK(
        contains(trained["model"].get<std::string>(), "runs/" + of.config + "/checkpoints/step-"));
  }
}

TEST_CASE("explain writes the page to the path of report, or to --output") {
  const ExplainWorkplace work;
  REQUIRE(work.run({"train", "classes.yaml", "--quiet"}).code == 0);
  Outcome done = work.run({"explain", "runs/classes", "a fine day"});
  CHECK(done.code == 0);
  CHECK(done.out.starts_with("runs/classes/explain.html: "));
  const std::string page = work.read("runs/classes/explain.html");
  CHECK(page.starts_with("<!DOCTYPE html>"));
  CHECK(page.ends_with("</html>\n"));
  CHECK(contains(page, "encoder.layers.0.self_attn.q_proj"));

  done = work.run({"explain", "classes.yaml", "a fine day"});
  CHECK(done.out.starts_with("explain.html: "));
  CHECK(std::filesystem::exists(work / "explain.html"));
  done = work.run({"explain", "classes.yaml", "a fine day", "--output", "here.html"});
  CHECK(done.out.starts_with("here.html: "));
  CHECK(std::filesystem::exists(work / "here.html"));
  check_refusal(work, {"explain", "classes.yaml", "a fine day", "--output", "none/here.html"}, 5,
                "none/here.html: could not open its folder: No such file or directory\n"
                "hint: create the folder none");
}

TEST_CASE("no text of a page can end its script") {
  const ExplainWorkplace work;
  work.write("text.txt", "<script></script> <b> a\n<script></script> <b> b\n");
  REQUIRE(
      work.run({"explain", "language.yaml", "<b> <", "data.unit=character", "data.lowercase=false"})
          .code == 0);
  const std::string page = work.read("explain.html");
  std::size_t scripts = 0;
  for (std::size_t at = 0; (at = page.find("<script", at)) != page.npos; ++at) ++scripts;
  CHECK(scripts == 2);
}

TEST_CASE("the labels are the target given, or the model's own output") {
  const ExplainWorkplace work;
  REQUIRE(work.run({"train", "pairs.yaml", "--quiet"}).code == 0);
  const Json own = work.json({"runs/pairs", "c a b"});
  CHECK(contains(own["labels"].get<std::string>(), "greedy output"));
  CHECK(labels_of(own) == top_tokens(own));
  // The greedy output is that of translate, whatever the search of the config.
  const auto join_labels = [](const Json& data) {
    std::string text;
    for (const std::string& label : labels_of(data)) {
      if (label != "<eos>") text += (text.empty() ? "" : " ") + label;
    }
    return text + "\n";
  };
  std::size_t differ = 0;
  for (const char* source : {"a b", "f f c", "d e a b c", "e", "b d f"}) {
    const std::string line = std::string(source) + "\n";
    const auto translation = [&](const char* beam) {
      return work.run({"translate", "runs/pairs", "--beam-size", beam}, line).out;
    };
    const Json beam = work.json({"runs/pairs", source, "decoding.beam_size=20"});
    CHECK(join_labels(beam) == translation("1"));
    differ += translation("1") == translation("20") ? 0 : 1;
  }
  CHECK(differ > 0);
  const Json given = work.json({"runs/pairs", "c a b", "--target", "b b"});
  CHECK(given["labels"] == "the target given");
  CHECK(labels_of(given) == Words{"b", "b", "<eos>"});
  CHECK(given["tokens"]["encoder"] == Json{"c", "a", "b", "<eos>"});
  CHECK(given["tokens"]["decoder"] == Json{"<bos>", "b", "b"});

  CHECK(labels_of(work.json({"words.yaml", "le chat"})) == Words{"le", "chat", "<eos>"});
  CHECK(labels_of(work.json({"language.yaml", "bad"})) == Words{"a", "d", "none"});
  const Json single = work.json({"language.yaml", "b"});
  CHECK(labels_of(single) == top_tokens(single));

  const Json blank = work.json({"masked.yaml", "le _ dort"});
  CHECK(labels_of(blank) == Words{"none", "none", top_tokens(blank)[2], "none", "none"});
  CHECK(labels_of(work.json({"masked.yaml", "le _ dort", "--target", "le chat dort"})) ==
        Words{"none", "none", "chat", "none", "none"});
  CHECK(labels_of(work.json({"masked.yaml", "le chat"})) == Words{"<bos>", "le", "chat", "<eos>"});

  const Json tags = work.json({"tags.yaml", "in New"});
  CHECK(labels_of(tags) == top_tokens(tags));
  CHECK(labels_of(work.json({"tags.yaml", "in New", "--target", "O B-LOC"})) ==
        Words{"O", "B-LOC"});
  for (const char* name : {"yes", "no"}) {
    CHECK(labels_of(work.json({"classes.yaml", "a day", "--target", name})) == Words{name});
  }
  CHECK(labels_of(work.json({"images.yaml", pixels, "--target", "bottom"})) == Words{"bottom"});
}

TEST_CASE("the output of an untrained model is no longer than the source") {
  const ExplainWorkplace work;
  for (const char* text : {"a", "c a b f"}) {
    const Json data = work.json({"pairs.yaml", text});
    CHECK(data["predictions"].size() <= data["tokens"]["encoder"].size());
  }
}

TEST_CASE("every variant of a layer has a formula, and queries, keys and values") {
  const ExplainWorkplace work;
  for (const Arguments& variant : std::vector<Arguments>{
           {"model.score=additive"},
           {"model.score=bilinear"},
           {"model.score=dot_product", "model.window=1"},
           {"model.positions=alibi"},
           {"model.positions=rotary", "model.normalization=rms_norm", "model.activation=swiglu"},
           {"model.positions=learned", "model.activation=geglu", "model.skip_scale=0.5"},
           {"model.positions=none", "model.activation=gelu", "model.normalization=batch_norm"},
           {"model.attention=parameter_free", "model.num_heads=1", "model.norm=post"},
           {"model.activation=gelu_tanh", "model.tie_embeddings=target"},
           {"model.activation=silu", "model.d_head=4", "train.dtype=float64"}}) {
    CAPTURE(variant.front());
    Arguments arguments{"words.yaml", "le chat dort"};
    arguments.insert(arguments.end(), variant.begin(), variant.end());
    const Json data = work.json(arguments);
    check_data(data, {"words", "", 4, 1});
    for (const Json& step : data["steps"]) {
      if (!step.contains("attention")) continue;
      for (std::size_t i = 0; i < 3; ++i) CHECK(step["inputs"][i].contains("step"));
      CHECK((variant.front() == "model.positions=alibi") ==
            step["attention"]["biased"].is_number());
    }
  }
}

TEST_CASE("steps have one row for each token of the encoder or of the decoder") {
  const ExplainWorkplace work;
  const Json data =
      work.json({"pairs.yaml", "c a b", "--target", "a b c", "model.tie_embeddings=all"});
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
  CHECK(work.json({"images.yaml", pixels})["steps"][0]["rows"] == "patches");
}

TEST_CASE("`-` reads the input from standard input") {
  const ExplainWorkplace work;
  const Outcome done = work.run({"explain", "images.yaml", "-", "--json"}, pixels + "\n");
  CHECK(done.code == 0);
  CHECK(Json::parse(done.out)["steps"] == work.json({"images.yaml", pixels})["steps"]);
  check_refusal(work, {"explain", "images.yaml", "-"}, 2,
                "command line: TEXT: found no line on standard input, expected one\n"
                "hint: give it a table, the pixels of an image a line, such as `< FILE`");
}

TEST_CASE("explain refuses inputs and targets that do not fit, and writes nothing") {
  const ExplainWorkplace work;
  const auto check = [&](Arguments arguments, int code, const std::string& error) {
    arguments.insert(arguments.begin(), "explain");
    check_refusal(work, arguments, code, error);
  };
  check({"words.yaml"}, 2, "command line: TEXT is required\nhint: see `tapestry explain --help`");
  check({"words.yaml", " "}, 2,
        "command line: TEXT: found no word, expected a sentence\nhint: give it a sentence");
  check({"images.yaml", ""}, 2,
        "command line: TEXT: found no pixels, expected those of an image\n"
        "hint: give it the pixels of an image, separated by commas");
  check({"language.yaml", "a bad cab"}, 3,
        "TEXT: found 9 tokens to read, expected at most 6 (data.context)\n"
        "hint: cut the line, or train a model with a larger data.context");
  check({"words.yaml", "le chat", "--target", "x"}, 2,
        "command line: --target: a language model predicts the next tokens of the text\n"
        "hint: leave --target out, and put the tokens to predict into TEXT");
  check({"masked.yaml", "le _ dort", "--target", "le chat"}, 2,
        "command line: --target: found 4 tokens, expected 5 as in TEXT\n"
        "hint: give it the text with a token for each blank");
  check({"classes.yaml", "a day", "--target", "maybe"}, 2,
        "command line: --target: there is no class `maybe`\nhint: use no or yes");
  check({"tags.yaml", "in New", "--target", "O"}, 2,
        "command line: --target: found 1 label, expected 2\n"
        "hint: give it one label for each token");
  check({"classes.yaml", "a day", "--target", "yes no"}, 2,
        "command line: --target: found 2 labels, expected 1\nhint: give it one class");
  check({"pairs.yaml", "a b", "--target", "a b c d e f a b c d e f"}, 2,
        "command line: --target: found 13 tokens with <eos>, expected at most 12 "
        "(model.max_length)\nhint: cut the target");
  check({"words.yaml", "le chat", "--json", "--output", "x.html"}, 2,
        "command line: --output excludes --json\nhint: see `tapestry explain --help`");
  CHECK_FALSE(std::filesystem::exists(work / "explain.html"));
}

TEST_CASE("--top is the number of predictions") {
  const ExplainWorkplace work;
  const Json data = work.json({"words.yaml", "le chat", "--top", "3"});
  for (const Json& prediction : data["predictions"]) {
    REQUIRE(prediction["top"].size() == 3);
    std::set<std::string> names;
    for (const Json& likely : prediction["top"]) names.insert(likely["token"]);
    CHECK(names.size() == 3);
  }
}

TEST_CASE("the weights of an explain page are those of attention") {
  const ExplainWorkplace work;
  REQUIRE(work.run({"train", "classes.yaml", "--quiet"}).code == 0);
  const Json data = work.json({"runs/classes", "a fine day"});
  const Outcome shown = work.run({"attention", "runs/classes", "--text", "a fine day", "--json"});
  const Json heads = Json::parse(shown.out)["layers"][0]["heads"];
  for (const Json& step : data["steps"]) {
    if (!step.contains("attention")) continue;
    const Json& weights =
        data["tensors"][step["attention"]["weights"].get<std::size_t>()]["values"];
    const std::size_t n = data["tokens"]["encoder"].size();
    REQUIRE(weights.size() == 2 * n * n);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      CHECK(weights[i] == heads[i / (n * n)]["weights"][i / n % n][i % n]);
    }
  }
}

}  // namespace
}  // namespace tapestry
