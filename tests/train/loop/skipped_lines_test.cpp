// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>
#include <hdf5.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "data/io/file.h"
#include "data/text/subwords.h"
#include "tests/support/contains.h"
#include "tests/support/threads.h"
#include "tests/train/program.h"
#include "tests/train/wiring/keys_tasks.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/checkpoint/run_directory.h"
#include "train/config/load.h"
#include "train/loop/progress.h"
#include "train/loop/trainer.h"
#include "train/tasks/data_source.h"
#include "train/tasks/task.h"
#include "train/tasks/task_data.h"

/// Tests that a run with data.on_bad_line=skip equals a run on files without the skipped lines.
/// Data stored with the examples (references, lines, corpus weights, segmentations) must belong to
/// the remaining examples.
namespace tapestry {
namespace {

using test::Outcome;
using test::read_text;
using Lines = std::vector<std::string>;
using Json = nlohmann::json;

/// The lines of `good`, with the lines of `bad` distributed before, between and after them.
Lines mixed(const Lines& good, const Lines& bad) {
  Lines all;
  for (std::size_t i = 0; i <= good.size(); ++i) {
    for (std::size_t b = 0; b < bad.size(); ++b) {
      if (b * good.size() / (bad.size() - 1) == i) all.push_back(bad[b]);
    }
    if (i < good.size()) all.push_back(good[i]);
  }
  return all;
}

/// A line with more tokens than the models have positions. `word` must be the most frequent word,
/// so that the order of the vocabulary does not depend on the line.
std::string overlong(const std::string& word) {
  std::string line = word;
  for (int i = 0; i < 40; ++i) line += " " + word;
  return line;
}

/// Images of 2 x 2 pixels and integer labels, as h5py writes them.
void write_images(const std::filesystem::path& path, const std::vector<std::int64_t>& labels) {
  std::vector<std::uint8_t> pixels;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    // The pixels depend on the parity of i, which is the same with and without the skipped images:
    // an
    // even number of them precedes each image.
    for (std::size_t k = 0; k < 4; ++k) {
      pixels.push_back(static_cast<std::uint8_t>((labels[i] * 37 + 50 * k * (i % 2 + 1)) % 256));
    }
  }
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const auto put = [&](const char* name, const std::vector<hsize_t>& shape, hid_t type,
                       const void* values) {
    const hid_t space = H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr);
    const hid_t set = H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    REQUIRE(H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    H5Dclose(set);
    H5Sclose(space);
  };
  put("images", {labels.size(), 2, 2}, H5T_NATIVE_UINT8, pixels.data());
  put("labels", {labels.size()}, H5T_NATIVE_INT64, labels.data());
  H5Fclose(file);
}

/// The folder `whole` contains unusable lines, and the folder `clean` does not. Each folder has the
/// files and the config NAME.yaml of every task that skips lines.
struct SkippedWorkplace : test::Workplace {
  SkippedWorkplace() {
    for (const bool clean : {false, true}) {
      const std::string folder = clean ? "clean/" : "whole/";
      std::filesystem::create_directory(*this / folder);
      const auto put = [&](const std::string& name, const Lines& good, const Lines& bad) {
        write(folder + name, test::joined(clean ? good : mixed(good, bad)));
      };
      std::uint64_t seed = 1;
      for (const std::string part : {"a", "b", "validation", "test"}) {
        const bool training = part.size() == 1;
        const std::size_t count = part == "a" ? 14 : 7;
        const Lines sources = test::word_lines(count, seed++, test::source_words);
        const Lines targets = test::word_lines(count, seed++, test::target_words);
        put(part + ".source", sources, {"", "mo ti", overlong("ka"), "ka", "", "su"});
        put(part + ".target", targets, {"id of", "", "ab", overlong("ab"), "um", " "});

        Lines labelled, tagged, table;
        for (std::size_t i = 0; i < count; ++i) {
          labelled.push_back((i % 3 == 0 ? "Up\t" : "down\t") + sources[i]);
          std::string sentence = sources[i];
          for (std::size_t at = 0; (at = sentence.find(' ', at)) != sentence.npos;) {
            sentence.replace(at, 1, i % 2 == 0 ? "\tverb\n" : "\tname\n");
          }
          tagged.push_back(sentence + "\tnoun\n");
          const std::string n = std::to_string(i % 7);
          table.push_back(n + "," + std::to_string(i % 3) + ",2," + n + (i % 2 ? ",odd" : ",even"));
        }
        tagged[0] = "ka\tname\nmo\tverb\n";  // a sentence with all labels
        Lines bad_labelled = {"no tab", "\tka", "Up\t" + overlong("ka"), "two words\tka"};
        std::string long_sentence;
        for (int i = 0; i < 41; ++i) long_sentence += "ka\tnoun\n";
        Lines bad_tagged = {"ka\n", "ti\tname\nka\n", long_sentence};
        Lines bad_table = {"1,x,2,1,odd", "1,2,odd", "1,2,3,4,"};
        std::vector<std::int64_t> labels(count), bad_labels;
        for (std::size_t i = 0; i < count; ++i) labels[i] = static_cast<std::int64_t>(3 + i % 2);
        if (!training) {
          bad_labelled.push_back("sideways\tka");
          bad_tagged.push_back("ka\tghost\n");
          bad_table.push_back("1,2,3,4,prime");
          // Two bad rows before each image preserve the parity of its index.
          if (!clean) {
            labels.clear();
            for (std::size_t i = 0; i < count; ++i) {
              labels.insert(labels.end(), {7, 9, static_cast<std::int64_t>(3 + i % 2)});
            }
          }
        }
        put(part + ".labels", labelled, bad_labelled);
        put(part + ".tags", tagged, bad_tagged);
        put(part + ".csv", table, bad_table);
        write_images(*this / (folder + part + ".h5"), labels);
      }
      const auto config = [&](const std::string& name, const std::string& data,
                              const std::string& model) {
        write(folder + name + ".yaml",
              "data: {on_bad_line: skip, " + data + "}\nmodel: {" + model +
                  ", d_model: 8, num_heads: 2, d_ff: 8, dropout: 0.1}\n"
                  "schedule: {learning_rate: 0.01}\n"
                  "train: {steps: 6, batch_size: 4, threads: 1, log_every: 2, validate_every: 2, "
                  "save_every: 3, dtype: float64}\n");
      };
      const auto files = [](const std::string& what, const std::string& extension, bool several) {
        return "train_" + what + ": " +
               (several ? "[a." + extension + ", b." + extension + "]" : "a." + extension) +
               ", validation_" + what + ": validation." + extension + ", test_" + what + ": test." +
               extension + ", ";
      };
      config("pairs",
             "task: parallel_text, " + files("source", "source", true) +
                 files("target", "target", true),
             "max_length: 30, num_encoder_layers: 1, num_decoder_layers: 1");
      const std::string encoder = "max_length: 30, num_encoder_layers: 1, kind: ";
      config("labels", "task: labelled_text, " + files("text", "labels", true),
             encoder + "classifier");
      config("tags", "task: tagged_text, " + files("text", "tags", false), encoder + "tagger");
      const std::string images = "task: images, image_height: 2, image_width: 2, ";
      const std::string vision =
          "max_length: 30, num_encoder_layers: 1, kind: vision_transformer, "
          "positions: learned, patch_size: 1";
      config("table", images + files("images", "csv", false) + "pixel_maximum: 9", vision);
      config("arrays", images + files("images", "h5", false), vision);
    }
    const auto model = [&](const std::string& name, SubwordKind kind, const Lines& of) {
      const Lines lines = test::word_lines(400, 3, of);
      write(name, train_subwords(lines, {.kind = kind, .vocabulary_size = 24}, "")->serialized());
    };
    model("source.model", SubwordKind::unigram, test::source_words);
    model("target.model", SubwordKind::unigram, test::target_words);
    model("bpe.model", SubwordKind::bpe, test::source_words);
  }

