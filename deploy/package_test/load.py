#!/usr/bin/env python3
"""Clients that submit runs without a pause until a file is there, while the daemon is replaced.

Usage: load.py STOP_FILE

Every client starts a session, submits a run that takes a quarter of a second, waits, and checks the
result. What the daemon refuses because it stops is tried again. Prints how many runs there were, and
fails if a run that was accepted did not succeed, or if a client was not served for 30 seconds.
"""

import os
import sys
import threading
import time

import numpy as np
import ptod
from ptod.v1 import run_pb2

CLIENTS = 4
PATIENCE = 30


class Client(threading.Thread):
    def __init__(self, stop_file):
        super().__init__()
        self.stop_file = stop_file
        self.checked = 0  # runs whose results were read
        self.known = 0  # runs whose session ended with the daemon, and that are known to have succeeded
        self.retries = 0
        self.boots = set()
        self.last = None
        self.problem = ""

    def run(self):
        while not os.path.exists(self.stop_file) and not self.problem:
            until = time.monotonic() + PATIENCE
            while not self.once() and not self.problem:
                self.retries += 1
                if time.monotonic() > until:
                    self.problem = f"not served for {PATIENCE} s: {self.last}"
                time.sleep(0.05)

    def once(self):
        """Returns whether a run was made. Only what was not accepted may be tried again."""
        name = ""
        try:
            with ptod.connect() as node, node.session() as session:
                self.boots.add(node.node().boot_id)
                x = session.tensor(np.arange(64, dtype=np.float32), chip=0)
                y = session.empty(64, np.float32, chip=0)
                graph = ptod.Graph()
                graph.task("spin", chip=0, scalars=[250_000])
                graph.task("scale", x, y, factor=2.0)
                run = session.submit(graph)
                name = run.name
                run.wait(60)
                np.testing.assert_array_equal(y.numpy(), 2 * np.arange(64, dtype=np.float32))
                self.checked += 1
                return True
        except (ptod.Error, OSError) as error:
            self.last = error
            if name:
                return self.look_up(name, error)
            return False

    def look_up(self, name, error):
        """The daemon has gone while we waited: the next one must know how the run ended."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            try:
                with ptod.connect() as node:
                    request = run_pb2.GetRunRequest(name=name)
                    state = node.api.RunService.GetRun(request).state
                    if state == run_pb2.Run.SUCCEEDED:
                        self.known += 1
                        return True
                    if state not in (run_pb2.Run.QUEUED, run_pb2.Run.RUNNING):
                        error = f"it is {run_pb2.Run.State.Name(state)}"
                        break
            except (ptod.Error, OSError) as again:
                error = again
            time.sleep(0.05)
        self.problem = f"{name} was accepted and lost: {error}"
        return True


def main():
    clients = [Client(sys.argv[1]) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    boots = set().union(*(client.boots for client in clients))
    print(
        f"{sum(c.checked for c in clients)} runs checked, {sum(c.known for c in clients)} known to"
        f" have succeeded, {sum(c.retries for c in clients)} retries, {len(boots)} daemons"
    )
    problems = [client.problem for client in clients if client.problem]
    print("\n".join(problems), end="\n" if problems else "")
    sys.exit(1 if problems or len(boots) < 2 else 0)


if __name__ == "__main__":
    main()
