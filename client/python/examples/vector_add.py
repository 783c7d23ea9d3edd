"""Adds two vectors on every chip of a node, and checks the sums."""

import numpy as np
import ptod

COUNT = 1 << 16

with ptod.connect() as node, node.session() as s:
    a, b = np.arange(COUNT, dtype=np.float32), np.full(COUNT, 0.5, np.float32)
    graph, sums = ptod.Graph(), []
    for chip in range(node.info.chip_count):
        x, y = s.tensor(a, chip=chip), s.tensor(b, chip=chip)
        sums.append(s.empty(COUNT, chip=chip))
        graph.task("add", x, y, sums[chip], blocks=8)
    s.run(graph)
    for total in sums:
        np.testing.assert_array_equal(total.numpy(), a + b)
    print(f"vector_add: ok, {len(sums)} chips, {COUNT} elements each")
