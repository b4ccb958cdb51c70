#include "data/readers/corpus_text.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/data/refusal.h"
#include "tests/support/temporary_folder.h"

namespace tapestry {
namespace {

using test::contains;
using test::hint_of;
using test::refusal;
using test::TemporaryFolder;

using Lines = std::vector<std::pair<std::string, std::size_t>>;

Lines read_lines(CorpusText& text) {
  Lines lines;
  text.for_each_line(
      [&](std::string line, std::size_t number) { lines.emplace_back(std::move(line), number); });
  return lines;
}

TEST_CASE("CorpusText can be read repeatedly, and its digest is that of the bytes of the file") {
  const TemporaryFolder folder;
  CorpusText text("data.x", folder.write("x", "one\r\ntwo\n\nthree"));
  const Lines expected{{"one", 1}, {"two", 2}, {"", 3}, {"three", 4}};
  CHECK(read_lines(text) == expected);
  CHECK(read_lines(text) == expected);
  CHECK(text.size_now() == 15);
  CorpusText again("data.x", folder / "x");
  CHECK(again.digest() == text.digest());
  CHECK(again.digest().bytes == 15);
  Corpus corpus;
  again.record(corpus);
  const Corpus expected_files = [&] {
    Corpus read;
    read_corpus_lines("data.x", folder / "x", read);
    return read;
  }();
  CHECK(corpus.files == expected_files.files);
}

TEST_CASE("a text that changes between two passes is refused") {
  const TemporaryFolder folder;
  for (const bool by_digest : {true, false}) {
    CorpusText text("data.x", folder.write("x", "one\ntwo\n"));
    if (by_digest) {
      text.digest();
    } else {
      read_lines(text);
    }
    folder.write("x", "one\ntwp\n");
    CHECK(refusal([&] { read_lines(text); }) ==
          (folder / "x").string() + ": changed while it was read");
  }
}

TEST_CASE("if a text cannot be opened, the hint names the key") {
  const TemporaryFolder folder;
  CorpusText text("data.x", folder / "missing");
  CHECK(contains(refusal([&] { text.lines(); }), "cannot be read"));
  CHECK(contains(hint_of([&] { text.lines(); }), "(the key is data.x)"));
  CHECK(contains(hint_of([&] { text.digest(); }), "(the key is data.x)"));
  CHECK(text.size_now() == 0);
}

TEST_CASE("a text larger than memory is refused unless that is allowed") {
  const TemporaryFolder folder;
  const auto path = folder.write("x", "");
  std::filesystem::resize_file(path, largest_text);  // takes no space on the disk
  CorpusText text("data.x", path);
  CHECK(contains(refusal([&] { text.lines(); }), "the memory of this machine"));
  text.allow_any_size();
  CHECK(contains(refusal([&] { read_lines(text); }), "is NUL"));
  std::filesystem::resize_file(path, largest_text + 1);
  CHECK(contains(refusal([&] { read_lines(text); }), "expected at most"));
}

}  // namespace
}  // namespace tapestry
