"""Tasks of random kernels on random chips, with edges between them that carry no data, too. Checks
every value against numpy. The argument is the seed."""

import random
import sys

import numpy as np
import ptod

STEPS, ELEMENTS, REACH = 2000, 64, 24
seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
choose = random.Random(seed)

with ptod.connect() as node, node.session() as s:
    chips = node.info.chip_count
    numbers = [
        np.random.default_rng(chip).uniform(-1, 1, ELEMENTS).astype(np.float32)
        for chip in range(chips)
    ]
    inputs = [s.tensor(numbers[chip], chip=chip) for chip in range(chips)]
    values = [s.empty((STEPS, ELEMENTS), chip=chip) for chip in range(chips)]
    known = [[(inputs[chip], numbers[chip])] for chip in range(chips)]
    graph = ptod.Graph()
    for step in range(STEPS):
        chip = choose.randrange(chips)
        (a, x), (b, y) = (choose.choice(known[chip][-REACH:]) for _ in range(2))
        out, after = values[chip][step], None
        if graph.tasks and choose.random() < 0.25:
            after = choose.choice(graph.tasks[-REACH:])
        kernel = choose.choice(("copy", "scale", "scale", "sub", "add"))
        if kernel == "copy":
            graph.task("copy", a, out, after=after)
            result = x
        elif kernel == "scale":
            factor = choose.choice((0.5, -0.25))
            graph.task("scale", a, out, factor=factor, after=after)
            result = x * np.float32(factor)
        else:
            graph.task(kernel, a, b, out, after=after)
            result = x + y if kernel == "add" else x - y
        known[chip].append((out, result))
    s.run(graph)
    for chip in range(chips):
        have = values[chip].numpy()
        for view, want in known[chip][1:]:
            np.testing.assert_array_equal(have[view.offset // ELEMENTS], want)
    print(f"random_dag: ok, {STEPS} tasks on {chips} chips, seed {seed}")
