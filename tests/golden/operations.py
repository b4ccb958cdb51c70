# SPDX-License-Identifier: BSD-3-Clause
"""Writes operations.txt beside this file: outputs and gradients of PyTorch, in float64, for every
differentiable operation. A case is called OPERATION or OPERATION/FORM; what the operation takes
besides tensors stands among the inputs.

    python3 tests/golden/operations.py     # needs PyTorch; the file says which version wrote it
"""

import math

import torch
from torch.nn import functional as F

from golden import GoldenFile, away_from_zero, is_padding, random

VECTORS = (2, 9)  # 18 elements: full vectors of every width, and some left over


def operation(file, case, function, **inputs):
    """The gradients of all inputs that are tensors of floating-point numbers."""
    for value in inputs.values():
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            value.requires_grad_()
    file.add_backward(case, inputs, function(**inputs))


def arithmetic(file):
    forms = {"same_shape": [VECTORS, VECTORS], "b_repeats": [(2, 3, 2), (3, 1)],
             "a_repeats": [(3,), (2, 2, 3)], "both_repeat": [(2, 1, 3), (2, 1)],
             "a_scalar": [(), (2, 2)], "b_scalar": [(2, 2), ()]}
    for name, function in {"add": torch.add, "sub": torch.sub, "mul": torch.mul,
                           "div": torch.div}.items():
        for form, (a, b) in forms.items():
            operation(file, f"{name}/{form}", lambda a, b: function(a, b), a=random(*a),
                      b=away_from_zero(*b))


def elementwise(file):
    for name, function in {"neg": torch.neg, "exp": torch.exp, "square": torch.square}.items():
        operation(file, name, lambda x: function(x), x=random(*VECTORS))
    for name, function in {"log": torch.log, "sqrt": torch.sqrt}.items():
        operation(file, name, lambda x: function(x), x=random(*VECTORS, low=0.1, high=4.0))
    operation(file, "scale", lambda x, factor: x * factor, x=random(*VECTORS), factor=-1.7)
    for form, exponent in {"cube": 3.0, "zero": 0.0, "reciprocal_square": -2.0}.items():
        operation(file, f"pow/{form}", lambda x, exponent: x**exponent, x=away_from_zero(*VECTORS),
                  exponent=exponent)
    for form, exponent in {"root": 0.5, "fraction": 2.3}.items():
        operation(file, f"pow/{form}", lambda x, exponent: x**exponent,
                  x=random(*VECTORS, low=0.1, high=3.0), exponent=exponent)


def gelu_tanh(x):
    return F.gelu(x, approximate="tanh")


def activations(file):
    for name, function in {"relu": torch.relu, "gelu": F.gelu, "gelu_tanh": gelu_tanh,
                           "sigmoid": torch.sigmoid, "tanh": torch.tanh}.items():
        operation(file, f"{name}/near", lambda x: function(x), x=random(*VECTORS))
        operation(file, f"{name}/far", lambda x: function(x), x=8 * random(*VECTORS))
    for name, function in {"softmax": torch.softmax, "log_softmax": torch.log_softmax}.items():
        for form, x in {"one_row": random(9), "rows": random(2, 3, 5), "one_entry": random(3, 1),
                        "large": random(3, 7) + 1e4}.items():
            operation(file, f"{name}/{form}", lambda x: function(x, -1), x=x)


def reductions(file):
    forms = {"last": [-1], "first": [0], "middle": [1], "outer": [0, 2], "all": [0, 1, 2],
             "none": []}
    for name, function in {"sum": torch.sum, "mean": torch.mean, "max": torch.amax}.items():
        operation(file, f"{name}_all", lambda x: function(x), x=random(2, 3, 2))
        for form, axes in forms.items():
            for keep in False, True:
                def reduced(x, axes, keep_dims):
                    return function(x, axes, keep_dims) if axes else x * 1
                operation(file, f"{name}/{form}{'_kept' * keep}", reduced, x=random(2, 3, 2),
                          axes=axes, keep_dims=keep)


