#!/usr/bin/env python3
"""Measures the Python client beside bare grpcio calls to a bare gRPC server, in one run.

  launch    a launch of one task that does nothing, with its end, beside an echo of the same sizes
  asyncio   the same, many at once in one event loop
  runs      a thousand runs that one event loop awaits at once, of which a fifth is cancelled: all
            must end as they should
  memory    a large tensor that is filled in place: what this process holds of it

Rounds of ours and of the echo alternate, so that a busy machine disturbs both. An echo has no
messages to make: its serializers are the identity.
"""

import argparse
import asyncio
import gc
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import grpc
import grpc.aio
import numpy as np
import ptod
import ptod.aio

LAUNCH_LIMIT, ASYNCIO_LIMIT, MEMORY_LIMIT = 1.3, 0.6, 64 << 20
RUNS, CANCELLED_EVERY = 1000, 5
OPTIONS = (("grpc.use_local_subchannel_pool", 1),)


def find(program):
    """A program that was built with this one."""
    for base in (
        os.environ.get("RUNFILES_DIR", ""),
        os.getcwd(),
        os.path.dirname(os.path.dirname(sys.path[0])),
    ):
        for path in (os.path.join(base, "pto", program), os.path.join(base, program)):
            if os.access(path, os.X_OK):
                return path
    raise SystemExit(
        f"there is no {program}: use bazel run --config=release //tests/bench:python_bench"
    )


class Sizes:
    """Bytes of a launch and of its answer."""

    def __init__(self, graph):
        request = graph.request()
        request.wait.seconds = 3600
        self.request = request.ByteSize()
        self.reply = graph.run().info.ByteSize()

    def ping(self):
        """pto.bench.Ping with a payload, so that it and the answer are as large."""
        payload = bytes(self.request - 6)
        number, tail = self.reply - 3, b""
        while True:
            tail += bytes([number & 127 | (128 if number > 127 else 0)])
            number >>= 7
            if not number:
                break
        assert len(payload) < 128
        return b"\x0a" + bytes([len(payload)]) + payload + b"\x10" + tail


def time_calls(call, count):
    samples = []
    clock = time.perf_counter_ns
    for _ in range(count):
        begin = clock()
        call()
        samples.append(clock() - begin)
    return samples


def place(cpus_of):
    """Puts processes on CPUs. Two that wake each other are put by the kernel now on one and now on
    two, which alone makes a factor of two."""
    for pid, cpus in cpus_of.items():
        for thread in os.listdir(f"/proc/{pid}/task"):
            os.sched_setaffinity(int(thread), cpus)


def launch_bench(graph, echo, ping, rounds, calls):
    ours, bare, ratios = [], [], []
    gc.disable()
    for _ in range(rounds):
        mine, theirs = time_calls(graph.run, calls), time_calls(lambda: echo(ping), calls)
        ratios.append(statistics.median(mine) / statistics.median(theirs))
        ours += mine
        bare += theirs
    gc.enable()
    ours.sort()
    bare.sort()
    at = lambda samples, part: samples[int(len(samples) * part)] / 1000
    print(f"launch    p50 {at(ours, 0.5):7.1f} us  p99 {at(ours, 0.99):7.1f} us")
    print(f"  echo    p50 {at(bare, 0.5):7.1f} us  p99 {at(bare, 0.99):7.1f} us")
    return at(ours, 0.5) / at(bare, 0.5)


async def together(call, count, width):
    """Calls per second with `width` at once."""
    left = count

    async def work():
        nonlocal left
        while left > 0:
            left -= 1
            await call()

    begin = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(width)))
    return count / (time.perf_counter() - begin)


async def asyncio_bench(binary, address, ping, rounds, calls, width):
    async with ptod.aio.local(1, ptod=binary) as node, node.session() as s:
        g = ptod.Graph()
        g.task("noop", chip=0)
        graph = await s.register(g)
        async with grpc.aio.insecure_channel(address, OPTIONS) as channel:
            echo = channel.unary_unary("/pto.bench.Bare/Echo")
            ours, bare = [], []
            for _ in range(rounds + 1):
                ours.append(await together(graph.run, calls, width))
                bare.append(await together(lambda: echo(ping), calls, width))
    ours, bare = statistics.median(ours[1:]), statistics.median(bare[1:])
    print(f"asyncio   {ours:7.0f} launches/s, {width} at once")
    print(f"  echo    {bare:7.0f} calls/s")
    return ours / bare


