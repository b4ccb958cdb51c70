#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/train/kind_configs.h"
#include "tests/train/refusal.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/inference/sampler.h"
#include "train/models/trained_model.h"

/// `tapestry generate`.
namespace tapestry {
namespace {

using test::Arguments;
using test::check_refusal;
using test::KindWorkplace;
using test::Outcome;

/// A workplace with a model of letters in runs/language and one of words in runs/words.
struct TalkingWorkplace : KindWorkplace {
  TalkingWorkplace() {
    CHECK(run({"train", "language.yaml"}).code == 0);
    CHECK(run({"train", "words.yaml"}).code == 0);
  }

  std::string generate(Arguments arguments) const {
    arguments.insert(arguments.begin(), {"generate"});
    const Outcome done = run(arguments);
    CHECK(done.code == 0);
    CHECK(done.err.empty());
    return done.out;
  }
};

TEST_CASE("generate continues the prompt by the given number of characters") {
  const TalkingWorkplace work;
  const std::string text = work.generate({"runs/language", "a cab\n", "--tokens", "100"});
  CHECK(text.starts_with("a cab\n"));
  CHECK(text.size() == 6 + 100 + 1);
  CHECK(text.find_first_not_of("abcdf \n") == std::string::npos);
  CHECK(work.generate({"runs/language", "--tokens", "7"}).size() == 7 + 1);
  CHECK(work.generate({"runs/language", "dab", "--tokens", "0"}) == "dab\n");
}

TEST_CASE("samples differ by their seeds, which are printed") {
  const TalkingWorkplace work;
  const auto one = [&](const char* prompt, const char* seed) {
    return work.generate({"runs/language", prompt, "--tokens", "20", "--seed", seed});
  };
  const std::string two =
      work.generate({"runs/language", "a", "--tokens", "20", "--seed", "7", "--samples", "2"});
  CHECK(two == "== prompt 1, sample 1, seed 7\n" + one("a", "7") +
                   "== prompt 1, sample 2, seed 8\n" + one("a", "8"));
  CHECK(work.generate({"runs/language", "a", "--tokens", "20", "--seed", "7", "--samples", "1"}) ==
        one("a", "7"));

  const Outcome prompts = work.run(
      {"generate", "runs/language", "-", "--tokens", "20", "--seed", "7", "--samples", "2"},
      "a\ndab\n");
  CHECK(prompts.code == 0);
  CHECK(prompts.out == two + "== prompt 2, sample 1, seed 7\n" + one("dab", "7") +
                           "== prompt 2, sample 2, seed 8\n" + one("dab", "8"));
  CHECK(work.run({"generate", "runs/language", "-"}, "").out.empty());
  check_refusal(work, {"generate", "runs/language", "-"}, 3,
                "standard input:1: byte 1 (0xFF) is not UTF-8\n"
                "hint: convert the text to UTF-8, for example: iconv -f ISO-8859-1 -t UTF-8",
                "\xFF\n");
}

TEST_CASE("generate has a repetition penalty") {
  const TalkingWorkplace work;
  const auto with_penalty = [&](const char* penalty) {
    return work.generate({"runs/language", "a", "--tokens", "50", "--temperature", "0",
                          "--repetition-penalty", penalty});
  };
  const std::string without =
      work.generate({"runs/language", "a", "--tokens", "50", "--temperature", "0"});
  CHECK(with_penalty("1") == without);
  CHECK(with_penalty("100") != without);
  CHECK(work.run({"generate", "runs/language", "--repetition-penalty", "0"}).code == 2);
}

TEST_CASE("generate prints the prompt unchanged, and warns about unknown characters") {
  const TalkingWorkplace work;
  const Outcome done = work.run({"generate", "runs/language", "Ä\tcab", "--tokens", "5"});
  CHECK(done.code == 0);
  CHECK(done.out.starts_with("Ä\tcab"));
  CHECK(done.out.size() == 6 + 5 + 1);
  CHECK(done.err ==
        "tapestry: warning: 2 of the 5 tokens of the prompt are not in the vocabulary; the model "
        "reads them as <unk>\n");
}

TEST_CASE("generated words are separated by spaces, and follow the prompt") {
  const TalkingWorkplace work;
  const std::string text = work.generate({"runs/words", "le chat", "--tokens", "3"});
  CHECK(text.starts_with("le chat "));
  CHECK(std::ranges::count(text, ' ') == 4);
  CHECK(text.find('<') == std::string::npos);
}

TEST_CASE("generated text is a function of model, prompt and options") {
  const TalkingWorkplace work;
  const std::string text = work.generate({"runs/language", "a", "--tokens", "60"});
  CHECK(work.generate({"runs/language", "a", "--tokens", "60", "--seed", "1"}) == text);
  CHECK(work.generate({"runs/language", "a", "--tokens", "60", "--seed", "2"}) != text);
  const std::string best =
      work.generate({"runs/language", "a", "--tokens", "60", "--temperature", "0"});
  CHECK(work.generate({"runs/language", "a", "--tokens", "60", "--top-k", "1", "--seed", "3"}) ==
        best);
  CHECK(work.generate({"runs/language", "a", "--tokens", "60", "--top-p", "1e-9"}) == best);
}

/// What the sampler makes of a prompt with the model in a checkpoint, as a text.
std::string sampled(const TrainedModel& trained, std::vector<std::int32_t> begin,
                    const std::string& prompt, std::size_t count, const SamplingOptions& options) {
  std::vector<std::int32_t> text = trained.codec.encode_target(prompt);
  begin.insert(begin.end(), text.begin(), text.end());
  generate(trained.model->as<LanguageModel>(), begin, count, options,
           [&](std::int32_t token) { text.push_back(token); });
  return trained.codec.decode_target(text) + "\n";
}

TEST_CASE("each option of generate is passed to the sampler, with the text before the prompt") {
  const TalkingWorkplace work;
  const std::string letters = "runs/language/checkpoints/step-00000012.h5";
  const TrainedModel model = load_model(read_checkpoint(work / letters));
  const std::int32_t newline = model.codec.target_vocabulary().id("<newline>");
  REQUIRE(newline != unk_id);
  const auto expected = [&](SamplingOptions options, std::size_t count = 60) {
    options.window = 6;
    return sampled(model, {newline}, "dab a", count, options);
  };
  const auto found = [&](Arguments options) {
    options.insert(options.begin(), {letters, "dab a", "--tokens", "60"});
    return work.generate(options);
  };
  CHECK(found({}) == expected({}));
  CHECK(found({"--seed", "7"}) == expected({.seed = 7}));
  CHECK(found({"--temperature", "3"}) == expected({.temperature = 3}));
  CHECK(found({"--temperature", "3", "--top-k", "3"}) == expected({.temperature = 3, .top_k = 3}));
  CHECK(found({"--temperature", "3", "--top-p", "0.6"}) ==
        expected({.temperature = 3, .top_p = 0.6}));
  CHECK(found({"--repetition-penalty", "3"}) == expected({.repetition_penalty = 3}));
  CHECK(work.generate({letters, "dab a"}) == expected({}, 500));

  const std::string words = "runs/words/checkpoints/step-00000012.h5";
  const TrainedModel speaker = load_model(read_checkpoint(work / words));
  CHECK(work.generate({words, "--tokens", "60", "--seed", "3"}) ==
        sampled(speaker, {bos_id}, "", 60, {.seed = 3}));
}

TEST_CASE("generate reads at most data.context tokens, whatever model.max_length") {
  const KindWorkplace work;
  const auto text = [&](const char* run, const char* positions) {
    CHECK(
        work.run({"train", "language.yaml", std::string("train.run_dir=") + run, positions}).code ==
        0);
    return work.run({"generate", run, "dab", "--tokens", "80"}).out;
  };
  CHECK(text("few", "model.max_length=6") == text("many", "model.max_length=100"));
}

TEST_CASE("a prompt that is not UTF-8 is refused") {
  const TalkingWorkplace work;
  check_refusal(work, {"generate", "runs/language", "a\xFFz"}, 3,
                "text: byte 2 (0xFF) is not UTF-8\n"
                "hint: convert the text to UTF-8, for example with iconv");
}

TEST_CASE("options of generate that are out of range are refused") {
  const KindWorkplace work;
  for (const Arguments& options : {Arguments{"--temperature", "-1"},
                                   {"--temperature", "nan"},
                                   {"--top-p", "0"},
                                   {"--top-p", "1.5"},
                                   {"--top-p", "nan"},
                                   {"--top-k", "-1"},
                                   {"--tokens", "-1"},
                                   {"--tokens", "x"},
                                   {"--seed", "-1"},
                                   {"--temperature", "1e300"}}) {
    CAPTURE(options[0]);
    CAPTURE(options[1]);
    Arguments arguments = {"generate", "runs/language", "a"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const Outcome refused = work.run(arguments);
    CHECK(refused.code == 2);
    CHECK(refused.out.empty());
    CHECK(refused.err.find(options[0]) != std::string::npos);
  }
}

}  // namespace
}  // namespace tapestry