def products(file):
    def matmul(a, b, transpose_a, transpose_b, scale):
        return scale * (a.mT if transpose_a else a) @ (b.mT if transpose_b else b)

    def linear(x, weight, bias=None):
        return F.linear(x, weight, bias)

    forms = {"matrices": [(3, 4), (4, 5)], "batches": [(2, 3, 4), (2, 4, 3)],
             "b_repeats": [(2, 3, 2), (2, 4)], "a_repeats": [(3, 2), (2, 2, 4)],
             "both_repeat": [(2, 1, 2, 3), (2, 3, 2)], "row_by_column": [(1, 6), (6, 1)]}
    for form, (a, b) in forms.items():
        operation(file, f"matmul/{form}", matmul, a=random(*a), b=random(*b), transpose_a=False,
                  transpose_b=False, scale=1.0)
    for a_shape, b_shape, transpose_a, transpose_b, form in [
            ((2, 3, 2), (2, 3, 4), True, False, "a_transposed"),
            ((2, 3, 4), (2, 4), False, True, "b_transposed"),
            ((4, 3), (2, 2, 4), True, True, "both_transposed")]:
        operation(file, f"matmul/{form}", matmul, a=random(*a_shape), b=random(*b_shape),
                  transpose_a=transpose_a, transpose_b=transpose_b, scale=0.75)
    for form, shape in {"vector": (4,), "matrix": (3, 4), "batches": (2, 3, 4)}.items():
        operation(file, f"linear/{form}", linear, x=random(*shape), weight=random(5, 4),
                  bias=random(5))
        operation(file, f"linear_without_bias/{form}", linear, x=random(*shape),
                  weight=random(5, 4))


def layer_norms(file):
    def layer_norm(x, weight, bias, epsilon):
        return F.layer_norm(x, weight.shape, weight, bias, epsilon)

    for form, shape in {"one_row": (7,), "rows": (2, 3, 5), "long_rows": (1, 19)}.items():
        operation(file, f"layer_norm/{form}", layer_norm, x=random(*shape), weight=random(shape[-1]),
                  bias=random(shape[-1]), epsilon=1e-5)
    operation(file, "layer_norm/epsilon", layer_norm, x=random(2, 5), weight=random(5),
              bias=random(5), epsilon=0.25)


def attention_mask(n_q, n_k, lengths=None, causal=False, radius=None, keep=None):
    """True where a query may attend to a key; the queries are the last of n_k positions."""
    distance = torch.arange(n_k)[None, :] - torch.arange(n_k - n_q, n_k)[:, None]
    mask = torch.ones(1, n_q, n_k, dtype=torch.bool)
    if lengths is not None:
        mask = mask & ~is_padding(lengths, n_k)[:, None, :]
    if causal:
        mask = mask & (distance <= 0)
    if radius is not None:
        mask = mask & (distance.abs() <= radius)
    if keep is not None:
        mask = mask & keep
    return mask


def attention(q, k, v, num_heads, scale=None, **mask):
    q, k, v = (x.unflatten(-1, (num_heads, -1)).transpose(1, 2) for x in (q, k, v))
    may = attention_mask(q.shape[2], k.shape[2], **mask)
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=may[:, None], scale=scale)
    return y.transpose(1, 2).flatten(2)


