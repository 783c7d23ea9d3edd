import numpy as np, ptod
with ptod.local(chips=2) as node, node.session() as s:
    x = s.tensor(np.arange(1024, dtype=np.float32), chip=0)
    y = s.empty(1024, np.float32, chip=0)
    g = ptod.Graph(); g.task("scale", x, y, factor=2.0, blocks=8)
    s.submit(g).wait()
    np.testing.assert_array_equal(y.numpy(), 2 * np.arange(1024, dtype=np.float32))
    print("checked", y.numpy()[-1])
