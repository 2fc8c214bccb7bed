"""Random views and writes through them on the device, mirrored on the CPU: both bases must stay equal, bit for bit."""

import torch

import _driver


def random_view(rng, pair):
    """The same view of both tensors of `pair`, or None where it does not apply."""
    tensor = pair[0]
    if tensor.dim() == 0:
        return None
    d = rng.randrange(tensor.dim())
    size = tensor.shape[d]
    kind = rng.choice(
        ["slice", "select", "transpose", "unsqueeze", "diagonal", "unfold", "split", "flatten", "as_strided"]
    )
    if kind == "slice":
        start, step = rng.randint(0, size), rng.randint(1, 3)
        return [
            t.narrow(d, min(start, size), max(size - start, 0))[(slice(None),) * d + (slice(None, None, step),)]
            for t in pair
        ]
    if kind == "select" and size:
        index = rng.randrange(size)
        return [t.select(d, index) for t in pair]
    if kind == "transpose":
        other = rng.randrange(tensor.dim())
        return [t.transpose(d, other) for t in pair]
    if kind == "unsqueeze" and tensor.dim() < 5:
        return [t.unsqueeze(d) for t in pair]
    if kind == "diagonal" and tensor.dim() >= 2:
        return [t.diagonal(0, 0, 1) for t in pair]
    if kind == "split" and size > 1:
        cut = rng.randint(1, size - 1)
        return [t.split([cut, size - cut], d)[1] for t in pair]
    if kind == "flatten" and tensor.is_contiguous():
        return [t.view(-1) for t in pair]
    if kind == "as_strided" and tensor.is_contiguous() and tensor.numel() > 6:
        offset = tensor.storage_offset()
        return [t.as_strided((2, 3), (3, 1), offset) for t in pair]
    return None


def write(rng, pair, others):
    """The same in-place operation on both tensors of `pair`. All results are exact in every dtype used."""
    kind = rng.choice(["fill", "add", "copy", "mask", "neg", "index", "clamp", "cast"])
    value = rng.randint(-3, 3)
    source = rng.choice(others)
    for i, tensor in enumerate(pair):
        if kind == "fill":
            tensor.fill_(value)
        elif kind == "add":
            tensor.add_(value)
        elif kind == "copy" and source[0].numel() == tensor.numel():
            tensor.copy_(source[i].clone().reshape(tensor.shape))
        elif kind == "mask":
            tensor.masked_fill_(tensor > value, value)
        elif kind == "neg":
            tensor.neg_()
        elif kind == "clamp":
            tensor.clamp_(-abs(value), abs(value))
        elif kind == "cast":
            tensor.copy_(tensor.to(torch.float64) * 2)
        elif kind == "index" and tensor.dim() and tensor.shape[0]:
            tensor[rng.randrange(1)] = value
    if kind != "neg":
        for tensor in pair:
            tensor.remainder_(64)  # stays exact after many rounds


def case(rng, arguments):
    torch.manual_seed(rng.randrange(2**31))
    dtype = rng.choice([torch.float32, torch.float64, torch.int64, torch.int32, torch.float16, torch.bfloat16])
    shape = [
        rng.choice([0, 1, 2, 3, 5, 8]) if rng.random() < 0.15 else rng.randint(1, 8) for _ in range(rng.randint(1, 4))
    ]
    base = torch.randint(-8, 8, shape).to(dtype)
    bases = [base, base.clone().to(arguments.device)]
    pairs = [bases]
    for _ in range(rng.randint(5, 25)):
        pair = rng.choice(pairs)
        if rng.random() < 0.6:
            view = random_view(rng, pair)
            if view is not None:
                assert view[0].shape == view[1].shape and view[0].stride() == view[1].stride()
                pairs.append(view)
        else:
            write(rng, pair, pairs)
    for cpu, device in pairs:
        torch.testing.assert_close(device.cpu(), cpu, rtol=0, atol=0, equal_nan=True)


if __name__ == "__main__":
    _driver.run(case)
