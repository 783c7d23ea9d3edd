"""The examples in the documentation of the package run, with threads and with asyncio."""

import ast
import asyncio
import contextlib
import doctest
import importlib
import inspect
import io
import pkgutil
import unittest

import numpy as np
import ptod
import ptod.aio
import testing

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def modules(skip):
    """The modules of the package, without the other one of the two APIs."""
    for found in pkgutil.walk_packages(ptod.__path__, "ptod."):
        if f".{skip}" not in found.name and ".v1" not in found.name:
            yield importlib.import_module(found.name)


def examples(skip):
    finder = doctest.DocTestFinder()
    for module in modules(skip):
        yield from (test for test in finder.find(module) if test.examples)


class ThreadsTest(unittest.TestCase):
    def test_examples(self):
        runner = doctest.DocTestRunner(optionflags=FLAGS)
        with testing.local() as node:
            for test in examples("_async"):
                with node.session() as session:
                    test.globs = {
                        "ptod": ptod,
                        "np": np,
                        "node": node,
                        "s": session,
                        "g": noop(ptod),
                    }
                    runner.run(test)
        self.assertGreater(runner.tries, 40)
        self.assertEqual(runner.failures, 0)


class AsyncioTest(unittest.TestCase):
    """The examples of the asynchronous modules are written without await, for both APIs: here each
    call of a coroutine is awaited."""

    def test_examples(self):
        asyncio.run(self.run_all())

    async def run_all(self):
        count = 0
        async with ptod.aio.local(2, ptod=testing.BINARY, clusters=4, memory="1G") as node:
            for test in examples("_sync"):
                if "._async." not in test.name:
                    continue
                async with node.session() as session:
                    names = {"ptod": ptod, "np": np, "node": node, "s": session, "g": noop(ptod)}
                    names.update(__await=awaited)
                    for example in test.examples:
                        count += 1
                        await self.check(test, example, names)
        self.assertGreater(count, 30)

    async def check(self, test, example, names):
        tree = Awaits().visit(ast.parse(example.source))
        body = tree.body
        if isinstance(body[-1], ast.Expr):
            body[-1] = ast.Expr(ast.Call(ast.Name("__show", ast.Load()), [body[-1].value], []))
        names["__show"] = lambda value: value is None or print(repr(value))
        code = compile(
            ast.fix_missing_locations(tree), test.name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        )
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            done = eval(code, names)
            if inspect.iscoroutine(done):
                await done
        good = doctest.OutputChecker().check_output(example.want, out.getvalue(), FLAGS)
        self.assertTrue(
            good, f"{test.name}: {example.source}wanted {example.want!r}, got {out.getvalue()!r}"
        )


class Awaits(ast.NodeTransformer):
    """Awaits every call, and makes `with`, `for` and comprehensions asynchronous where they must
    be."""

    def visit_Call(self, node):
        self.generic_visit(node)
        return ast.Await(ast.Call(ast.Name("__await", ast.Load()), [node], []))

    def visit_With(self, node):
        for item in node.items:  # what opens by `async with` is not awaited before
            item.context_expr = self.generic_visit(item.context_expr)
        node.body = [self.visit(each) for each in node.body]
        return ast.AsyncWith(node.items, node.body)

    def visit_comprehension(self, node):
        self.generic_visit(node)
        source = ast.unparse(node.iter)
        node.is_async = int("events" in source or source == "stream")
        return node


async def awaited(value):
    return (
        await value if inspect.isawaitable(value) and not isinstance(value, ptod.aio.Run) else value
    )


def noop(module):
    graph = module.Graph()
    graph.task("noop", chip=0)
    return graph


if __name__ == "__main__":
    testing.main()
