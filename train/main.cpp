#include "train/blas_threads.h"
#include "train/run_program.h"

int main(int argc, char** argv) {
  tapestry::restart_without_blas_threads(argv);
  return tapestry::run_program(argc, argv);
}
