"""Errors that the client makes itself: each says where to read about it."""

import os
import re
import unittest.mock

import numpy as np
import ptod
import testing
from ptod import errors

ROOT = os.path.abspath(__file__).split("/client/python/tests/")[0]


class PageTest(testing.DaemonTest):
    def assertHasPage(self, error):
        path, _, anchor = error.page.partition("#")
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            headings = re.findall(r"^#+ ([A-Z_]+)$", file.read(), re.MULTILINE)
        self.assertIn(anchor.upper(), headings, error.page)
        self.assertEqual(anchor, error.reason.lower())
        self.assertEqual(error.mechanism, "client")

    def test_every_reason_has_a_page(self):
        for reason in errors._PAGES:
            self.assertHasPage(errors.local("", reason, "UNKNOWN"))

    def test_mistakes_lead_to_pages(self):
        x = self.s.empty(4)
        d = self.s.domain([0], {"w": (4, np.float32)})
        closed = ptod.connect(f"unix:{self.node.daemon.path}")
        closed.close()

        def graph(**scalars):
            g = ptod.Graph()
            g.task("scale", x, x, **scalars)
            return g

        ended = self.node.session()
        request = ptod.v1.session_pb2.DeleteSessionRequest(name=ended.name)
        info = self.node.api.SessionService.DeleteSession(request)
        info.state = info.ENDED
        renew = unittest.mock.patch.object(
            ended._api.SessionService, "RenewSession", return_value=info
        )
        renew.start()
        self.addCleanup(renew.stop)
        with self.s.launch_stream() as stream:
            pass
        find = lambda: ptod._daemon.find_binary()
        for reason, use in (
            ("SCALAR_COUNT", lambda: self.s.submit(graph())),
            ("SCALAR_UNKNOWN", lambda: self.s.submit(graph(factor=1, alpha=2))),
            ("SCALAR_INVALID", lambda: self.s.submit(graph(factor="much"))),
            ("FIELD_INVALID", lambda: ptod.Graph().task("noop", 1)),
            ("BUFFER_UNKNOWN", lambda: d.window(0, "v")),
            ("RANGE_OUT_OF_BOUNDS", lambda: d.window(1, "w")),
            ("USAGE", lambda: ptod.connect(context="nowhere")),
            ("STREAM_ENDED", stream.completion),
            ("SESSION_ENDED", ended._renew),
            ("CLIENT_TIMEOUT", lambda: self.s.run(self.endless(), wait=0.01)),
            ("CLIENT_CLOSED", closed.node),
            ("DAEMON_UNREACHABLE", lambda: ptod.connect("unix:/tmp/ptod-is-not-here")),
            ("DAEMON_UNREACHABLE", lambda: testing.local(flags=["--sim-profile=abacus"])),
            ("DAEMON_UNREACHABLE", find),
        ):
            with self.subTest(reason), unittest.mock.patch.dict(os.environ, PATH="/nonexistent"):
                os.environ.pop("PTOD_BINARY", None)
                self.assertHasPage(self.assertReason(reason, use))


if __name__ == "__main__":
    testing.main()
