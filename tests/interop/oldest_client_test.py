"""A client of the oldest supported release against this daemon.

It knows nothing but the API as release 1.0.0 described it, and grpcio: what it does, programs of that
time do.
"""

import pathlib
import struct
import subprocess
import tempfile
import time
import unittest

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

OLDEST = pathlib.Path("tests/proto/released/1.0.0.protoset")
PTOD = pathlib.Path("daemon/ptod").resolve()
COUNT = 1000


class OldApi:
    """The messages and methods of a release, from its descriptors alone."""

    def __init__(self, protoset, channel):
        files = descriptor_pb2.FileDescriptorSet()
        files.ParseFromString(protoset.read_bytes())
        # A pool of its own: the process may know newer descriptions of the same names.
        self._pool = descriptor_pool.DescriptorPool()
        for file in files.file:
            self._pool.Add(file)
        self._factory = message_factory.MessageFactory(self._pool)
        self._channel = channel

    def message(self, type_name, /, **fields):
        return self._class(self._pool.FindMessageTypeByName(f"pto.v1.{type_name}"))(**fields)

    def number(self, enum, name):
        return self._pool.FindEnumTypeByName(f"pto.v1.{enum}").values_by_name[name].number

    def call(self, service, method, request, timeout=30):
        """`request` is a message, or an iterator of them where the client streams."""
        full = self._pool.FindServiceByName(f"pto.v1.{service}").FindMethodByName(method)
        kind = ("stream" if full.client_streaming else "unary") + (
            "_stream" if full.server_streaming else "_unary"
        )
        return getattr(self._channel, kind)(
            f"/pto.v1.{service}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=self._class(full.output_type).FromString,
        )(request, timeout=timeout)

    def _class(self, descriptor):
        return self._factory.GetPrototype(descriptor)


class OldestClientTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir="/tmp")
        self.addCleanup(folder.cleanup)
        address = f"unix:{folder.name}/s"
        daemon = subprocess.Popen([str(PTOD), "--sim-chips=2", f"--listen={address}"])
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.terminate)
        while not pathlib.Path(address[5:]).exists():
            self.assertIsNone(daemon.poll())
            time.sleep(0.01)
        channel = grpc.insecure_channel(address)
        self.addCleanup(channel.close)
        grpc.channel_ready_future(channel).result(timeout=30)
        self.api = OldApi(OLDEST, channel)

    def session(self):
        request = self.api.message("CreateSessionRequest", session_id="old", api_min=1, api_max=1)
        return self.api.call("SessionService", "CreateSession", request)

    def create_buffers(self, session):
        self.api.call(
            "BufferService",
            "CreateBuffers",
            self.api.message(
                "CreateBuffersRequest",
                parent=session.name,
                buffers=[dict(buffer_id=id, chip="chips/1", bytes=4 * COUNT) for id in "xy"],
            ),
        )

    def write(self, session, values):
        message = self.api.message(
            "WriteBufferRequest",
            name=f"{session.name}/buffers/x",
            data=struct.pack(f"<{COUNT}f", *values),
        )
        written = self.api.call("BufferService", "WriteBuffer", iter([message]))
        self.assertEqual(written.written_bytes, 4 * COUNT)

    def read(self, session):
        request = self.api.message("ReadBufferRequest", name=f"{session.name}/buffers/y")
        data = b"".join(
            part.data for part in self.api.call("BufferService", "ReadBuffer", request)
        )
        return list(struct.unpack(f"<{COUNT}f", data))

    def graph(self):
        f32 = self.api.number("DType", "F32")
        tensors = [dict(name=id, buffer=id, dtype=f32, shape=[COUNT]) for id in "xy"]
        task = dict(kernel="scale", chip="chips/1", args=["x", "y"], scalars=[dict(f64=3.0)])
        return dict(tensors=tensors, tasks=[task, dict(kernel="noop", chip="chips/0")])

    def test_a_node_tells_what_it_told(self):
        node = self.api.call("NodeService", "GetNode", self.api.message("GetNodeRequest"))
        self.assertEqual((node.api_min <= 1, node.api_max >= 1), (True, True))
        self.assertTrue(node.boot_id)
        chips = self.api.call("NodeService", "ListChips", self.api.message("ListChipsRequest"))
        self.assertEqual([chip.name for chip in chips.chips], ["chips/0", "chips/1"])
        self.assertEqual(chips.chips[0].state, self.api.number("Chip.State", "ACTIVE"))
        kernels = self.api.call(
            "KernelService", "ListKernels", self.api.message("ListKernelsRequest")
        )
        self.assertIn("kernels/scale", [kernel.name for kernel in kernels.kernels])

    def test_a_graph_runs_and_its_events_come(self):
        session = self.session()
        self.create_buffers(session)
        values = [float(i) for i in range(COUNT)]
        self.write(session, values)
        request = self.api.message(
            "SubmitRunRequest", parent=session.name, run_id="first", graph=self.graph()
        )
        run = self.api.call("RunService", "SubmitRun", request)
        # The same again is the same run.
        self.assertEqual(self.api.call("RunService", "SubmitRun", request).name, run.name)
        wait = self.api.message("WaitRunRequest", name=run.name)
        wait.timeout.seconds = 20
        ended = self.api.call("RunService", "WaitRun", wait)
        self.assertEqual(ended.state, self.api.number("Run.State", "SUCCEEDED"), ended)
        self.assertEqual(self.read(session), [3 * value for value in values])

        watch = self.api.message("WatchEventsRequest", parent=session.name)
        sequence = 0
        for batch in self.api.call("EventService", "WatchEvents", watch):
            for event in batch.events:
                self.assertEqual(event.sequence, sequence + 1, "a gap")
                # Tasks that ended together have a number each.
                sequence += len(event.tasks.task) or 1
            if sequence >= 5:
                break
        renew = self.api.message("RenewSessionRequest", name=session.name)
        self.api.call("SessionService", "RenewSession", renew)
        delete = self.api.message("DeleteSessionRequest", name=session.name)
        self.api.call("SessionService", "DeleteSession", delete)

    def test_a_registered_graph_is_launched(self):
        session = self.session()
        self.create_buffers(session)
        self.write(session, [1.0] * COUNT)
        graph = self.api.call(
            "RunService",
            "RegisterGraph",
            self.api.message(
                "RegisterGraphRequest", parent=session.name, graph_id="g", graph=self.graph()
            ),
        )
        launch = self.api.message("LaunchGraphRequest", graph=graph.name)
        launch.wait.seconds = 20
        run = self.api.call("RunService", "LaunchGraph", launch)
        self.assertEqual(run.state, self.api.number("Run.State", "SUCCEEDED"), run)
        self.assertEqual(self.read(session), [3.0] * COUNT)

    def test_errors_keep_their_codes(self):
        with self.assertRaises(grpc.RpcError) as caught:
            self.api.call("RunService", "GetRun", self.api.message("GetRunRequest", name="runs/x"))
        self.assertIn(
            caught.exception.code(), (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND)
        )
        session = self.session()
        request = self.api.message("SubmitRunRequest", parent=session.name)
        request.graph.tasks.add(kernel="no_such_kernel", chip="chips/0")
        with self.assertRaises(grpc.RpcError) as caught:
            self.api.call("RunService", "SubmitRun", request)
        self.assertIn("no_such_kernel", caught.exception.details())


if __name__ == "__main__":
    unittest.main()
