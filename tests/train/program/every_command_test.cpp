#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/contains.h"
#include "tests/train/refusal.h"
#include "train/cli/command.h"

/// Properties of all commands, whatever their arguments are named: every command with every kind of
/// path that it cannot use, and every option with values that are none.
namespace tapestry {
namespace {

using test::Arguments;
using test::contains;
using test::Outcome;
using test::TrainedWorkplace;

/// A refusal says where, what and what to do, prints no result, and changes nothing.
void check_is_refusal(const Outcome& refused) {
  CHECK((refused.code == 2 || refused.code == 3 || refused.code == 4 || refused.code == 5));
  CHECK(refused.err.starts_with("tapestry: error: "));
  CHECK(contains(refused.err, "\nhint: "));
  CHECK_FALSE(contains(refused.err, "this is a bug"));
  CHECK(refused.out.empty());
}

// ---- Paths.

struct BadPath {
  std::string what, path;
  std::function<void(const std::filesystem::path&)> make = [](const auto&) {};
};

void make_socket(const std::filesystem::path& path) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(path.parent_path());  // the name of a socket is short
  const int made = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.filename().c_str(), sizeof address.sun_path - 1);
  REQUIRE(::bind(made, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  ::close(made);
  std::filesystem::current_path(before);
}

const BadPath bad_paths[] = {
    {"nothing", "nothing"},
    {"nothing, with the ending of a config", "nothing.yaml"},
    {"nothing, with the ending of a checkpoint", "nothing.h5"},
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
    {"an empty folder", "folder",
     [](const auto& path) { std::filesystem::create_directory(path); }},
    {"an empty file", "empty", [](const auto& path) { test::write_text(path, ""); }},
    {"an empty config", "empty.yaml", [](const auto& path) { test::write_text(path, "\n[]\n"); }},
    {"an empty checkpoint", "empty.h5", [](const auto& path) { test::write_text(path, ""); }},
    {"random bytes", "bytes.h5",
     [](const auto& path) {
       test::write_text(path,
                        "\x7f"
                        "ELF\x02\x01\x01\xff\xfe");
     }},
    {"a link to nothing", "dangling",
     [](const auto& path) { std::filesystem::create_symlink("nowhere", path); }},
    {"a link to itself", "loop.h5",
     [](const auto& path) { std::filesystem::create_symlink("loop.h5", path); }},
    {"a pipe", "pipe.yaml", [](const auto& path) { REQUIRE(::mkfifo(path.c_str(), 0600) == 0); }},
    {"a pipe as a checkpoint", "pipe.h5",
     [](const auto& path) { REQUIRE(::mkfifo(path.c_str(), 0600) == 0); }},
    {"a socket", "socket.h5", make_socket},
    {"a device", "/dev/zero"},
};

/// The commands that read a run, a checkpoint or a config, with what else they need.
const std::vector<Arguments> readers = {
    {"train"},
    {"train", "--resume"},
    {"evaluate"},
    {"translate"},
    {"classify"},
    {"fill"},
    {"tag"},
    {"generate"},
    {"gradcheck"},
    {"check"},
    {"attention"},
    {"inspect"},
    {"report"},
    {"plan"},
    {"explain"},
    {"errors"},
    {"replay", "--step", "1"},
    {"diff", "runs/tiny"},
    {"config", "diff", "tiny.yaml"},
    {"config", "explain"},
    {"watch"},
    {"runs"},
    {"sweep"},
    {"average", "mean.h5"},
    {"score"},
};

TEST_CASE("every command refuses every kind of path that it cannot use, and changes nothing") {
  const TrainedWorkplace work;
  std::vector<BadPath> paths(std::begin(bad_paths), std::end(bad_paths));
  for (const BadPath& bad : paths) {
    if (!bad.path.starts_with('/')) bad.make(work / bad.path);
  }
  const auto huge = work.stream("huge.h5");  // not in the workplace, whose files are compared
  test::write_text(huge, "TAPESTRY");
  std::filesystem::resize_file(huge, std::uintmax_t{1} << 40);
  paths.push_back({"a file of a terabyte", huge});
  const auto before = work.contents();
  for (const BadPath& bad : paths) {
    CAPTURE(bad.what);
    for (Arguments arguments : readers) {
      CAPTURE(arguments);
      // It has no runs, which is no mistake.
      if (arguments.front() == "runs" && bad.path == "folder") continue;
      arguments.push_back(bad.path);
      if (arguments.front() == "sweep") arguments.emplace_back("train.seed=1..2");
      check_is_refusal(work.run(arguments));
    }
  }
  CHECK(work.contents() == before);
}

// ---- Options.

TEST_CASE("every numeric option refuses other text, and names itself") {
  const TrainedWorkplace work;
  const auto before = work.contents();
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
      for (const std::string& value :
           {std::string(), std::string("1x"), std::string(" 1"), std::string("-1"),
            std::string("nan"), std::string("\xFF"), std::string(whole ? "1.5" : "1,5"),
            whole ? std::string(25, '9') : std::string("1e999")}) {
        CAPTURE(name);
        CAPTURE(value);
        const Outcome refused = work.run({command.name, "runs/tiny", name, value});
        check_is_refusal(refused);
        CHECK(refused.code == 2);
        CHECK(contains(refused.err, name + ": "));
      }
    }
  }
  CHECK(options >= 30);
  CHECK(work.contents() == before);
}

}  // namespace
}  // namespace tapestry
