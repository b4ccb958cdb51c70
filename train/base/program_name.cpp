#include "train/base/program_name.h"

#include <utility>

namespace tapestry {
namespace {

std::string& name_of_program() {
  static std::string name = "tapestry";
  return name;
}

}  // namespace

const std::string& program_name() { return name_of_program(); }

void set_program_name(std::string name) { name_of_program() = std::move(name); }

}  // namespace tapestry