  Config config(const std::string& folder, const std::string& name, Lines overrides) const {
    for (std::string& each : overrides) {
      const std::size_t at = each.find('%');
      if (at != each.npos) each.replace(at, 1, path().string());
    }
    return load_config((*this / (folder + "/" + name + ".yaml")).string(), overrides);
  }
};

/// A file system without fsync, which would take most of the time.
class UnsyncedFiles : public FileSystem {
 public:
  int fsync(int) override { return 0; }
};

/// Results of a run.
struct Left {
  std::string metrics;
  ArrayStore last;
  std::string samples;                     ///< printed lines that are indented
  std::vector<std::size_t> weighted;       ///< number of examples of each corpus
  std::size_t examples = 0, held_out = 0;  ///< numbers of examples
};

Left trained(const Config& config) {
  const test::TemporaryFolder folder;
  const test::Threads threads(config.train.threads);
  const Corpus corpus = load_fitting_corpus(config);
  UnsyncedFiles files;
  RunDirectory directory(folder / "run", files);
  directory.create();
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* const screen = ::open_memstream(&text, &size);
  {
    Progress progress(screen, 0, config.train.steps);
    Trainer(config, corpus, directory, progress).run();
  }
  std::fclose(screen);
  std::istringstream lines(text);
  Left left{.metrics = read_text(folder / "run/metrics.csv"),
            .last = read_checkpoint(directory.checkpoint_path(config.train.steps)),
            .samples = "",
            .weighted = {},
            .examples = corpus.training().size(),
            .held_out = corpus.validation.size() + corpus.test.size()};
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  ")) left.samples += line + "\n";
  }
  std::free(text);
  for (const WeightedExamples& each : corpus.train_weights) left.weighted.push_back(each.count);
  return left;
}

