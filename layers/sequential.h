#pragma once

#include <concepts>
#include <cstddef>
#include <tuple>
#include <utility>

#include "layers/mode.h"

namespace tapestry {

/// Layers and functions applied one after the other, each to the output of the one before.
///
///     const Sequential mlp{Linear(scope / 0, 784, 128), relu, Dropout(scope / 2, 0.1),
///                          Linear(scope / 3, 128, 10)};
///     const Tensor logits = mlp(x, Mode::inference());
///
///   parameters  those of the layers, in their order if the layers are constructed in braces, as
///               above. In parentheses, the compiler chooses the order of their construction
///   call        the input of the first layer -> the output of the last. Each is called with
///               (x, mode) if it can be, else with (x)
///   throws      as the layers
template <class... Layers>
class Sequential {
 public:
  explicit Sequential(Layers... layers) : layers_(std::move(layers)...) {}

  template <class Input>
  auto operator()(const Input& x, const Mode& mode) const {
    return run<0>(x, mode);
  }

 private:
  template <std::size_t I, class Input>
  auto run(const Input& x, const Mode& mode) const {
    if constexpr (I == sizeof...(Layers)) {
      return x;
    } else {
      return run<I + 1>(call(std::get<I>(layers_), x, mode), mode);
    }
  }

  template <class Layer, class Input>
  static auto call(const Layer& layer, const Input& x, const Mode& mode) {
    if constexpr (std::invocable<const Layer&, const Input&, const Mode&>) {
      return layer(x, mode);
    } else {
      static_assert(std::invocable<const Layer&, const Input&>,
                    "a layer of a Sequential is called with (x, mode) or (x), x being the output "
                    "of the layer before");
      return layer(x);
    }
  }

  std::tuple<Layers...> layers_;
};

}  // namespace tapestry
