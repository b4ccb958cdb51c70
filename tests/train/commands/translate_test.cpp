// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/train/program.h"
#include "train/checkpoint/checkpoint_file.h"

/// Tests `tapestry translate` and `tapestry score`; tests/train/inference tests beam search.
namespace tapestry {
namespace {

using doctest::Approx;
using test::check_rejected;
using test::check_words;
using test::contains;
using test::Outcome;
using test::split_lines;
using test::TrainedWorkplace;
using Json = nlohmann::json;

/// A line of an n-best list.
struct Entry {
  std::string index, text;
  double log_probability = 0, score = 0;
  std::string alignment;
};

Entry parse_entry(const std::string& line) {
  std::vector<std::string> fields;
  std::size_t begin = 0;
  for (std::size_t end; (end = line.find(" ||| ", begin)) != line.npos; begin = end + 5) {
    fields.push_back(line.substr(begin, end - begin));
  }
  fields.push_back(line.substr(begin));
  REQUIRE(fields.size() >= 4);
  REQUIRE(fields[2].starts_with("LogP= "));
  return {.index = fields[0],
          .text = fields[1],
          .log_probability = std::stod(fields[2].substr(6)),
          .score = std::stod(fields[3]),
          .alignment = fields.size() > 4 ? fields[4] : ""};
}

std::size_t count_words(const std::string& text) { return test::CommandLine(text).words.size(); }

struct TranslateWorkplace : TrainedWorkplace {
  std::string translate(const std::string& input, const std::string& options = "") const {
    return out("translate runs/tiny " + options, input);
  }
  std::vector<Entry> entries(const std::string& input, const std::string& options) const {
    std::vector<Entry> all;
    for (const std::string& line : split_lines(translate(input, options))) {
      all.push_back(parse_entry(line));
    }
    return all;
  }
};

const std::string input = "a b\nc\n\nd a b c\ne e\n";

// ---- Lines

TEST_CASE("lines of mixed lengths keep their order, even across several windows") {
  const TranslateWorkplace work;
  const std::vector<std::string> sources{"a b c d", "e", "", "c a", "b b b", "d e a b c"};
  std::vector<std::string> answers;
  for (const std::string& source : sources) answers.push_back(work.translate(source + "\n"));
  std::string many, expected;
  for (std::size_t i = 0; i < 2600; ++i) {
    const std::size_t chosen = (i * i + i / 7) % sources.size();
    many += sources[chosen] + "\n";
    expected += answers[chosen];
  }
  for (const char* options : {"", "--interactive", "--batch-tokens 100", "--threads 3"}) {
    CHECK(work.translate(many, options) == expected);
  }
}

TEST_CASE("lines with blanks, tabs, Windows line ends and unknown words are translated") {
  const TranslateWorkplace work;
  const std::string clean = work.translate("a b\nc\n");
  CHECK(work.translate("  a \tb \t\r\nc  \r\n") == clean);
  CHECK(work.translate("a b\nc") == clean);
  CHECK(work.translate("\n \n\t\n\r\n") == "\n\n\n\n");
  CHECK(work.translate("").empty());
  CHECK(split_lines(work.translate("a \xE2\x98\x83 zebra\n\xF0\x9F\x98\x80\n")).size() == 2);
  std::string words;
  for (int i = 0; i < 10'000; ++i) words += i % 2 == 0 ? "a " : "b ";
  const Outcome cut = work.run("translate runs/tiny", "c\n" + words + "\nc\n");
  CHECK(cut.code == 0);
  const std::string c = work.translate("c\n");
  CHECK(cut.out == c + work.translate("a b a b a b a\n") + c);
  CHECK(contains(cut.err, ":2: found 10001 tokens with <eos>, expected at most 8"));
}

// ---- N-best lists

TEST_CASE("an n-best list has the best translations of each line, as text and as JSON") {
  const TranslateWorkplace work;
  const auto all = work.entries(input, "--n-best 3 --align");
  REQUIRE(all.size() == 13);
  std::string best;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t line = i < 6 ? i / 3 : i == 6 ? 2 : (i - 7) / 3 + 3;
    CHECK(all[i].index == std::to_string(line));
    const bool first = i == 6 || (i < 6 ? i % 3 == 0 : (i - 7) % 3 == 0);
    if (first) best += all[i].text + "\n";
    if (!first) CHECK(all[i].score <= all[i - 1].score);
    if (!first) CHECK(all[i].text != all[i - 1].text);
    if (i == 6) continue;
    const auto tokens = static_cast<double>(count_words(all[i].text) + 1);
    CHECK(all[i].score ==
          Approx(all[i].log_probability / std::pow((5 + tokens) / 6, 0.6)).epsilon(1e-4));
  }
  CHECK(all[6].text.empty());
  CHECK(all[6].log_probability == 0);
  CHECK(work.translate(input, "--beam-size 3") == best);
  const auto one = work.entries(input, "--n-best 1 --beam-size 3");
  REQUIRE(one.size() == 5);
  CHECK(one[0].text == all[0].text);

  const auto objects = split_lines(work.translate(input, "--n-best 3 --json --align"));
  const auto sources = split_lines(input);
  REQUIRE(objects.size() == 5);
  std::size_t next = 0;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    const Json json = Json::parse(objects[i]);
    CHECK(json["line"] == i + 1);
    CHECK(json["source_words"] == Json(test::CommandLine(sources[i]).words));
    CHECK(json["translations"].size() == (i == 2 ? 0 : 3));
    if (i == 2) ++next;
    for (const Json& translation : json["translations"]) {
      const Entry& entry = all[next++];
      CHECK(translation["text"] == entry.text);
      CHECK(translation["log_probability"].get<double>() ==
            Approx(entry.log_probability).epsilon(1e-5));
      CHECK(translation["score"].get<double>() == Approx(entry.score).epsilon(1e-5));
      CHECK(translation["num_tokens"] == count_words(entry.text));
      CHECK(translation["words"].size() == count_words(entry.text));
      std::string links;
      for (const Json& link : translation["alignment"]) {
        links += fmt::format("{}{}-{}", links.empty() ? "" : " ", link[0].get<std::size_t>(),
                             link[1].get<std::size_t>());
      }
      CHECK(links == entry.alignment);
    }
  }
}

// ---- Constraints and samples

TEST_CASE("translations respect constraints on length, prefix, tokens and n-grams") {
  const TranslateWorkplace work;
  for (const std::string& line :
       split_lines(work.translate("a b\nc\n", "--min-length 3 --max-length 4"))) {
    CHECK(count_words(line) >= 3);
    CHECK(count_words(line) <= 4);
  }
  for (const std::string& line :
       split_lines(work.translate("a b\nc\n", "--min-length 2 --max-length 2"))) {
    CHECK(count_words(line) == 2);
  }
  for (const std::string& line :
       split_lines(work.translate(input, "--no-repeat-ngram 1 --max-length 7"))) {
    const auto words = test::CommandLine(line).words;
    CHECK(std::set<std::string>(words.begin(), words.end()).size() == words.size());
  }

  const auto lines = split_lines(work.translate("a b\te d\nc\nc\t\n\nd\tc\n", "--prefix"));
  REQUIRE(lines.size() == 5);
  CHECK(lines[0].starts_with("e d"));
  CHECK(lines[1] + "\n" == work.translate("c\n"));
  CHECK(lines[2] == lines[1]);
  CHECK(lines[3].empty());
  CHECK(lines[4].starts_with("c"));
  CHECK(
      work.run("translate runs/tiny --prefix", "a b c d e a b c d\te d\n").out.starts_with("e d"));
  const Outcome rejected = work.run("translate runs/tiny --prefix", "a\tb\na\ta a a a a a a a\n");
  CHECK(rejected.code == 3);
  CHECK(split_lines(rejected.out).size() == 1);
  CHECK(contains(rejected.err, ":2: found a prefix of 8 tokens, expected at most 7"));

  work.write("letters", "a\nb\n\nzebra\n");
  for (const std::string option : {"--forbid", "--allow"}) {
    const Outcome limited =
        work.run("translate runs/tiny --min-length 3 " + option + " letters", input);
    CHECK(limited.code == 0);
    CHECK(contains(limited.err, "letters: 1 of 4 tokens are not in the target vocabulary\n"));
    std::set<char> letters(limited.out.begin(), limited.out.end());
    letters.erase(' ');
    letters.erase('\n');
    REQUIRE(!letters.empty());
    for (const char letter : letters) {
      CHECK((letter == 'a' || letter == 'b') == (option == "--allow"));
    }
  }
}

TEST_CASE("if no output meets the constraints, the line is named and has no log-probability") {
  const TranslateWorkplace work;
  // The vocabulary has fewer than 7 words.
  const std::string command =
      "translate runs/tiny --no-repeat-ngram 1 --min-length 7 --max-length 7";
  const Outcome text = work.run(command, "a b\n\nc\nd\ne\n");
  CHECK(text.code == 0);
  CHECK(text.out == "\n\n\n\n\n");
  check_words(text.err,
              {"standard input:1: no output satisfies --min-length 7, --no-repeat-ngram 1",
               "standard input:3: ", "standard input: 4 lines have no output"});
  CHECK_FALSE(contains(text.err, "standard input:2: "));
  CHECK_FALSE(contains(text.err, "standard input:5: "));
  const Entry entry =
      parse_entry(split_lines(work.run(command + " --n-best 2", "a b\n").out).at(0));
  CHECK(entry.text.empty());
  CHECK(entry.log_probability == -std::numeric_limits<double>::infinity());
  CHECK(entry.score == entry.log_probability);
  CHECK(Json::parse(work.run(command + " --json", "a b\n").out)["translations"].empty());
  CHECK(work.run(command + " --sample", "a b\n").out == "\n");
}

TEST_CASE("a prefix that breaks a constraint is kept, with a warning") {
  const TranslateWorkplace work;
  work.write("letters", "d\ne\n");
  const struct {
    std::string options, prefix, warning;
  } rows[] = {
      {"--forbid letters", "d a", "the prefix has the token `d`, which is forbidden"},
      {"--allow letters", "d a", "the prefix has the token `a`, which is forbidden"},
      {"--max-length 1", "d a", "the prefix has 2 tokens, more than the maximum length (1)"},
      {"--no-repeat-ngram 1", "d d", "the prefix has the same token twice"},
      {"--no-repeat-ngram 2", "d a d", ""},
  };
  for (const auto& [options, prefix, warning] : rows) {
    const Outcome done =
        work.run("translate runs/tiny --prefix " + options, "a b\t" + prefix + "\n");
    CHECK(done.code == 0);
    CHECK(done.out.starts_with(prefix));
    if (warning.empty()) {
      CHECK(done.err.empty());
    } else {
      check_words(done.err, {"standard input:1: " + warning, "the prefix is kept"});
    }
  }
  const std::string after =
      work.run("translate runs/tiny --prefix --forbid letters --min-length 3", "a b\td\n")
          .out.substr(1);
  CHECK(after.find_first_of("de") == after.npos);
}

TEST_CASE("NaN or infinite outputs cause an error that names the layer") {
  const TranslateWorkplace work;
  const std::string weight = "parameters/encoder.layers.0.ff.linear1.weight";
  for (const auto& [file, value] :
       {std::pair("big.h5", 3e38F), std::pair("nan.h5", std::nanf(""))}) {
    ArrayStore snapshot = read_checkpoint(work / work.checkpoint(12));
    const auto bytes = snapshot.mutable_bytes(weight);
    for (std::size_t i = 0; i < bytes.size(); i += sizeof value) {
      const float signed_value = i % 3 == 0 ? value : -value;
      std::memcpy(bytes.data() + i, &signed_value, sizeof value);
    }
    write_checkpoint(work / file, snapshot);
  }
  const std::string layer = "first in encoder.layers.0.ff";
  check_rows(work, {{"translate big.h5", 6, {"standard input:1", layer}, "a b\n"},
                    {"translate big.h5 --beam-size 3 --n-best 3 --json", 6, {layer}, "a b\n"},
                    {"translate big.h5 --no-repeat-ngram 1", 6, {layer}, "a b\n"},
                    {"translate big.h5 --sample", 6, {layer}, "a b\n"},
                    {"score big.h5", 6, {"standard input:1", layer}, "a b\ta\n"},
                    {"evaluate big.h5", 6, {"validation: example 1", layer}},
                    {"errors big.h5", 6, {"validation: example 1", layer}},
                    {"errors big.h5 --set test --json", 6, {"test: example ", layer}},
                    {"attention nan.h5", 4, {"nan.h5", weight, "found nan"}},
                    {"explain big.h5 'a b' --target 'a b' --json", 6, {"TEXT", layer}},
                    {"explain big.h5 - --target a", 6, {"standard input", layer}, "a b\n"},
                    {"average mean.h5 nan.h5", 6, {"nan.h5", weight, "is nan"}}});
}

TEST_CASE("samples depend on the seed and the line, but not on batches") {
  const TranslateWorkplace work;
  std::string many;
  for (int i = 0; i < 40; ++i) many += "a b\nc d e\n";
  const std::string sampled = work.translate(many, "--sample --seed 3");
  for (const char* options : {"--interactive", "--batch-tokens 9", "--threads 3"}) {
    CHECK(work.translate(many, std::string("--sample --seed 3 ") + options) == sampled);
  }
  CHECK(work.translate(many, "--sample --seed 4") != sampled);
  CHECK(work.translate(many, "--sample --seed 3 --repetition-penalty 5") != sampled);
  const auto lines = split_lines(sampled);
  CHECK(std::set<std::string>(lines.begin(), lines.end()).size() > 20);
  CHECK(work.entries("a b\n", "--sample --n-best 5").size() == 5);
  const std::string greedy = work.translate(many, "--beam-size 1");
  for (const char* options : {"--temperature 0", "--top-k 1", "--top-p 0.000001"}) {
    CHECK(work.translate(many, std::string("--sample ") + options) == greedy);
  }
}

TEST_CASE("options of translate that contradict each other are rejected") {
  const std::string translate = "translate runs/tiny ";
  check_rows(TrainedWorkplace(),
             {{translate + "--top-k 3", 2, {"--top-k requires --sample"}},
              {translate + "--sample --beam-size 2", 2, {"excludes"}},
              {translate + "--forbid x --allow y", 2, {"excludes"}},
              {translate + "--forbid nowhere", 3, {"nowhere"}},
              {translate + "--n-best 3 --beam-size 2", 2, {"--n-best 3", "--beam-size 3"}},
              {translate + "--min-length 4 --max-length 3", 2, {"maximum length (3)"}},
              {translate + "--align --align-layer decoder.layers.1.cross_attn",
               2,
               {"there is no such layer", "use decoder.layers.0.cross_attn"}}});
}

// ---- score

TEST_CASE("score and translate print the same log-probabilities") {
  const TranslateWorkplace work;
  const auto sources = split_lines(input);
  std::string pairs, source_file, target_file;
  std::vector<Entry> expected;
  for (const Entry& entry : work.entries(input, "--n-best 5")) {
    // Skips the empty input and truncated outputs.
    if (entry.index == "2" || count_words(entry.text) > 6) continue;
    const std::string& source = sources[std::stoul(entry.index)];
    source_file += source + "\n";
    target_file += entry.text + "\n";
    pairs += source + "\t" + entry.text + "\n";
    expected.push_back(entry);
  }
  REQUIRE(expected.size() >= 10);
  work.write("in", source_file);
  work.write("out", target_file);
  const Outcome scored = work.run("score runs/tiny in out");
  CHECK(scored.code == 0);
  CHECK(work.run("score runs/tiny", pairs).out == scored.out);
  CHECK(work.run("score runs/tiny /dev/stdin out", source_file).out == scored.out);
  const auto scores = split_lines(scored.out);
  const auto objects = split_lines(work.run("score runs/tiny --json", pairs).out);
  REQUIRE(scores.size() == expected.size());
  REQUIRE(objects.size() == expected.size());
  double total = 0, tokens = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    std::istringstream fields(scores[i]);
    double sum = 0, mean = 0, count = 0;
    fields >> sum >> mean >> count;
    CHECK(sum == Approx(expected[i].log_probability).epsilon(1e-5));
    CHECK(mean == Approx(sum / count).epsilon(1e-4));
    total += sum;
    tokens += count;
    const Json json = Json::parse(objects[i]);
    CHECK(json["line"] == i + 1);
    REQUIRE(json["tokens"].size() == static_cast<std::size_t>(count));
    CHECK(json["tokens"].back() == "<eos>");
    double of_tokens = 0;
    for (const Json& value : json["token_log_probabilities"]) of_tokens += value.get<double>();
    CHECK(json["log_probability"].get<double>() == Approx(of_tokens));
    CHECK(of_tokens == Approx(sum).epsilon(1e-5));
  }
  CHECK(contains(scored.err, fmt::format("{} pairs, {} tokens with <eos>: log-probability ",
                                         expected.size(), tokens)));
  const auto number_after = [&](const std::string& words) {
    const std::size_t at = scored.err.find(words);
    REQUIRE(at != scored.err.npos);
    return std::stod(scored.err.substr(at + words.size()));
  };
  CHECK(number_after("<eos>: log-probability ") == Approx(total).epsilon(1e-4));
  CHECK(number_after("per token ") == Approx(total / tokens).epsilon(1e-4));
  CHECK(number_after("perplexity ") == Approx(std::exp(-total / tokens)).epsilon(1e-4));
}