def attentions(file):
    keep = torch.tensor([[[1, 0, 1, 1], [0, 1, 1, 0], [1, 1, 1, 0]],
                         [[0, 0, 1, 0], [1, 1, 1, 1], [0, 1, 0, 1]]], dtype=torch.bool)
    forms = {
        "self": (4, 4, {}), "self_padding": (4, 4, {"lengths": [4, 2]}),
        "self_causal": (4, 4, {"causal": True}),
        "self_padding_causal": (4, 4, {"lengths": [3, 4], "causal": True}),
        "self_window": (4, 4, {"radius": 1}), "one_head": (3, 3, {"num_heads": 1}),
        "scale": (3, 3, {"scale": 0.3}), "fewer_queries": (3, 4, {}),
        "more_queries_padding": (4, 3, {"lengths": [1, 3]}),
        "last_queries_causal": (2, 4, {"causal": True}), "keep": (3, 4, {"keep": keep}),
        "keep_padding": (3, 4, {"keep": keep, "lengths": [4, 3]}),
    }
    for form, (n_q, n_k, options) in forms.items():
        operation(file, f"attention/{form}", attention, q=random(2, n_q, 4), k=random(2, n_k, 4),
                  v=random(2, n_k, 2), **({"num_heads": 2} | options))


def lookups(file):
    def embedding(weight, ids, scale, padding_id=None):
        return scale * F.embedding(ids, weight, padding_id)

    ids = torch.tensor([[3, 1, 0, 3], [5, 3, 0, 1]])
    operation(file, "embedding/repeated", embedding, weight=random(6, 5), ids=ids, scale=1.0)
    operation(file, "embedding/padding", embedding, weight=random(6, 5), ids=ids, scale=1.0,
              padding_id=3)
    operation(file, "embedding/scale", embedding, weight=random(6, 5), ids=ids,
              scale=math.sqrt(5), padding_id=0)


def cross_entropy(logits, targets, label_smoothing, ignored_id, normalizer):
    total = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=ignored_id,
                            label_smoothing=label_smoothing, reduction="sum")
    return total / (normalizer or (targets != ignored_id).sum())


def losses(file):
    targets = torch.tensor([[3, 1, 0], [5, 3, 6]])
    for form, options in {
            "plain": (0.0, -100, 0), "smoothed": (0.1, -100, 0), "ignored": (0.0, 3, 0),
            "smoothed_ignored": (0.1, 0, 0), "normalized": (0.1, 0, 11)}.items():
        smoothing, ignored, normalizer = options
        operation(file, f"cross_entropy/{form}", cross_entropy, logits=3 * random(2, 3, 7),
                  targets=targets, label_smoothing=smoothing, ignored_id=ignored,
                  normalizer=normalizer)
    operation(file, "cross_entropy/large", cross_entropy, logits=random(2, 3, 7) + 1e4,
              targets=targets, label_smoothing=0.1, ignored_id=-100, normalizer=0)
    operation(file, "mean_squared_error", lambda a, b: F.mse_loss(a, b), a=random(*VECTORS),
              b=random(*VECTORS))


def rearrangements(file):
    def join(function):
        return lambda a, b, c, axis: function([a, b, c], axis)

    def part_of(x, axis, begin, end):
        return x.narrow(axis, begin, end - begin)

    for axis in 0, 1, -1:
        def part(extent):
            shape = [2, 2, 3]
            shape[axis] = extent
            return random(*shape)
        operation(file, f"concat/axis_{axis}", join(torch.cat), a=part(1), b=part(3), c=part(2),
                  axis=axis)
        operation(file, f"stack/axis_{axis}", join(torch.stack), a=random(2, 3), b=random(2, 3),
                  c=random(2, 3), axis=axis)
        operation(file, f"slice/axis_{axis}", part_of, x=random(3, 3, 3), axis=axis, begin=1, end=2)
    for axis, index in [(0, 1), (1, -1), (-1, 2)]:
        operation(file, f"select/axis_{axis}", lambda x, axis, index: x.select(axis, index),
                  x=random(2, 3, 4), axis=axis, index=index)
    operation(file, "reshape", lambda x, shape: x.reshape(shape), x=random(2, 3, 4), shape=[4, 6])
    for form, (axis_a, axis_b) in {"last": (-1, -2), "outer": (0, 2), "same": (1, 1)}.items():
        operation(file, f"transpose/{form}", lambda x, axis_a, axis_b: x.transpose(axis_a, axis_b),
                  x=random(2, 3, 4), axis_a=axis_a, axis_b=axis_b)
    for form, axes in {"cycle": [1, 2, 0], "heads": [0, 2, 1, 3], "from_back": [-1, 0, -2]}.items():
        operation(file, f"permute/{form}", lambda x, axes: x.permute(axes),
                  x=random(2, 3, 4, 2) if len(axes) == 4 else random(2, 3, 4), axes=axes)


