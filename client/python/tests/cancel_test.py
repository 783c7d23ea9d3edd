"""Tasks of asyncio that are cancelled: what they leave behind."""

import asyncio
import gc
import os
import threading
import unittest.mock

import numpy as np
import ptod
import testing
from ptod import _broker
from ptod._async import _io
from testing import in_loop

BIG = 1 << 18  # elements; enough to be mapped


class Pause:
    """A function that waits in its thread until it may go on."""

    def __init__(self, function):
        self.function = function
        self.reached, self.go_on, self.done = (threading.Event() for _ in range(3))

    def __call__(self, *args):
        self.reached.set()
        self.go_on.wait(30)
        result = self.function(*args)
        self.done.set()
        return result

    async def is_reached(self):
        while not self.reached.is_set():
            await asyncio.sleep(0.01)


async def cancelled(awaitable):
    """Cancels something that waits, once it does."""
    task = asyncio.ensure_future(awaitable)
    await asyncio.wait([task], timeout=0.05)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled(), task


class TransferTest(testing.AioTest):
    @in_loop
    async def test_memory_stays_mapped_while_a_thread_copies(self):
        values = np.arange(BIG, dtype=np.float32)
        for write in (True, False):
            x = await self.s.tensor(values)
            await x.numpy()
            copy = Pause(np.copyto)
            with unittest.mock.patch("numpy.copyto", copy):
                task = asyncio.ensure_future(x.write(values) if write else x.read())
                await copy.is_reached()
                task.cancel()
                await asyncio.wait([task], timeout=0.1)
                ended = task.done()
                del x, task
                gc.collect()
                copy.go_on.set()
                while not copy.done.is_set():
                    await asyncio.sleep(0.01)
            self.assertFalse(ended, "the memory is still being copied")

    @in_loop
    async def test_a_cancelled_write_does_not_go_on_later(self):
        x = await self.s.empty(BIG)
        await x.numpy()
        copy = Pause(np.copyto)
        with unittest.mock.patch("numpy.copyto", copy):
            task = asyncio.ensure_future(x.write(1.0))
            await copy.is_reached()
            task.cancel()
            later = asyncio.ensure_future(x.write(2.0))
            await asyncio.sleep(0.05)
            copy.go_on.set()
            await later
        self.assertTrue(task.cancelled())
        np.testing.assert_array_equal(await x.read(), 2)

    @in_loop
    async def test_a_buffer_whose_creation_was_cancelled_is_deleted(self):
        service = self.s._api.BufferService
        create, created = service.CreateBuffers, asyncio.Event()

        async def create_slowly(request):
            await create(request)
            created.set()
            await asyncio.sleep(60)

        with unittest.mock.patch.object(service, "CreateBuffers", create_slowly):
            task = asyncio.ensure_future(self.s.empty(8))
            await created.wait()
            await cancelled(task)
        await self.s.empty(8)
        self.assertEqual((await self.s.get()).usage.buffers, 1)

    @in_loop
    async def test_a_cancelled_mapping_is_given_back(self):
        x = await self.s.empty(BIG)
        await (await self.s.empty(BIG)).numpy()  # connects
        gc.collect()
        descriptors = len(os.listdir("/proc/self/fd"))
        regions = []
        link = self.s._link
        ask = Pause(link.map)

        def note(*args):
            result = ask(*args)
            regions.append(result[2])
            return result

        with unittest.mock.patch.object(link, "map", note):
            task = asyncio.ensure_future(x.numpy())
            await ask.is_reached()
            task.cancel()
            await asyncio.wait([task], timeout=0.1)
            ask.go_on.set()
            while not regions:
                await asyncio.sleep(0.01)
        del task
        outcome = _broker.OK
        for _ in range(100):
            gc.collect()
            await (await self.s.empty(BIG)).numpy()  # asks the broker, which hears of it first
            outcome = link.check(regions[0])
            if outcome == _broker.REGION_UNKNOWN:
                break
        self.assertEqual(outcome, _broker.REGION_UNKNOWN)
        self.assertEqual(len(os.listdir("/proc/self/fd")), descriptors)