struct SkipCase {
  std::string name;            ///< name of the config
  std::vector<Lines> options;  ///< overrides for each run
};

const Lines from_files = {"data.subwords=file", "data.subword_file=%/source.model",
                          "data.target_subword_file=%/target.model"};
const Lines from_file = {"data.subwords=file", "data.subword_file=%/source.model"};
const Lines from_bpe = {"data.subwords=file", "data.subword_file=%/bpe.model"};

Lines operator+(Lines a, const Lines& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const std::vector<SkipCase> cases = {
    {"pairs",
     {{},
      {"train.ema_decay=0.9"},
      {"train.keep_best=2", "train.best_metric=chrf"},
      {"train.average_last=2"},
      {"data.cache=always"},
      {"data.corpus_weights=[2, 1]"},
      {"data.corpus_weights=[1, 3]", "data.cache=always"},
      {"data.lowercase=true"},
      {"data.shared_vocabulary=true", "model.tie_embeddings=all"},
      {"data.min_frequency=2", "data.cache=always"},
      {"data.max_tokens=4"},
      {"data.max_tokens=4", "data.cache=always", "data.corpus_weights=[2, 1]"},
      {"train.batch_tokens=10", "train.batch_size=1"},
      {"train.batch_tokens=5", "train.batch_size=1", "data.cache=always"},
      {"train.exact_match_sequences=3"},
      {"train.exact_match_sequences=2", "train.bleu_tokenizer=char", "decoding.beam_size=2"},
      {"train.accumulate=2", "train.label_smoothing=0.1"},
      from_files,
      from_files + Lines{"data.subword_alpha=0.2"},
      from_files + Lines{"data.subword_alpha=0.2", "data.cache=always"},
      from_bpe + Lines{"data.shared_vocabulary=true", "data.subword_dropout=0.3"}}},
    {"labels",
     {{},
      {"train.ema_decay=0.9"},
      {"data.cache=always"},
      {"data.corpus_weights=[2, 1]", "data.cache=always"},
      {"data.lowercase=true"},
      {"train.batch_tokens=5", "train.batch_size=1"},
      from_file + Lines{"data.subword_alpha=0.2", "data.cache=always"}}},
    {"tags", {{}, {"train.ema_decay=0.9"}, {"train.batch_tokens=5", "train.batch_size=1"}}},
    {"table", {{}, {"train.ema_decay=0.9"}}},
    {"arrays", {{}}},
};

TEST_CASE(
    "a run that skips lines equals a run on files without these lines, with every other option") {
  const SkippedWorkplace work;
  for (const SkipCase& each : cases) {
    CAPTURE(each.name);
    for (const Lines& options : each.options) {
      CAPTURE(test::joined(options));
      const Left whole = trained(work.config("whole", each.name, options));
      const Left clean = trained(work.config("clean", each.name, options));
      CHECK(whole.metrics == clean.metrics);
      CHECK(whole.samples == clean.samples);
      CHECK(whole.weighted == clean.weighted);
      CHECK(whole.examples == clean.examples);
      CHECK(whole.held_out == clean.held_out);
      for (const auto& [path, array] : clean.last) {
        // These arrays depend on the names and digests of the files.
        if (path == "config" || path == "run_id" || path.starts_with("data/")) continue;
        const auto& shown = path;  // clang 14 cannot capture structured bindings
        CAPTURE(shown);
        CHECK(whole.last.at(path) == array);
      }
    }
  }
}

TEST_CASE("commands on a run that skips lines give the results of files without these lines") {
  const SkippedWorkplace work;
  for (const SkipCase& each : cases) {
    CAPTURE(each.name);
    const auto answers = [&](const std::string& folder) {
      const std::string run = "train.run_dir=" + folder + "/run-" + each.name;
      REQUIRE(work.run({"train", folder + "/" + each.name + ".yaml", run, "train.ema_decay=0.5",
                        "train.keep_best=2", "train.average_last=2"})
                  .code == 0);
      Json all = Json::array();
      for (const Lines& command : {Lines{"evaluate"},
                                   Lines{"errors", "--set", "test"},
                                   {"errors", "--set", "validation"}}) {
        Lines arguments = {command[0], folder + "/run-" + each.name, "--json"};
        arguments.insert(arguments.end(), command.begin() + 1, command.end());
        all.push_back(Json::parse(work.run(arguments).out));
        all.back().erase("model");  // the path of the model differs
        CHECK_FALSE(all.back().at("examples").empty());
      }
      std::istringstream log(read_text(work / (folder + "/run-" + each.name + "/train.log")));
      for (std::string line; std::getline(log, line);) {
        const std::size_t at = line.find("average of the checkpoints");
        if (at != line.npos) all.push_back(line.substr(at));
      }
      CHECK(all.size() == 4);
      return all;
    };
    CHECK(answers("whole") == answers("clean"));
  }
}

}  // namespace
}  // namespace tapestry