def dropouts(file):
    """Only at the rates where nothing is random."""
    for form, rate in {"nothing": 0.0, "everything": 1.0}.items():
        operation(file, f"dropout/{form}", lambda x, rate: F.dropout(x, rate),
                  x=random(*VECTORS), rate=rate)
        operation(file, f"dropout_add/{form}",
                  lambda residual, x, rate: residual + F.dropout(x, rate),
                  residual=random(*VECTORS), x=random(*VECTORS), rate=rate)


def projected_losses(file):
    def linear_cross_entropy(x, weight, bias, **others):
        return cross_entropy(F.linear(x, weight, bias), **others)

    for form, options in {"plain": (0.0, -100, 0), "smoothed_ignored": (0.1, 3, 0),
                          "normalized": (0.1, -100, 11)}.items():
        smoothing, ignored, normalizer = options
        operation(file, f"linear_cross_entropy/{form}", linear_cross_entropy, x=random(2, 3, 5),
                  weight=random(9, 5), bias=random(9),
                  targets=torch.tensor([[3, 1, 0], [5, 3, 8]]), label_smoothing=smoothing,
                  ignored_id=ignored, normalizer=normalizer)


def gated_activations(file):
    """Shazeer 2020, put together from PyTorch's functions; the first half is what is gated."""
    def gated(x, function):
        values, gates = x.chunk(2, -1)
        return values * function(gates)

    for form, factor in {"near": 1, "far": 8}.items():
        operation(file, f"silu/{form}", lambda x: F.silu(x), x=factor * random(*VECTORS))
        operation(file, f"swiglu/{form}", lambda x: gated(x, F.silu), x=factor * random(2, 3, 18))
        operation(file, f"geglu/{form}", lambda x: gated(x, F.gelu), x=factor * random(2, 3, 18))


def other_norms(file):
    def rms_norm(x, weight, epsilon):
        return F.rms_norm(x, weight.shape, weight, epsilon)

    def batch_norm(x, weight, bias, epsilon):
        y = F.batch_norm(x.flatten(0, -2), None, None, weight, bias, True, 0.0, epsilon)
        return y.reshape(x.shape)

    def batch_norm_given(x, weight, bias, epsilon, mean, variance):
        y = F.batch_norm(x.flatten(0, -2), torch.tensor(mean), torch.tensor(variance), weight, bias,
                         False, 0.0, epsilon)
        return y.reshape(x.shape)

    for form, shape in {"one_row": (7,), "rows": (2, 3, 5), "long_rows": (1, 19)}.items():
        operation(file, f"rms_norm/{form}", rms_norm, x=random(*shape), weight=random(shape[-1]),
                  epsilon=1e-5)
    for form, shape in {"three_rows": (3, 4), "rows": (2, 3, 5), "blocks_of_rows": (40, 2)}.items():
        n = shape[-1]
        operation(file, f"batch_norm/{form}", batch_norm, x=random(*shape), weight=random(n),
                  bias=random(n), epsilon=1e-5)
        operation(file, f"batch_norm_given/{form}", batch_norm_given, x=random(*shape),
                  weight=random(n), bias=random(n), epsilon=1e-5, mean=random(n).tolist(),
                  variance=random(n, low=0.5, high=2).tolist())


def residual_sums(file):
    """Only at the rates where nothing is random."""
    for form, rate in {"nothing_dropped": 0.0, "everything_dropped": 1.0}.items():
        operation(file, f"residual_add/{form}",
                  lambda residual, x, skip_scale, sublayer_scale, rate:
                  skip_scale * residual + sublayer_scale * F.dropout(x, rate),
                  residual=random(*VECTORS), x=random(*VECTORS), skip_scale=0.75,
                  sublayer_scale=-1.5, rate=rate)


