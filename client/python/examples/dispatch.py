"""Where tasks run, and whether: on several chips, on contended chips, or not at all."""

import numpy as np
import ptod

COUNT, TASKS, REPEAT = 16384, 16, 3


def multi_chip(s, chips):
    """Sums on each chip, sent to the first one after the other and added up there."""
    a, half, total = ([s.empty(COUNT, chip=chip) for chip in range(chips)] for _ in range(3))
    everything, landing = s.empty(COUNT), s.empty(COUNT)
    g = ptod.Graph()
    for chip in range(chips):
        half[chip].write(0.5)
        g.task("add", a[chip], half[chip], total[chip])
    g.task("fill", everything, value=0.0)
    for part in total:
        g.copy(landing, part)
        g.task("add", everything, landing, everything)
    graph = s.register(g)
    for repetition in range(REPEAT):
        increase = (np.arange(COUNT) + repetition) % 64
        for chip in range(chips):
            a[chip].write(chip + increase)
        graph.run()
        want = chips * (chips - 1) / 2 + chips / 2 + chips * increase
        np.testing.assert_array_equal(everything.numpy(), want)


def groups(s, clusters):
    """Tasks over several chips that each need all of their cores, so they compete for them."""
    wanted = {"first": ([0, 1], [10, 11]), "second": ([1, 0], [31, 32]), "single": ([0], [1])}
    g, outs = ptod.Graph(), []
    for name, (chips, values) in wanted.items():
        source = s.tensor(values, np.int32, chip=chips[0])
        # Member m gets number m of the first member; the others' inputs are not read.
        ins = [source] + [s.empty(len(values), np.int32, chip=chip) for chip in chips[1:]]
        outs.append(([s.empty(1, np.int32, chip=chip) for chip in chips], values))
        g.group(
            "scatter", list(zip(ins, outs[-1][0])), root=0, core="mix", blocks=clusters, name=name
        )
    s.run(g)
    for tensors, values in outs:
        assert [int(tensor.read()[0]) for tensor in tensors] == values


def predicates(s):
    """Tasks that run only if a number says so, which a task of the same graph writes."""
    given, flags = s.empty(TASKS, np.int32), s.empty(TASKS, np.int32)
    out = s.empty(TASKS)
    g = ptod.Graph()
    g.task("copy", given, flags)
    for i in range(TASKS):
        g.task("fill", out[i : i + 1], value=float(i), when=(flags[i], ">=", TASKS // 2))
    graph = s.register(g)
    for repetition in range(REPEAT):
        numbers = (np.arange(TASKS) + repetition) % TASKS
        given.write(numbers)
        out.write(-1)
        graph.run()
        np.testing.assert_array_equal(
            out.numpy(), np.where(numbers >= TASKS // 2, np.arange(TASKS), -1)
        )


with ptod.connect() as node, node.session() as s:
    multi_chip(s, node.info.chip_count)
    groups(s, node.chips()[0].clusters)
    predicates(s)
    print("dispatch: ok")
