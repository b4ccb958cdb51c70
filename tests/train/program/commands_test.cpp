// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/support/source_folder.h"
#include "tests/train/program.h"
#include "train/base/program.h"
#include "train/cli/command.h"

/// Tests properties of all commands: help, mistakes on the command line, unusable paths, and
/// options with invalid values.
namespace tapestry {
namespace {

namespace fs = std::filesystem;
using test::CommandLine;
using test::contains;
using test::Outcome;
using test::TrainedWorkplace;
using test::Workplace;

// ---- Help

/// Checks that help ends with a paragraph "Example:" or "Examples...:" whose lines are indented,
/// and that one of the lines has the command.
void check_ends_with_example(const std::string& help, const std::string& command) {
  const std::size_t heading = help.rfind("\nExample");
  REQUIRE(heading != help.npos);
  bool has_command = false;
  for (const std::string& line : test::split_lines(help.substr(help.find('\n', heading + 1) + 1))) {
    CHECK_MESSAGE(line.starts_with("  "), line);
    has_command = has_command || contains(line, "tapestry " + command);
  }
  CHECK(has_command);
}

TEST_CASE("help and version are printed on standard output") {
  const Workplace work;
  const std::string help = work.out("--help");
  test::check_words(
      help, {"\nSee `tapestry help COMMAND`.\n\nExit codes:\n", "\n  3         invalid data\n"});
  CHECK(help.ends_with("\n  128 + n   stopped by signal n, after saving\n"));
  CHECK(work.out("help") == help);
  for (const Command& command : all_commands()) {
    CAPTURE(command.name);
    CHECK(contains(help, fmt::format("\n  {} ", command.name)));
    const std::string of_command = work.out({"help", command.name});
    CHECK(of_command == work.out({command.name, "--help"}));
    CHECK(contains(of_command, fmt::format("Usage: tapestry {}", command.name)));
    CHECK_FALSE(contains(of_command, "Exit codes:"));
    check_ends_with_example(of_command, command.name);
  }
  CHECK(work.out("--version") == fmt::format("tapestry {}\n", program_version));
}

TEST_CASE("the help of an action describes only this action; unknown actions are rejected") {
  const Workplace work;
  for (const std::string action : {"explain", "diff", "schema", "new"}) {
    const std::string help = work.out("help config " + action);
    test::check_words(help, {"\n  " + action + " ", "tapestry config " + action});
    for (const std::string other : {"explain", "diff", "schema", "new"}) {
      if (other != action) CHECK_FALSE(contains(help, "\n  " + other + " "));
    }
  }
  check_rows(work, {{"help config old", 2, {"`config` has no action `old`", "help config"}},
                    {"help train new", 2, {"`train` has no action `new`", "help train"}}});
}

TEST_CASE("without arguments, help is printed on standard error, with exit code 2") {
  const Workplace work;
  const Outcome listed = work.run("");
  CHECK(listed.code == 2);
  CHECK(listed.out.empty());
  CHECK(listed.err == work.out("help"));
}

std::string read_source(const fs::path& path) {
  return test::read_text(test::source_folder() / path);
}

TEST_CASE("the manual page lists the environment variables that the sources read") {
  static const std::regex pattern(R"re((?:getenv\(|variable = )"([A-Z_]+)")re");
  std::set<std::string> read{"OPENBLAS_NUM_THREADS"};  // read by OpenBLAS itself
  for (const char* folder : {"autograd", "layers", "optim", "data", "train"}) {
    for (const auto& file : fs::recursive_directory_iterator(test::source_folder() / folder)) {
      if (file.path().extension() != ".cpp") continue;
      const std::string source = read_source(file.path());
      for (std::sregex_iterator match(source.begin(), source.end(), pattern), end; match != end;
           ++match) {
        read.insert((*match)[1]);
      }
    }
  }
  const std::string manual = read_source("train/cli/manual.h2m");
  const std::size_t begin = manual.find("[ENVIRONMENT]"), end = manual.find("[FILES]");
  std::set<std::string> documented;
  std::string before;
  for (const std::string& line : test::split_lines(manual.substr(begin, end - begin))) {
    if (before == ".TP") documented.insert(line);
    before = line;
  }
  CHECK(read == documented);
}

// ---- Mistakes on the command line

TEST_CASE("mistakes on the command line give exit code 2 and a hint") {
  const Workplace work;
  work.write("in.txt", "a\n");
  work.write("near.yaml", "a\n");
  work.write("\x1B[31mfile", "a\n");
  std::vector<test::CommandRow> rows = {
      {"trian tiny.yaml", 2, {"unknown command `trian`", "did you mean `train`?"}},
      {"eval runs/tiny", 2, {"unknown command `eval`", "did you mean `evaluate`?"}},
      {"train near.yml", 2, {"near.yml: ", "did you mean near.yaml?"}},
      {"resume runs/tiny", 2, {"unknown command `resume`", "train --resume RUN"}},
      {"predict runs/tiny", 2, {"unknown command `predict`", "use generate, ", "translate"}},
      {"generate runs/tiny --temp 1", 2, {"did you mean --temperature?"}},
      {"translate in.txt .", 2, {"put the run first: tapestry translate . < in.txt"}},
      {"translate . .", 2, {"found `.`, expected no more arguments", "translate --help"}},
      {"begin", 2, {"unknown command `begin`", "use train, plan, ", ", completion or help"}},
      {"help begin", 2, {"COMMAND: expected train, plan, ", "found \"begin\""}},
      {"completion tcsh", 2, {"SHELL: expected bash, zsh or fish, found \"tcsh\""}},
      {"train", 2, {"CONFIG or --resume RUN is required", "`tapestry train --help`"}},
      {"evaluate", 2, {"RUN is required", "`tapestry evaluate --help`"}},
      {"train tiny.yaml --frsh", 2, {"there is no option --frsh", "did you mean --fresh?"}},
      {"train tiny.yaml --faster", 2, {"there is no option --faster", "`tapestry train --help`"}},
      {"train tiny.yaml --lr 3e-4", 2, {"`schedule.learning_rate=3e-4`?"}},
      {"train tiny.yaml --seed=3", 2, {"there is no option --seed", "`train.seed=3`?"}},
      {"train --batch-size 8 tiny.yaml", 2, {"`train.batch_size=8`?"}},
      {"translate runs/tiny --beam 5", 2, {"did you mean --beam-size?"}},
      {"train tiny.yaml --train.steps=4", 2, {"`train.steps=4`?"}},
      {"train tiny.yaml --device cuda", 2, {"remove it: training runs on the CPU"}},
      {"train --config tiny.yaml", 2, {"write `tapestry train tiny.yaml`"}},
      {"generate runs/tiny --length 5", 2, {"did you mean --tokens?"}},
      {"report runs/tiny --out a.html", 2, {"did you mean --output?"}},
      {"generate runs/tiny two words", 2, {"put a text of several words in quotes"}},
      {"inspect runs/tiny one two", 2, {"found `one`, expected no more arguments"}},
      {"inspect runs/tiny -- one", 2, {"found `one`, expected no more arguments"}},
      {"bleu --reference one two three", 2, {"found `three`, expected no more arguments"}},
      {"translate runs/tiny in.txt", 2, {"found `in.txt`", "to read a file, write < in.txt"}},
      {"translate runs/tiny 'a b'", 2, {"found `a b`", "echo TEXT |"}},
      {{"translate", "runs/tiny", "\x1B[31mfile"}, 2, {"`\\x1B[31mfile`", "< $'\\033[31mfile'"}},
      {"inspect runs/tiny -x", 2, {"there is no option -x"}},
      {"inspect runs/tiny -- -x", 2, {"there is no option -x"}},
      {"generate runs/tiny --tokens 5 --tokens 0", 2, {"--tokens: found 2 values, expected one"}},
      {"generate runs/tiny --tokens", 2, {"--tokens: found no value, expected one"}},
      {"train tiny.yaml --profile=no", 2, {"--profile: found a value, expected none"}},
      {"train --resume runs/tiny --fresh", 2, {"--resume excludes --fresh"}},
      {"evaluate runs/tiny --examples -1", 2, {"a whole number from 0 to 1000000, found \"-1\""}},
      {"gradcheck tiny.yaml --seed 1_000", 2, {"found \"1_000\"", "write `1000`, in decimal"}},
      {"generate runs/tiny --temperature nan", 2, {"a number in [0, 1000000], found \"nan\""}},
      {"generate runs/tiny --temperature 1e300", 2, {"--temperature", "1e300"}},
      {"generate runs/tiny --top-p 0", 2, {"--top-p", "found \"0\""}},
      {"generate runs/tiny --top-p 1.5", 2, {"--top-p", "found \"1.5\""}},
      {"generate runs/tiny --repetition-penalty 0", 2, {"--repetition-penalty"}},
      {"train tiny.yaml --allow-change model.dropout", 2, {"--allow-change"}},
      {"train tiny.yaml --quiet --dry-run", 2, {"--dry-run excludes --quiet"}},
      {"train ''", 2, {"CONFIG: found an empty text, expected a path"}},
      {"report runs/tiny --output ''", 2, {"--output: found an empty text, expected a path"}},
  };
  for (const std::string option : {"--json", "-v", "--resume", "--"}) {
    rows.push_back({option + " inspect runs/tiny", 2, {"found " + option, "a command first"}});
  }
  for (const std::string command : {"evaluate", "translate", "classify", "inspect", "report"}) {
    rows.push_back({command + " ''", 2, {"RUN: found an empty text", command + " --help`"}});
  }
  for (const std::string command : {"check", "gradcheck", "attention", "explain"}) {
    rows.push_back({command + " ''", 2, {"MODEL: found an empty text", command + " --help`"}});
  }
  for (const std::string command : {"evaluate", "errors", "attention", "gradcheck", "translate",
                                    "classify", "tag", "fill", "generate"}) {
    rows.push_back({command + " runs/tiny --threads 1025", 2, {"--threads", "from 0 to 1024"}});
  }
  check_rows(work, rows);
}

TEST_CASE("every numeric option rejects invalid numbers with an error that names the option") {
  std::size_t options = 0;
  CLI::App program;
  add_commands(program);
  for (const Command& command : all_commands()) {
    for (const CLI::Option* option : program.get_subcommand(command.name)->get_options()) {
      const bool whole = option->get_type_name().starts_with("UINT");
      const bool real = option->get_type_name().starts_with("FLOAT");
      if (!option->nonpositional() || (!whole && !real)) continue;
      ++options;
      const std::string name = option->get_name();
      for (const std::string value : {"", "1x", " 1", "-1", "nan", "\xFF", whole ? "1.5" : "1,5",
                                      whole ? "9999999999999999999999999" : "1e999"}) {
        CAPTURE(name);
        CAPTURE(value);
        std::string mistake;
        try {
          CLI::App fresh;
          // `actions` owns the variables that parse() sets.
          const auto actions = add_commands(fresh);
          fresh.parse(std::vector<std::string>{value, name, "runs/tiny", command.name});
        } catch (const CLI::ParseError& error) {
          mistake = error.what();
        }
        CHECK(contains(mistake, name + ": "));
      }
    }
  }
  CHECK(options >= 30);
}

// ---- Paths

struct BadPath {
  std::string what, path;
  std::function<void(const fs::path&)> make = [](const auto&) {};
};

void write_empty(const fs::path& path) { test::write_text(path, ""); }
void make_pipe(const fs::path& path) { REQUIRE(::mkfifo(path.c_str(), 0600) == 0); }

const std::vector<BadPath> bad_paths = {
    {"nothing", "nothing"},
    {"an empty folder", "folder", [](const auto& path) { fs::create_directory(path); }},
    {"a pipe as a checkpoint", "pipe.h5", make_pipe},
    {"a link to itself", "loop.h5", [](const auto& path) { fs::create_symlink("loop.h5", path); }},
    {"an empty config", "empty.yaml", [](const auto& path) { test::write_text(path, "\n[]\n"); }},
    // The paths below are tried with the representative commands only.
    {"a missing config", "nothing.yaml"},
    {"a missing checkpoint", "nothing.h5"},
    {"a path through a file", "tiny.yaml/x"},
    {"a name of 300 bytes", std::string(300, 'x')},
    {"a path of 5,000 bytes",
     []() {
       std::string path;
       while (path.size() < 5000) path += "folder/";
       return path;
     }()},
    {"a name with a line feed", "a\nb"},
    {"a name that is not UTF-8", "caf\xE9"},
    {"a name like an option", "./--json"},
    {"an empty file", "empty", write_empty},
    {"an empty checkpoint", "empty.h5", write_empty},
    {"random bytes", "bytes.h5",
     [](const auto& path) { test::write_text(path, "\x7f\x45LF\x02\x01\x01\xff\xfe"); }},
    {"a link to nothing", "dangling",
     [](const auto& path) { fs::create_symlink("nowhere", path); }},
    {"a pipe as a config", "pipe.yaml", make_pipe},
    {"a socket", "socket.h5",
     [](const auto& path) { REQUIRE(::mknod(path.c_str(), S_IFSOCK | 0600, 0) == 0); }},
    {"a device", "/dev/zero"},
    {"a file of a terabyte", "huge.h5",
     [](const auto& path) {
       test::write_text(path, "TAPESTRY");
       fs::resize_file(path, std::uintmax_t{1} << 40);
     }},
};

/// All commands that read a path. The first four are representative: they read a config, a run, a
/// model and a checkpoint.
const std::vector<std::string> readers = {"train",
                                          "train --resume",
                                          "check",
                                          "inspect",
                                          "evaluate",
                                          "translate",
                                          "classify",
                                          "fill",
                                          "tag",
                                          "generate",
                                          "gradcheck",
                                          "attention",
                                          "report",
                                          "plan",
                                          "explain",
                                          "errors",
                                          "replay --step 1",
                                          "diff runs/tiny",
                                          "config diff tiny.yaml",
                                          "config explain",
                                          "watch",
                                          "runs",
                                          "sweep train.seed=1..2",
                                          "average mean.h5",
                                          "score"};
constexpr std::size_t representative = 4;  ///< number of representative commands
constexpr std::size_t common = 5;          ///< number of bad paths that are tried with all commands

TEST_CASE("the list of readers has every command with an argument CONFIG, RUN or MODEL") {
  CLI::App program;
  for (const AddedCommand& added : add_commands(program)) {
    const auto has = [&](const char* name) {
      return added.app.get_option_no_throw(name) != nullptr;
    };
    if (!has("CONFIG") && !has("RUN") && !has("MODEL")) continue;
    const std::string name = added.command.name;
    const bool is_tried = std::ranges::any_of(readers, [&](const std::string& reader) {
      return reader == name || reader.starts_with(name + " ");
    });
    CHECK_MESSAGE(is_tried, name, " is not in `readers`");
  }
}

TEST_CASE("every command rejects every kind of path that it cannot use, and changes nothing") {
  const TrainedWorkplace work;
  for (const BadPath& bad : bad_paths) {
    if (!bad.path.starts_with('/') && bad.path != "huge.h5") bad.make(work / bad.path);
  }
  const auto huge = work.stream("huge.h5");  // not in the workplace, whose files are compared
  bad_paths.back().make(huge);
  const auto before = work.contents();
  for (std::size_t i = 0; i < bad_paths.size(); ++i) {
    CAPTURE(bad_paths[i].what);
    for (std::size_t j = 0; j < (i < common ? readers.size() : representative); ++j) {
      // `runs` accepts a folder without runs.
      if (readers[j] == "runs" && bad_paths[i].path == "folder") continue;
      CommandLine command(readers[j]);
      const bool is_sweep = command.words.front() == "sweep";
      command.words.insert(command.words.end() - (is_sweep ? 1 : 0),
                           bad_paths[i].path == "huge.h5" ? huge.string() : bad_paths[i].path);
      CAPTURE(readers[j]);
      const Outcome rejected = work.run(command);
      CHECK(rejected.code >= 2);
      CHECK(rejected.code <= 5);
      CHECK(rejected.err.starts_with("tapestry: error: "));
      CHECK(contains(rejected.err, "\nhint: "));
      CHECK_FALSE(contains(rejected.err, "this is a bug"));
      CHECK(rejected.out.empty());
    }
  }
  CHECK(work.contents() == before);
}

}  // namespace
}  // namespace tapestry
