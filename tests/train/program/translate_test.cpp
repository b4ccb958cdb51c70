#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/contains.h"
#include "tests/train/refusal.h"

/// `tapestry translate` and `tapestry score`. What beam search finds is tested in inference/.
namespace tapestry {
namespace {

using test::Arguments;
using test::check_refusal;
using test::contains;
using test::Outcome;
using test::TrainedWorkplace;
using Json = nlohmann::json;

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

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

struct TranslateWorkplace : TrainedWorkplace {
  TranslateWorkplace() { REQUIRE(trained.code == 0); }

  std::string translate(const std::string& input, Arguments options = {}) const {
    options.insert(options.begin(), {"translate", "runs/tiny"});
    const Outcome done = run(options, input);
    CHECK(done.code == 0);
    CHECK(done.err.empty());
    return done.out;
  }
  std::vector<Entry> entries(const std::string& input, const Arguments& options) const {
    std::vector<Entry> all;
    for (const std::string& line : split_lines(translate(input, options))) {
      all.push_back(parse_entry(line));
    }
    return all;
  }
};

const std::string input = "a b\nc\n\nd a b c\ne e\n";

}  // namespace

TEST_CASE("an n-best list has the best translations of each line, the best first") {
  const TranslateWorkplace work;
  const auto all = work.entries(input, {"--n-best", "3"});
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
    const double words =
        static_cast<double>(all[i].text.empty() ? 1 : std::ranges::count(all[i].text, ' ') + 2);
    const double normalized = all[i].log_probability / std::pow((5 + words) / 6, 0.6);
    CHECK(all[i].score == doctest::Approx(normalized).epsilon(1e-4));
  }
  CHECK(all[6].text.empty());
  CHECK(all[6].log_probability == 0);
  CHECK(work.translate(input, {"--beam-size", "3"}) == best);
  const auto one = work.entries(input, {"--n-best", "1", "--beam-size", "3"});
  REQUIRE(one.size() == 5);
  CHECK(one[0].text == all[0].text);
}

TEST_CASE("the JSON output has the content of an n-best list") {
  const TranslateWorkplace work;
  const auto all = work.entries(input, {"--n-best", "2", "--align"});
  const auto objects = split_lines(work.translate(input, {"--n-best", "2", "--json", "--align"}));
  REQUIRE(objects.size() == 5);
  const auto sources = split_lines(input);
  std::size_t next = 0;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    const Json json = Json::parse(objects[i]);
    CHECK(json["line"] == i + 1);
    const Json& translations = json["translations"];
    std::string source;
    for (const Json& word : json["source_words"]) {
      source += (source.empty() ? "" : " ") + word.get<std::string>();
    }
    CHECK(source == sources[i]);
    if (i == 2) {
      CHECK(translations.empty());
      ++next;
      continue;
    }
    REQUIRE(translations.size() == 2);
    for (const Json& translation : translations) {
      const Entry& entry = all[next++];
      CHECK(translation["text"] == entry.text);
      CHECK(translation["log_probability"].get<double>() ==
            doctest::Approx(entry.log_probability).epsilon(1e-5));
      CHECK(translation["score"].get<double>() == doctest::Approx(entry.score).epsilon(1e-5));
      const std::size_t words = split_lines(entry.text).size() +
                                static_cast<std::size_t>(std::ranges::count(entry.text, ' '));
      CHECK(translation["num_tokens"] == words);
      CHECK(translation["words"].size() == words);
      std::string links;
      for (const Json& link : translation["alignment"]) {
        links += fmt::format("{}{}-{}", links.empty() ? "" : " ", link[0].get<std::size_t>(),
                             link[1].get<std::size_t>());
      }
      CHECK(links == entry.alignment);
    }
  }
}

