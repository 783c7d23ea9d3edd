"""Runs, registered graphs, streams, events and errors."""

import contextlib
import gc
import io
import pickle
import threading
import time
import unittest.mock
import xml.etree.ElementTree

import numpy as np
import ptod
import testing


def spin(microseconds, **options):
    graph = ptod.Graph()
    graph.task("spin", microseconds=microseconds, chip=0, **options)
    return graph


class ErrorTest(testing.DaemonTest):
    def test_errors_say_everything(self):
        x, y = self.s.empty(4), self.s.empty(5)
        g = ptod.Graph()
        g.task("noop", chip=0)
        g.task("add", x, x, y)
        error = self.assertReason("ARGUMENT_INVALID", self.s.submit, g)
        self.assertEqual(error.code, "INVALID_ARGUMENT")
        self.assertEqual(error.scope, "REQUEST")
        self.assertIn("graph.tasks[1]", error.field)
        self.assertIn("deploy/docs/errors/", error.page)
        self.assertIn(error.page, str(error))
        copy = pickle.loads(pickle.dumps(error))
        self.assertEqual(
            (copy.reason, copy.field, str(copy)), (error.reason, error.field, str(error))
        )

    def test_quotas_and_values_are_named(self):
        error = self.assertReason("CHIP_MEMORY_EXHAUSTED", self.s.empty, 1 << 29, np.float32)
        self.assertTrue(error.hint)
        error = self.assertReason("CHIP_UNKNOWN", self.s.empty, 4, chip=9)
        self.assertIn("chips/9", error.message)
        self.assertEqual(error.metadata["chip"], "chips/9")

    def test_mistakes_are_found_before_anything_is_sent(self):
        x = self.s.empty(4)
        g = ptod.Graph()
        self.assertReason("FIELD_INVALID", g.task, "scale", x, x, 2.0)
        self.assertReason("FIELD_INVALID", g.task, "scale", 2.0, x)
        self.assertReason("FIELD_INVALID", g.group, "all_reduce", [(0, [x, 2.0])])
        g.task("scale", x, x, facter=2.0)
        self.assertIn("factor", self.assertReason("SCALAR_COUNT", self.s.submit, g).message)
        g = ptod.Graph()
        g.task("scale", x, x, factor=2.0, alpha=1.0)
        self.assertReason("SCALAR_UNKNOWN", self.s.submit, g)
        g = ptod.Graph()
        g.all_reduce([[x, x]], op="average")
        self.assertReason("SCALAR_INVALID", self.s.submit, g)
        g = ptod.Graph()
        g.task("skale", x, x, factor=2.0)
        self.assertReason("KERNEL_UNKNOWN", self.s.submit, g)

    def test_a_failed_run_raises_its_error(self):
        g = ptod.Graph()
        first = g.task("fail", code=7, chip=0, name="bad")
        g.task("noop", chip=0, after=first)
        run = self.s.submit(g)
        with self.assertRaises(ptod.RunFailed) as caught:
            run.wait()
        error = caught.exception
        self.assertEqual(
            (error.reason, error.state, error.run), ("KERNEL_FAILED", "FAILED", run.name)
        )
        self.assertIn("bad", error.message)
        self.assertEqual((run.info.tasks_failed, run.info.tasks_skipped), (1, 1))
        pickle.loads(pickle.dumps(error))

    def test_no_daemon(self):
        error = self.assertReason("DAEMON_UNREACHABLE", ptod.connect, "unix:/tmp/ptod-is-not-here")
        self.assertIn("/tmp/ptod-is-not-here", error.message)


