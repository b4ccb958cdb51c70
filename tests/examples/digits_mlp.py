# SPDX-License-Identifier: BSD-3-Clause
# Trains a multilayer perceptron to recognize digits of 8 x 8 pixels, and saves its parameters.
#
#     python3 digits_mlp.py [digits.csv]
#
# The same program as digits_mlp.cpp, in PyTorch.

import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PIXELS, CLASSES = 64, 10


# n images of the digits of a font, with noise. Each byte of the font is a row of 8 pixels.
def generated_digits(n):
    font = [
        0x3E63737B6F673E00,
        0x0C0E0C0C0C0C3F00,
        0x1E33301C06333F00,
        0x1E33301C30331E00,
        0x383C36337F307800,
        0x3F031F3030331E00,
        0x1C06031F33331E00,
        0x3F3330180C0C0C00,
        0x1E33331E33331E00,
        0x1E33333E30180E00,
    ]
    bits = torch.tensor([[float(glyph >> bit & 1) for bit in range(PIXELS)] for glyph in font])
    labels = torch.randint(0, CLASSES, (n,))
    return bits[labels] + 0.5 * torch.randn(n, PIXELS), labels


def read_digits(path):
    table = torch.from_numpy(np.loadtxt(path, delimiter=",", dtype=np.float32))
    images, labels = table[:, :PIXELS] / 16.0, table[:, PIXELS].long()
    test = torch.arange(len(labels)) % 5 == 4
    return (images[~test], labels[~test]), (images[test], labels[test])


def make_model():
    return nn.Sequential(
        nn.Linear(PIXELS, 128),
        nn.ReLU(),
        nn.Dropout(0.1),
        nn.Linear(128, 64),
        nn.ReLU(),
        nn.Linear(64, CLASSES),
    )


@torch.no_grad()
def accuracy(model, images, labels):
    model.eval()
    return (model(images).argmax(-1) == labels).float().mean().item()


def main():
    torch.set_num_threads(2)
    torch.manual_seed(1)
    train = generated_digits(1437)
    test = generated_digits(360)
    if len(sys.argv) > 1:
        train, test = read_digits(sys.argv[1])

    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    loader = DataLoader(TensorDataset(*train), batch_size=32, shuffle=True)
    start = time.perf_counter()
    model.train()
    for epoch in range(20):
        loss_sum = 0.0
        for images, labels in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            loss_sum += loss.item()
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1:2}  loss {loss_sum / len(loader):.4f}")
    print(f"trained in {time.perf_counter() - start:.3f} s")

    torch.save(model.state_dict(), "digits_mlp.pt")
    same_model = make_model()
    same_model.load_state_dict(torch.load("digits_mlp.pt"))
    score = accuracy(same_model, *test)
    print(f"accuracy on {len(test[1])} held-out images: {100 * score:.1f} %")
    return 0 if score > 0.95 else 1


if __name__ == "__main__":
    sys.exit(main())
