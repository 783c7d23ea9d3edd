"""Random graphs: what the daemon computes is what numpy computes, task by task in program order.

PTOD_RANDOM_GRAPHS is how many (2,000), PTOD_RANDOM_SEED the seed of the first one; each one's seed
is printed when it fails, and repeats it with PTOD_RANDOM_GRAPHS=1.
"""

import os
import random
import time
import unittest

import numpy as np
import ptod
import testing
from ptod.view import view_of_bytes

GRAPHS = int(os.environ.get("PTOD_RANDOM_GRAPHS", "2000"))
SEED = int(os.environ.get("PTOD_RANDOM_SEED", "20250"))
CHIPS = 4
ELEMENTS = 96
DTYPES = (np.int32, np.int64, np.float32)
OPS = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


class World:
    """The buffers of all graphs, and the numbers that must be in them."""

    def __init__(self, session):
        self.buffers, self.pools, self.memory, self.mapped = [], {}, {}, {}
        for chip in range(CHIPS):
            for dtype in DTYPES:
                for _ in range(2):
                    tensor = session.empty(ELEMENTS, dtype, chip=chip)
                    self.add(tensor)
                    self.mapped[tensor.slot] = tensor.numpy()
        windows = {np.dtype(dtype).name: (ELEMENTS, dtype) for dtype in DTYPES[:2]}
        self.domain = session.domain(range(CHIPS), windows, signals=4)
        for dtype in DTYPES[:2]:
            for tensor in self.domain.windows(np.dtype(dtype).name):
                self.add(tensor)

    def add(self, tensor):
        self.buffers.append(tensor)
        self.pools.setdefault((tensor.chip, tensor.dtype.numpy.type), []).append(tensor)
        self.memory[tensor.slot] = np.zeros(ELEMENTS, tensor.dtype.numpy)

    def fill(self, choose):
        """New numbers: small ones, so that F32 stays exact for a while."""
        for tensor in self.buffers:
            numbers = np.frombuffer(choose.randbytes(ELEMENTS), np.int8) % 9 - 4
            self.memory[tensor.slot][:] = numbers
            if tensor.slot in self.mapped:
                self.mapped[tensor.slot][:] = numbers
            else:
                tensor.write(self.memory[tensor.slot])

    def array(self, view):
        return view_of_bytes(self.memory[view.slot].view(np.uint8), view)

    def check(self):
        for tensor in self.buffers:
            have = self.mapped[tensor.slot] if tensor.slot in self.mapped else tensor.read()
            np.testing.assert_array_equal(have, self.memory[tensor.slot], tensor.slot)


