#include "train/loop/run_files.h"

#include <algorithm>
#include <system_error>
#include <vector>

#include "train/loop/event_log.h"
#include "train/loop/tensorboard_log.h"

namespace tapestry {

std::uint64_t missing_files(const std::filesystem::path& run_directory,
                            const TrainOptions& options) {
  std::vector<std::filesystem::path> files{"train.log", events_file_name, "metrics.csv"};
  if (options.tensorboard) {
    const std::filesystem::path folder = tensorboard_folder_name;
    files.push_back(folder);
    for (const auto& each : {folder / "train", folder / "validation"}) {
      files.push_back(each);
      files.push_back(each / event_file_name);
    }
  }
  return static_cast<std::uint64_t>(std::ranges::count_if(files, [&](const auto& file) {
    std::error_code ignored;
    return !std::filesystem::exists(run_directory / file, ignored);
  }));
}

}  // namespace tapestry
