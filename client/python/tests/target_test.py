"""Which daemon a client finds, and how it proves who it is."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import numpy as np
import ptod
import testing
from ptod import _target

CONTEXTS = """
current: "home"
contexts { name: "home" address: "unix:/home.sock" }
contexts { name: "away" address: "away:1" tls_ca: "ca.pem" token_file: "token" }
"""


class ResolveTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.directory)
        self.contexts = self.write("contexts.txtpb", CONTEXTS)
        patch = unittest.mock.patch.dict(os.environ, {"PTOD_CONTEXTS": self.contexts})
        patch.start()
        self.addCleanup(patch.stop)
        os.environ.pop("PTOD_ADDRESS", None)

    def write(self, name, text, mode=0o600):
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def assertInvalid(self, field, function, *args):
        with self.assertRaises(ptod.Error) as caught:
            function(*args)
        self.assertEqual(caught.exception.field, field)
        return str(caught.exception)

    def test_addresses_come_from_contexts_and_the_environment(self):
        resolve = lambda address="", context="": _target.resolve(_target.Target(address), context)
        self.assertEqual(resolve().address, "unix:/home.sock")
        self.assertEqual(resolve("here:2"), _target.Target("here:2"))
        self.assertEqual(
            resolve(context="away"), _target.Target("away:1", "ca.pem", token_file="token")
        )
        self.assertIn("'work'", self.assertInvalid("", resolve, "", "work"))
        os.environ["PTOD_ADDRESS"] = "there:3"
        self.assertEqual(resolve().address, "there:3")
        os.environ["PTOD_CONTEXTS"] = "/nonexistent"
        del os.environ["PTOD_ADDRESS"]
        self.assertTrue(resolve().address.startswith("unix:/"))
        os.environ["PTOD_CONTEXTS"] = self.write("wrong", "contexts { nam")
        self.assertIn("wrong", self.assertInvalid("", resolve))

    def test_tokens_are_kept_from_others(self):
        find = lambda address, path, encrypted=False: _target.find_token(
            _target.Target(address, token_file=path), encrypted
        )
        good = self.write("token", "abc\n")
        self.assertEqual(find("127.0.0.1:1", good), "abc")
        self.assertEqual(find("[::1]:1", good), "abc")
        self.assertEqual(find("elsewhere:1", good, encrypted=True), "abc")
        self.assertEqual(find("unix:/s", good), "")
        for address in ("elsewhere:1", "127.0.0.1.example.com:1"):
            self.assertIn("not encrypted", self.assertInvalid("token_file", find, address, good))
        self.assertIn(
            "chmod",
            self.assertInvalid("token_file", find, "localhost:1", self.write("o", "a", 0o644)),
        )
        self.assertInvalid("token_file", find, "localhost:1", self.write("empty", ""))
        self.assertInvalid("token_file", find, "localhost:1", self.write("two", "a b"))
        self.assertInvalid("token_file", find, "localhost:1", self.directory)

    def test_certificates_belong_together(self):
        make = lambda **files: _target.make_channel_parts(_target.Target("a:1", **files))
        self.assertEqual(make(), (None, []))
        self.assertInvalid("tls", lambda: make(tls_cert="c"))
        self.assertInvalid("tls.ca_file", lambda: make(tls_cert="c", tls_key="k"))
        self.assertInvalid("tls.ca_file", lambda: make(tls_ca=self.write("no", "pem")))


class TokenTest(unittest.TestCase):
    def test_a_token_says_who_the_client_is(self):
        directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, directory)
        tokens, mine = os.path.join(directory, "tokens"), os.path.join(directory, "mine")
        command = [sys.executable, "deploy/make_token.py", "alice", f"--file={tokens}"]
        made = subprocess.run(command, check=True, capture_output=True).stdout
        with open(os.open(mine, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(made)
        address = free_address()
        with testing.local(flags=[f"--listen={address}", f"--access-tokens={tokens}"]):
            with ptod.connect(address, token_file=mine) as node, node.session() as s:
                self.assertEqual(node.info.principal, "token-alice")
                x = s.tensor([1.0, 2.0], "f32")
                np.testing.assert_array_equal(x.numpy(), [1, 2])
            with self.assertRaises(ptod.Error) as caught:
                ptod.connect(address)
            self.assertEqual(caught.exception.reason, "UNAUTHENTICATED")


def free_address():
    """A port of the loopback interface that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@unittest.skipUnless(shutil.which("openssl"), "there is no openssl to make certificates with")
class TlsTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.directory)

    def path(self, name):
        return os.path.join(self.directory, name)

    def openssl(self, *arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=self.directory)

    def test_tls_with_a_certificate_of_the_client(self):
        self.openssl(
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-keyout",
            "ca.key",
            "-out",
            "ca.pem",
            "-subj",
            "/CN=authority",
            "-days",
            "2",
        )
        for name in ("ptod.test", "alice"):
            extension = self.path("extension")
            with open(extension, "w", encoding="utf-8") as file:
                file.write(f"subjectAltName=DNS:{name}")
            self.openssl(
                "req",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-keyout",
                f"{name}.key",
                "-out",
                "request",
                "-subj",
                f"/CN={name}",
            )
            self.openssl(
                "x509",
                "-req",
                "-in",
                "request",
                "-CA",
                "ca.pem",
                "-CAkey",
                "ca.key",
                "-CAcreateserial",
                "-out",
                f"{name}.pem",
                "-days",
                "2",
                "-extfile",
                extension,
            )
        address = free_address()
        flags = [f"--listen={address}", f"--tls-cert={self.path('ptod.test.pem')}"]
        flags += [
            f"--tls-key={self.path('ptod.test.key')}",
            f"--tls-client-ca={self.path('ca.pem')}",
        ]
        files = {"tls_ca": self.path("ca.pem"), "tls_server_name": "ptod.test"}
        mine = {"tls_cert": self.path("alice.pem"), "tls_key": self.path("alice.key")}
        with testing.local(flags=flags):
            with ptod.connect(address, **files, **mine) as node, node.session() as s:
                self.assertTrue(node.info.principal.startswith("cert-"), node.info.principal)
                x = s.tensor([1.0, 2.0], "f32")
                self.assertFalse(x.numpy().flags.writeable)  # a copy: nothing is mapped over TCP
            with self.assertRaises(ptod.Error):
                ptod.connect(
                    address, connect_timeout=2, **dict(files, tls_server_name="other.test")
                )


if __name__ == "__main__":
    testing.main()
