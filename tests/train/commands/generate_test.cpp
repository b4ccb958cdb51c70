// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "tests/train/kinds.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/inference/sampler.h"
#include "train/models/trained_model.h"

/// Tests `tapestry generate`.
namespace tapestry {
namespace {

using test::check_rejected;
using test::contains;
using test::KindWorkplace;
using test::Outcome;

/// A workplace with a character language model in runs/language and a word language model in
/// runs/words.
struct GenerateWorkplace : KindWorkplace {
  GenerateWorkplace() {
    out("train language.yaml");
    out("train words.yaml");
  }
  std::string letters(const std::string& arguments) const {
    return out("generate " + checkpoint(12, "runs/language") + " " + arguments);
  }
};

TEST_CASE("generate continues the prompt by the given number of characters or words") {
  const GenerateWorkplace work;
  const std::string text = work.letters("'a cab\n' --tokens 100");
  CHECK(text.starts_with("a cab\n"));
  CHECK(text.size() == 6 + 100 + 1);
  CHECK(text.find_first_not_of("abcdf \n") == std::string::npos);
  CHECK(work.letters("--tokens 7").size() == 7 + 1);
  CHECK(work.letters("dab --tokens 0") == "dab\n");
  const std::string words = work.run("generate runs/words 'le chat' --tokens 3").out;
  CHECK(words.starts_with("le chat "));
  CHECK(std::ranges::count(words, ' ') == 4);
  CHECK_FALSE(contains(words, "<"));
}

TEST_CASE("generate ends with an error that names the layer if the scores are NaN or infinite") {
  const GenerateWorkplace work;
  ArrayStore snapshot = read_checkpoint(work / work.checkpoint(12, "runs/language"));
  const auto bytes = snapshot.mutable_bytes("parameters/decoder.layers.0.ff.linear1.weight");
  for (std::size_t i = 0; i < bytes.size(); i += sizeof(float)) {
    const float huge = i % 3 == 0 ? 3e38F : -3e38F;
    std::memcpy(bytes.data() + i, &huge, sizeof huge);
  }
  write_checkpoint(work / "big.h5", snapshot);
  const Outcome done = work.run("generate big.h5 'a cab' --tokens 5");
  CHECK(done.code == 6);
  CHECK(contains(done.err, "first in decoder.layers.0.ff"));
}

TEST_CASE("different seeds give different samples, and the seeds are printed") {
  const GenerateWorkplace work;
  const auto one = [&](const std::string& prompt, const std::string& seed) {
    return work.letters(prompt + " --tokens 20 --seed " + seed);
  };
  const std::string two = work.letters("a --tokens 20 --seed 7 --samples 2");
  CHECK(two == "== prompt 1, sample 1, seed 7\n" + one("a", "7") +
                   "== prompt 1, sample 2, seed 8\n" + one("a", "8"));
  CHECK(one("a", "7") != one("a", "8"));
  CHECK(work.letters("a --tokens 20 --seed 7 --samples 1") == one("a", "7"));
  const std::string read = "generate " + work.checkpoint(12, "runs/language") + " -";
  CHECK(work.out(read + " --tokens 20 --seed 7 --samples 2", "a\ndab\n") ==
        two + "== prompt 2, sample 1, seed 7\n" + one("dab", "7") +
            "== prompt 2, sample 2, seed 8\n" + one("dab", "8"));
  CHECK(work.out(read, "").empty());
  check_rejected(work, read, 3, {"standard input:1: byte 1 (0xFF) is not UTF-8"}, "\xFF\n");
  check_rejected(work, {"generate", "runs/language", "a\xFFz"}, 3, {"text: byte 2 (0xFF) is not"});
}

TEST_CASE("generate prints the prompt unchanged, and warns about unknown characters") {
  const GenerateWorkplace work;
  const Outcome done = work.run("generate runs/language 'Ä\tcab' --tokens 5");
  CHECK(done.code == 0);
  CHECK(done.out.starts_with("Ä\tcab"));
  CHECK(done.out.size() == 6 + 5 + 1);
  CHECK(contains(done.err, "warning: 2 of the 5 tokens of the prompt are not in the vocabulary"));
}

/// The text that the sampler generates for a prompt, in the output format of `generate`.
std::string sampled(const TrainedModel& trained, std::vector<std::int32_t> begin,
                    const std::string& prompt, std::size_t count, const SamplingOptions& options) {
  std::vector<std::int32_t> text = trained.codec.encode_target(prompt);
  begin.insert(begin.end(), text.begin(), text.end());
  generate(*trained.model->network, trained.config.model.max_length, begin, count, options,
           [&](std::int32_t token) { text.push_back(token); });
  return trained.codec.decode_target(text) + "\n";
}

TEST_CASE("generate passes each option to the sampler, and begins each prompt with a line break") {
  const GenerateWorkplace work;
  const TrainedModel model =
      load_model(read_checkpoint(work / work.checkpoint(12, "runs/language")));
  const std::int32_t newline = model.codec.target_vocabulary().id("<newline>");
  REQUIRE(newline != unk_id);
  const auto expected = [&](SamplingOptions options, std::size_t count = 60) {
    options.window = 6;
    return sampled(model, {newline}, "dab a", count, options);
  };
  const auto found = [&](const std::string& options) {
    return work.letters("'dab a' --tokens 60 " + options);
  };
  CHECK(found("") == expected({}));
  CHECK(found("--seed 1") == expected({}));
  CHECK(found("--seed 7") == expected({.seed = 7}));
  CHECK(found("--temperature 3") == expected({.temperature = 3}));
  CHECK(found("--temperature 3 --top-k 3") == expected({.temperature = 3, .top_k = 3}));
  CHECK(found("--temperature 3 --top-p 0.6") == expected({.temperature = 3, .top_p = 0.6}));
  CHECK(found("--repetition-penalty 3") == expected({.repetition_penalty = 3}));
  CHECK(found("--temperature 0 --repetition-penalty 100") != found("--temperature 0"));
  CHECK(work.letters("'dab a'") == expected({}, 500));
  const std::string words = work.checkpoint(12, "runs/words");
  CHECK(work.out("generate " + words + " --tokens 60 --seed 3") ==
        sampled(load_model(read_checkpoint(work / words)), {bos_id}, "", 60, {.seed = 3}));
}

}  // namespace
}  // namespace tapestry