TEST_CASE("score gives translations the log-probabilities that translate gives them") {
  const TranslateWorkplace work;
  const auto sources = split_lines(input);
  std::string pairs, source_file, target_file;
  std::vector<Entry> expected;
  for (const Entry& entry : work.entries(input, {"--n-best", "5"})) {
    if (entry.index == "2" || std::ranges::count(entry.text, ' ') >= 6) continue;  // empty, cut
    source_file += sources[std::stoul(entry.index)] + "\n";
    target_file += entry.text + "\n";
    pairs += sources[std::stoul(entry.index)] + "\t" + entry.text + "\n";
    expected.push_back(entry);
  }
  REQUIRE(expected.size() >= 10);
  work.write("in", source_file);
  work.write("out", target_file);
  const Outcome scored = work.run({"score", "runs/tiny", "in", "out"});
  CHECK(scored.code == 0);
  CHECK(work.run({"score", "runs/tiny"}, pairs).out == scored.out);
  const auto scores = split_lines(scored.out);
  const auto objects = split_lines(work.run({"score", "runs/tiny", "--json"}, pairs).out);
  REQUIRE(scores.size() == expected.size());
  REQUIRE(objects.size() == expected.size());
  double total = 0, tokens = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    std::istringstream fields(scores[i]);
    double sum = 0, mean = 0, count = 0;
    fields >> sum >> mean >> count;
    CHECK(sum == doctest::Approx(expected[i].log_probability).epsilon(1e-5));
    CHECK(mean == doctest::Approx(sum / count).epsilon(1e-4));
    total += sum;
    tokens += count;
    const Json json = Json::parse(objects[i]);
    CHECK(json["line"] == i + 1);
    REQUIRE(json["tokens"].size() == static_cast<std::size_t>(count));
    CHECK(json["tokens"].back() == "<eos>");
    double of_tokens = 0;
    for (const Json& value : json["token_log_probabilities"]) of_tokens += value.get<double>();
    CHECK(json["log_probability"].get<double>() == doctest::Approx(of_tokens));
    CHECK(of_tokens == doctest::Approx(sum).epsilon(1e-5));
  }
  CHECK(contains(scored.err, fmt::format("{} pairs, {} tokens with <eos>: log-probability ",
                                         expected.size(), tokens)));
  const auto number_after = [&](const std::string& words) {
    const std::size_t at = scored.err.find(words);
    REQUIRE(at != scored.err.npos);
    return std::stod(scored.err.substr(at + words.size()));
  };
  CHECK(number_after("<eos>: log-probability ") == doctest::Approx(total).epsilon(1e-4));
  CHECK(number_after("per token ") == doctest::Approx(total / tokens).epsilon(1e-4));
  CHECK(number_after("perplexity ") == doctest::Approx(std::exp(-total / tokens)).epsilon(1e-4));
}

TEST_CASE("score refuses files of different lengths and lines without a tab, after what precedes") {
  const TranslateWorkplace work;
  work.write("in", "a b\nc\na\n");
  work.write("out", "a b\n");
  const Outcome uneven = work.run({"score", "runs/tiny", "in", "out"});
  CHECK(uneven.code == 3);
  CHECK(split_lines(uneven.out).size() == 1);
  CHECK(uneven.err ==
        "tapestry: error: out: found 1 lines, and more in in, expected as many\n"
        "hint: give it the source and the translation of each sentence on the same line\n");
  const Outcome tabless = work.run({"score", "runs/tiny"}, "a\tb\nc d\n");
  CHECK(tabless.code == 3);
  CHECK(split_lines(tabless.out).size() == 1);
  CHECK(contains(tabless.err,
                 "standard input:2: found no tab, expected a source, a tab and its "
                 "translation\n"));
  CHECK(work.run({"score", "runs/tiny", "in"}).code == 2);
}

TEST_CASE("score reads a file from standard input by its path, and refuses a pipe") {
  const TranslateWorkplace work;
  const std::string sources = "a b\nc\n";
  work.write("in", sources);
  work.write("out", "b a\nc\n");
  const Outcome expected = work.run({"score", "runs/tiny", "in", "out"});
  CHECK(split_lines(expected.out).size() == 2);
  const Outcome redirected = work.run({"score", "runs/tiny", "/dev/stdin", "out"}, sources);
  CHECK(redirected.code == 0);
  CHECK(redirected.out == expected.out);
  REQUIRE(::mkfifo((work / "pipe").c_str(), 0600) == 0);
  for (const Arguments& files : {Arguments{"pipe", "out"}, {"in", "pipe"}}) {
    check_refusal(work, {"score", "runs/tiny", files[0], files[1]}, 3,
                  "pipe: found a pipe, socket or device, expected a text file\n"
                  "hint: write the text to a file first");
  }
}

