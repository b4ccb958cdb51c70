# SPDX-License-Identifier: BSD-3-Clause
# Trains a Transformer to predict the next character of a text, and samples text from it.
#
#     python3 character_lm.py [text.txt [temperature]]
#
# The same program as character_lm.cpp, in PyTorch.

import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

SONNET = (
    "Shall I compare thee to a summer's day?\n"
    "Thou art more lovely and more temperate:\n"
    "Rough winds do shake the darling buds of May,\n"
    "And summer's lease hath all too short a date.\n"
)
CONTEXT, ROWS, D_MODEL, STEPS = 32, 16, 64, 300


# Characters and their ids.
class Alphabet:
    def __init__(self, text):
        self.characters = sorted(set(text))
        self.ids = {character: i for i, character in enumerate(self.characters)}

    # (characters of the text)
    def encode(self, text):
        return torch.tensor([self.ids[character] for character in text])


# `context` characters from each start position, (rows, context).
def windows(text, starts, offset):
    return torch.stack([text[start + offset : start + offset + CONTEXT] for start in starts])


class CharacterModel(nn.Module):
    def __init__(self, vocabulary):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, D_MODEL)
        self.positions = nn.Embedding(CONTEXT, D_MODEL)
        layer = nn.TransformerEncoderLayer(
            D_MODEL,
            nhead=4,
            dim_feedforward=4 * D_MODEL,
            dropout=0.1,
            activation="gelu",
            batch_first=True,
            norm_first=True,
        )
        self.encoder = nn.TransformerEncoder(
            layer, num_layers=2, norm=nn.LayerNorm(D_MODEL), enable_nested_tensor=False
        )
        self.output = nn.Linear(D_MODEL, vocabulary)

    # ids (rows, n) -> logits of each next character (rows, n, vocabulary).
    def forward(self, ids):
        n = ids.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(n)
        x = self.embedding(ids) + self.positions(torch.arange(n))
        return self.output(self.encoder(x, mask=mask, is_causal=True))


@torch.no_grad()
def sample(model, alphabet, text, count, temperature):
    model.eval()
    for _ in range(count):
        last = text[-CONTEXT:]
        logits = model(alphabet.encode(last)[None])[:, -1]
        following = torch.multinomial(F.softmax(logits / temperature, -1), 1)
        text += alphabet.characters[following.item()]
    return text


def main():
    torch.set_num_threads(2)
    torch.manual_seed(1)
    text = SONNET
    if len(sys.argv) > 1:
        with open(sys.argv[1]) as file:
            text = file.read()
    temperature = float(sys.argv[2]) if len(sys.argv) > 2 else 0.5
    alphabet = Alphabet(text)
    ids = alphabet.encode(text)

    model = CharacterModel(len(alphabet.characters))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    start = time.perf_counter()
    for step in range(STEPS):
        starts = torch.randint(0, len(ids) - CONTEXT, (ROWS,))
        optimizer.zero_grad()
        logits = model(windows(ids, starts, 0))
        loss = F.cross_entropy(logits.flatten(0, 1), windows(ids, starts, 1).flatten())
        loss.backward()
        optimizer.step()
        if step % 50 == 49:
            print(f"step {step + 1:3}  loss {loss.item():.4f}")
    print(f"trained in {time.perf_counter() - start:.3f} s")

    prompt = text[:10]
    print(sample(model, alphabet, prompt, 150, temperature))
    learned = sample(model, alphabet, prompt, 70, 0.1) == text[:80]
    return 0 if len(sys.argv) > 1 or learned else 1


if __name__ == "__main__":
    sys.exit(main())
