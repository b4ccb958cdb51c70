// SPDX-License-Identifier: BSD-3-Clause
#include "data/examples.h"

#include <doctest/doctest.h>

#include <array>
#include <stdexcept>
#include <vector>

#include "data/batch.h"
#include "data/example_file.h"
#include "tests/support/temporary_folder.h"

namespace tapestry {
namespace {

const std::vector<Example> three{{.source = {4, 5}, .target = {6}},
                                 {.source = {7}, .target = {8, 9}},
                                 {.source = {4}, .target = {5}}};

std::vector<Example> all_of(const Examples& examples) {
  std::vector<Example> all;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    all.push_back(examples[i]);
    CHECK(examples.lengths(i).source == all.back().source.size());
    CHECK(examples.lengths(i).target == all.back().target.size());
  }
  return all;
}

struct FileOfThree {
  FileOfThree() {
    ExampleFileWriter writer(folder / "x", 10);
    for (const Example& example : three) writer.add(example, 1);
    writer.finish(1, {3}, {});
  }

  test::TemporaryFolder folder;
};

TEST_CASE("a vector and a file return the same examples") {
  const FileOfThree of;
  const ExampleFile file(of.folder / "x", 1, 10);
  CHECK(all_of(Examples(three)) == three);
  CHECK(all_of(Examples(file)) == three);
  CHECK(Examples(three).in_memory());
  CHECK_FALSE(Examples(file).in_memory());
  Example buffer;
  CHECK(&Examples(three).read(1, buffer) == &three[1]);
  CHECK(&Examples(file).read(1, buffer) == &buffer);
  CHECK(buffer == three[1]);
  CHECK(Examples(std::vector<Example>()).empty());
}

TEST_CASE("each part is repeated by its weight before the next part begins") {
  const FileOfThree of;
  const ExampleFile file(of.folder / "x", 1, 10);
  const std::vector<WeightedExamples> parts{{.count = 2, .weight = 2}, {.count = 1, .weight = 3}};
  const std::vector<Example> expected{three[0], three[1], three[0], three[1],
                                      three[2], three[2], three[2]};
  CHECK(all_of(Examples(std::span(three), parts)) == expected);
  CHECK(all_of(Examples(file, {}, parts)) == expected);
  CHECK(Examples(file, {}, parts).stored_index(3) == 1);
  CHECK(Examples(file, {}, parts).stored_index(6) == 2);
  CHECK_THROWS_AS(Examples(std::span(three).first(2), parts), std::invalid_argument);
}

TEST_CASE("`kept` selects examples before weights are applied") {
  const FileOfThree of;
  const ExampleFile file(of.folder / "x", 1, 10);
  const std::array<std::uint32_t, 2> kept{0, 2};
  const std::vector<WeightedExamples> parts{{.count = 1, .weight = 1}, {.count = 1, .weight = 2}};
  CHECK(all_of(Examples(file, kept)) == std::vector<Example>{three[0], three[2]});
  CHECK(all_of(Examples(file, kept, parts)) == std::vector<Example>{three[0], three[2], three[2]});
}

TEST_CASE("for_each() visits every stored example once") {
  const FileOfThree of;
  const ExampleFile file(of.folder / "x", 1, 10);
  const std::array<std::uint32_t, 1> kept{2};
  const std::vector<WeightedExamples> parts{{.count = 3, .weight = 2}};
  for (const Examples& examples : {Examples(file, kept), Examples(std::span(three), parts)}) {
    std::vector<Example> found;
    examples.for_each([&](const Example& example) { found.push_back(example); });
    CHECK(found == three);
  }
}

TEST_CASE("a file gives the same batches as a vector, and repeated examples get different masks") {
  const FileOfThree of;
  const ExampleFile file(of.folder / "x", 1, 10);
  const std::array<std::size_t, 3> indices{2, 0, 1};
  CHECK(make_batch(Examples(file), indices) == make_batch(three, indices));

  const std::vector<Example> one{{.target = std::vector<std::int32_t>(200, 5)}};
  const std::vector<WeightedExamples> twice{{.count = 1, .weight = 2}};
  const std::array<std::size_t, 2> both{0, 1};
  const Batch masked = make_batch(Examples(std::span(one), twice), both,
                                  {.layout = masked_rows, .vocabulary = 10, .seed = 3});
  const std::vector<std::int32_t> first(masked.labels.begin(), masked.labels.begin() + 200);
  const std::vector<std::int32_t> second(masked.labels.begin() + 200, masked.labels.end());
  CHECK(first != second);
}

}  // namespace
}  // namespace tapestry