TEST_CASE("score skips a pair that is too long, or ends with --long-lines stop") {
  const TranslateWorkplace work;
  const std::string pairs = "a\ta\na\ta b c d e a b c d\nb\tb\n";
  const Outcome done = work.run({"score", "runs/tiny"}, pairs);
  CHECK(done.code == 0);
  const auto lines = split_lines(done.out);
  REQUIRE(lines.size() == 3);
  CHECK(lines[1].empty());
  CHECK(contains(done.err,
                 "standard input:2: found 10 tokens with <eos>, expected at most 8 "
                 "(model.max_length); the answer is an empty line\n"));
  CHECK(contains(done.err, "2 pairs, 4 tokens"));
  CHECK(work.run({"score", "runs/tiny", "--long-lines", "stop"}, pairs).code == 3);
  const auto objects = split_lines(work.run({"score", "runs/tiny", "--json"}, pairs).out);
  REQUIRE(objects.size() == 3);
  CHECK(Json::parse(objects[1])["line"] == 2);
  CHECK(Json::parse(objects[1])["log_probability"].is_null());
  CHECK(Json::parse(objects[2])["line"] == 3);
}

TEST_CASE("score skips pairs with lines too long to be read, and warns three times") {
  const TranslateWorkplace work;
  const std::string huge(std::size_t{3} << 20, 'a');
  const Outcome done = work.run({"score", "runs/tiny"}, "a\ta\n" + huge + "\tb\nb\tb\n");
  CHECK(done.code == 0);
  auto lines = split_lines(done.out);
  REQUIRE(lines.size() == 3);
  CHECK(lines[1].empty());
  CHECK(!lines[2].empty());
  CHECK(contains(done.err, "standard input:2: "));
  CHECK(contains(done.err, "2 pairs, 4 tokens"));
  CHECK(work.run({"score", "runs/tiny", "--long-lines", "stop"}, huge + "\tb\n").code == 3);
  work.write("in", "a\n" + huge + "\nb\n" + huge + "\nc\n");
  work.write("out", "a\nb\n" + huge + "\n" + huge + "\nc\n");
  const Outcome files = work.run({"score", "runs/tiny", "in", "out"});
  CHECK(files.code == 0);
  lines = split_lines(files.out);
  REQUIRE(lines.size() == 5);
  for (std::size_t i = 0; i < 5; ++i) CHECK(lines[i].empty() == (i >= 1 && i <= 3));
  std::string pairs;
  for (int i = 0; i < 5; ++i) pairs += "a\ta b c d e a b c d\n";
  const Outcome many = work.run({"score", "runs/tiny"}, pairs);
  CHECK(many.code == 0);
  CHECK(contains(many.err, "standard input:3: found 10 tokens"));
  CHECK_FALSE(contains(many.err, "standard input:4: found 10 tokens"));
  CHECK(contains(many.err, "standard input: 5 lines were too long\n"));
}

TEST_CASE("translations have at least --min-length and at most --max-length tokens") {
  const TranslateWorkplace work;
  for (const std::string& line :
       split_lines(work.translate("a b\nc\n", {"--min-length", "3", "--max-length", "4"}))) {
    const auto words = std::ranges::count(line, ' ') + 1;
    CHECK(words >= 3);
    CHECK(words <= 4);
  }
  for (const std::string& line :
       split_lines(work.translate("a b\nc\n", {"--min-length", "2", "--max-length", "2"}))) {
    CHECK(std::ranges::count(line, ' ') == 1);
  }
}