def additive_attention(q, k, v, w, num_heads, **mask):
    q, k, v = (x.unflatten(-1, (num_heads, -1)).transpose(1, 2) for x in (q, k, v))
    scores = torch.tanh(q[:, :, :, None] + k[:, :, None]) @ w[:, None, :, None]
    may = attention_mask(q.shape[2], k.shape[2], **mask)
    y = torch.softmax(scores.squeeze(-1).masked_fill(~may[:, None], -math.inf), -1) @ v
    return y.transpose(1, 2).flatten(2)


def additive_attentions(file):
    for form, (n_q, n_k, options) in {
            "one_head": (3, 3, {"num_heads": 1}), "heads": (3, 4, {}),
            "causal": (4, 4, {"causal": True}), "window": (4, 4, {"radius": 1}),
            "padding": (4, 3, {"lengths": [1, 3]})}.items():
        heads = options.get("num_heads", 2)
        operation(file, f"additive_attention/{form}", additive_attention, q=random(2, n_q, 4),
                  k=random(2, n_k, 4), v=random(2, n_k, 2), w=random(heads, 4 // heads),
                  **({"num_heads": 2} | options))


def head_linears(file):
    def head_linear(x, weight):
        heads = x.unflatten(-1, (weight.shape[0], -1))
        return torch.einsum("...hi,hoi->...ho", heads, weight).flatten(-2)

    for form, (x, weight) in {"one_head": ((3, 4), (1, 2, 4)), "heads": ((2, 3, 6), (3, 2, 2)),
                              "wider": ((5, 4), (2, 3, 2))}.items():
        operation(file, f"head_linear/{form}", head_linear, x=random(*x), weight=random(*weight))


def alibi_slopes(heads):
    """Of the reference implementation of Press et al. 2022."""
    power = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * (i + 1) / power) for i in range(power)]
    return slopes + (alibi_slopes(2 * power)[0::2][:heads - power] if heads > power else [])


def alibi_attention(q, k, v, num_heads, alibi, **mask):
    n_q, n_k = q.shape[1], k.shape[1]
    distance = torch.arange(n_k)[None, :] - torch.arange(n_k - n_q, n_k)[:, None]
    bias = -torch.tensor(alibi_slopes(num_heads))[:, None, None] * distance.abs()
    may = attention_mask(n_q, n_k, **mask)
    q, k, v = (x.unflatten(-1, (num_heads, -1)).transpose(1, 2) for x in (q, k, v))
    y = F.scaled_dot_product_attention(q, k, v,
                                       attn_mask=bias.masked_fill(~may[:, None], -math.inf))
    return y.transpose(1, 2).flatten(2)


def alibi_attentions(file):
    for form, (n_q, n_k, heads, options) in {
            "self": (4, 4, 2, {}), "three_heads": (4, 4, 3, {}),
            "causal": (4, 4, 2, {"causal": True}), "padding": (4, 4, 2, {"lengths": [4, 2]}),
            "last_queries": (2, 4, 2, {})}.items():
        operation(file, f"attention/alibi_{form}", alibi_attention, q=random(2, n_q, 6),
                  k=random(2, n_k, 6), v=random(2, n_k, 6), num_heads=heads, alibi=True, **options)


def rotaries(file):
    def rotary(x, num_heads, base, first_position):
        pairs = torch.view_as_complex(x.unflatten(-1, (num_heads, -1, 2)))
        d = 2 * pairs.shape[-1]
        angles = torch.outer(first_position + torch.arange(x.shape[1]).double(),
                             base ** (-torch.arange(0, d, 2) / d))
        turned = pairs * torch.polar(torch.ones_like(angles), angles)[:, None]
        return torch.view_as_real(turned).flatten(-3)

    for form, (shape, options) in {
            "one_head": ((2, 3, 6), {}), "heads": ((2, 3, 8), {"num_heads": 2}),
            "long": ((1, 40, 4), {}), "later": ((1, 3, 4), {"first_position": 1000}),
            "base": ((1, 3, 4), {"base": 100.0})}.items():
        operation(file, f"rotary/{form}", rotary, x=random(*shape),
                  **({"num_heads": 1, "base": 10000.0, "first_position": 0} | options))