class RunTest(testing.DaemonTest):
    def test_a_wait_has_an_end(self):
        run = self.s.submit(self.endless())
        with self.assertRaises(ptod.Timeout):
            run.wait(timeout=0.05)
        with self.assertRaises(TimeoutError):
            self.s.run(self.endless(), wait=0.05)
        self.assertFalse(run.ended)
        run.cancel("enough")
        with self.assertRaises(ptod.RunFailed) as caught:
            run.wait()
        self.assertEqual(caught.exception.state, "CANCELLED")
        self.assertIn("enough", caught.exception.message)

    def test_a_wait_outlives_its_calls(self):
        run = self.s.submit(spin(300_000))
        service = self.s._api.RunService
        late = ptod.errors.timeout("it queues behind others")
        with unittest.mock.patch.object(service, "WaitRun", side_effect=late) as wait:
            self.assertEqual(run.wait().tasks_done, 1)
            self.assertGreater(wait.call_count, 1)
            run = self.s.submit(self.endless())
            with self.assertRaises(ptod.Timeout) as caught:
                run.wait(timeout=0.2)
            self.assertIn("has not ended within 0.2 s", str(caught.exception))

    def test_a_wait_may_be_longer_than_the_daemon_waits(self):
        graph = self.s.register(spin(300_000))
        with unittest.mock.patch("ptod._sync.graphs.MOST_WAIT_SECONDS", 0.1):
            self.assertEqual(graph.run(wait=30).state, "SUCCEEDED")
            with self.assertRaises(ptod.Timeout):
                self.s.run(self.endless(), wait=0.2)

    def test_more_waits_than_a_connection_takes(self):
        for module in ("run", "graphs"):
            patch = unittest.mock.patch(f"ptod._sync.{module}.MOST_WAITS", 0)
            patch.start()
            self.addCleanup(patch.stop)
        with unittest.mock.patch.object(self.s._api.RunService, "WaitRun", side_effect=TypeError):
            self.assertEqual(self.s.run(spin(100_000)).state, "SUCCEEDED")
            with self.assertRaises(ptod.Timeout):
                self.s.run(self.endless(), wait=0.1)

    def test_options_reach_the_daemon(self):
        run = self.s.run(
            spin(1), labels={"who": "me"}, run_id="mine", priority="high", events="run"
        )
        self.assertEqual(run.name, f"{self.s.name}/runs/mine")
        self.assertEqual(run.info.labels["who"], "me")
        self.assertFalse(any(event.HasField("tasks") for event in run.events()))
        with self.assertRaises(ptod.RunFailed) as caught:
            self.s.run(self.endless(), timeout=0.05)
        self.assertEqual(caught.exception.reason, "RUN_DEADLINE")
        with self.assertRaises(ptod.RunFailed) as caught:
            self.s.run(spin(60_000_000, timeout=0.05))
        self.assertEqual(caught.exception.reason, "TASK_DEADLINE")
        self.assertReason("FIELD_INVALID", self.s.submit, spin(1), priority="urgent")

    def test_explains_why_a_run_waits(self):
        d = self.s.domain([0], signals=1)
        g = ptod.Graph()
        g.wait(d.signals(0)[0], ">=", 2, name="never")
        run = self.s.submit(g)
        explained = run.explain()
        while not explained.blocked:
            explained = run.explain()
        self.assertIn("never", explained.summary)
        self.assertEqual((explained.blocked[0].have, explained.blocked[0].want), (0, 2))
        self.assertEqual(d.notify(0, 0, 1), 1)
        self.assertEqual(d.notify(0, 0, 1, op="add"), 2)
        run.wait()
        self.assertEqual(list(d.read_signals(0)), [2])

    def test_a_large_graph_goes_in_columns(self):
        count = 30_000
        x = self.s.empty(1, np.int32)
        one = self.s.tensor([1], np.int32)
        g = ptod.Graph(explicit_dependencies_only=True)
        task = None
        for i in range(count):
            task = g.task("add", x, one, x, after=task) if i % 3 else g.task("join", after=task)
        self.s.run(g)
        self.assertEqual(x.read()[0], 2 * count // 3)
        self.s.register(g).run()
        self.assertEqual(x.read()[0], 4 * count // 3)

    def test_mistakes_in_a_large_graph(self):
        x = self.s.empty(1)
        g = ptod.Graph(explicit_dependencies_only=True)
        for _ in range(30_000):
            g.join()
        g.task("scale", x, x)
        self.assertReason("SCALAR_COUNT", self.s.submit, g)
        self.assertReason("SCALAR_COUNT", self.s.register, g)
        g.tasks[-1].named_scalars["factor"] = g.scalar("factor", 1.0)
        self.assertReason("SCALAR_INVALID", self.s.submit, g)

    def test_runs_are_listed(self):
        names = [self.s.run(spin(1)).name for _ in range(3)]
        self.assertEqual([run.name for run in self.s.runs()], names[::-1])
        self.assertEqual(self.s.get_run(names[0]).get().tasks_done, 1)
        self.assertIn(names[0], [run.name for run in self.node.runs()])

    def test_predicates_and_places(self):
        flags, out = self.s.tensor([0, 5, 9], np.int32), self.s.empty(3, np.float32, chip=1)
        g = ptod.Graph()
        on = [self.s.empty(3, np.int32, chip=1) for _ in range(1)][0]
        g.copy(on, flags)
        for i in range(3):
            g.task(
                "fill",
                out[i],
                value=i + 1.0,
                when=(on[i].reshape(()), ">=", 5),
                core="aiv",
                blocks=1,
            )
        self.s.run(g)
        np.testing.assert_array_equal(out.read(), [0, 2, 3])


class LaunchTest(testing.DaemonTest):
    def test_launches_bind_buffers_and_scalars(self):
        g = ptod.Graph()
        x, y = g.slot("x", 64, np.float32), g.slot("y", 64, np.float32)
        g.task("scale", x, y, factor=g.scalar("factor", 1.0))
        graph = self.s.register(g, "scaling")
        self.assertEqual({slot.name for slot in graph.info.slots}, {"x", "y"})
        a, b = self.s.tensor(np.arange(128), np.float32), self.s.empty(64)
        graph.run(x=a[64:], y=b, factor=2)
        np.testing.assert_array_equal(b.read(), np.arange(64, 128) * 2)
        graph.launch(bind={"x": a[:64], "y": b}, factor=3.0, labels={"a": "b"}).wait()
        np.testing.assert_array_equal(b.read(), np.arange(64) * 3)
        a = a[:64]
        self.assertReason("SCALAR_UNKNOWN", graph.launch, x=a, y=b, faktor=2)
        self.assertReason("SLOT_UNKNOWN", graph.launch, x=a, y=b, z=b)
        self.assertReason("BUFFER_UNKNOWN", graph.launch, x=a)
        graph.delete()
        self.assertReason("GRAPH_UNKNOWN", graph.launch, x=a, y=b)

    def test_what_is_bound_must_be_what_the_graph_uses(self):
        g = ptod.Graph()
        x, y = g.slot("x", (4, 4), np.float32), g.slot("y", (4, 4), np.float32)
        g.task("scale", x, y, factor=2.0)
        graph = self.s.register(g)
        square = self.s.tensor(np.arange(16).reshape(4, 4), np.float32)
        out = self.s.empty((4, 4))
        graph.run(x=square, y=out)
        wide = self.s.empty((4, 8))
        for wrong in (
            square.T,
            square.reshape(16),
            wide[:, :4],
            wide,
            self.s.empty((4, 4), np.int32),
            self.s.empty((2, 2)),
        ):
            self.assertReason("FIELD_INVALID", graph.launch, x=wrong, y=out)

    def test_another_tensor_in_place_of_one_that_is_used_in_parts(self):
        a, b = self.s.tensor([1, 2, 3, 4], np.int32), self.s.tensor([5, 6, 7, 8], np.int32)
        g = ptod.Graph()
        g.task("add", a[0], a[3], a[1])
        graph = self.s.register(g)
        name = a.buffer.name.rpartition("/")[2]
        graph.run(bind={name: b})
        np.testing.assert_array_equal(b.read(), [5, 13, 7, 8])
        for wrong in (b[:3], b[::2], self.s.empty(4)):
            self.assertReason("FIELD_INVALID", graph.launch, bind={name: wrong})

    def test_fractions_in_place_of_whole_numbers(self):
        x, y = self.s.tensor([8.0], np.float32), self.s.empty(1)
        for initial in (1, np.float32(0.25), np.int64(2)):
            g = ptod.Graph()
            g.task("scale", x, y, factor=g.scalar("factor", initial))
            graph = self.s.register(g)
            for factor in (None, 0.5, np.float32(0.5), np.int32(3), 2):
                graph.run(**({} if factor is None else {"factor": factor}))
                self.assertEqual(y.read()[0], 8 * (initial if factor is None else factor))
        g = ptod.Graph()
        g.task("spin", microseconds=g.scalar("time", 1), chip=0)
        graph = self.s.register(g)
        graph.run(time=2.0)
        self.assertReason("SCALAR_INVALID", graph.run, time=1.5)

    def test_a_registered_graph_keeps_its_buffers(self):
        g = ptod.Graph()
        g.task("fill", self.s.empty(8), value=1.0)
        graph = self.s.register(g)
        self.s.empty(8)
        graph.run()

    def test_a_stream_of_launches(self):
        graph = self.s.register(spin(1))
        bad = ptod.Graph()
        bad.task("fail", code=3, chip=0)
        failing = self.s.register(bad)
        with self.s.launch_stream() as stream:
            tags = [stream.launch(graph) for _ in range(200)]
            wrong = stream.launch(failing)
            completions = {completion.tag: completion for completion in stream}
        self.assertEqual(set(completions), {*tags, wrong})
        self.assertTrue(all(completions[tag].state == "SUCCEEDED" for tag in tags))
        self.assertRaises(ptod.RunFailed, completions[wrong].check)
        self.assertReason("STREAM_ENDED", stream.completion)

    def test_leaving_a_stream_waits_for_its_launches(self):
        graph = self.s.register(spin(1))
        for _ in range(5):
            with self.s.launch_stream() as stream:
                for _ in range(100):
                    stream.launch(graph)
        runs = self.s.runs()
        self.assertEqual(len(runs), 500)
        self.assertTrue(all(run.state == 4 for run in runs))
        self.assertReason("STREAM_ENDED", stream.launch, graph)
        endless = self.s.register(self.endless())
        with self.assertRaises(ZeroDivisionError):
            with self.s.launch_stream() as stream:
                stream.launch(endless)
                1 / 0

    def test_closing_a_stream_ends_an_iteration(self):
        stream = self.s.launch_stream()
        stream.launch(self.s.register(self.endless()))
        threading.Timer(0.05, stream.close).start()
        self.assertEqual(list(stream), [])
        events = self.s.events()
        next(events)
        threading.Timer(0.05, events.close).start()
        self.assertGreater(len(list(events)), 0)

    def test_a_launch_keeps_what_it_uses(self):
        g = ptod.Graph()
        g.task("fill", g.slot("x", 8, np.float32), value=1.0)
        graph = self.s.register(g)
        with self.s.launch_stream() as stream:
            write = stream._stream.write
            late = []
            stream._stream.write = late.append
            tags = [stream.launch(graph, x=self.s.empty(8)) for _ in range(3)]
            gc.collect()
            self.s.empty(1)  # deletes what nobody refers to
            for message in late:
                write(message)
            self.assertEqual({done.check().tag for done in stream}, set(tags))

    def test_a_refused_launch_does_not_end_the_stream(self):
        graph = self.s.register(spin(1))
        gone = self.s.register(spin(1))
        gone.delete()
        with self.s.launch_stream() as stream:
            stream.launch(gone)
            self.assertEqual(stream.completion().error.reason, "GRAPH_UNKNOWN")
            stream.launch(graph)
            stream.completion().check()


class OpenRunTest(testing.DaemonTest):
    def test_tasks_depend_on_earlier_segments(self):
        x = self.s.tensor([1.0], np.float32)
        with self.s.open_run() as run:
            first = run.graph.task("spin", microseconds=1000, chip=0, name="unused")
            for _ in range(5):
                run.graph.task("add", x, x, x, after=first)
                run.flush()
        self.assertEqual((x.read()[0], run.info.tasks_done), (32, 6))

    def test_many_tasks_meet_back_pressure(self):
        x, one = self.s.empty(1, np.int32), self.s.tensor([1], np.int32)
        with self.s.open_run(events="run") as run:
            for _ in range(50_000):
                run.graph.task("add", x, one, x)
                if len(run.graph.tasks) == 5000:
                    run.flush()
        self.assertEqual(x.read()[0], 50_000)

    def test_a_wrong_segment_ends_the_run(self):
        run = self.s.open_run()
        run.graph.task("nonsense", chip=0)
        error = self.assertReason("KERNEL_UNKNOWN", run.finish)
        self.assertEqual(self.s.get_run(run.name).get().state, 5, str(error))

    def test_an_exception_cancels_the_run(self):
        with self.assertRaises(ZeroDivisionError):
            with self.s.open_run() as run:
                run.graph.task("spin", microseconds=60_000_000, chip=0)
                run.flush()
                next(event for event in self.s.events() if event.run.state == 2)
                1 / 0
        with self.assertRaises(ptod.RunFailed) as caught:
            self.s.get_run(run.name).wait()
        self.assertEqual(caught.exception.state, "CANCELLED")

    def test_a_run_that_ends_early_says_why(self):
        run = self.s.open_run(timeout=0.05)
        with self.assertRaises(ptod.RunFailed) as caught:
            while True:
                run.graph.task("spin", microseconds=1000, chip=0)
                run.flush()
        self.assertEqual(caught.exception.reason, "RUN_DEADLINE")


    def test_a_mistake_is_not_sent(self):
        x = self.s.tensor([1.0], np.float32)
        with self.s.open_run() as run:
            run.graph.task("add", x, x, x)
            run.graph.task("scale", x, x)
            self.assertReason("SCALAR_COUNT", run.flush)
            run.graph.tasks.pop()
            run.flush()
            run.graph.task("add", x, x, x)
        self.assertEqual((x.read()[0], run.info.tasks_done), (4, 2))

    def test_a_mistake_at_the_end_cancels_the_run(self):
        run = self.s.open_run()
        run.graph.task("spin", microseconds=60_000_000, chip=0)
        run.flush()
        next(event for event in self.s.events() if event.run.state == 2)
        run.graph.task("spin", chip=0)
        self.assertReason("SCALAR_COUNT", run.finish)
        with self.assertRaises(ptod.RunFailed) as caught:
            run.wait()
        self.assertEqual(caught.exception.state, "CANCELLED")

    def test_a_wait_has_an_end(self):
        stderr = io.StringIO()
        run = self.s.open_run()
        run.graph.wait(self.s.empty(1, "i32").reshape(()), ">=", 1)
        with contextlib.redirect_stderr(stderr), self.assertRaises(ptod.Timeout):
            run.wait(timeout=1.2, progress=True)
        self.assertRegex(stderr.getvalue(), r"(QUEUED|RUNNING), 0/1 tasks")
        run.cancel()
        self.assertRaises(ptod.RunFailed, run.wait)
        run = self.s.open_run()
        run.graph.task("noop", chip=0)
        self.assertEqual(run.wait(timeout=30).tasks_done, 1)

    def test_a_run_keeps_its_buffers(self):
        late = []
        with self.s.open_run() as run:
            write, run._writer.write = run._writer.write, lambda message: late.append(message) or 1
            run.graph.task("fill", self.s.empty(8), value=1.0)
            run.flush()
            gc.collect()
            self.s.empty(1)  # deletes what nobody refers to
            run._writer.write = write
            write(*late)
        self.assertEqual(run.info.tasks_done, 1)
        gc.collect()
        self.s.empty(1)
        self.assertLessEqual(self.s.get().usage.buffers, 1)


class EventTest(testing.DaemonTest):
    def test_events_are_resumed(self):
        runs = [self.s.run(spin(1)).name for _ in range(4)]
        seen, after = [], 0
        while len([event for event in seen if event.run.state == 4]) < 4:
            with self.s.events(after=after) as stream:
                for event in stream:
                    seen.append(event)
                    after = stream.sequence
                    break  # and resume with another stream
        numbers = [event.sequence for event in seen]
        self.assertEqual(numbers, sorted(set(numbers)))
        self.assertEqual([event.run.name for event in seen if event.run.state == 4], runs)
        self.assertRaises(ptod.Error, next, self.s.events(after=10**9))

    def test_events_of_a_run_end_with_it(self):
        run = self.s.submit(spin(20_000))
        events = list(run.events())
        self.assertEqual(events[-1].run.state, 4)
        self.assertEqual(sum(len(event.tasks.task) for event in events), 1)

    def test_the_stream_of_a_session_ends_with_it(self):
        s = self.node.session()
        events = s.events()
        threading.Timer(0.05, s.close).start()
        self.assertIn("session", [event.WhichOneof("event") for event in events])

    def test_timelines(self):
        g = ptod.Graph()
        for i in range(6):
            g.task("spin", microseconds=200, chip=i % 2, name=f"<{i}>")
        run = self.s.run(g)
        trace = run.trace()
        self.assertEqual({task.name for task in trace.tasks}, {f"<{i}>" for i in range(6)})
        self.assertEqual({task.chip for task in trace.tasks}, {0, 1})
        self.assertTrue(all(task.duration_ns >= 200_000 for task in trace.tasks))
        self.assertEqual(
            len([event for event in trace.chrome()["traceEvents"] if event["ph"] == "X"]), 6
        )
        text = run._repr_html_()
        root = xml.etree.ElementTree.fromstring(f"<html>{text}</html>")
        bars = [part for part in root.iter() if part.tag.endswith("rect")]
        self.assertEqual(len(bars), 6)
        self.assertIn("SUCCEEDED, 6/6 tasks", text)
        self.assertIn("RUNNING", self.shown_while_running())

    def shown_while_running(self):
        run = self.s.submit(self.endless())
        while run.get().state != 2:
            pass
        text = run._repr_html_()
        run.cancel()
        return text


class BrokenConnectionTest(testing.DaemonTest):
    def setUp(self):
        super().setUp()
        self.proxy = testing.Proxy(self.node.daemon.path)
        self.addCleanup(self.proxy.close)

    def test_an_event_stream_that_was_quiet_is_resumed(self):
        with ptod.connect(self.proxy.address) as node, node.session() as s:
            with unittest.mock.patch("ptod._sync.events._RECONNECT_SECONDS", 1.0):
                graph = s.register(spin(1))
                graph.run()
                events = s.events()
                next(events)

                def disturb():
                    time.sleep(1.2)
                    self.proxy.break_connections()
                    self.node.api.RunService.LaunchGraph(graph.request("late"))

                thread = threading.Thread(target=disturb)
                thread.start()
                late = f"{s.name}/runs/late"
                self.assertTrue(any(event.run.name == late for event in events))
                thread.join()


    def test_calls_are_repeated(self):
        with ptod.connect(self.proxy.address) as node, node.session() as s:
            graph = s.register(spin(500_000))
            for use in (
                lambda: s.submit(spin(500_000)).wait(),
                lambda: s.run(spin(500_000)),
                graph.run,
                lambda: list(s.submit(spin(500_000)).events()),
            ):
                threading.Timer(0.2, self.proxy.break_connections).start()
                use()
            self.assertEqual([run.tasks_done for run in s.runs()], [1, 1, 1, 1])

    def test_calls_are_repeated_once(self):
        with ptod.connect(self.proxy.address) as node, node.session() as s:
            break_again = threading.Event()

            def disturb():
                while not break_again.wait(0.1):
                    self.proxy.break_connections()

            run = s.submit(self.endless_in(s))
            thread = threading.Thread(target=disturb)
            thread.start()
            self.assertReason("DAEMON_UNREACHABLE", run.wait)
            break_again.set()
            thread.join()
            d = s.domain([0], signals=1)
            for op, reason in (("set", None), ("add", "DAEMON_UNREACHABLE")):
                # No answer: the proxy breaks while it carries the call.
                with unittest.mock.patch.object(self.proxy, "carry_back", False):
                    threading.Timer(0.1, self.mend_proxy).start()
                    if reason is None:
                        d.notify(0, 0, 1, op)
                    else:
                        self.assertReason(reason, d.notify, 0, 0, 1, op)

    def mend_proxy(self):
        self.proxy.carry_back = True
        self.proxy.break_connections()

    def endless_in(self, s):
        return testing.endless(s.empty(1, "i32"))


class SmallLogTest(testing.DaemonTest):
    options = {"flags": ["--event-log-bytes=64K"]}

    def test_runs_whose_events_are_gone(self):
        run = self.s.run(spin(1))
        again = self.s.get_run(run.name)
        graph = self.s.register(spin(1))
        while not next(self.s.events()).HasField("dropped"):
            for _ in range(100):
                graph.run()
        for _ in range(500):
            graph.run()
        for known in (run, again):
            events = list(known.events())
            self.assertEqual([event.WhichOneof("event") for event in events], ["dropped"])
            self.assertEqual(len(list(known.events(after=1))), 1)
        timeline = run.trace()
        self.assertEqual((timeline.tasks, timeline.missing_events), ([], events[0].dropped.count))
        self.assertIn(f"{timeline.missing_events} events are missing", run._repr_html_())
        last = self.s.run(spin(1))
        self.assertEqual(list(last.events(after=last.info.as_of_sequence)), [])
        self.assertEqual(list(self.s.get_run(last.name).events(after=self.end_of(last))), [])

    def end_of(self, run):
        *_, last = run.events()
        return last.sequence


class ThreadsTest(testing.DaemonTest):
    def test_a_session_is_for_many_threads(self):
        wrong = []

        def work(seed):
            try:
                for i in range(20):
                    x = self.s.tensor(np.full(50 << 10, seed, np.float32))
                    g = ptod.Graph()
                    g.task("scale", x, x, factor=2.0)
                    self.s.run(g)
                    np.testing.assert_array_equal(x.numpy(), 2 * seed)
                    with self.node.session() as other:
                        other.empty(1)
            except Exception as error:
                wrong.append(error)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


class LeaseTest(testing.DaemonTest):
    def test_chips_are_leased(self):
        self.assertEqual(self.s.lease_chips(1), [0])
        with self.node.session() as other:
            self.assertReason("CHIP_LEASED", other.submit, spin(1))
            with self.assertRaises(ptod.Timeout):
                other.lease_chips(2, timeout=0.01)
        with self.node.session(lease=self.s.name) as friend:
            friend.run(spin(1))


if __name__ == "__main__":
    testing.main()
