"""A client that communicates with tasks of a running run: it writes a message, appends the tasks
that answer it, reads the answer, and derives the next message from it. With asyncio."""

import asyncio

import numpy as np
import ptod
import ptod.aio

COUNT, ROUNDS, REPEAT = 16384, 3, 3


async def task_ended(events, index):
    async for event in events:
        if index in event.tasks.task:
            return
    raise AssertionError("the run has ended while it was open")


async def hold(s, tensors, fetch, said):
    """One run: the first message and, in each round, half of the last answer."""
    message, sevens, answer = tensors
    async with s.open_run() as run:
        events = run.events(linger=0.0001)
        for _ in range(ROUNDS):
            await message.write(said)
            task = run.graph.task("add", message, sevens, answer)
            await run.flush()
            await task_ended(events, task.index)
            # Another run fetches the answer: after it, neither tensor is in use.
            await fetch.run()
            heard = await message.read()
            np.testing.assert_array_equal(heard, said + 7)
            said = heard / 2
        assert (await run.get()).state == ptod.v1.run_pb2.Run.RUNNING


async def main():
    async with ptod.aio.connect() as node, node.session() as s:
        tensors = [await s.empty(COUNT) for _ in range(3)]
        await tensors[1].write(7)
        g = ptod.Graph()
        g.task("copy", tensors[2], tensors[0])
        fetch = await s.register(g)
        for repetition in range(REPEAT):
            await hold(
                s, tensors, fetch, ((np.arange(COUNT) + repetition) % 100).astype(np.float32)
            )
    print(f"message_stream: ok, {REPEAT} conversations")


asyncio.run(main())
