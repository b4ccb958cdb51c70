#include "train/storage/image_arrays.h"

#include <fmt/format.h>

#include <new>
#include <span>
#include <string>
#include <system_error>

#include "data/corpus.h"
#include "data/io/error.h"
#include "data/io/escape.h"
#include "train/platform/child_process.h"
#include "train/storage/described_images.h"
#include "train/storage/hdf5_dataset.h"

namespace tapestry {
namespace {

constexpr const char* how_to_store =
    "write both with h5py: file.create_dataset(\"images\", data=images.astype(\"float32\")), and "
    "\"labels\" as int64; without chunks or compression";

using Bytes = std::span<const std::byte>;

ArrayEntry find_array(const hdf5::File& file, const char* name) {
  if (hdf5::require(H5Lexists(file.get(), name, H5P_DEFAULT), "look for", name) == 0) {
    hdf5::refuse(name, "nothing", "a dataset of that name");
  }
  H5L_info_t link{};
  hdf5::require(H5Lget_info(file.get(), name, &link, H5P_DEFAULT), "look at", name);
  if (link.type != H5L_TYPE_HARD) hdf5::refuse(name, "a soft or external link", "a dataset");
  const hdf5::Object object(H5Oopen(file.get(), name, H5P_DEFAULT), "open", name);
  if (H5Iget_type(object.get()) != H5I_DATASET) hdf5::refuse(name, "a group", "a dataset");
  return hdf5::describe_dataset(object, name);
}

/// May crash.
std::string describe_arrays(Bytes file) {
  const hdf5::Session session;
  const hdf5::File opened = hdf5::open_image(file);
  return describe({.images = find_array(opened, "images"), .labels = find_array(opened, "labels")});
}

std::string describe_contained(Bytes file) {
  constexpr unsigned seconds = 10;
  constexpr std::size_t bytes = std::size_t{256} << 20;
  return run_contained([&] { return describe_arrays(file); }, seconds, bytes);
}

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& what,
                       const char* hint) {
  throw DataError(fmt::format("{}: {}", escaped(path.native()), what), hint);
}

/// throws  DataError for all that is wrong with the file or with looking at it.
std::string described_or_refused(const std::function<std::string(Bytes)>& described,
                                 const std::filesystem::path& path, Bytes file) try {
  return described(file);
} catch (const NotContained& error) {
  fail(path, fmt::format("HDF5 could not look at it: {}", error.what()),
       "the file is damaged: write it anew");
} catch (const std::bad_alloc&) {
  throw;
} catch (const std::system_error& error) {
  fail(path, fmt::format("no process could be started to look at it: {}", error.code().message()),
       "end other programs, or raise the limit on processes (ulimit -u)");
} catch (const std::exception& error) {
  fail(path, escaped(error.what()), how_to_store);
}

}  // namespace

ImageFile read_image_arrays(const char* key, const std::filesystem::path& path,
                            const ImageOptions& options, Corpus& corpus) {
  return read_image_arrays_by(describe_contained, key, path, options, corpus);
}

ImageFile read_image_arrays_by(const std::function<std::string(Bytes)>& described, const char* key,
                               const std::filesystem::path& path, const ImageOptions& options,
                               Corpus& corpus) {
  const std::vector<std::byte> file = read_corpus_bytes(key, path, corpus);
  const std::string description = described_or_refused(described, path, file);
  return read_described_images(path, file, description, options);
}

}  // namespace tapestry
