#pragma once

#include <string>
#include <vector>

#include "train/config/config.h"

namespace tapestry {

/// The config of a trained model with other files of data, which may have moved or be what the
/// model is now to be shown.
///
/// path       names the model in errors
/// overrides  data.KEY=FILE; relative paths start at the working folder
/// throws     ConfigError if a key is not that of a data file, as the rest of the config belongs to
///            the weights; if a file is left out, or another one would leave what is held out of
///            the training file to be cut from it anew: the model may have learnt from it.
Config with_other_data(const std::string& path, const Config& trained,
                       const std::vector<std::string>& overrides);

}  // namespace tapestry
