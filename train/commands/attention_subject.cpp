#include "train/commands/attention_subject.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "train/commands/open_model.h"
#include "train/greedy_decoder.h"
#include "train/objective.h"
#include "train/refuse_option.h"
#include "train/text_example.h"

namespace tapestry {
namespace {

/// The part of the data that an example is taken from.
struct Part {
  const char* name;
  const std::vector<Example>& examples;
};

Part part_of(const Corpus& corpus) {
  if (!corpus.test.empty()) return {"test", corpus.test};
  if (!corpus.validation.empty()) return {"validation", corpus.validation};
  return {"training", corpus.train};
}

void choose_example(const Corpus& corpus, std::size_t number, AttentionSubject& subject) {
  const auto [name, examples] = part_of(corpus);
  if (number > examples.size()) {
    refuse_option(fmt::format("--example {}", number),
                  fmt::format("the {} set has {} examples", name, examples.size()),
                  fmt::format("use 1 to {}", examples.size()));
  }
  subject.example = examples[number - 1];
  subject.name = fmt::format("{} {}", name, number);
}

void require_fitting(const Example& example, const Config& config) {
  const TokenLimit most = token_limit(config);
  const std::size_t tokens = longest_side(example, objective_of(config.model.kind));
  if (tokens <= most.tokens) return;
  refuse_option("--text",
                fmt::format("found {} tokens to read, expected at most {} ({})", tokens,
                            most.tokens, most.key),
                "cut the text");
}

void read_text(const std::string& text, AttentionSubject& subject) {
  const Config& config = subject.config;
  if (config.model.kind == ModelKind::vision_transformer) {
    refuse_option("--text", "the model reads images, expected --example", "leave --text out");
  }
  subject.example = text_example(text, config, subject.codec);
  subject.name = "the text given";
  if (subject.example == Example{}) {
    refuse_option("--text", "found no word", "give it a sentence");
  }
  require_fitting(subject.example, config);
  if (config.model.kind == ModelKind::seq2seq) {
    subject.example.target = greedy_decode(subject.model->as<Transformer>(),
                                           {subject.example.source}, config.train.max_decode_length)
                                 .front();
  }
}

}  // namespace

AttentionSubject attention_subject(const AttentionArguments& arguments) {
  if (arguments.text && is_run_or_checkpoint(arguments.model)) {
    if (!arguments.overrides.empty()) {
      refuse_option(arguments.overrides.front(), "a text that is given needs no other data",
                    "leave it or --text out");
    }
    auto [model, origin] = open_trained(arguments.model, {});
    AttentionSubject subject{.config = std::move(model.config),
                             .codec = std::move(model.codec),
                             .model = std::move(model.model),
                             .origin = std::move(origin),
                             .example = {},
                             .name = {}};
    read_text(*arguments.text, subject);
    return subject;
  }
  ConfiguredModel opened = open_model(arguments.model, arguments.overrides);
  const Corpus& corpus = opened.corpus;
  AttentionSubject subject{
      .config = opened.config,
      .codec = TextCodec(opened.config.data, corpus.source_vocabulary, corpus.target_vocabulary),
      .model = std::move(opened.model),
      .origin = std::move(opened.origin),
      .example = {},
      .name = {}};
  if (arguments.text) {
    read_text(*arguments.text, subject);
  } else {
    choose_example(corpus, arguments.example, subject);
  }
  return subject;
}

}  // namespace tapestry