TEST_CASE(
    "score rejects files of unequal length and lines without a tab after scoring the preceding "
    "pairs") {
  const TranslateWorkplace work;
  work.write("in", "a b\nc\na\n");
  work.write("out", "a b\n");
  const Outcome uneven = work.run("score runs/tiny in out");
  CHECK(uneven.code == 3);
  CHECK(split_lines(uneven.out).size() == 1);
  CHECK(contains(uneven.err, "out: found 1 line, expected as many as in in, which has more\n"));
  const Outcome tabless = work.run("score runs/tiny", "a\tb\nc d\n");
  CHECK(tabless.code == 3);
  CHECK(split_lines(tabless.out).size() == 1);
  CHECK(contains(tabless.err, "standard input:2: found no tab, expected a source, a tab and"));
  REQUIRE(::mkfifo((work / "pipe").c_str(), 0600) == 0);
  check_rows(work, {{"score runs/tiny in", 2, {"TARGET"}},
                    {"score runs/tiny pipe out", 3, {"pipe: found a pipe"}},
                    {"score runs/tiny in pipe", 3, {"pipe: found a pipe"}}});
}

TEST_CASE("score skips pairs that are too long, or rejects them with --long-lines stop") {
  const TranslateWorkplace work;
  const std::string too_long = "a\ta b c d e a b c d\n", huge(std::size_t{3} << 20, 'a');
  for (const std::string& line : {too_long, huge + "\tb\n"}) {
    const std::string pairs = "a\ta\n" + line + "b\tb\n";
    const Outcome done = work.run("score runs/tiny", pairs);
    CHECK(done.code == 0);
    const auto lines = split_lines(done.out);
    REQUIRE(lines.size() == 3);
    CHECK(lines[1].empty());
    CHECK(!lines[2].empty());
    check_words(done.err,
                {"standard input:2: ", "; the answer is an empty line\n", "2 pairs, 4 tokens"});
    CHECK(work.run("score runs/tiny --long-lines stop", pairs).code == 3);
    const auto objects = split_lines(work.run("score runs/tiny --json", pairs).out);
    REQUIRE(objects.size() == 3);
    CHECK(Json::parse(objects[1])["line"] == 2);
    CHECK(Json::parse(objects[1])["log_probability"].is_null());
    CHECK(Json::parse(objects[2])["line"] == 3);
  }
  work.write("in", "a\n" + huge + "\nb\n" + huge + "\nc\n");
  work.write("out", "a\nb\n" + huge + "\n" + huge + "\nc\n");
  const auto lines = split_lines(work.run("score runs/tiny in out").out);
  REQUIRE(lines.size() == 5);
  for (std::size_t i = 0; i < 5; ++i) CHECK(lines[i].empty() == (i >= 1 && i <= 3));
  std::string many;
  for (int i = 0; i < 5; ++i) many += too_long;
  const std::string warnings = work.run("score runs/tiny", many).err;
  check_words(warnings, {":3: found 10 tokens", "standard input: 5 lines were too long\n"});
  CHECK_FALSE(contains(warnings, ":4: found 10 tokens"));
}

}  // namespace
}  // namespace tapestry
