#include "tests/durability/attack_files.h"

#include <doctest/doctest.h>

#include <fstream>
#include <set>
#include <string>

#include "tests/support/temporary_folder.h"
#include "tests/train/program.h"
#include "tests/train/refusal.h"
#include "train/error.h"
#include "train/storage/checkpoint_file.h"

namespace tapestry {
namespace {

using test::Attack;
using test::TemporaryFolder;

/// The real file system, with a record of what was opened.
class RecordingFileSystem : public FileSystem {
 public:
  std::set<std::string> opened;

  int open(const char* path, int flags, mode_t mode) override {
    opened.insert(path);
    return FileSystem::open(path, flags, mode);
  }
};

/// A file on the disk, beside a secret that the attacks try to reach.
struct HostileFile {
  TemporaryFolder folder;
  std::string path = folder / "step-00000001.h5";

  void replace(const std::vector<std::byte>& bytes) const {
    std::filesystem::remove(path);
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }

  /// What an action that takes a file system says of the file, which is all that it opens.
  template <class E>
  std::string refusal(const auto& action) const {
    RecordingFileSystem files;
    std::string text = "accepted";
    try {
      action(files);
    } catch (const E& error) {
      text = std::string(error.what()).substr(path.size());
    }
    CHECK(files.opened == std::set<std::string>{path});
    return text;
  }
  std::string reading() const {
    return refusal<DamagedCheckpoint>(
        [&](FileSystem& files) { read_checkpoint(path, 1 << 24, files); });
  }
  std::string verifying() const {
    return refusal<DamagedCheckpoint>(
        [&](FileSystem& files) { verify_checkpoint(path, 1 << 24, files); });
  }
};

TEST_CASE("an HDF5 file that is no checkpoint is refused and causes no other file to be opened") {
  const HostileFile file;
  for (const Attack& attack : test::attacks((file.folder / "secret").string())) {
    CAPTURE(attack.name);
    file.replace(test::raw_file(attack));
    const std::string expected =
        ": not a Tapestry checkpoint: found an HDF5 file without Tapestry's envelope, expected "
        "'TAPESTRY'";
    CHECK(file.reading() == expected);
    CHECK(file.verifying() == expected);
  }
}

TEST_CASE("with a valid envelope only the table is read, and the HDF5 part fails verification") {
  const HostileFile file;
  for (const Attack& attack : test::attacks((file.folder / "secret").string())) {
    CAPTURE(attack.name);
    const auto bytes = test::wrapped_file(attack);
    file.replace(bytes);
    CHECK(file.reading() == "accepted");
    const Snapshot snapshot = read_checkpoint(file.path);
    CHECK(snapshot.size() == 1);
    CHECK(snapshot.get_text("x") == "\x89HDF\r\n\x1a\n");
    CHECK(file.verifying() == ": " + attack.refusal);
  }
}

TEST_CASE("a group of very many links is refused") {
  const HostileFile file;
  const Attack attack = test::many_links(20'000);
  file.replace(test::wrapped_file(attack));
  CHECK(file.verifying() == ": " + attack.refusal);
}

TEST_CASE("an attack that is cut anywhere and sealed again is refused") {
  const HostileFile file;
  const Attack attack = test::attacks((file.folder / "secret").string()).front();
  const auto whole = test::wrapped_file(attack);
  for (std::size_t size = 1024 + 8; size < whole.size(); size += 41) {
    CAPTURE(size);
    auto cut = whole;
    cut.resize(size);
    test::reseal(cut, whole);
    file.replace(cut);
    CHECK(file.verifying() != "accepted");
  }
}

TEST_CASE("the program refuses HDF5 files that are no checkpoints") {
  const test::TrainedWorkplace work;
  for (const Attack& attack : test::attacks((work / "tiny.yaml").string())) {
    CAPTURE(attack.name);
    const auto bytes = test::raw_file(attack);
    work.write("x.h5", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    test::check_refusal(work, {"inspect", "x.h5"}, 4,
                        "x.h5: not a Tapestry checkpoint: found an HDF5 file without Tapestry's "
                        "envelope, expected 'TAPESTRY'\n"
                        "hint: give a file that `tapestry train` wrote, such as step-00001000.h5");
  }
}

TEST_CASE("the program refuses files of images that refer to other files, with exit code 3") {
  const test::TrainedWorkplace work;
  work.write("images.yaml",
             "data: {task: images, train_images: x.h5}\nmodel: {kind: vision_transformer}\n");
  for (const Attack& attack : test::image_attacks((work / "tiny.yaml").string())) {
    CAPTURE(attack.name);
    const auto bytes = test::raw_file(attack);
    work.write("x.h5", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    test::check_refusal(
        work, {"train", "images.yaml"}, 3,
        (work / "x.h5").string() + ": " + attack.refusal +
            "\nhint: write both with h5py, with gzip or without compression: h5py.File(path, "
            "\"w\").create_dataset(\"images\", data=images, compression=\"gzip\"), and \"labels\" "
            "as integers or text");
  }
}

TEST_CASE("the program refuses an attack in a valid envelope for its missing arrays") {
  const test::TrainedWorkplace work;
  const auto bytes = test::wrapped_file(test::attacks((work / "tiny.yaml").string()).front());
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::string hint = "\nhint: use the config and the program that wrote the checkpoint";
  work.write("x.h5", text);
  for (const char* command : {"evaluate", "translate"}) {
    test::check_refusal(work, {command, "x.h5"}, 4,
                        "x.h5: config: found nothing, expected an array" + hint);
  }
  test::check_refusal(work, {"inspect", "x.h5"}, 4,
                      "x.h5: program_version: found nothing, expected an array" + hint);
}

}  // namespace
}  // namespace tapestry
