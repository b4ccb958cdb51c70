#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/train/kind_configs.h"
#include "tests/train/refusal.h"
#include "train/checkpoint/checkpoint_file.h"

/// `tapestry attention`.
namespace tapestry {
namespace {

using Json = nlohmann::json;
using test::Arguments;
using test::check_refusal;
using test::KindWorkplace;
using test::Outcome;

/// A workplace with an untrained seq2seq model beside the others.
struct LookingWorkplace : KindWorkplace {
  LookingWorkplace() {
    write("pairs.yaml",
          "data: {task: copy, num_symbols: 6, min_length: 2, max_length: 5, train_size: 20, "
          "validation_size: 3, test_size: 2}\n"
          "model: {d_model: 16, num_heads: 2, num_encoder_layers: 1, num_decoder_layers: 1, "
          "d_ff: 16, max_length: 12}\n");
  }

  std::string show(Arguments arguments) const {
    arguments.insert(arguments.begin(), "attention");
    const Outcome done = run(arguments);
    CHECK(done.code == 0);
    CHECK(done.err.empty());
    return done.out;
  }

  Json json(Arguments arguments) const {
    arguments.emplace_back("--json");
    return Json::parse(show(arguments));
  }
};

std::vector<std::string> layers_of(const Json& shown) {
  std::vector<std::string> layers;
  for (const Json& layer : shown.at("layers")) layers.push_back(layer.at("layer"));
  return layers;
}

TEST_CASE("attention prints each layer and head with queries and keys") {
  const LookingWorkplace work;
  const Json shown = work.json({"pairs.yaml", "--text", "c a b"});
  CHECK(shown.at("example") == "the text given");
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

TEST_CASE("the weights of every token sum to 1, and a decoder has none for later tokens") {
  const LookingWorkplace work;
  const Json shown = work.json({"pairs.yaml"});
  for (const Json& layer : shown.at("layers")) {
    const bool causal = layer["layer"] == "decoder.layers.0.self_attn";
    for (const Json& head : layer["heads"]) {
      REQUIRE(head["weights"].size() == layer["queries"].size());
      for (std::size_t i = 0; i < head["weights"].size(); ++i) {
        const auto row = head["weights"][i].get<std::vector<double>>();
        REQUIRE(row.size() == layer["keys"].size());
        double sum = 0.0;
        for (std::size_t j = 0; j < row.size(); ++j) {
          sum += row[j];
          if (causal) CHECK((row[j] > 0.0) == (j <= i));
        }
        CHECK(std::abs(sum - 1.0) < 1e-12);
      }
    }
  }
}

TEST_CASE("attention prints the tokens that each kind of model reads") {
  const LookingWorkplace work;
  const auto tokens = [&](const char* config) {
    const Json shown = work.json({config, "--example", "2"});
    CHECK(shown["layers"][0]["queries"] == shown["layers"][0]["keys"]);
    return shown["layers"][0]["keys"];
  };
  CHECK(tokens("language.yaml").size() == 6);
  CHECK(tokens("words.yaml")[0] == "<bos>");
  CHECK(tokens("masked.yaml").back() == "<eos>");
  CHECK(tokens("classes.yaml") == Json{"<bos>", "a", "fine", "day", "<eos>"});
  CHECK(tokens("images.yaml") == Json{"class", "0,0", "0,1", "1,0", "1,1"});
}

TEST_CASE("an example is of the test set, else of the validation set, else of the training set") {
  const LookingWorkplace work;
  const auto name = [&](Arguments overrides) {
    overrides.insert(overrides.begin(), "pairs.yaml");
    return work.json(overrides).at("example");
  };
  CHECK(name({}) == "test 1");
  CHECK(name({"data.test_size=0"}) == "validation 1");
  CHECK(name({"data.test_size=0", "data.validation_size=0"}) == "training 1");
}

TEST_CASE("patches of a rectangular image are named by row and column") {
  const LookingWorkplace work;
  std::string lines;
  for (int i = 0; i < 32; ++i) lines += i % 2 == 0 ? "1,2,3,4,5,6,7,8,a\n" : "8,7,6,5,4,3,2,1,b\n";
  work.write("wide.csv", lines);
  const Json shown = work.json({"images.yaml", "data.train_images=wide.csv", "data.image_height=2",
                                "data.image_width=4", "model.patch_size=1", "model.max_length=9"});
  CHECK(shown["layers"][0]["keys"] ==
        Json{"class", "0,0", "0,1", "0,2", "0,3", "1,0", "1,1", "1,2", "1,3"});
}

TEST_CASE("a window and a causal mask give zeros, for every score") {
  const LookingWorkplace work;
  for (const char* override :
       {"model.score=additive", "model.score=bilinear", "model.positions=alibi"}) {
    CAPTURE(override);
    const Json shown = work.json({"pairs.yaml", override, "model.window=1", "--text", "a b c a b"});
    for (const Json& layer : shown["layers"]) {
      const bool self = layer["layer"].get<std::string>().ends_with("self_attn");
      const bool causal = layer["layer"].get<std::string>().starts_with("decoder");
      const Json& rows = layer["heads"][1]["weights"];
      for (std::size_t i = 0; i < rows.size(); ++i) {
        for (std::size_t j = 0; j < rows[i].size(); ++j) {
          const bool seen = !self || (j + 1 >= i && j <= (causal ? i : i + 1));
          CHECK((rows[i][j].get<double>() > 0.0) == seen);
        }
      }
    }
  }
}

TEST_CASE("every layer of a trained model is shown, and a text needs no data files") {
  const LookingWorkplace work;
  CHECK(work.run({"train", "classes.yaml", "model.num_encoder_layers=2",
                  "model.normalization=batch_norm", "model.attention=parameter_free",
                  "model.num_heads=1"})
            .code == 0);
  const std::vector<std::string> layers{"encoder.layers.0.self_attn", "encoder.layers.1.self_attn"};
  CHECK(layers_of(work.json({"runs/classes"})) == layers);
  // An example is read by a copy of the model, which has its averages of the norms.
  const Json example = work.json({"runs/classes", "--example", "2"})["layers"][1];
  const Json same = work.json({"runs/classes", "--text", "a fine day"})["layers"][1];
  REQUIRE(example["keys"] == same["keys"]);
  for (std::size_t i = 0; i < example["keys"].size(); ++i) {
    for (std::size_t j = 0; j < example["keys"].size(); ++j) {
      CHECK(example["heads"][0]["weights"][i][j].get<double>() ==
            doctest::Approx(same["heads"][0]["weights"][i][j].get<double>()).epsilon(1e-3));
    }
  }
  // The weights do depend on them.
  const std::string checkpoint = "runs/classes/checkpoints/step-00000012.h5";
  ArrayStore forgetful;
  for (const auto& [path, array] : read_checkpoint(work / checkpoint)) {
    if (path.starts_with("buffers/")) {
      const std::vector<float> initial(array.shape[0], path.ends_with("_var") ? 1.0F : 0.0F);
      forgetful.put<float>(path, initial, array.shape);
    } else {
      forgetful.put(path, array);
    }
  }
  write_checkpoint(work / "forgetful.h5", forgetful);
  const auto first_weight = [&](const std::string& model) {
    return work.json({model, "--text", "a fine day"})["layers"][1]["heads"][0]["weights"][0][0]
        .get<double>();
  };
  CHECK(std::abs(first_weight("forgetful.h5") - first_weight(checkpoint)) > 0.01);
  std::filesystem::remove(work / "labels.txt");
  const Json shown = work.json({"runs/classes", "--text", "a day"});
  CHECK(layers_of(shown) == layers);
  CHECK(shown["layers"][1]["heads"].size() == 1);
  const Json second =
      work.json({"runs/classes", "--text", "a day", "--layer", layers[1], "--head", "0"});
  CHECK(second["layers"][0] == shown["layers"][1]);
  const Outcome without = work.run({"attention", "runs/classes"});
  CHECK(without.code == 3);
  CHECK(without.out.empty());
}

TEST_CASE("attention prints the model: a config, or a checkpoint with its step") {
  const LookingWorkplace work;
  CHECK(work.json({"pairs.yaml"}).at("model") == "pairs.yaml, initial values");
  REQUIRE(work.run({"train", "pairs.yaml", "train.steps=3"}).code == 0);
  const std::string place = "runs/pairs/checkpoints/step-00000003.h5, step 3";
  CHECK(work.json({"runs/pairs"}).at("model") == place);
  CHECK(work.json({"runs/pairs", "--text", "a b"}).at("model") == place);
  CHECK(work.show({"runs/pairs"}).starts_with(place + ", test 1\n"));
}

TEST_CASE("the target of a text is the output of translate, of an example its reference") {
  const LookingWorkplace work;
  REQUIRE(work.run({"train", "pairs.yaml", "train.steps=60", "train.max_decode_length=7",
                    "schedule.learning_rate=0.003"})
              .code == 0);
  const auto target = [&](Arguments arguments) {
    arguments.insert(arguments.begin(), "runs/pairs");
    const Json tokens = work.json(arguments)["layers"][1]["keys"];
    CHECK(tokens.front() == "<bos>");
    std::string text;
    for (std::size_t i = 1; i < tokens.size(); ++i) {
      text += (i == 1 ? "" : " ") + tokens[i].get<std::string>();
    }
    return text;
  };
  for (const char* text : {"a b c d e", "f f", "c"}) {
    CHECK(target({"--text", text}) + "\n" ==
          work.run({"translate", "runs/pairs"}, std::string(text) + "\n").out);
  }
  const Json reference = work.json({"runs/pairs", "--example", "2"});
  Json source = reference["layers"][0]["keys"];
  REQUIRE(source.back() == "<eos>");
  source.erase(source.size() - 1);
  Json copied = reference["layers"][1]["keys"];
  copied.erase(0);
  CHECK(copied == source);  // the task is to copy
}

TEST_CASE("attention shows all words of a text to a masked language model") {
  const LookingWorkplace work;
  const Json written = {"<bos>", "le", "chat", "<unk>", "<eos>"};
  CHECK(work.json({"masked.yaml", "--text", "le chat xyz"})["layers"][0]["keys"] == written);
}

TEST_CASE("the text of an example as --text gives the tokens of the example") {
  const LookingWorkplace work;
  for (const std::string config : {"pairs.yaml", "words.yaml", "masked.yaml", "classes.yaml"}) {
    CAPTURE(config);
    const Json example = work.json({config})["layers"][0]["keys"];
    std::string text;
    for (const std::string token : example) {
      if (token != "<bos>" && token != "<eos>") text += token + " ";
    }
    CHECK(work.json({config, "--text", text})["layers"][0]["keys"] == example);
  }
}

TEST_CASE("a text is read as the kind of model reads it") {
  const LookingWorkplace work;
  const auto tokens = [&](const char* config, const char* text) {
    return work.json({config, "--text", text})["layers"][0]["keys"];
  };
  CHECK(tokens("language.yaml", "dab") == Json{"d", "a", "b"});
  CHECK(tokens("classes.yaml", "a fine xylophone") == Json{"<bos>", "a", "fine", "<unk>", "<eos>"});
  const Json words = tokens("words.yaml", "le chat");
  CHECK(words.size() == 3);
  CHECK(words[0] == "<bos>");
  CHECK(tokens("masked.yaml", "le chat").size() == 4);
}

TEST_CASE("a table has a row for each token and a dot for masked weights") {
  const LookingWorkplace work;
  const std::string shown = work.show(
      {"language.yaml", "--text", "da", "--layer", "decoder.layers.0.self_attn", "--head", "1"});
  CHECK(shown.starts_with("language.yaml, initial values, the text given\n"));
  CHECK(shown.find("\ndecoder.layers.0.self_attn, head 1\n      d   a\n  d 100   .\n  a ") !=
        std::string::npos);
  CHECK(shown.find("head 0") == std::string::npos);
}

TEST_CASE("attention refuses layers, heads and examples that do not exist") {
  const LookingWorkplace work;
  const auto refused = [&](Arguments arguments, const std::string& message) {
    arguments.insert(arguments.begin(), "attention");
    check_refusal(work, arguments, 2, message);
  };
  refused({"pairs.yaml", "--example", "3"},
          "command line: --example 3: the test set has 2 examples\nhint: use 1 to 2");
  refused({"pairs.yaml", "--head", "2"},
          "command line: --head 2: there are 2 heads\nhint: use 0 to 1");
  refused({"images.yaml", "--layer", "encoder"},
          "command line: --layer encoder: there is no such layer\n"
          "hint: use encoder.layers.0.self_attn");
  refused({"pairs.yaml", "--text", " "},
          "command line: --text: found no word\n"
          "hint: give it a sentence");
  refused({"pairs.yaml", "--text", "a b a b a b a b a b a b"},
          "command line: --text: found 13 tokens to read, expected at most 12 "
          "(model.max_length)\nhint: cut the text");
  refused({"language.yaml", "--text", "dabadab"},
          "command line: --text: found 7 tokens to read, expected at most 6 (data.context)\n"
          "hint: cut the text");
  CHECK(work.run({"attention", "pairs.yaml", "--text", "a", "--example", "1"}).code == 2);
  CHECK(work.run({"attention", "language.yaml", "--text", "\xFF"}).code == 3);
  refused({"images.yaml", "--text", "a"},
          "command line: --text: the model reads images, expected --example\n"
          "hint: leave --text out");
}

}  // namespace
}  // namespace tapestry
