#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "data/text/codec.h"
#include "tests/support/contains.h"
#include "tests/support/source_folder.h"
#include "tests/train/refusal.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/cli/command.h"
#include "train/config/config.h"
#include "train/system/machine.h"
#include "train/tasks/data_source.h"

/// What each command does when all is well.
namespace tapestry {
namespace {

using test::contains;
using test::Outcome;
using test::TrainedWorkplace;
using test::Workplace;

std::size_t count_lines(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

TEST_CASE("train prints its progress and writes config, checkpoints, metrics and log") {
  const TrainedWorkplace work;
  const Outcome& done = work.trained;
  CHECK(done.code == 0);
  CHECK(done.err.empty());
  CHECK(
      done.out.starts_with("data: 22 training pairs, 6 validation, 4 test; vocabularies of 9 and "
                           "9\nbatches: 6 per epoch, of 3.7 pairs and 12 tokens on average; "
                           "padding 1.4 %\nmodel: 6,"));
  CHECK(
      contains(done.out, " tensors; threads: 1; " + arithmetic() + "; run directory runs/tiny\n"));
  CHECK(contains(done.out, "\nstep  4/12  epoch 1  "));
  CHECK(contains(done.out, "\nvalidation at step 6: loss "));
  CHECK(done.out.ends_with("\ndone: 12 steps; next: tapestry evaluate runs/tiny\n"));

  for (const char* file : {"config.yaml", "metrics.csv", "train.log"}) {
    CHECK(std::filesystem::file_size(work / "runs/tiny" / file) > 0);
  }
  CHECK(std::filesystem::exists(work / work.checkpoint(12)));
  CHECK(count_lines(test::read_text(work / "runs/tiny/metrics.csv")) == 1 + 3 + 2);
  CHECK(count_lines(test::read_text(work / "runs/tiny/train.log")) == count_lines(done.out));
}

TEST_CASE("a run without held-out data proposes a report, which needs none") {
  Workplace work;
  work.write("train.txt", "good\ta fine day\nbad\ta day\n");
  work.write("days.yaml",
             "data:\n  task: labelled_text\n  train_text: train.txt\n"
             "model:\n  kind: classifier\n  d_model: 8\n  num_heads: 2\n"
             "train:\n  steps: 2\n");
  const Outcome done = work.run({"train", "days.yaml"});
  CHECK(done.code == 0);
  CHECK(done.out.ends_with("\ndone: 2 steps; next: tapestry report runs/days\n"));
}

TEST_CASE("paths in printed commands are quoted for the shell if necessary") {
  Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  const std::string run_dir = "my runs/it's";
  const std::string quoted = "'my runs/it'\\''s'";
  const test::Arguments train = {"train", "tiny.yaml", "train.run_dir=" + run_dir};
  CHECK(work.run(train).out.ends_with("; next: tapestry evaluate " + quoted + "\n"));
  CHECK(contains(work.run(train).err, "`tapestry train --resume " + quoted + "`"));
  const Outcome stopped =
      work.run({"train", "--resume", run_dir, "train.steps=1000000", "train.max_time=1s"});
  CHECK(stopped.code == 124);
  CHECK(stopped.out.ends_with("; resume with: tapestry train --resume " + quoted + "\n"));
  work.write("my lines", "");
  CHECK(contains(work.run({"translate", run_dir, "my lines"}).err,
                 "hint: to read a file, write < 'my lines'\n"));
}

TEST_CASE("the config in the run directory trains to the same bytes") {
  const TrainedWorkplace work;
  const Outcome again =
      work.run({"train", "runs/tiny/config.yaml", "train.run_dir=runs/again", "train.threads=2"});
  CHECK(again.code == 0);
  CHECK(test::read_text(work / "runs/again/checkpoints/step-00000012.h5") ==
        test::read_text(work / work.checkpoint(12)));
}

TEST_CASE("keys on the command line override the file") {
  const Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  const Outcome done = work.run({"train", "tiny.yaml", "train.steps=2", "train.run_dir=here"});
  CHECK(done.code == 0);
  CHECK(std::filesystem::exists(work / "here/checkpoints/step-00000002.h5"));
  CHECK(contains(test::read_text(work / "here/config.yaml"), "\n  steps: 2\n"));
}

TEST_CASE("a second run in the same directory is refused and changes nothing") {
  const TrainedWorkplace work;
  const auto before = work.contents();
  const Outcome refused = work.run({"train", "tiny.yaml"});
  CHECK(refused.code == 2);
  CHECK(refused.out.empty());
  CHECK(refused.err ==
        "tapestry: error: runs/tiny: already contains a run, at step 12\n"
        "hint: resume it with `tapestry train --resume runs/tiny`, start over with --fresh (the "
        "old run "
        "is moved aside) or choose another train.run_dir\n");
  CHECK(work.contents() == before);
}

TEST_CASE("--fresh moves the old run aside, to a new name each time, and starts again") {
  const TrainedWorkplace work;
  const std::string old = test::read_text(work / work.checkpoint(12));
  CHECK(work.run({"train", "tiny.yaml", "--fresh", "train.steps=1"}).code == 0);
  CHECK(work.run({"train", "tiny.yaml", "--fresh", "train.run_dir=runs/tiny/", "train.steps=2"})
            .code == 0);
  CHECK(test::read_text(work / "runs/tiny.old-1/checkpoints/step-00000012.h5") == old);
  CHECK(std::filesystem::exists(work / "runs/tiny.old-2/checkpoints/step-00000001.h5"));
  CHECK(std::filesystem::exists(work / work.checkpoint(2)));
  CHECK_FALSE(std::filesystem::exists(work / work.checkpoint(12)));
}

TEST_CASE("--fresh needs no existing run") {
  const Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  CHECK(work.run({"train", "tiny.yaml", "--fresh", "train.steps=1"}).code == 0);
}

TEST_CASE("a resumed run with more steps ends like a run of as many steps") {
  const TrainedWorkplace work;
  const Outcome resumed = work.run({"train", "--resume", "runs/tiny", "train.steps=20"});
  CHECK(resumed.code == 0);
  CHECK(resumed.out.starts_with(
      "resuming runs/tiny at step 12 of 20\nchanged train.steps: 12 -> 20\n"));
  CHECK(resumed.out.ends_with("\ndone: 20 steps; next: tapestry evaluate runs/tiny\n"));
  CHECK(contains(test::read_text(work / "runs/tiny/config.yaml"), "\n  steps: 20\n"));

  CHECK(work.run({"train", "tiny.yaml", "train.steps=20", "train.run_dir=at-once"}).code == 0);
  CHECK(test::read_text(work / work.checkpoint(20)) ==
        test::read_text(work / "at-once/checkpoints/step-00000020.h5"));
  CHECK(test::read_text(work / "runs/tiny/metrics.csv") ==
        test::read_text(work / "at-once/metrics.csv"));
}

TEST_CASE("a run in another directory is resumed with its config, in either order") {
  const TrainedWorkplace work;
  CHECK(work.run({"train", "tiny.yaml", "train.run_dir=moved"}).code == 0);
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"moved", "tiny.yaml"}, {"tiny.yaml", "moved"}}) {
    const bool first = arguments[0] == "moved";
    const Outcome resumed = work.run({"train", "--resume", arguments[0], arguments[1],
                                      first ? "train.steps=14" : "train.steps=16"});
    CHECK(resumed.code == 0);
    CHECK(resumed.out.starts_with(first ? "resuming moved at step 12 of 14"
                                        : "resuming moved at step 14 of 16"));
  }
}

