#include "train/storage/checkpoint_table.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "train/error.h"

namespace tapestry {
namespace {

constexpr DataRange data{.begin = 1024, .end = 2048};

std::vector<ArrayEntry> decode(std::span<const std::byte> table) {
  return decode_table(table, data, "x.h5");
}

std::string refusal(std::span<const std::byte> table) {
  try {
    decode(table);
  } catch (const DamagedCheckpoint& error) {
    return error.what();
  }
  return "accepted";
}

std::string refusal(const std::vector<ArrayEntry>& entries) {
  return refusal(std::span<const std::byte>(encode_table(entries)));
}

ArrayEntry bytes_at(const std::string& path, std::uint64_t offset, std::uint64_t size) {
  return {.path = path, .shape = {size}, .offset = offset, .size = size};
}

TEST_CASE("a table has the documented layout") {
  const ArrayEntry entry{.path = "a/b",
                         .type = ElementType::float64,
                         .shape = {1, 2},
                         .offset = 1024,
                         .size = 16,
                         .digest = 0x1122334455667788};
  const auto table = encode_table({entry});
  REQUIRE(table.size() == 8 + 32 + 2 * 8 + 8);
  CHECK(table[0] == std::byte{1});      // entries
  CHECK(table[9] == std::byte{4});      // offset: 0x400
  CHECK(table[16] == std::byte{16});    // size
  CHECK(table[24] == std::byte{0x88});  // digest
  CHECK(table[32] == std::byte{2});     // float64
  CHECK(table[33] == std::byte{2});     // axes
  CHECK(table[34] == std::byte{3});     // characters in the path
  CHECK(table[48] == std::byte{2});     // last axis
  CHECK(table[56] == std::byte{'a'});
  CHECK(table[59] == std::byte{0});
  CHECK(decode(table) == std::vector{entry});
}

TEST_CASE("an empty table and arrays without elements are restored") {
  CHECK(decode(encode_table({})).empty());
  const ArrayEntry scalar{.path = "s", .offset = 2047, .size = 1};
  const ArrayEntry empty{.path = "z", .type = ElementType::int32, .shape = {0, 3}};
  CHECK(decode(encode_table({scalar, empty})) == std::vector{scalar, empty});
}

TEST_CASE("the size of a table is known from the snapshot") {
  Snapshot snapshot;
  CHECK(table_size(snapshot) == encode_table({}).size());
  snapshot.put_text("a/long.path", "x");
  snapshot.put_scalar<float>("8letters", 0);
  const ArrayEntry text{.path = "a/long.path", .shape = {1}, .offset = 1024, .size = 1};
  const ArrayEntry scalar{.path = "8letters", .offset = 1032, .size = 4};
  CHECK(table_size(snapshot) == encode_table({text, scalar}).size());
}

TEST_CASE("a table cut at any length is refused, and so is a longer one") {
  const auto table = encode_table({bytes_at("a", 1024, 8), bytes_at("b", 1032, 8)});
  for (std::size_t size = 0; size < table.size(); ++size) {
    CAPTURE(size);
    CHECK_THROWS_AS(decode(std::span(table).first(size)), DamagedCheckpoint);
  }
  auto longer = table;
  longer.resize(table.size() + 8);
  const std::string place = "x.h5: table of contents: ";
  CHECK(refusal(std::span<const std::byte>(longer)) ==
        place + "found 8 bytes behind the last entry, expected none");
  // A count, then 32 bytes, an axis and a path of each array.
  CHECK(refusal(std::span<const std::byte>(table).first(8 + 48 + 16)) ==
        place + "found 16 bytes left, expected 32");
  CHECK(refusal(std::span<const std::byte>(table).first(8 + 40)) ==
        place + "found 0 bytes left, expected 8");
}

TEST_CASE("arrays outside the data are refused, also where offset and size overflow") {
  const std::uint64_t huge = ~std::uint64_t{0};
  CHECK(refusal({bytes_at("a", 1024, 1024)}) == "accepted");
  CHECK(refusal({bytes_at("a", 1024, 1025)}) ==
        "x.h5: table of contents: found a with 1025 bytes at 1024, expected all between 1024 and "
        "2048");
  CHECK(refusal({bytes_at("a", 1023, 1)}) != "accepted");
  CHECK(refusal({bytes_at("a", 2048, 1)}) != "accepted");
  CHECK(refusal({bytes_at("a", 1024, huge)}) != "accepted");
  CHECK(refusal({bytes_at("a", huge, 1)}) != "accepted");
  CHECK(refusal({bytes_at("a", 0, 1)}) != "accepted");
  CHECK(refusal({bytes_at("a", 0, 0)}) == "accepted");
  CHECK(refusal({bytes_at("a", 1, 0)}) != "accepted");
}

TEST_CASE("arrays that share bytes are refused") {
  CHECK(refusal({bytes_at("a", 1024, 8), bytes_at("b", 1032, 8)}) == "accepted");
  CHECK(refusal({bytes_at("b", 1031, 8), bytes_at("a", 1024, 8)}) ==
        "x.h5: table of contents: found a and b sharing bytes, expected bytes of their own");
}

TEST_CASE("element types that do not exist are refused") {
  CHECK(refusal({{.path = "a", .type = static_cast<ElementType>(7)}}) ==
        "x.h5: table of contents: found element type 7, expected 1 to 6");
  CHECK(refusal({{.path = "a", .type = static_cast<ElementType>(0)}}) != "accepted");
}

TEST_CASE("reserved bytes are refused unless they are zero") {
  auto table = encode_table({bytes_at("a", 1024, 8)});
  CHECK_NOTHROW(decode(table));
  table.back() = std::byte{1};
  CHECK(refusal(std::span<const std::byte>(table)) ==
        "x.h5: table of contents: found other bytes behind a path, expected zeros");
  table.back() = std::byte{0};
  table[8 + 28] = std::byte{5};
  CHECK(refusal(std::span<const std::byte>(table)) ==
        "x.h5: table of contents: found 5 in reserved bytes, expected 0");
}

TEST_CASE("control characters of an array path are escaped in errors") {
  CHECK(refusal({bytes_at("\x1b[2J", 0, 1)}) ==
        "x.h5: table of contents: found \\x1B[2J with 1 bytes at 0, expected all between 1024 and "
        "2048");
}

TEST_CASE("a table with fewer entries than it states is refused") {
  auto table = encode_table({bytes_at("a", 1024, 8)});
  table[7] = std::byte{0xff};
  CHECK_THROWS_AS(decode(table), DamagedCheckpoint);
}

}  // namespace
}  // namespace tapestry
