#include "train/report/held_out_errors.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/support/contains.h"

namespace tapestry {
namespace {

using test::contains;

TEST_CASE("errors of classes have the most frequent confusions and the lowest recall") {
  HeldOutAccuracy accuracy{.examples = 100, .labels = 100, .hits = 80};
  accuracy.confusion = {.classes = {"a", "b", "c"}, .counts = {40, 2, 8, 0, 30, 0, 9, 1, 10}};
  CHECK(describe_errors(accuracy, "test", "images") ==
        "Errors: the prediction is wrong for 20 of 100 images of the test set (20.0 %). Most "
        "frequent confusions: c predicted as a (9 of 20 errors), a as c (8). Lowest recall: "
        "50.0 % of the 20 images of class c.");
  accuracy.confusion.counts = {40, 0, 0, 0, 30, 0, 1, 0, 0};
  CHECK(contains(describe_errors(accuracy, "test", "images"),
                 "Lowest recall: 0.0 % of the 1 image of class c."));
  accuracy.examples = 9;
  accuracy.confusion.counts = {40, 0, 0, 0, 30, 0, 1, 0, 1};
  CHECK(contains(describe_errors(accuracy, "test", "sentences"),
                 "Lowest recall: 50.0 % of the 2 labels of class c."));
}

TEST_CASE("confusions that occur once are not named, and rare classes together neither") {
  HeldOutAccuracy accuracy{.examples = 20, .labels = 20, .hits = 10};
  accuracy.confusion = {.classes = {"a", "b", Confusion::other_classes},
                        .counts = {5, 1, 3, 1, 5, 1, 3, 1, 0}};
  const std::string text = describe_errors(accuracy, "test", "images");
  CHECK_FALSE(contains(text, "confusion"));
  CHECK(contains(text, "Lowest recall: 55.6 % of the 9 images of class a."));
  accuracy.confusion.counts[1] = 2;
  CHECK(contains(describe_errors(accuracy, "test", "images"),
                 "Most frequent confusion: a predicted as b (2 of 10 errors). "));
}

TEST_CASE("no errors are a finding as well") {
  const HeldOutAccuracy accuracy{.examples = 4, .labels = 12, .hits = 12};
  CHECK(describe_errors(accuracy, "validation", "pairs") ==
        "No errors: the prediction is right for all 12 labels of the validation set.");
}

TEST_CASE("errors of tokens have the lengths and frequencies where they concentrate") {
  HeldOutAccuracy accuracy{.examples = 3, .labels = 1000, .hits = 900};
  accuracy.frequency_of_training = true;
  accuracy.by_length = {{"1-5", 12, 2}, {"6-10", 888, 838}, {"11", 100, 60}};
  accuracy.by_frequency = {{"0", 40, 0}, {"1-3", 60, 30}, {"4-15", 900, 870}};
  accuracy.losses = {{.labels = 0}, {.labels = 5, .hits = 5}, {.labels = 6, .hits = 5}};
  CHECK(describe_errors(accuracy, "test", "pairs") ==
        "Errors: the prediction is wrong for 100 of 1,000 labels of the test set (10.0 %); 1 of 3 "
        "pairs have none. In examples of 11 tokens, 40.0 % of the labels are wrong (40.0 % of all "
        "errors). Of tokens that occur 0 times in the training set, 100.0 % are wrong (40.0 % of "
        "all errors).");
  accuracy.frequency_of_training = false;
  CHECK(contains(describe_errors(accuracy, "test", "pairs"), "occur 0 times in the test set"));
}

TEST_CASE("errors that are spread evenly concentrate nowhere") {
  HeldOutAccuracy accuracy{.examples = 2, .labels = 200, .hits = 100};
  accuracy.by_length = {{"1-5", 100, 50}, {"6-10", 100, 50}};
  accuracy.by_frequency = {{"1-3", 9, 0}, {"4-15", 191, 100}};  // too few errors
  CHECK(describe_errors(accuracy, "test", "pairs") ==
        "Errors: the prediction is wrong for 100 of 200 labels of the test set (50.0 %).");
}

}  // namespace
}  // namespace tapestry
