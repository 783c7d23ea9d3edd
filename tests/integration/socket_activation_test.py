"""ptod with a socket that listens already, as systemd starts it."""

import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import unittest

import numpy as np
import ptod

PTOD = pathlib.Path("daemon/ptod").resolve()


class SocketActivationTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir="/tmp")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.path = f"{self.folder}/ptod.sock"
        self.socket = self.listen(self.path)
        self.running = []
        self.addCleanup(self.kill_all)

    def listen(self, path):
        listening = socket.socket(socket.AF_UNIX)
        self.addCleanup(listening.close)
        listening.bind(path)
        listening.listen()
        return listening

    def kill_all(self):
        for process in self.running:
            process.kill()
            process.wait()
            process.stderr.close()

    def start(self, address=None, sockets=None):
        """Starts ptod with the sockets as descriptors 3, 4, ... of a process that knows its id."""
        sockets = sockets or [self.socket]
        # Descriptors of the shell, which become those that systemd would have chosen.
        moves = " ".join(f"{3 + i}<&{each.fileno()}" for i, each in enumerate(sockets))
        process = subprocess.Popen(
            [
                "bash",
                "-c",
                f'export LISTEN_PID=$$ LISTEN_FDS={len(sockets)}; exec "$@" {moves}',
                "bash",
                str(PTOD),
                f"--listen={address or 'unix:' + self.path}",
                "--sim-chips=1",
            ],
            pass_fds=[each.fileno() for each in sockets],
            stderr=subprocess.PIPE,
            text=True,
        )
        self.running.append(process)
        return process

    def stop(self, process):
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), 0)

    def run_once(self):
        """A run, by a client that was there before the daemon."""
        with ptod.connect(f"unix:{self.path}") as node, node.session() as session:
            x = session.tensor(np.arange(64, dtype=np.float32), chip=0)
            y = session.empty(64, np.float32, chip=0)
            graph = ptod.Graph()
            graph.task("scale", x, y, factor=2.0)
            session.submit(graph).wait()
            np.testing.assert_array_equal(y.numpy(), 2 * np.arange(64, dtype=np.float32))

    def test_a_client_that_came_first_is_served(self):
        early = socket.socket(socket.AF_UNIX)
        self.addCleanup(early.close)
        early.connect(self.path)
        early.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
        early.settimeout(60)
        self.start()
        self.assertTrue(early.recv(1), "gRPC begins with its settings")
        self.run_once()

    def test_the_socket_stays_while_the_daemon_restarts(self):
        inode = os.stat(self.path).st_ino
        for _ in range(2):
            process = self.start()
            self.run_once()
            self.stop(process)
            self.assertEqual(os.stat(self.path).st_ino, inode, "it was removed or made anew")
        # Nobody accepts, and still nobody is refused.
        with socket.socket(socket.AF_UNIX) as waiting:
            waiting.connect(self.path)

    def test_a_second_daemon_does_not_share_the_socket(self):
        self.start()
        self.run_once()
        second = self.start()
        self.assertEqual(second.wait(60), 1)
        self.assertIn("INSTANCE_RUNNING", second.stderr.read())
        self.run_once()

    def test_a_socket_that_nobody_would_serve_is_an_error(self):
        process = self.start(sockets=[self.socket, self.listen(f"{self.folder}/other")])
        self.assertEqual(process.wait(60), 1)
        error = process.stderr.read()
        self.assertIn("LISTEN_FAILED", error)
        self.assertIn(f"{self.folder}/other", error)

    def test_tcp(self):
        with socket.create_server(("127.0.0.1", 0)) as listening:
            address = "127.0.0.1:%d" % listening.getsockname()[1]
            process = self.start(address, [listening])
            client = socket.create_connection(listening.getsockname(), timeout=60)
            self.addCleanup(client.close)
            client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
            self.assertTrue(client.recv(1))
            self.stop(process)


if __name__ == "__main__":
    unittest.main()
