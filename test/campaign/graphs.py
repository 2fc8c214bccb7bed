"""Random graphs, compiled with symbolic sizes, against the same graph in float64 on the CPU.

A case is a random program over two inputs of shape [batch, rows, columns] and a parameter; it runs compiled for three sets of sizes.
"""

import torch

import _driver

POINTWISE = (
    torch.tanh,
    torch.sigmoid,
    torch.relu,
    torch.sin,
    torch.nn.functional.gelu,
    lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    lambda x: torch.exp(-x.abs()),
    lambda x: torch.sqrt(x.abs() + 1),
    lambda x: x * 0.5 - 1,
    lambda x: torch.where(x > 0, x, 0.1 * x),
)
ALONG_ROWS = (
    lambda x: torch.softmax(x, -1),
    lambda x: x - x.mean(-1, keepdim=True),
    lambda x: x / (x.abs().amax(-1, keepdim=True) + 1),
    lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]),
    lambda x: x + x.sum(1, keepdim=True) * 0.01,
    lambda x: x * torch.rsqrt((x * x).mean((1, 2), keepdim=True) + 1),
)
VIEWS = (
    lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    lambda x: x.permute(1, 0, 2).reshape(-1, x.shape[2]).view(x.shape[1], x.shape[0], x.shape[2]).transpose(0, 1),
    lambda x: x.flip(1),
    lambda x: torch.cat([x[:, 1:], x[:, :1]], 1),
    lambda x: x[:, :1].expand_as(x) + x,
)
BINARY = (
    torch.add,
    torch.sub,
    torch.mul,
    torch.maximum,
    lambda x, y: x / (y.abs() + 1),
    lambda x, y: torch.bmm(torch.softmax(torch.bmm(x, y.transpose(1, 2)) * 0.1, -1), y),
    lambda x, y: x + y[:, :, :1],
    lambda x, y: x * y.mean(0, keepdim=True),
)


def program(rng, columns):
    """A function of (x, y, weight) with a random body that keeps the shape [batch, rows, columns]."""
    steps = []
    for _ in range(rng.randint(2, 9)):
        kind = rng.choice(["pointwise", "pointwise", "rows", "view", "binary", "binary", "linear"])
        table = {"pointwise": POINTWISE, "rows": ALONG_ROWS, "view": VIEWS, "binary": BINARY}.get(kind)
        steps.append((kind, rng.choice(table) if table else None, rng.random(), rng.random()))
    tail = rng.choice(
        [lambda x: x, lambda x: x.sum(-1), lambda x: x.amax(1), lambda x: x.mean((0, 2)), lambda x: x[:, 0]]
    )

    def body(x, y, weight):
        values = [x, y]
        for kind, function, first, second in steps:
            a = values[int(first * len(values))]
            if kind == "binary":
                values.append(function(a, values[int(second * len(values))]))
            elif kind == "linear":
                values.append(torch.nn.functional.linear(a, weight) / columns**0.5)
            else:
                values.append(function(a))
        return tail(values[-1]), values[-2]

    return body


def case(rng, arguments):
    torch.manual_seed(rng.randrange(2**31))
    torch._dynamo.reset()
    columns = rng.choice([1, 3, 8, 17, 64, 100])
    body = program(rng, columns)
    compiled = torch.compile(body, backend=arguments.backend, dynamic=True)
    weight = torch.randn(columns, columns)
    with torch.no_grad():
        for _ in range(3):
            shape = (rng.randint(1, 5), rng.randint(1, 40), columns)
            inputs = [torch.randn(shape), torch.randn(shape), weight]
            expected = body(*[t.double() for t in inputs])
            plain = body(*inputs)
            got = compiled(*[t.to(arguments.device) for t in inputs])
            for value, single, reference in zip(got, plain, expected, strict=True):
                assert value.shape == reference.shape and value.dtype == torch.float32
                # float32's own error on this graph says how far a right answer may be off
                scale = reference.abs().max().clamp(min=1e-3)
                allowed = 8 * (single.double() - reference).abs().max() + 1e-5 * scale
                error = (value.cpu().double() - reference).abs().max()
                assert error <= allowed, f"error {error:.2e}, allowed {allowed:.2e}, shape {shape}"


if __name__ == "__main__":
    _driver.run(case)
