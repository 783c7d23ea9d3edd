"""Tests of the Python client."""

def ptod_py_test(name, size = "medium", srcs = [], data = [], tags = [], **kwargs):
    """A test in tests/<name>.py, with a daemon beside it.

    Args:
      name: the name of the file without .py.
      size: as in Bazel.
      srcs: modules, if there are others than that file.
      data: files that it needs, in addition to ptod.
      tags: as in Bazel.
      **kwargs: passed on to py_test.
    """
    native.py_test(
        name = name,
        size = size,
        srcs = srcs or ["tests/%s.py" % name],
        data = ["//daemon:ptod"] + data,
        imports = ["tests"],
        main = "tests/%s.py" % name,
        python_version = "PY3",
        # The package has its own; others would only be in the way.
        legacy_create_init = 0,
        # Python loads no sanitizer; a daemon with one is slower than these tests allow for.
        tags = ["no-asan"] + tags,
        deps = [
            ":ptod",
            ":testing",
        ],
        **kwargs
    )
