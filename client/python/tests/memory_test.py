"""Tensors: transfers, mapped memory, other libraries."""

import concurrent.futures
import gc
import time
import unittest.mock

import numpy as np
import ptod
import testing
from ptod import _broker, _dlpack, _mapping

BIG = 1 << 18  # elements; enough to be mapped


def in_threads(count, work):
    """The results of so many threads that do the same at once."""
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, range(count)))


class TensorTest(testing.DaemonTest):
    def test_values_come_back(self):
        for size in (0, 1, 1000, BIG):
            for dtype in (np.float32, np.int8, np.bool_, np.uint64):
                values = (np.arange(size) % 100).astype(dtype)
                np.testing.assert_array_equal(self.s.tensor(values).read(), values)

    def test_strided_views_are_written_and_read(self):
        for size in (8, 1024):
            want = np.arange(size * size, dtype=np.float32).reshape(size, size)
            x = self.s.tensor(want)
            want = want.copy()
            x[1::3, ::2].write(-1.0)
            want[1::3, ::2] = -1
            np.testing.assert_array_equal(x.read(), want)
            np.testing.assert_array_equal(x.T[1:4].read(), want.T[1:4])

    def test_columns_are_written_by_several_threads(self):
        for size in (8, 512):
            for first_mapped in (False, True):
                x = self.s.empty((size, 4), np.int32)
                if first_mapped:
                    x.numpy()

                def work(column):
                    for i in range(1, 20):
                        x[:, column].write(i)
                        self.assertTrue((x[:, column].read() == i).all())

                in_threads(4, work)
                np.testing.assert_array_equal(x.read(), 19)

    def test_converts_only_what_loses_nothing_by_surprise(self):
        x = self.s.empty(3, np.int32)
        x.write(np.array([1, 2, 3], np.int64))
        self.assertRaises(TypeError, x.write, [1.5, 2, 3])
        self.assertRaises(ValueError, x.write, [1, 2])

    def test_memory_is_freed_with_the_last_tensor(self):
        x = self.s.empty(1000)
        part = x[10:20]
        del x
        gc.collect()
        self.s.empty(1)
        self.assertGreaterEqual(self.s.get().usage.device_bytes, 4000)
        del part
        gc.collect()
        self.s.empty(1)
        self.assertLess(self.s.get().usage.device_bytes, 4000)

    def test_memory_is_freed_later_if_it_fails_now(self):
        x = self.s.empty(1000)
        del x
        gc.collect()
        late = ptod.errors.timeout("busy")
        with unittest.mock.patch.object(self.s._api.BufferService, "DeleteBuffers") as delete:
            delete.side_effect = late
            self.assertRaises(ptod.Timeout, self.s.empty, 1)
        self.s.empty(1)
        gc.collect()
        self.assertLess(self.s.get().usage.device_bytes, 4000)

    def test_memory_is_freed_with_the_renewal(self):
        with self.node.session(ttl=3) as s:
            x = s.empty(1000)
            del x
            gc.collect()
            until = time.monotonic() + 20
            while s.get().usage.buffers:
                self.assertLess(time.monotonic(), until)
                time.sleep(0.1)

    def test_a_buffer_in_use_is_not_shown(self):
        for size in (16, BIG):
            x = self.s.empty(size)
            g = ptod.Graph()
            g.task("spin", microseconds=60_000_000, chip=0)
            g.task("fill", x, value=1.0, after=g.tasks[0])
            run = self.s.submit(g)
            self.assertReason("BUFFER_IN_USE", x.numpy)
            self.assertReason("BUFFER_IN_USE", x.write, 0)
            run.cancel()
            self.assertRaises(ptod.RunFailed, run.wait)
            np.testing.assert_array_equal(x.numpy(), np.zeros(size))

    def test_deleted_buffers_are_gone(self):
        x = self.s.tensor([1.0, 2.0], np.float32)
        array = x.numpy()
        x.delete()
        np.testing.assert_array_equal(array, [1, 2])
        self.assertReason("BUFFER_UNKNOWN", x.read)


