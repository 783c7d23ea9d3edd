"""The API with asyncio."""

import asyncio
import inspect
import os
import random
import unittest.mock

import numpy as np
import ptod
import ptod.aio
import testing
from testing import in_loop

RUNS = 1000
SEED = 11


class SameNamesTest(unittest.TestCase):
    def test_nothing_of_asyncio_is_left_in_the_other_api(self):
        folder = os.path.join(os.path.dirname(ptod.__file__), "_sync")
        for name in os.listdir(folder):
            if name.endswith(".py") and name != "_io.py":
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    left = r"\bawait |\basync (def|with|for)\b|ptod\._async"
                    self.assertNotRegex(file.read(), left, name)

    def test_both_apis_have_the_same_names(self):
        for name in ptod.aio.__all__:
            ours, theirs = getattr(ptod.aio, name), getattr(ptod, name)
            if inspect.isclass(ours):
                public = {each for each in dir(ours) if not each.startswith("_")}
                self.assertEqual(
                    public, {each for each in dir(theirs) if not each.startswith("_")}, name
                )
                for each in public:
                    member = getattr(ours, each)
                    if inspect.isfunction(member):
                        other = inspect.signature(getattr(theirs, each))
                        self.assertEqual(
                            list(inspect.signature(member).parameters), list(other.parameters)
                        )


def wait_request(run):
    request = ptod.v1.run_pb2.WaitRunRequest(name=run.name)
    request.timeout.seconds = 60
    return request


async def all_of(stream):
    return [each async for each in stream]


class AioTest(testing.AioTest):
    @in_loop
    async def test_runs_are_awaitable(self):
        x = await self.s.tensor(np.arange(1 << 17), np.float32)
        g = ptod.Graph()
        g.task("scale", x, x, factor=2.0)
        run = await self.s.submit(g)
        self.assertEqual((await run).tasks_done, 1)
        array = await x.numpy()
        self.assertEqual(array[-1], 2 * ((1 << 17) - 1))
        with self.assertRaises(ptod.RunFailed):
            await self.s.run(await self.endless(), timeout=0.05)

    @in_loop
    async def test_cancelling_the_await_cancels_the_run(self):
        endless = await self.endless()
        for begin in (lambda: self.submit_and_wait(endless), lambda: self.s.run(endless)):
            task = asyncio.ensure_future(begin())
            async for event in self.s.events():
                if event.run.state == 2 and event.run.name not in (
                    run.name for run in await self.ended()
                ):
                    break
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            name = event.run.name
            with self.assertRaises(ptod.RunFailed) as caught:
                await self.s.get_run(name).wait(timeout=30)
            self.assertEqual(caught.exception.state, "CANCELLED")

    async def submit_and_wait(self, graph):
        run = await self.s.submit(graph)
        await run

    async def ended(self):
        return [run for run in await self.s.runs() if run.state in (4, 5, 6)]

    @in_loop
    async def test_a_thousand_runs_in_one_loop(self):
        print(f"seed {SEED}")
        choose = random.Random(SEED)
        short = await self.s.register(self.spin(1))
        long = await self.s.register(await self.endless())

        async def one(cancel):
            run = await (long if cancel else short).launch(events="run")
            waiting = asyncio.ensure_future(run.wait())
            if cancel:
                await asyncio.sleep(0)
                waiting.cancel()
            try:
                await waiting
            except asyncio.CancelledError:
                self.assertTrue(cancel)
            return run

        cancels = [choose.random() < 0.2 for _ in range(RUNS)]
        runs = await asyncio.gather(*(one(cancel) for cancel in cancels))
        for run, cancel in zip(runs, cancels):
            if cancel:
                with self.assertRaises(ptod.RunFailed):
                    await run.wait(timeout=30)
            self.assertEqual(run.state, "CANCELLED" if cancel else "SUCCEEDED")

    @in_loop
    async def test_tensors_become_tensors(self):
        x = await self.s.tensor([1.0, -2.5], "bf16")
        y = await self.s.tensor(x, np.float32)
        np.testing.assert_array_equal(await y.read(), [1.0, -2.5])
        self.assertFalse(hasattr(x, "__dlpack__") or hasattr(x, "__dlpack_device__"))
        await y[:1].write(x[1:])
        np.testing.assert_array_equal(await y.read(), [-2.5, -2.5])

    @in_loop
    async def test_calls_do_not_queue_behind_those_that_wait(self):
        async with ptod.aio.connect(self.node.address, timeout=15) as node, node.session() as s:
            word = await s.empty(1, "i32")
            endless = await s.register(testing.endless(word))
            runs = [asyncio.ensure_future(endless.run()) for _ in range(1100)]
            while (await s.get()).usage.active_runs < len(runs):
                await asyncio.sleep(0.05)
            self.assertEqual((await s.run(self.spin(1))).state, "SUCCEEDED")
            for run in await s.runs(active_only=True):
                await s.get_run(run.name).cancel()
            for ended in await asyncio.gather(*runs, return_exceptions=True):
                self.assertIsInstance(ended, ptod.RunFailed)

    @in_loop
    async def test_a_closed_client_says_so(self):
        node = await ptod.aio.connect(self.node.address)
        s = await node.session()
        run = await s.submit(testing.endless(await s.empty(1, "i32")))
        waiting = asyncio.ensure_future(node.api.RunService.WaitRun(wait_request(run)))
        events = asyncio.ensure_future(all_of(s.events()))
        await asyncio.sleep(0.1)
        with unittest.mock.patch.object(s, "close"):  # which would end both
            await node.close()
        for call in (node.node(), s.empty(1), s.get(), waiting):
            with self.assertRaises(ptod.Error) as caught:
                await call
            self.assertEqual(caught.exception.reason, "CLIENT_CLOSED")
        await asyncio.wait_for(events, 30)

    @in_loop
    async def test_streams(self):
        graph = await self.s.register(self.spin(1))
        async with self.s.launch_stream() as stream:
            tags = {await stream.launch(graph) for _ in range(50)}
            self.assertEqual(tags, {completion.check().tag async for completion in stream})
        x = await self.s.tensor([1.0], np.float32)
        async with self.s.open_run() as run:
            for _ in range(8):
                run.graph.task("add", x, x, x)
                await run.flush()
        self.assertEqual((await x.read())[0], 256)
        self.assertEqual([event.run.state async for event in run.events()][-1], 4)

    @in_loop
    async def test_an_open_run_that_fails_says_why(self):
        run = await self.s.open_run()
        run.graph.task("nonsense", chip=0)
        with self.assertRaises(ptod.Error) as caught:
            await run.finish()
        self.assertEqual(caught.exception.reason, "KERNEL_UNKNOWN")

    @in_loop
    async def test_the_lease_is_renewed_and_its_loss_reported(self):
        lost = asyncio.Event()

        async def on_lost(error):
            await asyncio.sleep(0)
            lost.set()

        session = await self.node.session(ttl=6, on_lost=on_lost)
        while (await session.get()).expire_time.seconds <= session.info.expire_time.seconds:
            await asyncio.sleep(0.05)
        self.assertIsNone(session.lost)
        request = ptod.v1.session_pb2.DeleteSessionRequest(name=session.name)
        await self.node.api.SessionService.DeleteSession(request)
        await asyncio.wait_for(lost.wait(), 30)
        self.assertEqual(session.lost.reason, "SESSION_ENDED")


if __name__ == "__main__":
    testing.main()
