#include "data/letter_case.h"

#include <doctest/doctest.h>

#include <initializer_list>
#include <utility>

using namespace tapestry;

TEST_CASE("capitals of European languages become small letters") {
  CHECK(to_lowercase("Hello WORLD") == "hello world");
  CHECK(to_lowercase("Äpfel ÖL Übung ÑANDÚ ÇA ÞÓR ÀÖØ") == "äpfel öl übung ñandú ça þór àöø");
  CHECK(to_lowercase("ŁÓDŹ ŻÓŁW ČESKÝ ŘEKA ŸVES ĹŇ ŒUVRE ȚARĂ ȘI") ==
        "łódź żółw český řeka ÿves ĺň œuvre țară și");
  CHECK(to_lowercase("ΑΘΉΝΑ МОСКВА ЁЖ ЇЖАК") == "αθήνα москва ёж їжак");
  CHECK(to_lowercase("VIỆT STRAẞE") == "việt straße");
}

TEST_CASE("everything that is no capital stays as it is") {
  for (const char* text : {"", "abc 123 .,!", "äöüß éèê ÿ", "×÷", "漢字 😀", "ĸŉſ", "αω"}) {
    CHECK(to_lowercase(text) == text);
  }
}

TEST_CASE("the ends of the ranges and their neighbours are mapped right") {
  const std::initializer_list<std::pair<char32_t, char32_t>> expected = {
      {0x40, 0x40},     {0x41, 0x61},       {0x5A, 0x7A},   {0x5B, 0x5B},   {0xBF, 0xBF},
      {0xC0, 0xE0},     {0xD6, 0xF6},       {0xD7, 0xD7},   {0xD8, 0xF8},   {0xDE, 0xFE},
      {0xDF, 0xDF},     {0x100, 0x101},     {0x101, 0x101}, {0x12F, 0x12F}, {0x130, 0x69},
      {0x131, 0x131},   {0x137, 0x137},     {0x138, 0x138}, {0x139, 0x13A}, {0x148, 0x148},
      {0x14A, 0x14B},   {0x177, 0x177},     {0x178, 0xFF},  {0x1A0, 0x1A1}, {0x1AF, 0x1B0},
      {0x17D, 0x17E},   {0x17F, 0x17F},     {0x3A2, 0x3A2}, {0x3A9, 0x3C9}, {0x40F, 0x45F},
      {0x410, 0x430},   {0x42F, 0x44F},     {0x430, 0x430}, {0x1E9E, 0xDF}, {0x1EFE, 0x1EFF},
      {0x1EFF, 0x1EFF}, {0x1F600, 0x1F600},
  };
  for (const auto& letter : expected) {
    CAPTURE(static_cast<std::uint32_t>(letter.first));
    CHECK(to_lowercase(letter.first) == letter.second);
  }
}