def choices(file):
    """Operations of pieces, and numbers with tensors."""
    shapes = {"same_shape": [VECTORS, VECTORS], "b_repeats": [(2, 3, 2), (3, 1)],
              "both_repeat": [(2, 1, 3), (2, 1)]}
    for form, (a, b) in shapes.items():
        for name, function in {"maximum": torch.maximum, "minimum": torch.minimum}.items():
            operation(file, f"{name}/{form}", lambda a, b: function(a, b), a=random(*a),
                      b=random(*b))
        operation(file, f"where/{form}", lambda a, b: torch.where(a < b, a, 2 * b), a=random(*a),
                  b=random(*b))
    equal = random(5)
    operation(file, "maximum/equal", lambda a, b: torch.maximum(a, b), a=equal.clone(),
              b=equal.clone())
    operation(file, "clamp", lambda x, low, high: torch.clamp(x, low, high), x=random(*VECTORS),
              low=-0.25, high=0.5)
    operation(file, "abs", lambda x: torch.abs(x), x=away_from_zero(*VECTORS))
    operation(file, "scalars", lambda x: (1.5 - x) / 0.75 + 2.0 / (x + 4.0) - 0.25,
              x=random(*VECTORS))


def spreads(file):
    for form, axes in {"last": [-1], "outer": [0, 2], "all": [0, 1, 2]}.items():
        for keep in False, True:
            operation(file, f"min/{form}{'_kept' * keep}",
                      lambda x, axes, keep_dims: torch.amin(x, axes, keep_dims), x=random(2, 3, 2),
                      axes=axes, keep_dims=keep)
            for correction in 0.0, 1.0:
                operation(file, f"var/{form}{'_kept' * keep}/correction_{correction:.0f}",
                          lambda x, axes, correction, keep_dims: torch.var(
                              x, axes, correction=int(correction), keepdim=keep_dims),
                          x=random(2, 3, 2), axes=axes, correction=correction, keep_dims=keep)


def indexing(file):
    def index_select(x, axis, index):
        return x.index_select(axis, index)

    def gather(x, axis, index):
        return x.gather(axis, index)

    def gather_largest(x, axis):
        return x.gather(axis, x.argmax(axis, keepdim=True))

    for form, axis, index in [("first", 0, [2, 0, 2, 2]), ("middle", 1, [1, 1]),
                              ("last", -1, [4, 3, 0, 1, 2, 4, 4]), ("nothing", 1, [])]:
        operation(file, f"index_select/{form}", index_select, x=random(3, 2, 5), axis=axis,
                  index=torch.tensor(index, dtype=torch.long))
    for form, axis, shape in [("first", 0, (4, 2, 5)), ("middle", 1, (3, 3, 5)),
                              ("last", -1, (3, 2, 1)), ("smaller", 1, (2, 4, 3))]:
        operation(file, f"gather/{form}", gather, x=random(3, 2, 5), axis=axis,
                  index=torch.randint((3, 2, 5)[axis], shape))
    for form, axis in {"first": 0, "last": -1}.items():
        operation(file, f"gather_largest/{form}", gather_largest, x=random(3, 2, 5), axis=axis)