TEST_CASE("a resumed run prints data, model and memory with its settings, and appends to the log") {
  const TrainedWorkplace work;
  const Outcome resumed = work.run(
      {"train", "--resume", "runs/tiny", "train.steps=14", "train.threads=2", "train.max_time=1m"});
  CHECK(resumed.code == 0);
  CHECK(contains(resumed.out, "\ndata: 22 training pairs, 6 validation, 4 test; vocabularies of "));
  CHECK(contains(resumed.out,
                 " tensors; threads: 2; " + arithmetic() + "; run directory runs/tiny\n"));
  CHECK(contains(resumed.out, "the largest step of 4 x 5 x 5 tokens"));
  CHECK(resumed.out.ends_with("\ndone: 14 steps; next: tapestry evaluate runs/tiny\n"));
  CHECK(count_lines(test::read_text(work / "runs/tiny/train.log")) ==
        count_lines(work.trained.out) + count_lines(resumed.out));
}

TEST_CASE("skipped data are reported at the start of a run and when it is resumed") {
  const test::TextWorkplace work;
  work.write("train.de", "ein haus\n\neine katze\n");
  work.write("train.en", "a house\n\na cat\n");
  const std::string note = "train: 1 of 3 pairs skipped: both lines are blank\n";
  const Outcome begun = work.run({"train", "text.yaml"});
  // de: ein, haus, eine and katze; en: a, house and cat; and four special symbols.
  CHECK(begun.out.starts_with(
      note + "data: 2 training pairs, 1 validation, 0 test; vocabularies of 8 and 7\n"));
  CHECK(contains(work.run({"train", "--resume", "runs/text", "train.steps=3"}).out, "\n" + note));
}

