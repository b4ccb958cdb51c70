#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/meanwhile.h"
#include "tests/train/child_time.h"
#include "tests/train/memory_limit.h"
#include "tests/train/refusal.h"
#include "train/checkpoint/checkpoint_file.h"

/// What the program says to texts that are none, in files, on standard input and in checkpoints.
/// Each row is refused by its place and changes nothing.
namespace tapestry {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;
using test::Arguments;
using test::check_refusal;
using test::Outcome;
using test::Streams;
using test::TextWorkplace;
using test::TrainedWorkplace;

constexpr std::size_t mebibyte = std::size_t{1} << 20;

/// A text that is refused, and what is said behind its name.
struct BadText {
  std::string what;
  std::string text;
  std::string message;
};

const std::string unknown_encoding =
    "\nhint: convert the text to UTF-8, for example: iconv -f ISO-8859-1 -t UTF-8";
const std::string nul =
    " (0x00) is NUL, expected text\n"
    "hint: is this a binary file, or UTF-16? Convert it to UTF-8, for example: iconv -f UTF-16 -t "
    "UTF-8";
const std::string carriage_return =
    " (0x0D) is a carriage return without a line feed after it\n"
    "hint: make it end the line, with: tr '\\r' '\\n', or remove it, with: tr -d '\\r'";
const std::string mark =
    " (0xEF) is the start of a byte order mark, which belongs at the front of a file\n"
    "hint: remove it, with: sed 's/\\xEF\\xBB\\xBF//g'";
const std::string too_long =
    " the line is longer than 1048576 bytes, the limit\nhint: write one sentence a line";

std::string other_encoding(const std::string& name, const std::string& family) {
  return ": found " + name + ", expected UTF-8\nhint: convert it, with: iconv -f " + family +
         " -t UTF-8";
}

/// `good` is a line that is accepted.
std::vector<BadText> bad_texts(const std::string& good) {
  const std::string line = good + "\n";
  const auto byte = [&](std::size_t number) {
    return fmt::format(":2: byte {}", good.size() + number);
  };
  return {
      {"Latin-1", line + good + "\xE4\n", byte(1) + " (0xE4) is not UTF-8" + unknown_encoding},
      {"a cut character", line + good + "\xE2\x82",
       byte(1) + " (0xE2) is not UTF-8" + unknown_encoding},
      {"an overlong form", line + "\xC0\x80\n",
       ":2: byte 1 (0xC0) is not UTF-8" + unknown_encoding},
      {"a surrogate", line + "\xED\xA0\x80\n", ":2: byte 1 (0xED) is not UTF-8" + unknown_encoding},
      {"a NUL byte", line + good + "\0\n"s, byte(1) + nul},
      {"nothing but zeros", std::string(3 * mebibyte, '\0'), ":1: byte 1" + nul},
      {"a byte order mark at the front of a line", line + "\xEF\xBB\xBF" + line,
       ":2: byte 1" + mark},
      {"a byte order mark inside a line", line + good + "\xEF\xBB\xBF" + line, byte(1) + mark},
      {"two byte order marks", "\xEF\xBB\xBF\xEF\xBB\xBF" + line, ":1: byte 4" + mark},
      {"a carriage return inside a line", line + good + "\r" + line, byte(1) + carriage_return},
      {"line ends of two carriage returns", line + good + "\r\r\n", byte(1) + carriage_return},
      {"a carriage return at the end", line + good + "\r", byte(1) + carriage_return},
      {"UTF-16LE", "\xFF\xFE\x61\0\n\0"s, other_encoding("little-endian UTF-16", "UTF-16")},
      {"UTF-16BE", "\xFE\xFF\0\x61\0\n"s, other_encoding("big-endian UTF-16", "UTF-16")},
      {"UTF-32LE", "\xFF\xFE\0\0\x61\0\0\0"s, other_encoding("little-endian UTF-32", "UTF-32")},
      {"UTF-32BE", "\0\0\xFE\xFF\0\0\0\x61"s, other_encoding("big-endian UTF-32", "UTF-32")},
      {"a line over the limit", line + std::string(mebibyte + 1, 'x') + "\n", ":2:" + too_long},
      {"a line without an end", line + std::string(5 * mebibyte, 'x'), ":2:" + too_long},
  };
}

const std::vector<Arguments> readers_of_text = {
    {"train", "text.yaml", "train.run_dir=other"},
    {"train", "--resume", "runs/text", "train.steps=4"},
    {"check", "text.yaml"},
    {"check", "runs/text"},
    {"gradcheck", "text.yaml"},
    {"gradcheck", "runs/text"},
};

/// Those that do not leave out a training file that cannot be opened.
const std::vector<Arguments> readers_for_training = {
    {"train", "text.yaml", "train.run_dir=other"},
    {"train", "--resume", "runs/text", "train.steps=4"},
    {"check", "text.yaml"},
    {"gradcheck", "text.yaml"},
};

/// A workplace of two text files with a finished run.
struct TrainedTextWorkplace : TextWorkplace {
  TrainedTextWorkplace() { REQUIRE(run({"train", "text.yaml"}).code == 0); }
};

void check_all_readers(const TextWorkplace& work, const std::string& message,
                       const std::vector<Arguments>& readers = readers_of_text) {
  for (const Arguments& arguments : readers) {
    CAPTURE(arguments[0]);
    CAPTURE(arguments[1]);
    check_refusal(work, arguments, 3, message);
  }
}

TEST_CASE("a file that is no text is refused with line and byte") {
  const TrainedTextWorkplace work;
  for (const BadText& bad : bad_texts("ein Haus")) {
    CAPTURE(bad.what);
    work.write("train.de", bad.text);
    check_refusal(work, {"check", "runs/text"}, 3, work.at("train.de") + bad.message);
  }
}

TEST_CASE("each command checks each data file as strictly") {
  const TrainedTextWorkplace work;
  for (const char* name : {"train.de", "train.en", "valid.de", "valid.en"}) {
    CAPTURE(name);
    const std::string good = test::read_text(work / name);
    work.write(name, "\xFF\n");
    const std::string message = work.at(name) + ":1: byte 1 (0xFF) is not UTF-8" + unknown_encoding;
    check_all_readers(work, message);
    if (std::string_view(name).starts_with("valid")) {
      check_refusal(work, {"evaluate", "runs/text"}, 3, message);
    } else {
      CHECK(work.run({"evaluate", "runs/text"}).code == 0);
    }
    work.write(name, good);
  }
}

TEST_CASE("a pipe, device or folder in place of a text is refused without blocking") {
  const TrainedTextWorkplace work;
  const fs::path text = work / "train.de";
  const std::string no_text =
      ": found a pipe, socket or device, expected a text file\n"
      "hint: write the text to a file first: it is read more than once (the key is "
      "data.train_source)";
  const std::string unreadable =
      "\nhint: check the path and its permissions; a relative path starts at the folder of the "
      "config file, on the command line at the working folder";
  const std::string hint = unreadable + " (the key is data.train_source)";
  struct Row {
    std::string what;
    std::function<void()> put;
    std::string message;
    bool is_opened = false;
  };
  const Row rows[] = {
      {"nothing", [] {}, ": cannot be read: No such file or directory" + hint},
      {"a folder", [&] { fs::create_directory(text); },
       ": found a folder, expected a text file\nhint: name a file in this folder (the key is "
       "data.train_source)"},
      {"a pipe", [&] { ::mkfifo(text.c_str(), 0600); }, no_text},
      {"a socket", [&] { ::mknod(text.c_str(), S_IFSOCK | 0600, 0); }, no_text},
      {"an endless device", [&] { fs::create_symlink("/dev/zero", text); }, no_text},
      {"a full device", [&] { fs::create_symlink("/dev/full", text); }, no_text},
      {"a link to nothing", [&] { fs::create_symlink("nothing", text); },
       ": cannot be read: No such file or directory" + hint},
      {"a link to itself", [&] { fs::create_symlink("train.de", text); },
       ": cannot be read: Too many levels of symbolic links" + hint},
      {"a file with a read error", [&] { fs::create_symlink("/proc/self/mem", text); },
       ": cannot be read: Input/output error" + unreadable, true},
      {"an empty file", [&] { work.write("train.de", ""); },
       ": found an empty file, expected one sentence a line\nhint: name the file with the "
       "sentences",
       true},
      {"a byte order mark alone", [&] { work.write("train.de", "\xEF\xBB\xBF"); },
       ": found an empty file, expected one sentence a line\nhint: name the file with the "
       "sentences",
       true},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    fs::remove_all(text);
    row.put();
    check_all_readers(work, text.string() + row.message,
                      row.is_opened ? readers_of_text : readers_for_training);
  }
}

TEST_CASE("a text file without read permission is refused") {
  if (::geteuid() == 0) return;  // root reads everything
  const TrainedTextWorkplace work;
  fs::permissions(work / "train.de", fs::perms::none);
  const Outcome refused = work.run({"check", "runs/text"});
  CHECK(refused.code == 3);
  CHECK(refused.err.find("train.de: cannot be read: Permission denied\n") != std::string::npos);
}

TEST_CASE("texts that do not match are refused with the first line that cannot match") {
  const TrainedTextWorkplace work;
  const std::string hint =
      "\nhint: find the first line that does not match, there or before, or make the two files "
      "again from one source";
  const auto counts = [&](int source, int target, int line) {
    return fmt::format(
        "{}: {} lines, but {} has {}: line n of one must be the translation of line "
        "n of the other, and line {} is not{}",
        work.at("train.de"), source, work.at("train.en"), target, line, hint);
  };
  work.write("train.de", "ein haus\neine katze\nein hund\n");
  check_all_readers(work, counts(3, 2, 3));
  work.write("train.de", "ein haus\n\neine katze\n");
  check_all_readers(work, counts(3, 2, 2));
  work.write("train.de", "ein haus\n");
  check_all_readers(work, counts(1, 2, 2));
  work.write("train.de", "ein haus\n \n");
  check_all_readers(work, work.at("train.de") + ":2: the line is blank, but " +
                              work.at("train.en") +
                              ":2 is not\nhint: fill in the line, or delete it from both files");
  work.write("train.de", "\n\n");
  work.write("train.en", "\n\n");
  check_all_readers(work, "train: no sentence pair remains of " + work.at("train.de") + " and " +
                              work.at("train.en") +
                              "\nhint: every line is blank: name the files with the sentences");
}

TEST_CASE("Windows line ends, byte order marks and a missing last line end change nothing") {
  const TrainedTextWorkplace work;
  work.write("train.de",
             "\xEF\xBB\xBF"
             "ein haus\r\neine katze\r\n");
  work.write("valid.en", "a dog");
  REQUIRE(work.run({"train", "text.yaml", "train.run_dir=runs/windows"}).code == 0);
  CHECK(test::read_text(work / "runs/windows/metrics.csv") ==
        test::read_text(work / "runs/text/metrics.csv"));
}

TEST_CASE("a file larger than any text is refused before it is read") {
  const TrainedTextWorkplace work;
  fs::resize_file(work / "train.de", std::uint64_t{1} << 42);
  const Outcome refused = work.run({"check", "runs/text"});
  CHECK(refused.code == 3);
  CHECK(refused.err.starts_with("tapestry: error: " + work.at("train.de") +
                                ": found 4398046511104 bytes, expected at most 1099511627776\n"));
  CHECK(refused.err.ends_with(
      "hint: train on a part of the text, such as its first lines: head -n 1000000\n"));
}

TEST_CASE("a gigabyte in one line costs neither time nor memory") {
  const TrainedTextWorkplace work;
  work.write("train.de", std::string(2 * mebibyte, 'x'));
  fs::resize_file(work / "train.de", 1024 * mebibyte);
  const test::MemoryLimit limit(768 * mebibyte);
  const test::ChildTime time;
  const Outcome refused = work.run({"check", "runs/text"});
  CHECK(refused.code == 3);
  CHECK(refused.err == "tapestry: error: " + work.at("train.de") + ":1:" + too_long + "\n");
  CHECK(time.passed() < std::chrono::seconds(5));
}

TEST_CASE("a file that changes while it is read is refused") {
  const TrainedTextWorkplace work;
  work.write("train.de", std::string(mebibyte, '\n'));
  work.write("train.en", std::string(mebibyte, '\n'));
  const std::string path = work.at("train.de");
  const test::Meanwhile touch([&](long n) {
    const timespec times[] = {{0, n}, {0, n}};
    ::utimensat(AT_FDCWD, path.c_str(), times, 0);
  });
  const std::string message = "tapestry: error: " + path +
                              ": changed while it was read\n"
                              "hint: wait until the file is complete, then try again\n";
  Outcome refused;
  for (int attempt = 0; attempt < 20 && refused.err != message; ++attempt) {
    refused = work.run({"check", "runs/text"});  // the other thread may not get its turn at once
  }
  CHECK(refused.code == 3);
  CHECK(refused.err == message);
}

TEST_CASE("control characters in the name of a folder are escaped in messages") {
  const TextWorkplace work;
  const std::string folder = "a\nb\x1B[31m";
  fs::create_directory(work / folder);
  fs::copy(work / "text.yaml", work / (folder + "/text.yaml"));
  check_refusal(work, {"train", folder + "/text.yaml"}, 3,
                work.path().string() +
                    "/a\\nb\\x1B[31m/train.de: cannot be read: No such file or directory\n"
                    "hint: check the path and its permissions; a relative path starts at the "
                    "folder of the config file, on the command line at the working folder (the "
                    "key is data.train_source)");
}

TEST_CASE("translate refuses invalid text, after the translations of the lines before it") {
  const TrainedTextWorkplace work;
  const std::string translation = work.run({"translate", "runs/text"}, "ein Haus\n").out;
  REQUIRE_FALSE(translation.empty());
  const auto before = work.contents();
  for (const BadText& bad : bad_texts("ein Haus")) {
    CAPTURE(bad.what);
    const Outcome refused = work.run({"translate", "runs/text", "--long-lines", "stop"}, bad.text);
    CHECK(refused.code == 3);
    CHECK(refused.err == "tapestry: error: standard input" + bad.message + "\n");
    const bool begins_well = bad.text.starts_with("ein Haus\n");
    CHECK(refused.out == (begins_well ? translation : ""));
  }
  CHECK(work.contents() == before);
}

TEST_CASE("translate reads text with a byte order mark, Windows line ends and no last line end") {
  const TrainedTextWorkplace work;
  const std::string translation = work.run({"translate", "runs/text"}, "ein Haus\n").out;
  const Outcome done = work.run({"translate", "runs/text"},
                                "\xEF\xBB\xBF"
                                "ein Haus\r\nein Haus");
  CHECK(done.code == 0);
  CHECK(done.out == translation + translation);
}

TEST_CASE("a line of a megabyte is read, and refused for its number of tokens") {
  const TrainedTextWorkplace work;
  std::string line;
  while (line.size() + 2 <= mebibyte) line += "a ";
  check_refusal(work, {"translate", "runs/text", "--long-lines", "stop"}, 3,
                "standard input:1: found 524289 tokens with <eos>, expected at most 6 "
                "(model.max_length)\n"
                "hint: cut the line, or train a model with a larger model.max_length",
                line + "\n");
}

TEST_CASE("input that cannot be read, or never ends a line, is refused") {
  const TrainedTextWorkplace work;
  const std::string hint = "\nhint: give it text, one sentence a line, such as `< FILE`\n";
  const auto error_for = [&](const std::string& input) {
    const Outcome refused = work.run({"translate", "runs/text"}, Streams{.in = input});
    CHECK(refused.code == 3);
    CHECK(refused.out.empty());
    return refused.err;
  };
  const std::string name = "tapestry: error: standard input";
  CHECK(error_for(work.path()) == name + ": cannot be read: Is a directory" + hint);
  CHECK(error_for("") == name + ": cannot be read: Bad file descriptor" + hint);
  CHECK(error_for("/proc/self/mem") == name + ": cannot be read: Input/output error" + hint);
  CHECK(error_for("/dev/zero") == name + ":1: byte 1" + nul + "\n");
}

TEST_CASE("the program refuses an invalid vocabulary in a checkpoint with its line") {
  const TrainedWorkplace work;
  const ArrayStore good = read_checkpoint(work / work.checkpoint(12));
  const std::string head = "<pad>\n<unk>\n<bos>\n<eos>\n";
  const std::string hint =
      "\nhint: a vocabulary has one token a line, each once: <pad>, <unk>, <bos>, <eos>, then the "
      "words";
  const BadText rows[] = {
      {"nothing", "", "1: found nothing, expected <pad>"},
      {"no special symbols", "a\nb\n", "1: found 'a', expected <pad>"},
      {"a word twice", head + "a\nb\na\n", "7: found 'a', which line 5 has already"},
      {"a special symbol twice", head + "<eos>\n",
       "5: found the special symbol <eos> again, expected a word"},
      {"an empty line", head + "a\n\n", "6: found an empty token, expected a word"},
      {"Windows line ends", "<pad>\r\n", "1: found '<pad>\\r', expected <pad>"},
      {"a byte order mark", "\xEF\xBB\xBF" + head, "1: found '\uFEFF<pad>', expected <pad>"},
      {"white space", head + "a b\n", "5: found white space in the token 'a b'"},
      {"a byte that is not UTF-8", head + "\xFF\n", "5: found a token that is not UTF-8"},
      {"UTF-16", "\xFF\xFE<\0p\0"s,
       "1: found the end of the text after '\\xFF\\xFE<\\x00p\\x00', expected a line end (is the "
       "text cut off?)"},
      {"a cut text", head + "a\nb",
       "6: found the end of the text after 'b', expected a line end (is the text cut off?)"},
      {"a megabyte in one line", head + std::string(mebibyte, 'x'),
       "5: found the end of the text after '" + std::string(60, 'x') +
           "...', expected a line end (is the text cut off?)"},
  };
  for (const char* side : {"data/source_vocabulary", "data/target_vocabulary"}) {
    for (const BadText& bad : rows) {
      CAPTURE(bad.what);
      ArrayStore snapshot("bad.h5");
      for (const auto& [path, array] : good) {
        if (path != side) snapshot.put(path, array);
      }
      snapshot.put_text(side, bad.text);
      write_checkpoint(work / "bad.h5", snapshot);
      const std::string message = "bad.h5: "s + side + ": vocabulary: line " + bad.message + hint;
      for (const char* command : {"evaluate", "translate", "check", "gradcheck"}) {
        CAPTURE(command);
        check_refusal(work, {command, "bad.h5"}, 4, message);
      }
    }
  }
}

}  // namespace
}  // namespace tapestry
