#include "train/config/process_settings.h"

#include <cstdlib>
#include <string>

#include "autograd/instruction_set.h"
#include "autograd/kernels/parallel.h"
#include "train/config/domain.h"

namespace tapestry {
namespace {

bool is_set(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

void apply_kernels(KernelChoice choice, std::string_view saved) {
  if (choice != KernelChoice::automatic) return use_kernels(choice_name(choice));
  if (!is_set("TAPESTRY_KERNELS")) {
    for (const std::string_view name : compiled_kernels()) {
      const bool was_used = saved.starts_with("kernels " + std::string(name) + ",");
      if (was_used && processor_can_execute(name)) return use_kernels(name);
    }
  }
  use_kernels("auto");
}

void apply_matmul(Matmul choice, std::string_view saved) {
  const bool follows = choice == Matmul::automatic && !is_set("TAPESTRY_MATMUL");
  use_matmul(follows && saved.find("matmul OpenBLAS") != saved.npos ? Matmul::openblas : choice);
}

}  // namespace

void apply_process_settings(const TrainOptions& options, std::string_view saved) {
  kernels::set_num_threads(options.threads);
  apply_kernels(options.kernels, saved);
  apply_matmul(options.matmul, saved);
}

}  // namespace tapestry
