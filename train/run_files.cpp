#include "train/run_files.h"

#include <algorithm>
#include <system_error>
#include <vector>

#include "train/recording/digest_log.h"
#include "train/recording/run_recording.h"
#include "train/recording/tensorboard_log.h"
#include "train/recording/time_use_log.h"

namespace tapestry {

std::uint64_t missing_files(const std::filesystem::path& run_directory,
                            const TrainOptions& options) {
  std::vector<std::filesystem::path> files{"train.log", "timing.csv", recording_file_name,
                                           time_use_file_name, "metrics.csv"};
  if (options.digest_every > 0) files.emplace_back(digest_file_name);
  if (options.tensorboard) {
    const std::filesystem::path folder = tensorboard_folder_name;
    for (const auto& each : {folder, folder / "train", folder / "validation"}) {
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