class Maker:
    """Adds random tasks to a graph, and computes what they do."""

    def __init__(self, world, choose, graph):
        self.world, self.choose, self.graph = world, choose, graph
        self.signal = 0

    def view(self, chip, dtype, shape, avoid=()):
        """A view that shares no memory with those to avoid; None if none is found."""
        pool = self.world.pools[chip, dtype]
        for _ in range(20):
            view = self.cut(self.choose.choice(pool), shape)
            mine = self.world.array(view)
            if not any(np.shares_memory(mine, self.world.array(other)) for other in avoid):
                return view
        return None

    def cut(self, buffer, shape):
        """A view of this shape somewhere in the buffer: contiguous, strided or transposed."""
        rows, columns = (1, *shape)[-2:]
        kind = self.choose.randint(0, 3)
        if kind == 1 and 2 * rows * columns <= ELEMENTS:
            base = buffer[: 2 * rows * columns].reshape(rows, 2 * columns)[
                :, self.choose.randint(0, 1) :: 2
            ]
        elif kind == 2:
            base = buffer[: rows * columns].reshape(columns, rows).T
        else:
            first = self.choose.randint(0, ELEMENTS - rows * columns)
            base = buffer[first : first + rows * columns].reshape(rows, columns)
        return base if len(shape) == 2 else base[0] if rows == 1 else base.reshape(shape)

    def shape(self):
        if self.choose.random() < 0.5:
            return (self.choose.randint(1, 24),)
        return (self.choose.randint(1, 6), self.choose.randint(1, 8))

    def add(self):
        kinds = (
            self.element_wise,
            self.element_wise,
            self.element_wise,
            self.fill,
            self.copy,
            self.matmul,
        )
        kinds += (self.reduce_sum, self.collective, self.predicate, self.signals)
        self.choose.choice(kinds)()

    def options(self):
        options = {}
        if self.choose.random() < 0.3:
            options["blocks"] = self.choose.randint(1, 6)
        if self.graph.tasks and self.choose.random() < 0.2:
            options["after"] = self.choose.choice(self.graph.tasks)
        return options

    def element_wise(self):
        chip, dtype, shape = self.choose.randrange(CHIPS), self.choose.choice(DTYPES), self.shape()
        kernel = self.choose.choice(("add", "sub", "mul", "scale", "axpy"))
        a, b = self.view(chip, dtype, shape), self.view(chip, dtype, shape)
        out = a if self.choose.random() < 0.2 else self.view(chip, dtype, shape, (a, b))
        if out is None or kernel == "mul" and dtype == np.float32:
            return
        array = self.world.array
        if kernel in ("scale", "axpy"):
            factor = self.choose.choice((-1, 0, 1, 2))
            if kernel == "scale":
                result = array(a) * np.asarray(factor, array(a).dtype)
                self.graph.task("scale", a, out, factor=float(factor), **self.options())
            elif out is a:
                return
            else:
                result = array(out) + array(a) * np.asarray(factor, array(a).dtype)
                self.graph.task("axpy", a, out, alpha=float(factor), **self.options())
        else:
            if out is a and np.shares_memory(array(a), array(b)):
                return
            result = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[kernel](
                array(a), array(b)
            )
            self.graph.task(kernel, a, b, out, **self.options())
        array(out)[...] = result

    def fill(self):
        out = self.view(self.choose.randrange(CHIPS), self.choose.choice(DTYPES), self.shape())
        if self.choose.random() < 0.5:
            value = self.choose.randint(-5, 5)
            self.graph.task("fill", out, value=value, **self.options())
            self.world.array(out)[...] = value
        else:
            self.graph.task("iota", out, start=-3, step=2, **self.options())
            self.world.array(out)[...] = (np.arange(out.size) * 2 - 3).reshape(out.shape)

    def copy(self):
        dtype, shape = self.choose.choice(DTYPES), self.shape()
        source = self.view(self.choose.randrange(CHIPS), dtype, shape)
        across = self.choose.random() < 0.5
        chip = self.choose.randrange(CHIPS) if across else source.chip
        out = self.view(chip, dtype, shape, (source,))
        if out is None:
            return
        if across:
            self.graph.copy(out, source)
        else:
            self.graph.task("copy", source, out, **self.options())
        self.world.array(out)[...] = self.world.array(source)

    def matmul(self):
        chip, dtype = self.choose.randrange(CHIPS), self.choose.choice(DTYPES[:2])
        m, k, n = (self.choose.randint(1, 5) for _ in range(3))
        a, b = self.view(chip, dtype, (m, k)), self.view(chip, dtype, (k, n))
        out = self.view(chip, dtype, (m, n), (a, b))
        if out is not None:
            self.graph.task("matmul", a, b, out, **self.options())
            self.world.array(out)[...] = self.world.array(a) @ self.world.array(b)

    def reduce_sum(self):
        chip, dtype = self.choose.randrange(CHIPS), self.choose.choice(DTYPES[:2])
        source = self.view(chip, dtype, self.shape())
        out = self.view(chip, dtype, (1,), (source,))
        if out is not None:
            self.graph.task("reduce_sum", source, out, **self.options())
            self.world.array(out)[...] = self.world.array(source).sum(dtype=dtype)

    def predicate(self):
        chip = self.choose.randrange(CHIPS)
        flag = self.view(chip, np.int32, (1,))
        out = self.view(chip, self.choose.choice(DTYPES), self.shape(), (flag,))
        if out is None:
            return
        sign = self.choose.choice((">", "<=", "=="))
        limit = self.choose.randint(-2, 2)
        have = int(self.world.array(flag)[0])
        self.graph.task("fill", out, value=1, when=(flag, sign, limit))
        if {">": have > limit, "<=": have <= limit, "==": have == limit}[sign]:
            self.world.array(out)[...] = 1

    def signals(self):
        """A value that crosses from chip to chip, with nothing but a signal to order it."""
        if self.signal == 4:
            return
        source, target = self.choose.sample(range(CHIPS), 2)
        a = self.view(source, np.int32, (8,))
        b = self.view(target, np.int32, (8,), (a,))
        if b is None:
            return
        signal = self.world.domain.signals(target)[self.signal]
        self.signal += 1
        sent = self.graph.copy(b, a)
        self.graph.notify(signal, 1, op="add", after=sent)
        arrived = self.graph.wait(signal, ">=", 1, timeout=60)
        self.graph.task("add", b, b, b, after=arrived)
        self.world.array(b)[...] = self.world.array(a)
        self.world.array(b)[...] += self.world.array(b)

    def collective(self):
        """A collective over some ranks, on windows or on plain buffers."""
        ranks = self.choose.sample(range(CHIPS), self.choose.randint(1, CHIPS))
        dtype, count = self.choose.choice(DTYPES[:2]), self.choose.randint(1, 6)
        kind = self.choose.choice(
            ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all")
        )
        size = len(ranks)
        inner = count * size if kind in ("reduce_scatter", "all_to_all") else count
        outer = count * size if kind in ("all_gather", "all_to_all") else count
        members = []
        for rank in ranks:
            source = self.contiguous(rank, dtype, inner)
            out = self.contiguous(rank, dtype, outer, source)
            if out is None:
                return
            members.append([source, out])
        array = self.world.array
        inputs = [array(source).copy() for source, _ in members]
        op = self.choose.choice(("sum", "max", "min"))
        if kind == "all_reduce":
            algorithm = self.choose.choice(
                ("auto", "one_shot", "two_shot", "ring", "bidirectional_ring")
            )
            self.graph.all_reduce(members, op=op, algorithm=algorithm)
            results = [OPS[op].reduce(inputs)] * size
        elif kind == "reduce_scatter":
            self.graph.group(kind, members, op=op)
            results = np.split(OPS[op].reduce(inputs), size)
        elif kind == "all_gather":
            self.graph.group(kind, members)
            results = [np.concatenate(inputs)] * size
        elif kind == "broadcast":
            root = self.choose.randrange(size)
            self.graph.group(kind, members, root=root)
            results = [inputs[root]] * size
        else:
            self.graph.group(kind, members)
            parts = [np.split(each, size) for each in inputs]
            results = [np.concatenate([part[rank] for part in parts]) for rank in range(size)]
        for (_, out), result in zip(members, results):
            array(out)[...] = result

    def contiguous(self, chip, dtype, count, avoid=None):
        pool = self.world.pools[chip, dtype]
        for _ in range(20):
            buffer = self.choose.choice(pool)
            first = self.choose.randint(0, ELEMENTS - count)
            view = buffer[first : first + count]
            if avoid is None or not np.shares_memory(
                self.world.array(view), self.world.array(avoid)
            ):
                return view
        return None