class MappedTest(testing.DaemonTest):
    def test_arrays_are_the_memory_of_the_buffer(self):
        x, y = self.s.empty(BIG), self.s.empty(BIG)
        inside, outside = x.numpy(), y.numpy()
        inside[:] = np.arange(BIG)
        g = ptod.Graph()
        g.task("scale", x, y, factor=3.0)
        self.s.run(g)
        np.testing.assert_array_equal(outside, np.arange(BIG, dtype=np.float32) * 3)
        self.assertTrue(np.shares_memory(x[5:9].numpy(), inside))

    def test_arrays_keep_their_contents(self):
        with self.node.session() as s:
            array = s.tensor(np.arange(BIG, dtype=np.int32)).numpy()
            gc.collect()  # the array alone keeps the buffer
            s.empty(1)
            self.assertEqual(array[BIG - 1], BIG - 1)
        self.assertEqual(array[BIG - 1], BIG - 1)
        array[0] = 7  # it is the array's own memory now

    def test_unmapped_memory_is_given_back(self):
        for _ in range(3):
            x = self.s.empty(BIG)
            self.assertTrue(x.numpy().flags.writeable)
            region = x.buffer._mapping.region
            del x
            gc.collect()
            self.s.empty(1).numpy()  # asks the broker, which hears of it first
            self.assertEqual(self.s._link.check(region), 5)

    def test_arrays_of_an_earlier_mapping_keep_their_contents(self):
        with self.node.session() as s:
            x = s.tensor(np.arange(BIG, dtype=np.int32))
            before = x.numpy()
            s._link._disconnect()  # as after an answer that did not come in time
            after = x.numpy()
            self.assertIsNot(before.base, after.base)
        for array in (before, after):
            np.testing.assert_array_equal(array, np.arange(BIG))

    def test_threads_map_a_buffer_once(self):
        with self.node.session() as s:
            x = s.empty(BIG)
            map_slowly = lambda *args: (time.sleep(0.05), ask(*args))[1]
            ask = s._link.map
            with unittest.mock.patch.object(s._link, "map", side_effect=map_slowly) as asked:
                arrays = in_threads(4, lambda _: x.numpy())
            self.assertEqual(asked.call_count, 1)
            self.assertEqual(len({array.ctypes.data for array in arrays}), 1)

    def test_memory_that_cannot_be_mapped_is_given_back(self):
        x = self.s.empty(BIG)
        regions = []
        ask = self.s._link.map
        note = lambda *args: (lambda answer: (regions.append(answer[2]), answer)[1])(ask(*args))
        with unittest.mock.patch.object(self.s._link, "map", note):
            with unittest.mock.patch("ptod._mapping._F_SEAL_SHRINK", 1 << 30):
                self.assertFalse(x.numpy().flags.writeable)
        self.s.empty(1).numpy()
        self.assertEqual(self.s._link.check(regions[0]), _broker.REGION_UNKNOWN)

    def test_a_buffer_whose_arrays_cannot_be_kept_is_not_deleted(self):
        x = self.s.tensor(np.arange(BIG, dtype=np.int32))
        array = x.numpy()
        with unittest.mock.patch.object(_mapping._libc, "mremap", return_value=_mapping._FAILED):
            self.assertRaises(MemoryError, x.delete)
        self.assertEqual(array[BIG - 1], BIG - 1)
        x.delete()
        self.assertEqual(array[BIG - 1], BIG - 1)

    def test_windows_are_copied(self):
        d = self.s.domain([0], {"x": (BIG, np.float32)})
        x = d.window(0, "x")
        x.write(np.arange(BIG))
        array = x.numpy()
        np.testing.assert_array_equal(array, np.arange(BIG))
        self.assertFalse(array.flags.writeable)


class WithoutBrokerTest(TensorTest):
    options = {"flags": ["--broker=off"]}

    def test_arrays_are_copies(self):
        x = self.s.tensor(np.arange(BIG, dtype=np.float32))
        array = x.numpy()
        self.assertFalse(array.flags.writeable)
        np.testing.assert_array_equal(array, np.arange(BIG))


class Foreign:
    """A tensor of another library: not numpy's own class, nor ptod's."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Capsule:
    """Something that has exported itself already."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self, **_):
        capsule, self.capsule = self.capsule, None
        return capsule

    def __dlpack_device__(self):
        return (1, 0)


