"""A feed-forward layer whose weights are split over the ranks: each rank multiplies its part, and
the partial products are summed over all ranks. No edge is named: the daemon finds that the
collective reads what the products write."""

import numpy as np
import ptod

SIDE, REPEAT = 64, 5
steps = np.arange(SIDE * SIDE, dtype=np.float64).reshape(SIDE, SIDE)

with ptod.connect() as node, node.session() as s:
    ranks = node.info.chip_count
    parts = {name: (SIDE * SIDE, np.float32) for name in ("x", "w", "partial", "y")}
    domain = s.domain(range(ranks), parts)
    x, w, partial, y = (
        [part.reshape(SIDE, SIDE) for part in domain.windows(name)] for name in parts
    )
    inputs = [((steps + 0.25 * rank) / 32).astype(np.float32) for rank in range(ranks)]
    weights = [((steps + 0.5 * (rank + 1)) / 48).astype(np.float32) for rank in range(ranks)]
    golden = sum(a.astype(np.float64) @ b for a, b in zip(inputs, weights))

    g = ptod.Graph()
    for rank in range(ranks):
        w[rank].write(weights[rank])
        g.task("matmul", x[rank], w[rank], partial[rank])
    g.all_reduce([[a.reshape(-1), b.reshape(-1)] for a, b in zip(partial, y)])
    layer = s.register(g)
    for factor in range(
        1, REPEAT + 1
    ):  # other inputs each time: the sum of an earlier one is wrong
        for rank in range(ranks):
            x[rank].write(inputs[rank] * factor)
        layer.run()
        for out in y:
            np.testing.assert_allclose(out.read(), golden * factor, rtol=1e-5, atol=1e-4)
    print(f"ffn_tp: ok, {ranks} ranks")
