// SPDX-License-Identifier: BSD-3-Clause
#include "train/checkpoint/run_id.h"

#include <fmt/format.h>

#include <string>

#include "autograd/tensor.h"
#include "data/io/file.h"
#include "train/config/fields.h"

namespace tapestry {
namespace {

/// The keys that identify a run, as lines `key: value`.
std::string identifying_lines(const Config& config) {
  std::string lines;
  for (const Field& field : fields_of(config)) {
    const bool kept = field.policy.stored && field.policy.change != ChangeRule::free;
    if (kept && !field.domain.is_file()) {
      lines += fmt::format("{}: {}\n", field.path(), field.printed());
    }
  }
  return lines;
}

void add(Xxh3& digest, const Parameters& parameters) {
  for (const NamedTensor& parameter : parameters.list()) {
    digest.add(parameter.name.data(), parameter.name.size());
    dispatch(parameter.tensor.dtype(), [&]<class T>() {
      const auto values = parameter.tensor.template values<T>();
      digest.add(values.data(), values.size_bytes());
    });
  }
}

}  // namespace

std::string make_run_id(const Config& config, const Corpus& corpus, const Model* pretrained) {
  Xxh3 digest;
  const std::string lines = identifying_lines(config);
  digest.add(lines.data(), lines.size());
  digest.add(&corpus.fingerprint, sizeof corpus.fingerprint);
  if (pretrained != nullptr) add(digest, pretrained->parameters);
  return fmt::format("{:016x}", digest.value());
}

}  // namespace tapestry