async def runs_bench(binary, runs):
    """The part of the runs that ended as they should."""
    async with ptod.aio.local(1, ptod=binary) as node, node.session() as s:
        g = ptod.Graph()
        g.task("noop", chip=0)
        short = await s.register(g)
        word = await s.empty((), np.int32)
        g = ptod.Graph()
        g.wait(word, ">=", 1)
        endless = await s.register(g)

        async def one(number):
            cancelled = number % CANCELLED_EVERY == 0
            run = await (endless if cancelled else short).launch()
            waiting = asyncio.ensure_future(run.wait())
            if cancelled:
                await asyncio.sleep(0)
                waiting.cancel()
            try:
                await waiting
            except asyncio.CancelledError:
                try:
                    await run.wait(timeout=60)
                except ptod.RunFailed:
                    pass
            return run.state == ("CANCELLED" if cancelled else "SUCCEEDED")

        begin = time.perf_counter()
        good = sum(await asyncio.gather(*(one(number) for number in range(runs))))
        seconds = time.perf_counter() - begin
    cancelled = len(range(0, runs, CANCELLED_EVERY))
    print(f"runs      {runs} awaited in one loop, {cancelled} cancelled, in {seconds:.2f} s")
    return good / runs


def memory_of(pid, names):
    """Bytes of fields of /proc/PID/status."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        fields = dict(line.split(":", 1) for line in file)
    return [int(fields[name].split()[0]) << 10 for name in names]


def memory_bench(node, s, size):
    gc.collect()
    before = memory_of("self", ["RssAnon", "RssShmem"])
    daemon_before = memory_of(node.daemon.pid, ["RssAnon"])[0]
    x = s.empty(size // 4, np.float32)
    array = x.numpy()
    begin = time.perf_counter()
    array[:] = 1.5
    seconds = time.perf_counter() - begin
    g = ptod.Graph()
    g.task("scale", x, x, factor=2.0, blocks=8)
    s.run(g)
    assert array[0] == array[-1] == 3.0
    after = memory_of("self", ["RssAnon", "RssShmem"])
    daemon = memory_of(node.daemon.pid, ["RssAnon"])[0] - daemon_before
    own, shared = after[0] - before[0], after[1] - before[1]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    print(
        f"memory    {size >> 20} MiB filled in {seconds:.2f} s: {shared >> 20} MiB shared, "
        f"{own >> 20} MiB of its own"
    )
    print(f"  peak    {peak >> 20} MiB resident; the daemon has {daemon >> 20} MiB of its own more")
    return max(own, daemon, peak - size - before[0] - before[1])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="only check that everything works")
    parser.add_argument("--json", action="store_true", help="print the ratios as JSON, too")
    given = parser.parse_args()
    quick = given.quick
    binary, directory = find("daemon/ptod"), tempfile.TemporaryDirectory(dir="/tmp")
    address = f"unix:{directory.name}/bare"
    peer = subprocess.Popen([find("tests/bench/bare_peer"), address])
    try:
        with ptod.local(1, ptod=binary) as node, node.session() as s:
            # First: what the others leave behind would count.
            memory = memory_bench(node, s, (16 if quick else 1024) << 20)
            g = ptod.Graph()
            g.task("noop", chip=0)
            graph = s.register(g)
            ping = Sizes(graph).ping()
            with grpc.insecure_channel(address, OPTIONS) as channel:
                echo = channel.unary_unary("/pto.bench.Bare/Echo")
                echo(ping, wait_for_ready=True)
                time_calls(graph.run, 20 if quick else 500)
                cpus, servers = os.sched_getaffinity(0), (node.daemon.pid, peer.pid)
                place({os.getpid(): {min(cpus)}, **dict.fromkeys(servers, {max(cpus)})})
                launch = launch_bench(graph, echo, ping, 2 if quick else 10, 50 if quick else 1000)
                place(dict.fromkeys((os.getpid(), *servers), cpus))
        rounds, calls = (1, 100) if quick else (7, 4000)
        rate = asyncio.run(asyncio_bench(binary, address, ping, rounds, calls, 64))
        ended = asyncio.run(runs_bench(binary, 100 if quick else RUNS))
    finally:
        peer.kill()
        peer.wait()
        directory.cleanup()
    good = launch <= LAUNCH_LIMIT and rate >= ASYNCIO_LIMIT and memory <= MEMORY_LIMIT
    good = good and ended == 1
    print(f"launch p50 is {launch:.2f} of an echo's (at most {LAUNCH_LIMIT})")
    print(f"asyncio launches are {rate:.2f} of the echoes (at least {ASYNCIO_LIMIT})")
    print(f"a second copy would be {memory >> 20} MiB (at most {MEMORY_LIMIT >> 20})")
    print(f"{ended:.1%} of the awaited runs ended as they should (all must)")
    if given.json:
        figures = {"launch": launch, "asyncio": rate, "runs": ended, "memory": memory}
        print(json.dumps(figures))
    return 0 if good or (quick and ended == 1) else 1


if __name__ == "__main__":
    sys.exit(main())