class OtherLibrariesTest(testing.DaemonTest):
    def test_dlpack_from_a_tensor(self):
        x = self.s.tensor(np.arange(12, dtype=np.float32).reshape(3, 4))
        array = np.from_dlpack(x.T)
        np.testing.assert_array_equal(array, np.arange(12).reshape(3, 4).T)
        x[0, 0].write(99)  # numpy does not write to what others share with it
        self.assertEqual(array[0, 0], 99)
        before = len(_dlpack._exported)
        del array
        gc.collect()
        self.assertEqual(len(_dlpack._exported), before - 1)
        for _ in range(3):
            x.__dlpack__()  # a capsule that nobody takes
        kept = x.__dlpack__()
        x.__dlpack__()
        _dlpack._drop_unused()
        self.assertEqual(len(_dlpack._exported), before)
        np.testing.assert_array_equal(np.from_dlpack(Capsule(kept)), x.read())

    def test_dlpack_to_what_does_not_take_it(self):
        x = self.s.tensor([1.0, 2.0], "bf16")
        for _ in range(3):
            with self.assertRaisesRegex(RuntimeError, "dtype"):
                np.from_dlpack(x)
        _dlpack._drop_unused()
        self.assertEqual(len(_dlpack._exported), 0)

    def test_dlpack_copies_only_if_it_is_asked_to(self):
        x = self.s.tensor(np.arange(BIG, dtype=np.float32))
        same = np.from_dlpack(Capsule(x.__dlpack__(copy=False, dl_device=(1, 0))))
        other = np.from_dlpack(Capsule(x.__dlpack__(copy=True)))
        x.numpy()[0] = 99
        self.assertEqual((same[0], other[0]), (99, 0))
        self.assertRaises(BufferError, x.__dlpack__, dl_device=(2, 0))
        window = self.s.domain([0], {"w": (8, np.float32)}).window(0, "w")
        self.assertRaises(BufferError, window.__dlpack__, copy=False)
        np.testing.assert_array_equal(np.from_dlpack(Capsule(window.__dlpack__())), np.zeros(8))

    def test_numpy_copies_only_if_it_is_asked_to(self):
        x = self.s.tensor(np.arange(BIG, dtype=np.float32))
        copies = [x.__array__(copy=True), x.__array__(np.float64), x.__array__(np.float32, True)]
        same = [np.asarray(x), x.__array__(copy=False)]
        x.numpy()[0] = 99
        self.assertEqual([array[0] for array in copies], [0, 0, 0])
        self.assertEqual([array[0] for array in same], [99, 99])
        self.assertRaises(ValueError, x.__array__, np.float64, copy=False)

    def test_dlpack_to_a_tensor(self):
        for dtype in (np.float64, np.int16, np.uint8):
            values = np.arange(24).astype(dtype).reshape(4, 6)[::2, 1:]
            x = self.s.tensor(Foreign(values))
            self.assertEqual(x.dtype.numpy, values.dtype)
            np.testing.assert_array_equal(x.read(), values)

    def test_bfloat16(self):
        values = np.array([1.0, -2.5, 3.140625, np.inf, 1e-40, np.nan, 256.99], np.float32)
        x = self.s.tensor(values, ptod.bfloat16)
        self.assertEqual((x.dtype, x.nbytes), (ptod.DType.BF16, 14))
        back = ptod.from_bfloat16(x.numpy())
        np.testing.assert_allclose(back, values, rtol=2**-8, atol=1e-40)
        array, dtype = _dlpack.to_numpy(x)
        self.assertEqual((dtype, array.dtype), (ptod.DType.BF16, np.uint16))
        y = self.s.tensor(x)
        np.testing.assert_array_equal(y.read(), x.read())
        g = ptod.Graph()
        g.task("add", x, y, y)
        self.s.run(g)
        np.testing.assert_array_equal(ptod.from_bfloat16(y.numpy()), 2 * back)

    def test_bfloat16_is_converted_to_other_types(self):
        values = np.array([1.0, -2.5, 3.140625], np.float32)
        x = self.s.tensor(values, "bf16")
        y = self.s.empty(3)
        for source in (x, Foreign(x)):
            y.write(source)
            np.testing.assert_array_equal(y.read(), values)
            np.testing.assert_array_equal(self.s.tensor(source, np.float64).read(), values)
            for refused in (np.uint16, np.int32):
                self.assertRaises(TypeError, self.s.tensor, source, refused)
                self.assertRaises(TypeError, self.s.empty(3, refused).write, source)
        x.write(y)
        np.testing.assert_array_equal(ptod.from_bfloat16(x.read()), values)
        self.assertEqual(self.s.tensor(1.5, "bf16").shape, ())

    def test_torch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("torch is not installed")
        for dtype in (torch.float32, torch.int64, torch.bfloat16):
            values = torch.arange(10).to(dtype)
            x = self.s.tensor(values)
            self.assertTrue(torch.equal(x.torch(), values))
            self.assertEqual(x.torch().dtype, dtype)
        x.torch()[0] = 5
        self.assertEqual(float(x.torch()[0]), 5)
        self.assertTrue(torch.equal(torch.from_dlpack(x), x.torch()))


if __name__ == "__main__":
    testing.main()
