# SPDX-License-Identifier: BSD-3-Clause
# Trains a Transformer, composed of single layers, to classify sequences of different lengths: does
# the first token occur again? The same program as sequence_classifier.cpp, in PyTorch.

import sys
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

VOCABULARY, MIN_LENGTH, MAX_LENGTH, D_MODEL, CLASSES = 16, 6, 16, 64, 2
PADDING = 0


def random_sequences(n):
    tokens = torch.randint(1, VOCABULARY, (n, MAX_LENGTH))
    lengths = torch.randint(MIN_LENGTH, MAX_LENGTH + 1, (n,))
    tokens[torch.arange(MAX_LENGTH) >= lengths[:, None]] = PADDING
    labels = (tokens[:, 1:] == tokens[:, :1]).any(1).long()
    return tokens, lengths, labels


# Self-attention and feed-forward, each in a residual block with pre-norm.
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(D_MODEL)
        self.norm2 = nn.LayerNorm(D_MODEL)
        self.attention = nn.MultiheadAttention(D_MODEL, 4, dropout=0.1, batch_first=True)
        self.feed_forward = nn.Sequential(
            nn.Linear(D_MODEL, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, D_MODEL)
        )
        self.dropout1 = nn.Dropout(0.1)
        self.dropout2 = nn.Dropout(0.1)

    def forward(self, x, mask):
        h = self.norm1(x)
        y, _ = self.attention(h, h, h, key_padding_mask=mask, need_weights=False)
        x = x + self.dropout1(y)
        return x + self.dropout2(self.feed_forward(self.norm2(x)))


class SequenceClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, D_MODEL, padding_idx=PADDING)
        self.positions = nn.Embedding(MAX_LENGTH, D_MODEL)
        self.block1 = Block()
        self.block2 = Block()
        self.norm = nn.LayerNorm(D_MODEL)
        self.output = nn.Linear(D_MODEL, CLASSES)

    def forward(self, tokens, lengths):
        places = torch.arange(tokens.shape[1])
        mask = places >= lengths[:, None]
        x = self.embedding(tokens) + self.positions(places)
        x = self.norm(self.block2(self.block1(x, mask), mask))
        x = x.masked_fill(mask[..., None], 0.0).sum(1) / lengths[:, None]
        return self.output(x)


def main():
    torch.set_num_threads(2)
    torch.manual_seed(1)
    train, test = random_sequences(20000), random_sequences(1000)
    model = SequenceClassifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    loader = DataLoader(TensorDataset(*train), batch_size=64, shuffle=True)
    start = time.perf_counter()
    for epoch in range(4):
        loss_sum = 0.0
        for tokens, lengths, labels in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(tokens, lengths), labels)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            loss_sum += loss.item()
        print(f"epoch {epoch + 1}  loss {loss_sum / len(loader):.4f}")
    print(f"trained in {time.perf_counter() - start:.3f} s")

    model.eval()
    tokens, lengths, labels = test
    with torch.no_grad():
        predicted = model(tokens, lengths).argmax(-1)
    accuracy = (predicted == labels).float().mean().item()
    print(f"accuracy on {len(labels)} held-out sequences: {100 * accuracy:.1f} %")
    return 0 if accuracy > 0.95 else 1


if __name__ == "__main__":
    sys.exit(main())
