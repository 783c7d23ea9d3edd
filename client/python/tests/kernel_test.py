"""Uploaded kernels."""

import os
import unittest

import numpy as np
import ptod
import testing
from ptod.v1 import kernel_pb2

OBJECTS = os.path.abspath("tests/kernels")
OLD = "signature" not in kernel_pb2.RegisterKernelRequest.DESCRIPTOR.fields_by_name


class KernelTest(testing.DaemonTest):
    @unittest.skipUnless(OLD, "this release has them")
    def test_a_release_without_uploaded_kernels_says_so(self):
        self.assertReason("NOT_AVAILABLE", self.s.register_kernel, "/dev/null")

    @unittest.skipIf(OLD, "this release has no uploaded kernels")
    def test_kernels_are_uploaded(self):
        kernel = self.s.register_kernel(os.path.join(OBJECTS, "own_add_gcc.so"), name="own_add")
        self.assertEqual(kernel.name, f"{self.s.name}/kernels/own_add")
        scale = self.s.register_kernel(
            os.path.join(OBJECTS, "own_add_gcc.so"), name="own_scale", entry="own_scale"
        )
        self.assertEqual([scalar.name for scalar in scale.scalars], ["factor"])
        x, z = self.s.tensor(np.arange(1000), np.float32), self.s.empty(1000)
        g = ptod.Graph()
        g.task("own_add", x, x, z, blocks=3)
        g.task("own_scale", z, factor=0.25)
        self.s.run(g)
        np.testing.assert_array_equal(z.numpy(), np.arange(1000) / 2)

    @unittest.skipIf(OLD, "this release has no uploaded kernels")
    def test_kernels_with_a_signature_are_uploaded(self):
        path = os.path.join(OBJECTS, "pto_scale_gcc.so")
        self.assertReason("KERNEL_INVALID", self.s.register_kernel, path, name="affine")
        signature = "in f32[] x, out f32[] y, scalar f32 factor, scalar i32 shift"
        self.s.register_kernel(path, signature, name="affine")
        x, y = self.s.tensor(np.arange(1000), np.float32), self.s.empty(1000)
        g = ptod.Graph()
        g.task("affine", x, y, shift=3, factor=2.0)
        self.s.run(g)
        np.testing.assert_array_equal(y.numpy(), np.arange(1000) * 2 + 3)
        with self.node.session() as other:  # they belong to their session
            self.assertReason("KERNEL_UNKNOWN", other.submit, g)


if __name__ == "__main__":
    testing.main()
