"""Two ranks that exchange data without waiting on a core: asynchronous copies, notifications, and
waits for them. One rank sends later than the other, which has to wait for it."""

import numpy as np
import ptod

SIDE, REPEAT, LATE = 128, 3, 1


def numbers(rank):
    return (np.arange(SIDE * SIDE).reshape(SIDE, SIDE) % 251 / 10 + rank).astype(np.float32)


def completion(g, parts, signals):
    for me, other in ((0, 1), (1, 0)):
        g.copy(parts["out"][me], parts["in"][other])
        g.task("add", parts["out"][me], parts["ones"][me], parts["result"][me])
    return "out", 0, lambda me: numbers(1 - me) + 1


def notify(g, parts, signals):
    produced = []
    for me, first in enumerate((None, delay(g))):  # LATE is the second
        task = g.task("scale", parts["in"][me], parts["out"][me], factor=2.0, after=first)
        produced.append(task)
    for me in range(2):  # readers of the token run after the peer's notification
        token = parts["mailbox"][me]
        g.wait(signals[me], ">=", 1, token=token)
        g.task("add", parts["out"][me], token, parts["result"][me])
    for me, other in ((0, 1), (1, 0)):
        to = parts["mailbox"][other]
        sent = g.copy(to, parts["ones"][me], after=produced[me], no_dependency=[0])
        g.notify(signals[other], 1, op="add", after=sent)
    return "mailbox", 1, lambda me: 2 * numbers(me) + 1


def deferred(g, parts, signals):
    for me in range(2):  # only the signal says that the data has arrived
        arrived = g.wait(signals[me], ">=", 1)
        g.task("copy", parts["mailbox"][me], parts["result"][me], after=arrived, no_dependency=[0])
    late = delay(g)
    for me, other in ((0, 1), (1, 0)):
        sent = g.copy(parts["mailbox"][other], parts["in"][me], after=late if me == LATE else None)
        g.notify(signals[other], 1, op="add", after=sent)
    return "mailbox", 1, lambda me: numbers(1 - me)


def delay(g):
    return g.task("spin", microseconds=2000, chip=LATE)


with ptod.connect() as node, node.session() as s:
    for scenario in (completion, notify, deferred):
        buffers = dict.fromkeys(
            ("in", "out", "ones", "mailbox", "result"), (SIDE * SIDE, np.float32)
        )
        with s.domain([0, 1], buffers, signals=1) as domain:
            parts = {
                name: [part.reshape(SIDE, SIDE) for part in domain.windows(name)]
                for name in buffers
            }
            for rank in range(2):
                parts["in"][rank].write(numbers(rank))
                parts["ones"][rank].write(1)
            g = ptod.Graph()
            signals = [domain.signals(rank)[0] for rank in range(2)]
            spoiled, notified, want = scenario(g, parts, signals)
            graph = s.register(g)
            for _ in range(REPEAT):
                for name in (spoiled, "result"):
                    for part in parts[name]:
                        part.write(np.nan)
                graph.run()
                for rank in range(2):
                    np.testing.assert_allclose(parts["result"][rank].read(), want(rank), atol=1e-5)
                    assert domain.read_signals(rank) == [notified]
        print(f"async_{scenario.__name__}: ok")