def binary_losses(file):
    for form, factor in {"near": 1, "far": 8, "huge": 8192}.items():
        operation(file, f"binary_cross_entropy_with_logits/{form}",
                  lambda logits, target: F.binary_cross_entropy_with_logits(logits, target),
                  logits=factor * random(*VECTORS), target=random(*VECTORS, low=0, high=1))
        operation(file, f"binary_cross_entropy_with_logits/{form}_yes_no",
                  lambda logits, target: F.binary_cross_entropy_with_logits(logits, target),
                  logits=factor * random(2, 3, 2),
                  target=torch.randint(2, (2, 3, 2)).double())


def more_elementwise(file):
    for name, function in {"sin": torch.sin, "cos": torch.cos, "softplus": F.softplus}.items():
        for form, factor in {"near": 1, "far": 8}.items():
            operation(file, f"{name}/{form}", lambda x: function(x), x=factor * random(*VECTORS))
    operation(file, "sign", lambda x: x * torch.sign(x), x=away_from_zero(*VECTORS))
    operation(file, "where_number", lambda x: torch.where(x < 0.25, torch.where(x < -0.5, x, 0.5),
                                                          torch.where(x < 0.75, -1.5, x)),
              x=random(*VECTORS))


def more_reductions(file):
    for form, axes in {"last": [-1], "outer": [0, 2], "all": [0, 1, 2]}.items():
        for correction in 0.0, 1.0:
            operation(file, f"std/{form}/correction_{correction:.0f}",
                      lambda x, axes, correction: torch.std(x, axes, correction=int(correction)),
                      x=random(2, 3, 2), axes=axes, correction=correction)
    for form, axis in {"first": 0, "middle": 1, "last": -1}.items():
        operation(file, f"cumsum/{form}", lambda x, axis: torch.cumsum(x, axis),
                  x=random(3, 4, 5), axis=axis)
        operation(file, f"topk/{form}", lambda x, k, axis: torch.topk(x, k, axis).values,
                  x=random(3, 4, 5), k=3, axis=axis)
    for form, shape in {"same": [2, 3, 4], "repeated": [3, 1], "first": [1, 3, 4],
                        "number": []}.items():
        operation(file, f"sum_to_shape/{form}",
                  lambda x, shape: x.sum_to_size(shape) if shape else x.sum(), x=random(2, 3, 4),
                  shape=shape)


def more_rearrangements(file):
    def split(x, extents, axis):
        return torch.cat(x.split(extents, axis)[::-1], axis)

    def chunk(x, count, axis):
        return torch.cat(x.chunk(count, axis)[::-1], axis)

    for form, axis in {"first": 0, "last": -1}.items():
        operation(file, f"split/{form}", split, x=random(6, 2, 6), extents=[1, 3, 2], axis=axis)
        operation(file, f"chunk/{form}", chunk, x=random(6, 2, 6), count=3, axis=axis)
    for form, (first, last) in {"all": (0, -1), "last": (1, 2), "one": (1, 1)}.items():
        operation(file, f"flatten/{form}", lambda x, first, last: x.flatten(first, last),
                  x=random(2, 3, 4), first=first, last=last)
    for form, axis in {"middle": 1, "from_back": -2}.items():
        operation(file, f"squeeze/{form}", lambda x, axis: x.squeeze(axis), x=random(2, 1, 3),
                  axis=axis)
        operation(file, f"unsqueeze/{form}", lambda x, axis: x.unsqueeze(axis), x=random(2, 3),
                  axis=axis)
    operation(file, "one_hot", lambda x, ids, classes: x * F.one_hot(ids, classes),
              x=random(2, 3, 4), ids=torch.tensor([[3, 0, 0], [1, 2, 3]]), classes=4)


def main():
    file = GoldenFile(__file__)
    for group in (arithmetic, elementwise, activations, reductions, products, layer_norms,
                  attentions, lookups, losses, rearrangements, dropouts, projected_losses,
                  gated_activations, other_norms, residual_sums, additive_attentions, head_linears,
                  alibi_attentions, rotaries, choices, spreads, indexing, binary_losses,
                  more_elementwise, more_reductions, more_rearrangements):
        group(file)
    file.write()


if __name__ == "__main__":
    main()
