// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/train/kinds.h"
#include "train/checkpoint/checkpoint_file.h"

/// Tests `tapestry attention`.
namespace tapestry {
namespace {

using Json = nlohmann::json;
using test::contains;

/// A workplace with pairs.yaml, the config of an untrained seq2seq model.
struct AttentionWorkplace : test::KindWorkplace {
  AttentionWorkplace() {
    write("pairs.yaml",
          "data: {task: copy, num_symbols: 6, min_length: 2, max_length: 5, train_size: 20, "
          "validation_size: 3, test_size: 2}\n"
          "model: {d_model: 16, num_heads: 2, num_encoder_layers: 1, num_decoder_layers: 1, "
          "d_ff: 16, max_length: 12}\n");
  }

  Json json(const std::string& arguments) const {
    return Json::parse(out("attention " + arguments + " --json"));
  }
  /// The names of the key tokens of the first layer.
  Json tokens(const std::string& arguments) const { return json(arguments)["layers"][0]["keys"]; }
};

std::vector<std::string> layers_of(const Json& shown) {
  std::vector<std::string> layers;
  for (const Json& layer : shown.at("layers")) layers.push_back(layer.at("layer"));
  return layers;
}

TEST_CASE("attention prints each layer and head with queries and keys") {
  const AttentionWorkplace work;
  const Json shown = work.json("pairs.yaml --text 'c a b'");
  CHECK(shown.at("example") == "the text given");
  CHECK(shown.at("model") == "pairs.yaml, initial values");
  CHECK(layers_of(shown) == std::vector<std::string>{"encoder.layers.0.self_attn",
                                                     "decoder.layers.0.self_attn",
                                                     "decoder.layers.0.cross_attn"});
  const Json &encoder = shown["layers"][0], &decoder = shown["layers"][1],
             &cross = shown["layers"][2];
  const Json source = {"c", "a", "b", "<eos>"};
  CHECK(encoder["queries"] == source);
  CHECK(encoder["keys"] == source);
  CHECK(decoder["queries"][0] == "<bos>");
  CHECK(decoder["keys"] == decoder["queries"]);
  CHECK(cross["queries"] == decoder["queries"]);
  CHECK(cross["keys"] == source);
  for (const Json& layer : shown["layers"]) CHECK(layer["heads"].size() == 2);
}

TEST_CASE("attention prints the tokens that each kind of model reads from an example or a text") {
  const AttentionWorkplace work;
  CHECK(work.tokens("language.yaml --example 2").size() == 6);
  CHECK(work.tokens("words.yaml --example 2")[0] == "<bos>");
  CHECK(work.tokens("masked.yaml --example 2").back() == "<eos>");
  CHECK(work.tokens("classes.yaml --example 2") == Json{"<bos>", "a", "fine", "day", "<eos>"});
  CHECK(work.tokens("images.yaml --example 2") == Json{"class", "0,0", "0,1", "1,0", "1,1"});
  CHECK(work.tokens("language.yaml --text dab") == Json{"d", "a", "b"});
  CHECK(work.tokens("classes.yaml --text 'a fine xylophone'") ==
        Json{"<bos>", "a", "fine", "<unk>", "<eos>"});
  CHECK(work.tokens("words.yaml --text 'le chat'").size() == 3);
  CHECK(work.tokens("masked.yaml --text 'le chat xyz'") ==
        Json{"<bos>", "le", "chat", "<unk>", "<eos>"});
  for (const std::string config : {"pairs.yaml", "words.yaml", "masked.yaml", "classes.yaml"}) {
    CAPTURE(config);
    const Json example = work.tokens(config);
    std::string text;
    for (const std::string token : example) {
      if (token != "<bos>" && token != "<eos>") text += token + " ";
    }
    CHECK(work.tokens(config + " --text '" + text + "'") == example);
  }
  std::string lines;
  for (int i = 0; i < 32; ++i) lines += i % 2 == 0 ? "1,2,3,4,5,6,7,8,a\n" : "8,7,6,5,4,3,2,1,b\n";
  work.write("wide.csv", lines);
  CHECK(work.tokens("images.yaml data.train_images=wide.csv data.image_height=2 "
                    "data.image_width=4 model.patch_size=1 model.max_length=9") ==
        Json{"class", "0,0", "0,1", "0,2", "0,3", "1,0", "1,1", "1,2", "1,3"});
}

TEST_CASE("attention shows a validation example, or else a test or training example") {
  const AttentionWorkplace work;
  CHECK(work.json("pairs.yaml").at("example") == "validation 1");
  CHECK(work.json("pairs.yaml data.validation_size=0").at("example") == "test 1");
  CHECK(work.json("pairs.yaml data.test_size=0 data.validation_size=0").at("example") ==
        "training 1");
}

TEST_CASE("attention shows every layer of a trained model, and --text needs no data files") {
  const AttentionWorkplace work;
  work.out(
      "train classes.yaml model.num_encoder_layers=2 model.normalization=batch_norm "
      "model.attention=parameter_free model.num_heads=1");
  const std::vector<std::string> layers{"encoder.layers.0.self_attn", "encoder.layers.1.self_attn"};
  CHECK(layers_of(work.json("runs/classes")) == layers);
  // A copy of the model reads the example. The copy must have the running averages of the batch
  // norms.
  const Json example = work.json("runs/classes --example 2")["layers"][1];
  const Json same = work.json("runs/classes --text 'a fine day'")["layers"][1];
  REQUIRE(example["keys"] == same["keys"]);
  for (std::size_t i = 0; i < example["keys"].size(); ++i) {
    for (std::size_t j = 0; j < example["keys"].size(); ++j) {
      CHECK(example["heads"][0]["weights"][i][j].get<double>() ==
            doctest::Approx(same["heads"][0]["weights"][i][j].get<double>()).epsilon(1e-3));
    }
  }
  std::filesystem::remove(work / "labels.txt");
  const Json shown = work.json("runs/classes --text 'a day'");
  CHECK(layers_of(shown) == layers);
  CHECK(shown["layers"][1]["heads"].size() == 1);
  const Json second = work.json("runs/classes --text 'a day' --head 0 --layer " + layers[1]);
  CHECK(second["layers"][0] == shown["layers"][1]);
  CHECK(work.run("attention runs/classes").code == 3);
}

TEST_CASE("the target is the output of translate for a text, and the reference for an example") {
  const AttentionWorkplace work;
  work.out(
      "train pairs.yaml train.steps=60 train.max_decode_length=7 "
      "schedule.learning_rate=0.003");
  CHECK(contains(work.json("runs/pairs").at("model").get<std::string>(), ".h5, step "));
  const auto target = [&](const std::string& text) {
    const Json tokens = work.json("runs/pairs --text '" + text + "'")["layers"][1]["keys"];
    CHECK(tokens.front() == "<bos>");
    std::string words;
    for (std::size_t i = 1; i < tokens.size(); ++i) {
      words += (i == 1 ? "" : " ") + tokens[i].get<std::string>();
    }
    return words + "\n";
  };
  for (const std::string text : {"a b c d e", "f f", "c"}) {
    CHECK(target(text) == work.run("translate runs/pairs", text + "\n").out);
  }
  const Json reference = work.json("runs/pairs --example 2");
  Json source = reference["layers"][0]["keys"];
  REQUIRE(source.back() == "<eos>");
  source.erase(source.size() - 1);
  Json copied = reference["layers"][1]["keys"];
  copied.erase(0);
  CHECK(copied == source);  // the reference is a copy of the source
}

TEST_CASE("a table has a row for each token and a dot for masked weights") {
  const AttentionWorkplace work;
  const std::string shown =
      work.out("attention language.yaml --text da --layer decoder.layers.0.self_attn --head 1");
  CHECK(shown.starts_with("language.yaml, initial values, the text given\n"));
  CHECK(contains(shown, "\ndecoder.layers.0.self_attn, head 1\n      d   a\n  d 100   .\n  a "));
  CHECK_FALSE(contains(shown, "head 0"));
}

TEST_CASE("attention rejects layers, heads, examples and texts that it cannot show") {
  test::check_rows(
      AttentionWorkplace(),
      {{"attention pairs.yaml --example 4",
        2,
        {"--example 4", "the validation set has 3 examples", "1 to 3"}},
       {"attention pairs.yaml --head 2", 2, {"--head 2", "2 heads", "0 to 1"}},
       {"attention images.yaml --layer encoder",
        2,
        {"no such layer", "encoder.layers.0.self_attn"}},
       {"attention pairs.yaml --text ' '", 2, {"--text: found no word"}},
       {"attention pairs.yaml --text 'a b a b a b a b a b a b'",
        2,
        {"13 tokens", "at most 12", "model.max_length"}},
       {"attention language.yaml --text dabadab", 2, {"7 tokens", "at most 6", "data.context"}},
       {"attention pairs.yaml --text a --example 1", 2, {"--example", "--text"}},
       {"attention language.yaml --text \xFF", 3, {"UTF-8"}},
       {"attention images.yaml --text a", 2, {"reads images", "--example"}}});
}

}  // namespace
}  // namespace tapestry
