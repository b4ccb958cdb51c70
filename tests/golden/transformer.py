# SPDX-License-Identifier: BSD-3-Clause
"""Writes transformer.txt beside this file: outputs and gradients of PyTorch's encoder and decoder
layers and of whole encoder-decoders, in float64, with the weights renamed to the layout of tapestry.

    python3 tests/golden/transformer.py     # needs PyTorch; the file says which version wrote it
"""

import torch
from torch import nn
from torch.nn import functional as F

from golden import GoldenFile, is_later, is_padding, random, randomize
from model import EncoderDecoder, parameters_of

# Models this small amplify rounding, some more than others. Of the seeds 1 to 12 this is the seed whose
# whole models PyTorch itself, run in float32, leaves closest to float64: 3e-6 of the largest number
# of a gradient. The farthest is 2.5e-5.
SEED = 11

D_MODEL, HEADS, D_FF = 4, 2, 6
SOURCE = torch.tensor([[3, 5, 2, 6], [4, 3, 0, 0]]), [4, 2]
TARGET = torch.tensor([[1, 4, 5], [1, 3, 0]]), [3, 2]


def gelu_tanh(x):
    return F.gelu(x, approximate="tanh")


def options_of(norm_first, activation):
    return {"d_model": D_MODEL, "nhead": HEADS, "dim_feedforward": D_FF, "norm_first": norm_first,
            "activation": activation}


def encoder_layer(file, case, norm_first, activation):
    options = options_of(norm_first, activation)
    module = nn.ModuleDict({"encoder": nn.TransformerEncoderLayer(**options, dropout=0.0,
                                                                  batch_first=True)})
    randomize(module)
    x = random(2, 3, D_MODEL).requires_grad_()
    y = module["encoder"](x, src_key_padding_mask=is_padding([3, 2], 3))
    file.add_backward(case, {"x": x, "lengths": [3, 2]}, y, lambda: parameters_of(module))


def rms_norm_layer(file, case):
    options = options_of(True, F.silu)
    module = nn.TransformerEncoderLayer(**options, dropout=0.0, batch_first=True)
    module.norm1, module.norm2 = nn.RMSNorm(D_MODEL, eps=1e-5), nn.RMSNorm(D_MODEL, eps=1e-5)
    randomize(module)
    x = random(2, 3, D_MODEL).requires_grad_()
    y = module(x, src_key_padding_mask=is_padding([3, 2], 3))
    file.add_backward(case, {"x": x, "lengths": [3, 2]}, y,
                      lambda: parameters_of(nn.ModuleDict({"encoder": module})))


def decoder_layer(file, case, norm_first, activation):
    options = options_of(norm_first, activation)
    module = nn.ModuleDict({"decoder": nn.TransformerDecoderLayer(**options, dropout=0.0,
                                                                  batch_first=True)})
    randomize(module)
    x, memory = random(2, 3, D_MODEL).requires_grad_(), random(2, 4, D_MODEL).requires_grad_()
    y = module["decoder"](x, memory, tgt_mask=is_later(3),
                          tgt_key_padding_mask=is_padding([3, 2], 3),
                          memory_key_padding_mask=is_padding([2, 4], 4))
    inputs = {"x": x, "memory": memory, "lengths": [3, 2], "memory_lengths": [2, 4]}
    file.add_backward(case, inputs, y, lambda: parameters_of(module))


def transformer(file, case, norm_first, activation, tied):
    source_words, target_words = (7, 7) if tied == "all" else (7, 6)
    module = randomize(EncoderDecoder(source_words, target_words, tied,
                                      **options_of(norm_first, activation)))
    inputs = {"source": SOURCE[0], "source_lengths": SOURCE[1], "target": TARGET[0],
              "target_lengths": TARGET[1]}
    file.add_backward(case, inputs, module(**inputs), lambda: parameters_of(module))


def main():
    file = GoldenFile(__file__, SEED)
    encoder_layer(file, "encoder_layer/pre", True, "gelu")
    encoder_layer(file, "encoder_layer/post", False, "relu")
    decoder_layer(file, "decoder_layer/pre", True, gelu_tanh)
    decoder_layer(file, "decoder_layer/post", False, "relu")
    transformer(file, "transformer/pre_tied_target", True, "gelu", "target")
    transformer(file, "transformer/pre_tied_all", True, "relu", "all")
    transformer(file, "transformer/post_untied", False, "relu", "none")
    rms_norm_layer(file, "encoder_layer/pre_rms_norm")
    file.write()


if __name__ == "__main__":
    main()
