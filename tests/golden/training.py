# SPDX-License-Identifier: BSD-3-Clause
"""Writes training.txt beside this file: the losses of 50 training steps of small encoder-decoders
made of PyTorch's layers, in float64, with the parameters and the batches that they start from, the
learning rates and the norms of the gradients.

    python3 tests/golden/training.py     # needs PyTorch; the file says which version wrote it
"""

import torch
from torch.nn import functional as F

from golden import GoldenFile, randomize
from model import PADDING, EncoderDecoder, parameters_of
from optim import clip_gradients, inverse_sqrt

STEPS, BATCHES, ROWS, BOS, WORDS = 50, 3, 4, 1, 8
PEAK, WARMUP, CLIP_NORM, SMOOTHING = 0.01, 10, 1.0, 0.1
SIZES = {"d_model": 6, "nhead": 2, "dim_feedforward": 10}


def random_lengths(longest):
    """One for each row; the first is the longest."""
    return torch.cat([torch.tensor([longest]), torch.randint(1, longest, (ROWS - 1,))])


def random_ids(lengths):
    """Rows of words, which come after PADDING and BOS, filled up with padding."""
    ids = torch.randint(2, WORDS, (ROWS, int(lengths.max())))
    return ids.where(torch.arange(ids.shape[1]) < lengths[:, None], PADDING)


def random_batch():
    """Source, what the decoder reads, which begins with BOS, and the labels, which it has to say."""
    source_lengths, target_lengths = random_lengths(5), random_lengths(4)
    labels = random_ids(target_lengths)
    words_before = labels.roll(1, dims=1)
    words_before[:, 0] = BOS
    target = words_before.where(labels != PADDING, PADDING)
    return {"source": random_ids(source_lengths), "source_lengths": source_lengths,
            "target": target, "target_lengths": target_lengths, "labels": labels}


def train(model, batches):
    """Loss, norm of the gradient and learning rate of every step."""
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    history = {"losses": [], "norms": [], "learning_rates": []}
    for step in range(1, STEPS + 1):
        batch = dict(batches[step % BATCHES])
        labels = batch.pop("labels")
        optimizer.zero_grad()
        loss = F.cross_entropy(model(**batch).flatten(0, 1), labels.flatten(),
                               ignore_index=PADDING, label_smoothing=SMOOTHING)
        loss.backward()
        history["losses"].append(loss.item())
        history["norms"].append(clip_gradients(model.parameters(), CLIP_NORM))
        history["learning_rates"].append(inverse_sqrt(PEAK, WARMUP)(step))
        optimizer.param_groups[0]["lr"] = history["learning_rates"][-1]
        optimizer.step()
    return history


def add_run(file, case, tied, norm_first, activation):
    model = randomize(EncoderDecoder(WORDS, WORDS, tied, norm_first=norm_first,
                                     activation=activation, **SIZES))
    batches = [random_batch() for _ in range(BATCHES)]
    tensors = {f"input/{name}": torch.stack([batch[name] for batch in batches])
               for name in batches[0]}
    tensors |= {f"parameter/{name}": value.clone()
                for name, (value, _) in parameters_of(model).items()}
    history = train(model, batches)
    assert min(history["norms"]) < CLIP_NORM < max(history["norms"]), "clipping must matter"
    file.add(case, tensors | history)


def main():
    file = GoldenFile(__file__)
    add_run(file, "pre_tied", "target", norm_first=True, activation="gelu")
    add_run(file, "post_untied", "none", norm_first=False, activation="relu")
    file.write()


if __name__ == "__main__":
    main()