TEST_CASE("train warns if the learning rate is 0 before the last step") {
  const Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  const std::string warning = "\nwarning: the learning rate is 0 from step 8 to 12: ";
  const Outcome begun = work.run({"train", "tiny.yaml", "schedule.kind=cosine"});
  CHECK(begun.code == 0);
  CHECK_FALSE(contains(begun.out, "the learning rate is 0"));
  const Outcome early =
      work.run({"train", "tiny.yaml", "--fresh", "schedule.kind=cosine", "schedule.decay_steps=8"});
  CHECK(contains(early.out, warning));
  const Outcome above = work.run({"train", "tiny.yaml", "--fresh", "schedule.kind=cosine",
                                  "schedule.decay_steps=8", "schedule.min_learning_rate=1e-5"});
  CHECK_FALSE(contains(above.out, "the learning rate is 0"));
}

TEST_CASE("a run can be resumed from any folder, by any path to it") {
  const TrainedWorkplace work;
  std::filesystem::create_directory(work / "elsewhere");
  std::filesystem::rename(work / "runs/tiny", work / "elsewhere/moved");
  const std::string moved = (work / "elsewhere/moved").string();
  CHECK(work.run({"train", "--resume", moved, "train.steps=13"}).code == 0);
  CHECK(std::filesystem::exists(work / "elsewhere/moved/checkpoints/step-00000013.h5"));
}

TEST_CASE("evaluate prints the scores of the held-out sets and examples") {
  const TrainedWorkplace work;
  const Outcome done = work.run({"evaluate", "runs/tiny", "--examples", "2"});
  CHECK(done.code == 0);
  CHECK(done.err.empty());
  CHECK(done.out.starts_with("runs/tiny/checkpoints/step-000000"));
  const std::size_t end = work.trained.out.rfind("  (best so far)\n");
  const std::size_t begin = work.trained.out.rfind(": loss ", end);
  CHECK(contains(done.out, "\nvalidation  6 held-out pairs" +
                               work.trained.out.substr(begin, end - begin) + "\n"));
  CHECK(contains(done.out, "\ntest        4 held-out pairs: loss "));
  CHECK(contains(done.out, "  exact match "));
  std::size_t examples = 0;
  for (auto at = done.out.find("\ninput     "); at != std::string::npos;
       at = done.out.find("\ninput     ", at + 1)) {
    ++examples;
  }
  CHECK(examples == 2);
}

/// What evaluate shows of an example.
std::string shown(const std::string& source, const std::string& output, const std::string& target) {
  const std::string text = fmt::format("\ninput     {}\noutput    {}\n", source, output);
  return output == target ? text : text + fmt::format("expected  {}\n", target);
}

TEST_CASE("evaluate shows the first pairs of the test or else validation set, five by default") {
  const Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  for (const char* test_size : {"data.test_size=7", "data.test_size=0"}) {
    CAPTURE(test_size);
    REQUIRE(work.run({"train", "tiny.yaml", "--fresh", "train.steps=40", test_size}).code == 0);
    const Config config = parse_config(test::tiny_yaml, "tiny.yaml", {test_size});
    const Corpus corpus = load_corpus(config.data);
    const TextCodec codec =
        make_codec(config.data, corpus.source_vocabulary, corpus.target_vocabulary);
    const std::vector<Example>& pairs = corpus.test.empty() ? corpus.validation : corpus.test;
    REQUIRE(pairs.size() > 5);
    std::string input;
    for (const Example& pair : pairs) input += codec.decode_source(pair.source) + "\n";
    std::istringstream outputs(work.run({"translate", "runs/tiny"}, input).out);
    std::string five, all;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      std::string output;
      REQUIRE(std::getline(outputs, output));
      all +=
          shown(codec.decode_source(pairs[i].source), output, codec.decode_target(pairs[i].target));
      if (i == 4) five = all;
    }
    CHECK(work.run({"evaluate", "runs/tiny"}).out.ends_with("\n" + five));
    if (corpus.test.empty()) continue;
    CHECK(work.run({"evaluate", "runs/tiny", "--examples", "9"}).out.ends_with("\n" + all));
  }
}

