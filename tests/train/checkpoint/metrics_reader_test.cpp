#include "train/checkpoint/metrics.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "tests/train/error_text.h"
#include "train/base/error.h"

namespace tapestry {
namespace {

const std::string heading = std::string(metrics_heading) + "\n";
const std::string training = "50,2,train,0.1,1.5,,,0.001,0.25,640\n";
const std::string validation = "100,3,validation,0.5,1.75,0.875,0.25,,,40\n";

/// What reading says about the text, behind the place; without its hint, which is always the same.
std::string refusal(const std::string& csv) {
  const std::string place = "x.h5: train/metrics: ";
  const std::string hint = "\nhint: use a checkpoint that this program wrote";
  const std::string text =
      test::error_text<CheckpointError>([&] { require_metrics(csv, "x.h5: train/metrics"); });
  if (!text.starts_with(place) || !text.ends_with(hint)) return text;
  return text.substr(place.size(), text.size() - place.size() - hint.size());
}

/// The same for a row of training in which one text is replaced.
std::string refusal_with(const std::string& replaced, const std::string& by) {
  std::string row = training;
  return refusal(heading + validation + row.replace(row.find(replaced), replaced.size(), by));
}

TEST_CASE("metrics are read as they were written, extreme and missing numbers included") {
  const double inf = std::numeric_limits<double>::infinity();
  MetricsTable table;
  CHECK_NOTHROW(require_metrics(table.csv(), ""));
  table.add({.step = std::numeric_limits<std::uint64_t>::max(),
             .loss = std::numeric_limits<double>::denorm_min(),
             .perplexity = inf,
             .learning_rate = -std::numeric_limits<double>::max(),
             .gradient_norm = std::nan("")});
  table.add_validation(1, 1, {.tokens = 4, .loss = -inf, .perplexity = -std::nan("")});
  table.add_validation(1, 1, {.tokens = 4, .loss = 1e-300, .others = {{"exact_match", 1}}});
  CHECK_NOTHROW(require_metrics(table.csv(), ""));
}

TEST_CASE("a metrics table with another header is refused") {
  CHECK(refusal("") == "line 1: found the end of the table after '', expected a line end");
  CHECK(refusal("step,loss\n" + training) ==
        "line 1: found 'step,loss', expected step,epoch,split,loss,perplexity,token_accuracy,"
        "exact_match,learning_rate,gradient_norm,target_tokens");
}

TEST_CASE("columns of other scores may follow, with names of small letters, digits and _") {
  const auto with_columns = [](const std::string& columns, const std::string& rows) {
    return refusal(std::string(metrics_heading) + columns + "\n" + rows);
  };
  CHECK(with_columns(",span_f1,b", "1,1,validation,1,2,0.5,,,,4,0.5,\n") == "nothing was thrown");
  CHECK(require_metrics(std::string(metrics_heading) + ",span_f1,b\n", "") ==
        std::vector<std::string>{"span_f1", "b"});
  for (const char* columns : {",", ",a,", ",,a", "a", ",A", ",=1", ",a b"}) {
    CAPTURE(columns);
    CHECK(with_columns(columns, "").starts_with("line 1: found 'step,"));
  }
  CHECK(with_columns(",a", "1,1,validation,1,2,0.5,,,,4\n") ==
        "line 2: found 10 fields, expected 11");
  CHECK(with_columns(",a", "1,1,validation,1,2,0.5,,,,4,x\n") ==
        "line 2: found a 'x' in a row of validation, expected a number or nothing");
  CHECK(with_columns(",a", "1,1,train,1,2,,,1,1,4,0.5\n") ==
        "line 2: found a '0.5' in a row of train, expected nothing");
}

TEST_CASE("a row with too many or too few fields is refused") {
  CHECK(refusal(heading + training + "1,1,train,2\n") == "line 3: found 4 fields, expected 10");
  CHECK(refusal(heading + "\n") == "line 2: found 1 fields, expected 10");
  CHECK(refusal_with("640", "640,") == "line 3: found 11 fields, expected 10");
}

TEST_CASE("a table cut within a row is refused, wherever that is") {
  const std::string table = heading + training + validation;
  for (std::size_t size = 0; size < table.size(); ++size) {
    CAPTURE(size);
    const bool whole = size == heading.size() || size == heading.size() + training.size();
    CHECK((refusal(table.substr(0, size)) == "nothing was thrown") == whole);
  }
  CHECK(refusal(heading + "50,2,tr") ==
        "line 2: found the end of the table after '50,2,tr', expected a line end");
}

TEST_CASE("a split that does not exist is refused") {
  CHECK(refusal_with("train", "test") ==
        "line 3: found split 'test', expected train or validation");
}

TEST_CASE("a field that is no number is refused with its column") {
  CHECK(refusal_with("50", "-50") ==
        "line 3: found step '-50' in a row of train, expected a whole number");
  CHECK(refusal_with("50", "18446744073709551616") != "nothing was thrown");
  CHECK(refusal_with("0.1", "") == "line 3: found loss '' in a row of train, expected a number");
  for (const char* text : {"=1+1", "1 ", " 1", "+1", "0x1", "1e", "1e999", "infinity", "NaN",
                           "nan(1)", "\"1\"", "1;2", "\x1b[2J"}) {
    CAPTURE(text);
    CHECK(refusal_with("0.1", text).starts_with("line 3: found loss '"));
  }
}

TEST_CASE("a number in a column that the split does not have is refused") {
  CHECK(refusal_with("1.5,,", "1.5,0.5,") ==
        "line 3: found token_accuracy '0.5' in a row of train, expected nothing");
  CHECK(refusal(heading + "1,1,validation,1,2,0.5,x,,,4\n") ==
        "line 2: found exact_match 'x' in a row of validation, expected a number or nothing");
  CHECK(refusal(heading + "1,1,validation,1,2,0.5,,0.1,,4\n") ==
        "line 2: found learning_rate '0.1' in a row of validation, expected nothing");
}

TEST_CASE("each column of each split accepts what the table writes there, and nothing else") {
  // w: a whole number; n: a number; o: a number or nothing; -: nothing; s: the split itself.
  const std::vector<std::string> names = {
      "step",           "epoch",       "split",         "loss",          "perplexity",
      "token_accuracy", "exact_match", "learning_rate", "gradient_norm", "target_tokens"};
  struct Split {
    std::string name, row, contents;
  };
  for (const Split& split :
       {Split{"train", training, "wwsnn--nnw"}, Split{"validation", validation, "wwsnnno--w"}}) {
    std::vector<std::string> fields;
    std::istringstream row(split.row.substr(0, split.row.size() - 1));
    for (std::string field; std::getline(row, field, ',');) fields.push_back(field);
    REQUIRE(fields.size() == names.size());
    for (std::size_t i = 0; i < names.size(); ++i) {
      const char content = split.contents[i];
      if (content == 's') continue;
      const std::string expected = content == 'w'   ? "a whole number"
                                   : content == 'n' ? "a number"
                                   : content == 'o' ? "a number or nothing"
                                                    : "nothing";
      for (const std::string value : {"", "7", "0.5"}) {
        const bool taken = value.empty()  ? content == 'o' || content == '-'
                           : value == "7" ? content != '-'
                                          : content == 'n' || content == 'o';
        std::string line;
        for (std::size_t j = 0; j < names.size(); ++j) {
          line += (j == 0 ? "" : ",") + (j == i ? value : fields[j]);
        }
        CHECK(refusal(heading + line + "\n") ==
              (taken ? "nothing was thrown"
                     : "line 2: found " + names[i] + " '" + value + "' in a row of " + split.name +
                           ", expected " + expected));
      }
    }
  }
}

TEST_CASE("control characters of a metrics table are escaped in errors") {
  CHECK(refusal_with("train", "\x1b[2J") ==
        "line 3: found split '\\x1B[2J', expected train or validation");
}

TEST_CASE("a MetricsTable is not continued from text that is not a table") {
  CHECK_THROWS_AS(MetricsTable("step,loss\n"), CheckpointError);
  CHECK(
      test::error_text<CheckpointError>([] { MetricsTable("x\n", "a.h5"); }).starts_with("a.h5: "));
}

}  // namespace
}  // namespace tapestry
