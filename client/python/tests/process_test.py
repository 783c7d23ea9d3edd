"""Private daemons and forks: what is left of them."""

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest.mock
import warnings

import ptod
import testing

VICTIM = """\
import os, sys, time
import numpy as np, ptod
node = ptod.local(chips=1, clusters=2, memory="1G")
s = node.session()
x = s.tensor(np.ones(1 << 18), np.float32)
x.numpy()
g = ptod.Graph()
g.task("spin", microseconds=600_000_000, chip=0)
s.submit(g)
child = 0
if {fork}:
    child = os.fork()
    if child == 0:
        time.sleep(600)
print(node.daemon.pid, node.daemon.path, child, flush=True)
sys.stdin.readline()
{then}
"""


def environment():
    return dict(os.environ, PTOD_BINARY=testing.BINARY, PYTHONPATH=os.pathsep.join(sys.path))


def run(script):
    return subprocess.run(
        [sys.executable, "-c", script],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )


class PrivateDaemonTest(unittest.TestCase):
    def check_end(self, then, end=lambda victim: victim.stdin.write("go on\n"), fork=False):
        victim = subprocess.Popen(
            [sys.executable, "-c", VICTIM.format(then=then, fork=fork)],
            env=environment(), text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        pid, path, child = victim.stdout.readline().split()
        daemon = os.pidfd_open(int(pid))
        self.addCleanup(os.close, daemon)
        self.assertTrue(os.path.exists(path))
        end(victim)
        victim.wait(60)
        victim.stdin.close()
        victim.stdout.close()
        ended = select.select([daemon], [], [], 60)[0]
        self.assertTrue(ended, "the daemon lives on")
        if int(child):
            os.kill(int(child), signal.SIGKILL)
        directory, name = os.path.split(path)
        self.assertEqual([file for file in os.listdir(directory) if file.startswith(name)], [])

    def test_ends_when_python_is_killed(self):
        self.check_end("", lambda victim: victim.kill())

    def test_ends_when_python_is_killed_that_had_a_child(self):
        self.check_end("", lambda victim: victim.kill(), fork=True)

    def test_ends_with_the_program(self):
        for then in ("", "1 / 0", "os._exit(3)"):
            self.check_end(then)

    def test_lives_on_when_the_thread_ends_that_started_it(self):
        nodes = []
        thread = threading.Thread(target=lambda: nodes.append(testing.local()))
        thread.start()
        thread.join()
        with nodes[0] as node:
            self.assertEqual(node.node().chip_count, 2)

    def test_says_why_it_does_not_start(self):
        with self.assertRaises(ptod.Error) as caught:
            testing.local(flags=["--sim-profile=abacus"])
        self.assertIn("sim_chips.profile", str(caught.exception))
        with self.assertRaises(FileNotFoundError):
            ptod.local(ptod="/nonexistent/ptod")

    def test_is_found_in_path(self):
        self.addCleanup(os.environ.update, PATH=os.environ["PATH"])
        os.environ["PATH"] = os.path.dirname(testing.BINARY)
        kept = os.environ.pop("PTOD_BINARY", None)
        try:
            self.assertEqual(ptod._daemon.find_binary(), testing.BINARY)
            os.environ["PATH"] = "/nonexistent"
            self.assertRaises(ptod.Error, ptod._daemon.find_binary)
        finally:
            if kept:
                os.environ["PTOD_BINARY"] = kept

    def test_shows_its_log(self):
        with testing.local() as node:
            self.assertIn("ptod is serving", node.daemon.log())


class CloseTest(unittest.TestCase):
    def test_a_closed_client_says_so(self):
        node = testing.local()
        s = node.session()
        x = s.empty(1 << 18)
        events = s.events()
        run = s.submit(testing.endless(s.empty(1, "i32")))
        next(events)
        node.close()
        for use in (node.node, s.get, lambda: s.empty(1), x.read, run.get, s.launch_stream):
            with self.assertRaises(ptod.Error) as caught:
                use()
            self.assertEqual(caught.exception.reason, "CLIENT_CLOSED")
        node.close()
        s.close()

    def test_a_step_that_fails_does_not_stop_the_others(self):
        node = testing.local()
        first, second = node.session(), node.session()
        with unittest.mock.patch.object(first, "close", side_effect=ZeroDivisionError):
            self.assertRaises(ZeroDivisionError, node.close)
        self.assertEqual(node.daemon.status, 0)
        self.assertTrue(second._closed)

    def test_a_private_daemon_ends_if_it_cannot_be_used(self):
        for error in (KeyboardInterrupt, ValueError):
            daemons = []
            start = ptod._daemon.Daemon.__init__
            note = lambda this, *args: (daemons.append(this), start(this, *args))[1]
            with unittest.mock.patch("ptod._sync.client.node_pb2.GetNodeRequest") as request:
                request.side_effect = error
                with unittest.mock.patch.object(ptod._daemon.Daemon, "__init__", note):
                    self.assertRaises(error, testing.local)
            self.assertEqual(daemons[0].status, 0)

    def test_all_clients_are_closed_at_the_end(self):
        result = run(
            "import ptod\n"
            "nodes = [ptod.local(), ptod.local()]\n"
            "def close():\n"
            "    print('closing')\n"
            "    raise ZeroDivisionError\n"
            "for node in nodes:\n"
            "    node.close = close\n"
        )
        self.assertEqual(result.stdout, "closing\nclosing\n", result.stderr)


class ForkTest(unittest.TestCase):
    def test_a_forked_client_says_so(self):
        result = run(
            "import os, ptod\n"
            "with ptod.local() as node, node.session() as s:\n"
            "    child = os.fork()\n"
            "    if child == 0:\n"
            "        try:\n"
            "            s.empty(1)\n"
            "        except ptod.ForkError as error:\n"
            "            print(error.reason, flush=True)\n"
            "            raise SystemExit  # leaves both `with`\n"
            "    os.waitpid(child, 0)\n"
            "    s.empty(1)  # the parent's session is still there\n"
            "    print('fine')\n"
        )
        self.assertEqual(result.stdout, "CLIENT_FORKED\nfine\n", result.stderr)


    def test_a_forked_client_does_not_touch_memory(self):
        result = run(
            "import os, threading, numpy as np, ptod\n"
            "with ptod.local() as node, node.session() as s:\n"
            "    x = s.tensor(np.ones(1 << 18, np.float32))\n"
            "    array = x.numpy()\n"
            "    held = threading.Event(), threading.Event()\n"
            "    def hold():\n"
            "        with s._link._lock:\n"
            "            held[0].set(); held[1].wait()\n"
            "    thread = threading.Thread(target=hold); thread.start(); held[0].wait()\n"
            "    child = os.fork()\n"
            "    if child == 0:\n"
            "        for use in (x.numpy, x.read, lambda: x.write(0), x[::2].read, x.delete,\n"
            "                    lambda: x[::2].write(0), lambda: s.tensor(array)):\n"
            "            try:\n"
            "                print('no error', use())\n"
            "            except ptod.ForkError as error:\n"
            "                print(error.reason, flush=True)\n"
            "        raise SystemExit\n"
            "    held[1].set(); thread.join()\n"
            "    os.waitpid(child, 0)\n"
            "    print(x.numpy().sum(), array.sum())\n"
        )
        self.assertEqual(
            result.stdout, 7 * "CLIENT_FORKED\n" + "262144.0 262144.0\n", result.stderr
        )


class LostSessionTest(unittest.TestCase):
    def test_the_loss_is_reported(self):
        lost = threading.Event()
        with testing.local() as node:
            with node.session(ttl=3, on_lost=lambda error: lost.set()) as s:
                request = ptod.v1.session_pb2.DeleteSessionRequest(name=s.name)
                node.api.SessionService.DeleteSession(request)
                self.assertTrue(lost.wait(30))
                self.assertIsInstance(s.lost, ptod.SessionLost)
                self.assertRaises(ptod.SessionLost, s.empty, 1)

    def test_what_fails_for_one_session_does_not_matter_to_others(self):
        def fail(error):
            failed.set()
            raise ZeroDivisionError

        failed = threading.Event()
        with testing.local() as node, node.session(ttl=3) as other:
            with warnings.catch_warnings(), unittest.mock.patch("threading.excepthook"):
                warnings.simplefilter("error", RuntimeWarning)
                lost = [node.session(ttl=3, on_lost=fail), node.session(ttl=3)]
                closed = node.session(ttl=3)
                closed._renew = unittest.mock.Mock(side_effect=ValueError("channel is closed"))
                for session in lost:
                    request = ptod.v1.session_pb2.DeleteSessionRequest(name=session.name)
                    node.api.SessionService.DeleteSession(request)
                while not (closed._renew.called and all(session.lost for session in lost)):
                    self.assertIsNone(other.lost)
                    time.sleep(0.05)
                self.assertTrue(failed.wait(30))
                before = other.get().expire_time.ToNanoseconds()
                until = time.monotonic() + 20
                while other.get().expire_time.ToNanoseconds() == before:
                    self.assertLess(time.monotonic(), until, "nobody renews the session")
                    time.sleep(0.05)

    def test_a_session_that_is_not_used_is_renewed(self):
        gone = threading.Event()
        with testing.local() as node:
            with node.session(ttl=6, on_lost=lambda error: gone.set()) as s:
                while s.get().expire_time.seconds <= s.info.expire_time.seconds:
                    self.assertFalse(gone.wait(0.05))


class ProgressTest(unittest.TestCase):
    SCRIPT = (
        "import ptod\n"
        "with ptod.local() as node, node.session() as s:\n"
        "    g = ptod.Graph(); g.task('spin', microseconds=1_500_000, chip=0)\n"
        "    s.submit(g).wait()\n"
    )

    def test_only_on_a_terminal(self):
        self.assertEqual(run(self.SCRIPT).stderr, "")
        terminal, inside = os.openpty()
        self.addCleanup(os.close, terminal)
        program = subprocess.Popen(
            [sys.executable, "-c", self.SCRIPT], env=environment(), stderr=inside
        )
        os.close(inside)
        shown = os.read(terminal, 1000)
        self.assertEqual(program.wait(60), 0)
        self.assertIn(b"RUNNING, 0/1 tasks", shown)


if __name__ == "__main__":
    testing.main()