TEST_CASE("evaluate shows sources with the source vocabulary and targets with the target's") {
  const test::TextWorkplace work;
  REQUIRE(work.run({"train", "text.yaml"}).code == 0);
  std::string output = work.run({"translate", "runs/text"}, "ein hund\n").out;
  output.pop_back();
  const std::string evaluated = work.run({"evaluate", "runs/text"}).out;
  CHECK(contains(evaluated, "\n            50.0 % of its tokens are unknown\nsignature   BLEU|"));
  CHECK(evaluated.ends_with("\n" + shown("ein <unk>", output, "a <unk>")));
}

TEST_CASE("evaluate decodes every sentence, whatever train.exact_match_sequences") {
  const Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  const Outcome trained = work.run({"train", "tiny.yaml", "train.exact_match_sequences=0"});
  CHECK(contains(trained.out, "\nvalidation at step 6: "));
  CHECK_FALSE(contains(trained.out, "exact match"));
  const Outcome few = work.run({"evaluate", "runs/tiny"});
  CHECK(contains(few.out, "  exact match "));
  const Outcome all =
      work.run({"train", "tiny.yaml", "train.run_dir=runs/all", "train.exact_match_sequences=100"});
  CHECK(all.code == 0);
  const auto scores = [](const Outcome& done) { return done.out.substr(done.out.find('\n')); };
  CHECK(scores(work.run({"evaluate", "runs/all"})) == scores(few));
}

TEST_CASE("evaluate of a run without held-out data prints a message") {
  const Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  CHECK(work.run({"train", "tiny.yaml", "data.validation_size=0", "data.test_size=0"}).code == 0);
  const Outcome evaluated = work.run({"evaluate", "runs/tiny"});
  CHECK(evaluated.code == 0);
  CHECK(
      evaluated.out.ends_with("\nno held-out pairs: name files or sizes for them in the config\n"));
}

TEST_CASE("evaluate uses a checkpoint that is given as it is") {
  const TrainedWorkplace work;
  const Outcome done = work.run({"evaluate", work.checkpoint(10), "--examples", "0"});
  CHECK(done.code == 0);
  CHECK(done.out.starts_with(work.checkpoint(10) + ", step 10\n"));
  CHECK_FALSE(contains(done.out, "input"));
}

TEST_CASE("translate prints a line for each line, in order, in any batch") {
  const TrainedWorkplace work;
  const auto translate = [&](const std::string& input) {
    return work.run({"translate", "runs/tiny"}, input).out;
  };
  const std::vector<std::string> lines{"a b\n", "d\n", "e c a\n"};
  const std::vector<std::string> outputs{translate(lines[0]), translate(lines[1]),
                                         translate(lines[2])};
  std::string input, expected;
  for (std::size_t i = 0; i < 70; ++i) {
    input += lines[i % 3];
    expected += outputs[i % 3];
  }
  CHECK(count_lines(expected) == 70);
  CHECK(translate(input) == expected);
}

TEST_CASE("translate prints a blank line for a blank line and an output for unknown words") {
  const TrainedWorkplace work;
  const Outcome done = work.run({"translate", "runs/tiny"}, "\n  \nzebra\na\r\na");
  CHECK(done.code == 0);
  CHECK(done.err.empty());
  CHECK(count_lines(done.out) == 5);
  CHECK(done.out.starts_with("\n\n"));
  const std::string a = work.run({"translate", "runs/tiny"}, "a\n").out;
  CHECK(done.out.ends_with("\n" + a + a));
}

TEST_CASE("translate of empty input prints nothing") {
  const TrainedWorkplace work;
  const Outcome done = work.run({"translate", "runs/tiny"});
  CHECK(done.code == 0);
  CHECK(done.out.empty());
}

TEST_CASE("inspect lists arrays, numbers and the config") {
  const TrainedWorkplace work;
  const Outcome done = work.run({"inspect", work.checkpoint(12)});
  CHECK(done.code == 0);
  CHECK(done.out.starts_with(work.checkpoint(12) + ": step 12, "));
  CHECK(contains(done.out, std::string("written by version ") + program_version + "\n"));
  CHECK(contains(done.out, "\nparameters/encoder.layers.0.ff.linear1.weight "));
  CHECK(contains(done.out, " float32  (32, 16)         mean "));
  CHECK(contains(done.out, "\nconfig:\ndata:\n  task: copy\n"));
}