class StreamTest(testing.AioTest):
    @in_loop
    async def test_events_go_on_after_a_cancelled_read(self):
        events = self.s.events()
        seen = []
        for _ in range(5):
            while True:
                try:
                    seen.append(await asyncio.wait_for(events.__anext__(), 0.05))
                except asyncio.TimeoutError:
                    break
            run = await self.s.run(self.spin(1))
        async for event in events:
            seen.append(event)
            if event.run.name == run.name and event.run.state == 4:
                break
        numbers = [event.sequence for event in seen]
        self.assertEqual(numbers, sorted(set(numbers)))
        self.assertEqual(sum(event.run.state == 4 for event in seen), 5)

    @in_loop
    async def test_launches_go_on_after_a_cancelled_wait(self):
        graph = await self.s.register(self.spin(1_000_000))
        async with self.s.launch_stream() as stream:
            tags = {await stream.launch(graph) for _ in range(2)}
            await cancelled(stream.completion())
            await cancelled(stream.__anext__())
            tags.add(await stream.launch(graph))
            both = await asyncio.gather(stream.completion(), stream.completion())
            self.assertEqual({done.check().tag for done in both} | {3}, tags)
            self.assertEqual((await stream.completion()).check().tag, 3)

    @in_loop
    async def test_closing_ends_an_iteration(self):
        endless = await self.s.register(await self.endless())
        stream = await self.s.launch_stream()
        await stream.launch(endless)
        for closed in (stream, self.s.events()):

            async def read():
                return [each async for each in closed]

            reading = asyncio.ensure_future(read())
            await asyncio.wait([reading], timeout=0.1)
            closed.close() if closed is not stream else await closed.close()
            self.assertLess(len(await asyncio.wait_for(reading, 30)), 10)
        with self.assertRaises(ptod.Error) as caught:
            await stream.launch(endless)
        self.assertEqual(caught.exception.reason, "STREAM_ENDED")

    @in_loop
    async def test_a_message_that_arrives_with_the_cancellation_is_kept(self):
        answer = asyncio.get_running_loop().create_future()
        call = unittest.mock.Mock(read=lambda: answer)
        reader = _io.Reader(unittest.mock.Mock(), call)
        task = asyncio.ensure_future(reader.read())
        await asyncio.sleep(0)
        answer.set_result("message")
        task.cancel()
        await asyncio.wait([task])
        self.assertTrue(task.cancelled())
        self.assertEqual(await reader.read(), "message")

    @in_loop
    async def test_a_dropped_stream_ends_its_call(self):
        events = self.s.events()
        await cancelled(events.__anext__())
        call = events._reader._call
        del events
        for _ in range(100):
            gc.collect()
            await asyncio.sleep(0.01)
            if call.cancelled():
                break
        self.assertTrue(call.cancelled())


class RunTest(testing.AioTest):
    @in_loop
    async def test_a_large_run_is_cancelled_while_it_is_sent(self):
        g = await self.endless()
        for _ in range(20_000):
            g.join()
        service = self.s._api.RunService
        submit, sent = service.SubmitPackedRun, asyncio.Event()

        async def submit_slowly(*args, **options):
            await submit(*args, **options)
            sent.set()
            await asyncio.sleep(60)

        with unittest.mock.patch.object(service, "SubmitPackedRun", submit_slowly):
            task = asyncio.ensure_future(self.s.run(g, run_id="large"))
            await sent.wait()
            await cancelled(task)
        with self.assertRaises(ptod.RunFailed) as caught:
            await self.s.get_run("large").wait(timeout=30)
        self.assertEqual(caught.exception.state, "CANCELLED")

    @in_loop
    async def test_mistakes_in_a_large_graph(self):
        g = ptod.Graph(explicit_dependencies_only=True)
        for _ in range(30_000):
            g.join()
        g.task("spin", chip=0)
        await self.assertReason("SCALAR_COUNT", self.s.submit(g))

    @in_loop
    async def test_tasks_are_added_while_others_are_sent(self):
        x = await self.s.tensor([1], np.int32)
        async with self.s.open_run() as run:
            write = run._writer.write

            async def write_slowly(message):
                await asyncio.sleep(0.05)
                return await write(message)

            with unittest.mock.patch.object(run._writer, "write", write_slowly):
                flushes = []
                for _ in range(4):
                    run.graph.task("add", x, x, x)
                    flushes.append(asyncio.ensure_future(run.flush()))
                    await asyncio.sleep(0.02)
                await asyncio.gather(*flushes)
            self.assertEqual((len(run.graph), run.graph.tasks), (4, []))
        self.assertEqual(((await x.read())[0], run.info.tasks_done), (16, 4))

    @in_loop
    async def test_a_cancelled_flush_goes_on(self):
        x = await self.s.tensor([1], np.int32)
        async with self.s.open_run() as run:
            call = run._writer._call
            write = call.write

            go_on = asyncio.Event()

            async def write_later(message):
                await go_on.wait()
                await write(message)

            run.graph.task("add", x, x, x)
            with unittest.mock.patch.object(call, "write", write_later):
                await cancelled(run.flush())
                go_on.set()
                await asyncio.sleep(0)
            run.graph.task("add", x, x, x)
        self.assertEqual(((await x.read())[0], run.info.tasks_done), (4, 2))

    @in_loop
    async def test_a_cancelled_wait_cancels_an_open_run(self):
        async with self.s.open_run() as run:
            word = await self.s.empty(1, "i32")
            run.graph.wait(word.reshape(()), ">=", 1)
            with self.assertRaises(ptod.Timeout):
                await run.wait(timeout=0.05)
            await cancelled(run.wait())
        with self.assertRaises(ptod.RunFailed) as caught:
            await self.s.get_run(run.name).wait(timeout=30)
        self.assertEqual(caught.exception.state, "CANCELLED")


if __name__ == "__main__":
    testing.main()
