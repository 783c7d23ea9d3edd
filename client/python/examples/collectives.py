"""The collectives over all chips, with the numbers of the C++ scenarios. Chips take part as ranks
of a domain; each checks every element, several times with other numbers."""

import numpy as np
import ptod

COUNT, REPEAT = 64, 3


def ramp(rank, count):
    return np.arange(count) % 65521 + 100.0 * rank


def check(s, ranks, kernel, inner, outer, put, want, growth=1, **scalars):
    """Runs a collective with other inputs each time: leftovers of an earlier one are wrong."""
    with s.domain(range(ranks), {"in": (inner, np.float32), "out": (outer, np.float32)}) as domain:
        g = ptod.Graph()
        members = list(zip(domain.windows("in"), domain.windows("out")))
        g.group(kernel, members, **scalars)
        graph = s.register(g)
        for repetition in range(REPEAT):
            for rank, (source, out) in enumerate(members):
                source.write(put(rank) + repetition)
                out.write(np.nan)
            graph.run()
            for rank, (_, out) in enumerate(members):
                np.testing.assert_array_equal(out.read(), want(rank) + growth * repetition)
    print(f"{kernel}: ok, {ranks} ranks", *scalars.values())


with ptod.connect() as node, node.session() as s:
    n = node.info.chip_count
    total = lambda count: sum(ramp(rank, count) for rank in range(n))
    for algorithm in ("auto", "one_shot", "two_shot", "ring", "bidirectional_ring"):
        check(
            s,
            n,
            "all_reduce",
            256,
            256,
            lambda rank: ramp(rank, 256),
            lambda rank: total(256),
            n,
            op="sum",
            algorithm=algorithm,
            deterministic=0,
        )
    check(
        s,
        n,
        "all_gather",
        COUNT,
        COUNT * n,
        lambda rank: ramp(rank, COUNT),
        lambda rank: np.concatenate([ramp(other, COUNT) for other in range(n)]),
    )
    check(
        s,
        n,
        "reduce_scatter",
        COUNT * n,
        COUNT,
        lambda rank: ramp(rank, COUNT * n),
        lambda rank: np.split(total(COUNT * n), n)[rank],
        n,
        op="sum",
    )
    for root in range(n):
        check(
            s,
            n,
            "broadcast",
            COUNT,
            COUNT,
            lambda rank: ramp(rank, COUNT),
            lambda rank: ramp(root, COUNT),
            root=root,
        )
    part = lambda source, target: 1000.0 * source + 100.0 * target + np.arange(COUNT)
    check(
        s,
        n,
        "all_to_all",
        COUNT * n,
        COUNT * n,
        lambda rank: np.concatenate([part(rank, other) for other in range(n)]),
        lambda rank: np.concatenate([part(other, rank) for other in range(n)]),
    )
