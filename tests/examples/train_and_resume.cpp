// SPDX-License-Identifier: BSD-3-Clause
// Trains a model from C++ with the trainer of the program `tapestry`, which writes a run directory.
// If the process ends before the run is finished, the same call resumes the run. The result has the
// same bytes as an uninterrupted run.
//
//   train_and_resume CONFIG RUN: for example configs/copy.yaml runs/copy

#include <tapestry.h>

#include <cstdio>
#include <string>

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s CONFIG RUN\n", argv[0]);
    return 2;
  }
  const tapestry::RunOptions options{.config = argv[1],
                                     .overrides = {"train.run_dir=" + std::string(argv[2])}};
  try {
    return tapestry::start_or_resume_run(options);
  } catch (const tapestry::UserError& error) {
    std::fprintf(stderr, "error: %s\nhint: %s\n", error.what(), error.hint().c_str());
    return static_cast<int>(exit_code(error));
  }
}
