"""A feed-forward network of two layers, y = (x·w1 + b1)∘(x·w1 + b1) · w2 + b2, registered once and
launched for several inputs. Checks every output."""

import numpy as np
import ptod

ROWS, IN, HIDDEN, OUT, BATCHES = 16, 32, 64, 8, 4
random = np.random.default_rng(1)


def fill(*shape):
    return random.uniform(-0.5, 0.5, shape).astype(np.float32)


with ptod.connect() as node, node.session() as s:
    w1, b1, w2, b2 = fill(IN, HIDDEN), fill(ROWS, HIDDEN), fill(HIDDEN, OUT), fill(ROWS, OUT)
    x, y = s.empty((ROWS, IN)), s.empty((ROWS, OUT))
    product, hidden, squared = (s.empty((ROWS, HIDDEN)) for _ in range(3))

    # The daemon finds the order from what the tasks read and write.
    g = ptod.Graph()
    g.task("matmul", x, s.tensor(w1), product)
    g.task("add", product, s.tensor(b1), hidden)
    g.task("mul", hidden, hidden, squared)
    g.task("matmul", squared, s.tensor(w2), y)
    g.task("add", y, s.tensor(b2), y)
    network = s.register(g, "ffn")

    for _ in range(BATCHES):
        batch = fill(ROWS, IN)
        x.write(batch)
        network.run()
        layer = batch.astype(np.float64) @ w1 + b1
        np.testing.assert_allclose(y.numpy(), layer * layer @ w2 + b2, rtol=1e-4, atol=1e-4)
    print(f"ffn: ok, {BATCHES} batches of {ROWS} rows")
