// SPDX-License-Identifier: BSD-3-Clause
#include "tests/bench/serve.h"

#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <istream>
#include <nlohmann/json.hpp>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>

#include "autograd/error.h"
#include "tests/bench/measurements.h"
#include "tests/bench/step.h"

namespace tapestry::bench {
namespace {

using std::filesystem::path;

class File {
 public:
  explicit File(const path& name) : name_(name), stream_(name, std::ios::binary) {}

  template <class T>
  void write(std::span<const T> values) {
    stream_.write(reinterpret_cast<const char*>(values.data()),
                  static_cast<std::streamsize>(values.size_bytes()));
  }

  void close() {
    stream_.close();
    if (!stream_) {
      throw std::runtime_error(fmt::format("cannot write {}: {}", name_.string(),
                                           std::generic_category().message(errno)));
    }
  }

 private:
  path name_;
  std::ofstream stream_;
};

nlohmann::ordered_json description(const Problem& p, const Parameters& parameters) {
  nlohmann::ordered_json list = nlohmann::json::array();
  for (const NamedTensor& parameter : parameters) {
    const Shape& shape = parameter.tensor.shape();
    list.push_back({{"name", parameter.name},
                    {"shape", std::vector<std::size_t>(shape.begin(), shape.end())}});
  }
  return {{"problem",
           {{"name", p.name},
            {"vocabulary", p.vocabulary},
            {"d_model", p.d_model},
            {"num_heads", p.num_heads},
            {"d_ff", p.d_ff},
            {"num_encoder_layers", p.num_encoder_layers},
            {"num_decoder_layers", p.num_decoder_layers},
            {"batch", p.batch},
            {"length", p.length}}},
          {"parameters", list}};
}

void write_description(const path& name, const Problem& problem, const Parameters& parameters) {
  File file(name);
  const std::string text = description(problem, parameters).dump(1);
  file.write(std::span(text.data(), text.size()));
  file.close();
}

void write_parameters(const path& name, const Parameters& parameters) {
  File file(name);
  for (const NamedTensor& parameter : parameters) file.write(parameter.tensor.values<float>());
  file.close();
}

void write_ids(const path& name, const Ids& ids) {
  File file(name);
  file.write(std::span(ids.data(), ids.size()));
  file.close();
}

void write_batch(const path& directory, const Problem& problem, const Batch& batch) {
  if (problem.has_encoder()) write_ids(directory / "source.i32", batch.source.ids);
  write_ids(directory / "target.i32", batch.target.ids);
  write_ids(directory / "labels.i32", batch.labels);
}

std::size_t number_of_steps(const std::string& line) {
  std::size_t number = 0;
  const char* end = line.data() + line.size();
  const auto [last, error] = std::from_chars(line.data(), end, number);
  if (error != std::errc() || last != end || number == 0) {
    throw ValueError(
        fmt::format("the input has a line '{}', expected a number of steps > 0", line));
  }
  return number;
}

/// Runs the steps and returns their times, separated by spaces.
std::string timed(TrainingStep& step, std::size_t number) {
  std::string times;
  for (std::size_t i = 0; i < number; ++i) {
    const Timer timer;
    step.run();
    times += fmt::format("{}{:.9f}", i == 0 ? "" : " ", timer.seconds());
  }
  return times;
}

}  // namespace

void serve(const Problem& problem, const path& directory, std::istream& input,
           std::ostream& output) {
  TrainingStep step(problem);
  write_description(directory / "model.json", problem, step.parameters());
  write_parameters(directory / "parameters.f32", step.parameters());
  write_batch(directory, problem, step.batch());
  output << fmt::format("{:.9g}", step.evaluate()) << std::endl;
  for (std::string line; std::getline(input, line);) {
    output << timed(step, number_of_steps(line)) << std::endl;
  }
  output << nlohmann::json{{"peak_memory", peak_memory()}}.dump() << std::endl;
}

}  // namespace tapestry::bench