TEST_CASE("inspect counts arrays and bytes, and prints single numbers") {
  const Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  REQUIRE(work.run({"train", "tiny.yaml", "train.steps=7", "model.d_model=64"}).code == 0);
  const std::string path = "runs/tiny/checkpoints/step-00000007.h5";
  const ArrayStore snapshot = read_checkpoint(work / path);
  const Outcome done = work.run({"inspect", path});
  std::size_t arrays = 0, bytes = 0, longest = 0;
  for (const auto& [name, array] : snapshot) {
    ++arrays;
    bytes += array.bytes.size();
    longest = std::max(longest, name.size());
  }
  CHECK(done.out.starts_with(
      fmt::format("{}: step 7, {} arrays, {:.1f} MB, written by version {}\n"
                  "digest of all numbers: ",
                  path, arrays, static_cast<double>(bytes) / 1e6, program_version)));
  const auto line = [&](const char* name, const char* type, const std::string& value) {
    return fmt::format("\n{:<{}} {:<8} {:<16} {}\n", name, longest, type, "()", value);
  };
  CHECK(contains(done.out, line("optimizer/steps", "uint64", "7")));
  CHECK(contains(done.out, line("train/batch", "uint64", "1")));
  CHECK(
      contains(done.out, line("train/best_loss", "float64",
                              fmt::format("{}", snapshot.get_scalar<double>("train/best_loss")))));
}

/// The last paragraph of the help is "Example:" or "Examples...:" and indented lines, of which one
/// has the command.
void check_ends_with_example(const std::string& help, const std::string& command) {
  const std::size_t heading = help.rfind("\nExample");
  REQUIRE(heading != help.npos);
  std::istringstream lines(help.substr(help.find('\n', heading + 1) + 1));
  bool has_command = false;
  for (std::string line; std::getline(lines, line);) {
    CHECK_MESSAGE(line.starts_with("  "), line);
    has_command = has_command || contains(line, "tapestry " + command);
  }
  CHECK(has_command);
}

std::string read_source(const std::string& path) {
  std::ifstream file(test::source_folder() / path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The variables whose values a source file asks for by name.
std::set<std::string> variables_in(const std::string& source) {
  static const std::regex pattern(R"re((?:getenv\(|variable = )"([A-Z_]+)")re");
  std::set<std::string> names;
  for (std::sregex_iterator match(source.begin(), source.end(), pattern), end; match != end;
       ++match) {
    names.insert((*match)[1]);
  }
  return names;
}

TEST_CASE("the manual page has the environment variables that the sources read") {
  std::set<std::string> read{"OPENBLAS_NUM_THREADS"};  // read by OpenBLAS itself
  for (const char* folder : {"autograd", "layers", "optim", "data", "train"}) {
    const auto sources = test::source_folder() / folder;
    for (const auto& file : std::filesystem::recursive_directory_iterator(sources)) {
      if (file.path().extension() == ".cpp") read.merge(variables_in(read_source(file.path())));
    }
  }
  const std::string manual = read_source("train/cli/manual.h2m");
  const std::size_t begin = manual.find("[ENVIRONMENT]"), end = manual.find("[FILES]");
  std::set<std::string> documented;
  std::istringstream lines(manual.substr(begin, end - begin));
  for (std::string line; std::getline(lines, line);) {
    if (line == ".TP" && std::getline(lines, line)) documented.insert(line);
  }
  CHECK(read == documented);
}

TEST_CASE("help and version are printed on standard output") {
  const Workplace work;
  const Outcome help = work.run({"--help"});
  CHECK(help.code == 0);
  CHECK(help.err.empty());
  for (const char* command : {"train", "evaluate", "translate", "classify", "fill", "gradcheck",
                              "inspect", "bleu", "compare"}) {
    CAPTURE(command);
    CHECK(contains(help.out, std::string("\n  ") + command + " "));
    const Outcome of_command = work.run({command, "--help"});
    CHECK(of_command.code == 0);
    CHECK(contains(of_command.out, std::string("Usage: tapestry ") + command));
    CHECK(!contains(of_command.out, "Exit codes:"));
  }
  CHECK(contains(help.out, "\n`tapestry help COMMAND` says more about each.\n\nExit codes:\n"));
  CHECK(contains(help.out, "\n  3         invalid data\n"));
  CHECK(help.out.ends_with("\n  128 + n   stopped by signal n, after saving\n"));
  CHECK(work.run({"help"}).out == help.out);
  for (const Command& command : all_commands()) {
    CAPTURE(command.name);
    const Outcome of_command = work.run({"help", command.name});
    CHECK(of_command.code == 0);
    CHECK(of_command.out == work.run({command.name, "--help"}).out);
    check_ends_with_example(of_command.out, command.name);
  }
  const Outcome version = work.run({"--version"});
  CHECK(version.code == 0);
  CHECK(version.out == std::string("tapestry ") + program_version + "\n");
}

}  // namespace
}  // namespace tapestry
