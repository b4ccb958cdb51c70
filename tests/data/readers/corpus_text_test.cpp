// SPDX-License-Identifier: BSD-3-Clause
#include "data/readers/corpus_text.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/data/rejection.h"
#include "tests/support/temporary_folder.h"

namespace tapestry {
namespace {

using test::contains;
using test::hint_of;
using test::rejection;
using test::TemporaryFolder;

using Lines = std::vector<std::pair<std::string, std::size_t>>;

Lines read_lines(CorpusText& text) {
  Lines lines;
  text.for_each_line(
      [&](std::string line, std::size_t number) { lines.emplace_back(std::move(line), number); });
  return lines;
}

TEST_CASE("CorpusText can be read repeatedly, and digest() is the digest of the file") {
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
  Corpus expected_files;
  read_corpus_lines("data.x", folder / "x", expected_files, {});
  CHECK(corpus.files == expected_files.files);
}

TEST_CASE("a subword file that is too large is rejected before it is read") {
  const TemporaryFolder folder;
  const auto path = folder.write("m.model", "");
  std::filesystem::resize_file(path, std::uintmax_t{1} << 40U);  // a sparse file
  Corpus corpus;
  CHECK(contains(rejection([&] { read_subword_file("data.subword_file", path, corpus); }),
                 "found 1099511627776 bytes, expected at most 268435456"));
  CHECK(corpus.files.empty());
}

TEST_CASE("a text that changes between two passes is rejected") {
  const TemporaryFolder folder;
  for (const bool by_digest : {true, false}) {
    CorpusText text("data.x", folder.write("x", "one\ntwo\n"));
    if (by_digest) {
      text.digest();
    } else {
      read_lines(text);
    }
    folder.write("x", "one\ntwp\n");
    CHECK(rejection([&] { read_lines(text); }) ==
          (folder / "x").string() + ": changed while it was read");
  }
}

TEST_CASE("if a text cannot be opened, the hint names the key") {
  const TemporaryFolder folder;
  CorpusText text("data.x", folder / "missing");
  CHECK(contains(rejection([&] { text.lines(); }), "cannot be read"));
  CHECK(contains(hint_of([&] { text.lines(); }), "(the key is data.x)"));
  CHECK(contains(hint_of([&] { text.digest(); }), "(the key is data.x)"));
  CHECK(text.size_now() == 0);
}

TEST_CASE("a text larger than memory is rejected unless any size is allowed") {
  const TemporaryFolder folder;
  const auto path = folder.write("x", "");
  std::filesystem::resize_file(path, max_text_bytes);  // sparse: takes no space on the disk
  CorpusText text("data.x", path);
  CHECK(contains(rejection([&] { text.lines(); }), "the memory of this machine"));
  text.allow_any_size();
  CHECK(contains(rejection([&] { read_lines(text); }), "is NUL"));
  std::filesystem::resize_file(path, max_text_bytes + 1);
  CHECK(contains(rejection([&] { read_lines(text); }), "expected at most"));
}

// ---- TextSample

constexpr std::size_t overhead = TextSample::bytes_per_sentence;

/// A sample of the sentences "10000", "10001", ... with room for `kept` sentences.
std::vector<std::string> sample_of(std::size_t sentences, std::size_t kept) {
  TextSample sample(kept * (overhead + 5));
  for (std::size_t i = 0; i < sentences; ++i) sample.add(std::to_string(10'000 + i));
  CHECK(sample.is_partial() == (kept < sentences));
  CHECK(sample.added() == sentences);
  CHECK(sample.kept() == std::min(kept, sentences));
  return std::move(sample).take();
}

TEST_CASE("a text sample has all sentences that fit, in the order of the text") {
  CHECK(sample_of(3, 3) == std::vector<std::string>{"10000", "10001", "10002"});
  const std::vector<std::string> small = sample_of(1000, 50), large = sample_of(1000, 60);
  CHECK(small.size() == 50);
  CHECK(std::ranges::is_sorted(small));
  CHECK(std::ranges::includes(large, small));
}

TEST_CASE("sentences from all parts of a text are equally likely to be sampled") {
  const std::vector<std::string> sentences = sample_of(10'000, 1000);
  std::vector<int> of_tenth(10);
  for (const std::string& sentence : sentences) ++of_tenth[std::stoul(sentence) / 1000 - 10];
  for (const int count : of_tenth) CHECK(std::abs(count - 100) < 40);  // 4 standard deviations
}

TEST_CASE("a text sample counts the bytes of its sentences") {
  TextSample sample(4 * (overhead + 5));
  std::size_t long_ones = 0;
  for (std::size_t i = 0; i < 100; ++i)
    sample.add(std::string(i % 2 == 0 ? 5 : overhead + 10, 'x'));
  std::size_t bytes = 0;
  for (const std::string& sentence : std::move(sample).take()) {
    bytes += sentence.size() + overhead;
    long_ones += sentence.size() > 5 ? 1 : 0;
  }
  CHECK(bytes <= 4 * (overhead + 5));
  CHECK(bytes > 2 * (overhead + 5));
  CHECK(long_ones > 0);
}

TEST_CASE("a text sample omits a sentence only if it is larger than the limit") {
  TextSample sample(4 * (overhead + 5));
  sample.add("first");
  sample.add(std::string(1000, 'x'));
  sample.add("third");
  CHECK(sample.is_partial());
  CHECK(std::move(sample).take() == std::vector<std::string>{"first", "third"});
}

}  // namespace
}  // namespace tapestry
