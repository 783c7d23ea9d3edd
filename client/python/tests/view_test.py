"""Views describe the same elements as numpy's."""

import random
import unittest

import numpy as np
import ptod
import testing
from ptod.view import view_of_bytes

SEED = 7


class ViewTest(unittest.TestCase):
    def test_random_views_have_the_elements_of_numpy(self):
        print(f"seed {SEED}")
        choose = random.Random(SEED)
        for _ in range(2000):
            shape = [choose.randint(1, 5) for _ in range(choose.randint(1, 4))]
            array = np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)
            memory = array.reshape(-1).view(np.uint8).copy()
            view = ptod.View("b", np.int32, shape)
            for _ in range(choose.randint(0, 4)):
                array, view = self.step(choose, array, view)
            np.testing.assert_array_equal(view_of_bytes(memory, view), array)
            self.assertEqual(view.shape, array.shape)
            self.assertEqual(view.is_contiguous, bool(array.flags.c_contiguous))

    def step(self, choose, array, view):
        if choose.random() < 0.3:
            order = list(range(array.ndim))
            choose.shuffle(order)
            return array.transpose(order), view.transpose(*order)
        if choose.random() < 0.2 and view.is_contiguous:
            return array.reshape(-1), view.reshape(-1)
        index = []
        for size in array.shape:
            kind = choose.randint(0, 3)
            if kind == 0 and size:
                index.append(choose.randrange(-size, size))
            else:
                first = choose.randint(-size - 1, size + 1)
                index.append(
                    slice(first, choose.randint(-size - 1, size + 1), choose.randint(1, 3))
                )
        index = tuple(index[: choose.randint(0, len(index))])
        if choose.random() < 0.3:
            index = (*index, Ellipsis)
        return array[index], view[index]

    def test_refuses_what_no_view_can_be(self):
        view = ptod.View("b", np.float32, (2, 3))
        for wrong in (lambda: view[::-1], lambda: view[2], lambda: view[0, 0, 0]):
            self.assertRaises(IndexError, wrong)
        self.assertRaises(ValueError, lambda: view.T.reshape(6))
        self.assertRaises(ValueError, lambda: view.reshape(5))
        self.assertRaises(ValueError, lambda: view.transpose(0, 0))
        self.assertRaises(TypeError, lambda: ptod.View("b", np.complex64, 1))


if __name__ == "__main__":
    testing.main()