TEST_CASE("translations start with the prefix after the tab") {
  const TranslateWorkplace work;
  const std::string prefixed = "a b\te d\nc\nc\t\n\nd\tc\n";
  const auto lines = split_lines(work.translate(prefixed, {"--prefix"}));
  REQUIRE(lines.size() == 5);
  CHECK(lines[0].starts_with("e d"));
  CHECK(lines[1] == split_lines(work.translate("c\n")).front());
  CHECK(lines[2] == lines[1]);
  CHECK(lines[3].empty());
  CHECK(lines[4].starts_with("c"));
  const Outcome cut = work.run({"translate", "runs/tiny", "--prefix"}, "a b c d e a b c d\te d\n");
  CHECK(cut.code == 0);
  CHECK(cut.out.starts_with("e d"));
  const Outcome refused =
      work.run({"translate", "runs/tiny", "--prefix"}, "a\tb\na\ta a a a a a a a\n");
  CHECK(refused.code == 3);
  CHECK(split_lines(refused.out).size() == 1);
  CHECK(contains(refused.err,
                 "standard input:2: found a prefix of 8 tokens, expected at most 7 "
                 "(model.max_length)\n"));
}

TEST_CASE("translations have no forbidden tokens, and only allowed ones") {
  const TranslateWorkplace work;
  work.write("letters", "a\nb\n\nzebra\n");
  const std::string warning =
      "tapestry: warning: letters: 1 of 4 tokens are not in the target vocabulary\n";
  const Arguments common{"translate", "runs/tiny", "--min-length", "3"};
  for (const char* option : {"--forbid", "--allow"}) {
    Arguments arguments = common;
    arguments.insert(arguments.end(), {option, "letters"});
    const Outcome done = work.run(arguments, input);
    CHECK(done.code == 0);
    CHECK(done.err == warning);
    std::set<char> letters(done.out.begin(), done.out.end());
    letters.erase(' ');
    letters.erase('\n');
    REQUIRE(!letters.empty());
    for (const char letter : letters) {
      CHECK((letter == 'a' || letter == 'b') == (option == std::string("--allow")));
    }
  }
  CHECK(work.run({"translate", "runs/tiny", "--forbid", "x", "--allow", "y"}).code == 2);
  CHECK(work.run({"translate", "runs/tiny", "--forbid", "nowhere"}).code == 3);
}

TEST_CASE("no sequence of --no-repeat-ngram tokens occurs twice") {
  const TranslateWorkplace work;
  for (const std::string& line :
       split_lines(work.translate(input, {"--no-repeat-ngram", "1", "--max-length", "7"}))) {
    std::multiset<char> letters(line.begin(), line.end());
    for (const char letter : {'a', 'b', 'c', 'd', 'e'}) CHECK(letters.count(letter) <= 1);
  }
}

TEST_CASE("samples depend on seed and line, not on batches") {
  const TranslateWorkplace work;
  std::string many;
  for (int i = 0; i < 40; ++i) many += "a b\nc d e\n";
  const std::string sampled = work.translate(many, {"--sample", "--seed", "3"});
  CHECK(work.translate(many, {"--sample", "--seed", "3", "--interactive"}) == sampled);
  CHECK(work.translate(many, {"--sample", "--seed", "3", "--batch-tokens", "9"}) == sampled);
  CHECK(work.translate(many, {"--sample", "--seed", "3", "--threads", "3"}) == sampled);
  CHECK(work.translate(many, {"--sample", "--seed", "4"}) != sampled);
  const auto lines = split_lines(sampled);
  CHECK(std::set<std::string>(lines.begin(), lines.end()).size() > 20);
  const auto entries = work.entries("a b\n", {"--sample", "--n-best", "5"});
  CHECK(entries.size() == 5);
  const std::string greedy = work.translate(many, {"--sample", "--temperature", "0"});
  CHECK(greedy == work.translate(many, {"--beam-size", "1"}));
  CHECK(work.translate(many, {"--sample", "--top-k", "1"}) == greedy);
  CHECK(work.translate(many, {"--sample", "--top-p", "0.000001"}) == greedy);
  CHECK(work.translate(many, {"--sample", "--seed", "3", "--repetition-penalty", "5"}) != sampled);
  check_refusal(work, {"translate", "runs/tiny", "--top-k", "3"}, 2,
                "command line: --top-k requires --sample\nhint: see `tapestry translate --help`");
  CHECK(work.run({"translate", "runs/tiny", "--sample", "--beam-size", "2"}).code == 2);
}

