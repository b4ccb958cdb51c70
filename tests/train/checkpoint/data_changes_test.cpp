// SPDX-License-Identifier: BSD-3-Clause
#include "train/checkpoint/data_changes.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "data/corpus.h"
#include "tests/support/contains.h"

namespace tapestry {
namespace {

/// The identity of a training and a validation file.
DataIdentity two_files() {
  return {.fingerprint = 1,
          .files = {{"data.train_text", {.bytes = 10, .digest = 0xA0}},
                    {"data.validation_text", {.bytes = 20, .digest = 0xB0}}}};
}

std::vector<std::string> changes(const std::vector<DataFile>& files) {
  Corpus corpus;
  corpus.files = files;
  std::vector<std::string> lines;
  for (const FileChange& change : changes_between(two_files(), corpus)) {
    lines.push_back(change.key + ": " + change.what);
  }
  return lines;
}

TEST_CASE("moved files with the same size and digest are unchanged") {
  CHECK(changes({{"data.train_text", "moved.txt", 10, 0xA0},
                 {"data.validation_text", "valid.txt", 20, 0xB0}})
            .empty());
}

TEST_CASE("each changed, new or missing file is reported with its old and new digest") {
  const auto changed = changes({{"data.train_text", "a\x1B.txt", 10, 0xA1},
                                {"data.validation_text", "valid.txt", 21, 0xB0}});
  REQUIRE(changed.size() == 2);
  CHECK(test::contains(changed[0],
                       "a\\x1B.txt (data.train_text): found 10 bytes with digest "
                       "00000000000000a1, expected 10 bytes with digest "
                       "00000000000000a0"));
  CHECK(test::contains(changed[1], "valid.txt (data.validation_text): found 21 bytes"));
  const auto others =
      changes({{"data.train_text", "a.txt", 10, 0xA0}, {"data.test_text", "t.txt", 5, 0xC0}});
  REQUIRE(others.size() == 2);
  CHECK(test::contains(others[0], "t.txt (data.test_text): found 5 bytes"));
  CHECK(test::contains(others[0], "expected no file"));
  CHECK(test::contains(others[1], "data.validation_text: found no file, expected 20 bytes"));
}

TEST_CASE("changed labels in a separate file are reported under the key of their images") {
  const DataIdentity before{.fingerprint = 1,
                            .files = {{"data.train_images", {.bytes = 10, .digest = 0xA0}},
                                      {"data.train_images.labels", {.bytes = 20, .digest = 0xB0}}}};
  const auto only_change = [&](const std::vector<DataFile>& files) {
    Corpus corpus;
    corpus.files = files;
    const std::vector<FileChange> changes = changes_between(before, corpus);
    REQUIRE(changes.size() == 1);
    CHECK(changes.front().key == "data.train_images");
    return changes.front().what;
  };
  CHECK(test::contains(only_change({{"data.train_images", "x.npy", 10, 0xA0},
                                    {"data.train_images.labels", "x.labels.npy", 20, 0xB1}}),
                       "x.labels.npy (data.train_images.labels): found 20 bytes"));
  CHECK(test::contains(only_change({{"data.train_images", "x.h5", 10, 0xA0}}),
                       "data.train_images.labels: found no file, expected 20 bytes"));
}

}  // namespace
}  // namespace tapestry
