#include "train/loop/step.h"

#include <chrono>
#include <string>

#include "autograd/anomaly.h"
#include "autograd/ops/losses.h"
#include "autograd/random.h"
#include "autograd/tape.h"
#include "train/inference/batch_tensors.h"
#include "train/parallel/gradient_sum.h"
#include "train/system/message.h"

namespace tapestry {
namespace {

/// Gives all processes the pending updates of the buffers of all of them, in the order of the
/// micro-batches.
void gather_pending_updates(const Parameters& parameters, ProcessGroup& group) {
  if (group.size() == 1 || parameters.averages().empty()) return;
  const auto messages = group.all_gather([&] {
    MessageWriter own;
    for (const RunningAverage& average : parameters.averages()) {
      own.put(average.pending());
      for (const RunningAverage::Note& note : average.notes()) {
        own.put(note.keep);
        own.put(note.take);
        dispatch(note.seen.dtype(), [&]<class T>() {
          for (const T value : note.seen.values<T>()) own.put(value);
        });
      }
    }
    return own.take();
  });
  for (const RunningAverage& average : parameters.averages()) average.discard();
  for (const std::string& message : messages) {
    MessageReader reader(message);
    for (const RunningAverage& average : parameters.averages()) {
      for (auto notes = reader.get<std::size_t>(); notes > 0; --notes) {
        const auto keep = reader.get<double>(), take = reader.get<double>();
        Tensor seen = Tensor::empty(average.value().shape(), average.value().dtype());
        dispatch(seen.dtype(), [&]<class T>() {
          for (T& value : seen.mutable_values<T>()) value = reader.get<T>();
        });
        average.note(seen, keep, take);
      }
    }
  }
}

}  // namespace

ExchangeOptions exchange_options(const TrainOptions& options) {
  return {.bucket_bytes = options.bucket_bytes(),
          .bfloat16 = options.gradient_exchange == GradientFormat::bfloat16};
}

Loss batch_loss(const Batch& batch, const BatchPlace& place, const TrainOptions& options,
                const Model& model) {
  const RandomStream random =
      RandomStream(options.seed).named("dropout").at(place.step).at(place.index);
  const CrossEntropyOptions loss_options{.ignored_id = no_label,
                                         .label_smoothing = options.label_smoothing,
                                         .normalizer = place.target_tokens};
  return training_loss(model, batch, loss_options, Mode::training(random).with_deferred_averages());
}

std::size_t count_target_tokens(const std::vector<Batch>& batches) {
  std::size_t sum = 0;
  for (const Batch& batch : batches) sum += batch.target_tokens;
  return sum;
}

StepLoss compute_gradients(const std::vector<Batch>& batches, std::uint64_t step,
                           const TrainOptions& options, Model& model, ProcessGroup& group,
                           const BatchObservers& observers) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point started = Clock::now();
  model.parameters.clear_gradients();
  StepLoss sum{.target_tokens = count_target_tokens(batches)};
  StepDurations& durations = sum.durations;
  GradientSum gradients(model.parameters, batches.size(), group, exchange_options(options));
  const auto compute = [&] {
    MessageWriter own;
    for (std::size_t i = gradients.own().begin; i < gradients.own().end; ++i) {
      const BatchPlace place{.step = step, .index = i, .target_tokens = sum.target_tokens};
      AnomalyDetector detector;
      const std::unique_ptr<TapeObserver> observer = observers ? observers(i) : nullptr;
      Tape tape(options.detect_anomaly ? &detector : observer.get());
      const auto computing_time = [&] { return Clock::now() - detector.time(); };
      const Clock::time_point begin = computing_time();
      const Loss loss = batch_loss(batches[i], place, options, model);
      const Clock::time_point middle = computing_time();
      gradients.follow(tape);
      tape.backward(loss.mean);
      gradients.add();
      durations.forward += middle - begin;
      durations.backward += computing_time() - middle;
      durations.anomaly_checks += detector.time();
      own.put(loss.mean.item());
      own.put(loss.nll_sum);
    }
    return own.take();
  };
  const auto losses = group.all_gather(compute, [&] { gradients.abandon(); });
  gradients.finish();
  gather_pending_updates(model.parameters, group);
  if (group.size() > 1) {
    durations.exchange =
        Clock::now() - started - durations.forward - durations.backward - durations.anomaly_checks;
  }
  for (const std::string& of_process : losses) {
    for (MessageReader reader(of_process); !reader.at_end();) {
      sum.mean += reader.get<double>();
      sum.nll_sum += reader.get<double>();
    }
  }
  durations.gradients = Clock::now() - started;
  return sum;
}

Loss training_loss(const Model& model, const Batch& batch, const CrossEntropyOptions& options,
                   const Mode& mode) {
  const Network& network = *model.network;
  const NetworkInput input = network_input(batch, model.parameters.dtype());
  const Tensor features = network.features(network.embed(input, mode), input, mode);
  return network.loss(features, label_ids(batch), options);
}

}  // namespace tapestry