class RandomGraphTest(unittest.TestCase):
    def test_random_graphs(self):
        print(f"{GRAPHS} graphs from seed {SEED} on")
        started, self.tasks = time.monotonic(), 0
        with testing.local(chips=CHIPS) as node, node.session() as s:
            world = World(s)
            for seed in range(SEED, SEED + GRAPHS):
                with self.subTest(seed=seed), np.errstate(over="ignore"):
                    self.one(s, world, random.Random(seed))
        print(f"{self.tasks} tasks in {time.monotonic() - started:.1f} s")

    def one(self, s, world, choose):
        world.fill(choose)
        way = choose.choice(("submit", "register", "open"))
        length = choose.randint(1, 60)
        if way == "open":
            with s.open_run(events="run") as run:
                for _ in range(choose.randint(1, 4)):
                    maker = Maker(world, choose, run.graph)
                    while len(run.graph.tasks) < length // 3 + 1:
                        maker.add()
                    run.flush()
            self.tasks += len(run.graph)
        else:
            graph = ptod.Graph()
            maker = Maker(world, choose, graph)
            while len(graph) < length:
                maker.add()
            self.tasks += len(graph)
            if way == "submit":
                s.run(graph, events="run")
            else:
                registered = s.register(graph)
                registered.run(events="run")
                registered.delete()
        world.check()


if __name__ == "__main__":
    testing.main()
