"""What the tests share: one private daemon for each test class."""

import ast
import asyncio
import contextlib
import io
import json
import os
import shutil
import socket
import sys
import tempfile
import threading
import unittest

import ptod
import ptod.aio

# Bazel runs tests in their runfiles, where the daemon is.
BINARY = os.environ.get("PTOD_BINARY") or os.path.abspath("daemon/ptod")


def local(**options):
    """A private daemon with two small chips, unless the options say otherwise."""
    options.setdefault("chips", 2)
    options.setdefault("clusters", 4)
    options.setdefault("memory", "1G")
    return ptod.local(ptod=BINARY, start_timeout=60, **options)


def endless(word):
    """A graph that waits for a signal, the tensor `word`, that nobody sends."""
    graph = ptod.Graph()
    graph.wait(word.reshape(()), ">=", 1)
    return graph


class Proxy:
    """A way to a daemon that can break."""

    def __init__(self, path):
        self.directory = tempfile.mkdtemp(dir="/tmp")
        self.path = os.path.join(self.directory, "socket")
        self._to, self._open = path, []
        #: Whether answers arrive.
        self.carry_back = True
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen(100)
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self):
        """What clients connect to."""
        return f"unix:{self.path}"

    def _accept(self):
        while True:
            try:
                near = self._listener.accept()[0]
                far = socket.socket(socket.AF_UNIX)
                far.connect(self._to)
            except OSError:
                return
            self._open += [near, far]
            for way in ((near, far, False), (far, near, True)):
                threading.Thread(target=self._carry, args=way, daemon=True).start()

    def _carry(self, source, to, is_back):
        try:
            while data := source.recv(1 << 16):
                if self.carry_back or not is_back:
                    to.sendall(data)
        except OSError:
            pass
        for end in (source, to):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def break_connections(self):
        """Breaks those that are there. Clients can connect again."""
        broken, self._open = self._open, []
        for end in broken:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()

    def close(self):
        """Lets nobody in any more."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.break_connections()
        shutil.rmtree(self.directory)


class DaemonTest(unittest.TestCase):
    """Tests with a daemon: `self.node` is for the class, `self.s` a session for each test."""

    options = {}

    @classmethod
    def setUpClass(cls):
        cls.node = local(**cls.options)

    @classmethod
    def tearDownClass(cls):
        cls.node.close()
        status = cls.node.daemon.status
        assert status == 0, f"ptod has ended with {status}:\n{cls.node.daemon.log()}"

    def setUp(self):
        self.s = self.node.session()
        self.addCleanup(self.s.close)

    def endless(self):
        """A graph that does not end."""
        return endless(self.s.empty(1, "i32"))

    def assertReason(self, reason, function, *args, **kwargs):
        """The function raises an error of this reason, which is returned."""
        with self.assertRaises(ptod.Error) as caught:
            function(*args, **kwargs)
        self.assertEqual(caught.exception.reason, reason, str(caught.exception))
        return caught.exception


def in_loop(test):
    """Runs a test in the loop of its class: gRPC speaks with all loops through one socket, and
    reports those that were closed."""
    return lambda self: self.loop.run_until_complete(self.with_session(test))


class AioTest(unittest.TestCase):
    """Tests with asyncio and a daemon: `self.node` is for the class, `self.s` for each test."""

    @classmethod
    def setUpClass(cls):
        cls.loop = asyncio.new_event_loop()
        cls.node = cls.loop.run_until_complete(cls.start())

    @classmethod
    async def start(cls):
        return await ptod.aio.local(2, ptod=BINARY, clusters=4, memory="1G", start_timeout=60)

    @classmethod
    def tearDownClass(cls):
        cls.loop.run_until_complete(cls.node.close())
        cls.loop.close()

    async def with_session(self, test):
        async with self.node.session() as self.s:
            await test(self)

    def spin(self, microseconds):
        """A graph of one task that takes so long."""
        graph = ptod.Graph()
        graph.task("spin", microseconds=microseconds, chip=0)
        return graph

    async def endless(self):
        """A graph that does not end."""
        self.word = await self.s.empty(1, "i32")
        return endless(self.word)

    async def assertReason(self, reason, awaitable):
        """Awaiting raises an error of this reason, which is returned."""
        with self.assertRaises(ptod.Error) as caught:
            await awaitable
        self.assertEqual(caught.exception.reason, reason, str(caught.exception))
        return caught.exception


NOTEBOOK = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "examples", "tour.ipynb"
)


def notebook_cells():
    """The cells of the notebook that have code."""
    with open(NOTEBOOK, encoding="utf-8") as file:
        return [cell for cell in json.load(file)["cells"] if cell["cell_type"] == "code"]


def run_notebook():
    """What the notebook shows under each of its cells with code."""
    os.environ["PTOD_BINARY"] = BINARY
    names = {}
    return [_run_cell("".join(cell["source"]), names) for cell in notebook_cells()]


def _run_cell(source, names):
    """What a notebook shows under a cell: what is printed, and the last expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, NOTEBOOK, "exec"), names)
        value = eval(compile(ast.Expression(last.value), NOTEBOOK, "eval"), names) if last else None
    if hasattr(value, "_repr_html_"):
        return printed.getvalue() + value._repr_html_()
    return printed.getvalue() + ("" if value is None else repr(value))


def main():
    """Runs the tests of the calling module; the arguments of Bazel select some."""
    only = os.environ.get("TESTBRIDGE_TEST_ONLY")
    unittest.main(argv=sys.argv[:1] + ([only] if only else []), verbosity=2)