TEST_CASE("alignments name a word of the source for each word of the translation") {
  const TranslateWorkplace work;
  const auto plain = split_lines(work.translate(input));
  const auto aligned = split_lines(work.translate(input, {"--align"}));
  const auto sources = split_lines(input);
  REQUIRE(aligned.size() == plain.size());
  for (std::size_t i = 0; i < plain.size(); ++i) {
    REQUIRE(aligned[i].starts_with(plain[i] + " ||| "));
    std::istringstream links(aligned[i].substr(plain[i].size() + 5));
    std::size_t t = 0;
    for (std::string link; links >> link; ++t) {
      const std::size_t dash = link.find('-');
      CHECK(std::stoul(link.substr(0, dash)) <=
            static_cast<std::size_t>(std::ranges::count(sources[i], ' ')));
      CHECK(std::stoul(link.substr(dash + 1)) == t);
    }
    const auto words = std::ranges::count(plain[i], ' ') + (plain[i].empty() ? 0 : 1);
    CHECK(t == static_cast<std::size_t>(words));
  }
  CHECK(work.translate(input, {"--align", "--align-layer", "decoder.layers.0.cross_attn"}) ==
        work.translate(input, {"--align"}));
  check_refusal(
      work, {"translate", "runs/tiny", "--align", "--align-layer", "decoder.layers.1.cross_attn"},
      2,
      "command line: --align-layer decoder.layers.1.cross_attn: there is no such layer\n"
      "hint: use decoder.layers.0.cross_attn");
}

TEST_CASE("lines of mixed lengths, more than one window of them, keep their order") {
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
  CHECK(work.translate(many) == expected);
  CHECK(work.translate(many, {"--interactive"}) == expected);
  CHECK(work.translate(many, {"--batch-tokens", "100"}) == expected);
}

TEST_CASE("blanks, tabs, Windows line ends and unknown words are translated") {
  const TranslateWorkplace work;
  const std::string clean = work.translate("a b\nc\n");
  CHECK(work.translate("  a \tb \t\r\nc  \r\n") == clean);
  CHECK(work.translate("a b\nc") == clean);
  CHECK(work.translate("\n \n\t\n\r\n") == "\n\n\n\n");
  CHECK(split_lines(work.translate("a \xE2\x98\x83 zebra\n\xF0\x9F\x98\x80\n")).size() == 2);
}

TEST_CASE("a line of 10,000 words is cut with a warning") {
  const TranslateWorkplace work;
  std::string words;
  for (int i = 0; i < 10'000; ++i) words += i % 2 == 0 ? "a " : "b ";
  const Outcome done = work.run({"translate", "runs/tiny"}, "c\n" + words + "\nc\n");
  CHECK(done.code == 0);
  const auto lines = split_lines(done.out);
  REQUIRE(lines.size() == 3);
  CHECK(lines[0] == lines[2]);
  CHECK(lines[1] + "\n" == work.translate("a b a b a b a\n"));
  CHECK(done.err ==
        "tapestry: warning: standard input:2: found 10001 tokens with <eos>, expected at most 8 "
        "(model.max_length); only the first are answered\n");
}

TEST_CASE("more translations than the beam are refused") {
  const TranslateWorkplace work;
  check_refusal(
      work, {"translate", "runs/tiny", "--n-best", "3", "--beam-size", "2"}, 2,
      "command line: --n-best 3: expected at most --beam-size (2)\nhint: write --beam-size 3");
}

TEST_CASE("a minimum length above the maximum is refused") {
  const TranslateWorkplace work;
  check_refusal(work, {"translate", "runs/tiny", "--min-length", "4", "--max-length", "3"}, 2,
                "command line: --min-length 4: expected at most the maximum length (3)\n"
                "hint: write --max-length 4 or more");
}

}  // namespace tapestry
