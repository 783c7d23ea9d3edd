"""The API breaks no client of a supported release, and says truly since when its methods exist."""

import copy
import pathlib
import re
import unittest

from google.protobuf import descriptor_pb2

RELEASED = sorted(pathlib.Path("tests/proto/released").glob("*.protoset"))
CURRENT = pathlib.Path("proto/pto/v1/pto_proto-descriptor-set.proto.bin")
SOURCES = sorted(pathlib.Path("proto/pto/v1").glob("*.proto"))

# What may differ, and why nobody notices.
ALLOWED = {
    # No daemon before 1.2 implemented RegisterKernel.
    "field pto.v1.RegisterKernelRequest 2",
}

# Methods that the API of a release names and that its daemon did not serve.
_NOT_IN_1_1 = {"DeleteKernel", "ExplainRun", "RegisterKernel"}
NOT_SERVED = {
    "1.0.0": _NOT_IN_1_1
    | {"CreateDomain", "DeleteDomain", "GetDomain", "ListDomains"}
    | {"Notify", "ReadSignals", "RevokeDomain"},
    "1.1.0": _NOT_IN_1_1,
}

METHOD = re.compile(r"// Since: (\d+)\.(\d+)\.\n\s*rpc (\w+)")


def read(path):
    files = descriptor_pb2.FileDescriptorSet()
    files.ParseFromString(path.read_bytes())
    return files


def elements(files):
    """What clients rely on: by name or number on the wire, with what must stay the same of it."""
    found = {}

    def add_enum(scope, enum):
        for value in enum.value:
            found[f"value {scope}.{enum.name} {value.number}"] = value.name

    def add_message(scope, message):
        name = f"{scope}.{message.name}"
        found[f"message {name}"] = name
        for field in message.field:
            oneof = ""
            if field.HasField("oneof_index"):
                oneof = message.oneof_decl[field.oneof_index].name
            found[f"field {name} {field.number}"] = (
                field.name,
                descriptor_pb2.FieldDescriptorProto.Type.Name(field.type),
                descriptor_pb2.FieldDescriptorProto.Label.Name(field.label),
                field.type_name,
                oneof,
            )
        for enum in message.enum_type:
            add_enum(name, enum)
        for nested in message.nested_type:
            add_message(name, nested)

    for file in files.file:
        if file.package != "pto.v1":
            continue
        for message in file.message_type:
            add_message(file.package, message)
        for enum in file.enum_type:
            add_enum(file.package, enum)
        for service in file.service:
            for method in service.method:
                found[f"rpc {service.name}/{method.name}"] = (
                    method.input_type,
                    method.output_type,
                    method.client_streaming,
                    method.server_streaming,
                )
    return found


def breaks(before, now):
    """One line for each change that a client of `before` would notice."""
    return [
        f"{name}: was {what}, is {now.get(name, 'gone')}"
        for name, what in before.items()
        if name not in ALLOWED and now.get(name) != what
    ]


def since():
    """method: the release that it says to be there since, as (major, minor)"""
    found = {}
    for source in SOURCES:
        for major, minor, method in METHOD.findall(source.read_text()):
            found[method] = (int(major), int(minor))
    return found


def version_in(path, pattern):
    return re.search(pattern, pathlib.Path(path).read_text(), re.MULTILINE)[1]


class CompatTest(unittest.TestCase):
    def test_no_release_is_broken(self):
        now = elements(read(CURRENT))
        self.assertGreaterEqual(len(RELEASED), 2)
        for path in RELEASED:
            with self.subTest(release=path.stem):
                before = elements(read(path))
                self.assertGreater(len(before), 500)
                self.assertEqual(breaks(before, now), [])

    def test_breaking_changes_are_noticed(self):
        """Otherwise the test above could pass whatever is done."""
        original = read(CURRENT)
        before = elements(original)
        self.assertEqual(breaks(before, before), [])

        def change(edit):
            files = copy.deepcopy(original)
            (run,) = [file for file in files.file if file.name.endswith("run.proto")]
            edit(run)
            return breaks(before, elements(files))

        def rename(file):
            file.message_type[0].field[0].name += "_new"

        def retype(file):
            file.message_type[0].field[0].type = descriptor_pb2.FieldDescriptorProto.TYPE_FIXED64

        def add(file):
            file.message_type[0].field.add(name="more", number=4000, type=4, label=1)

        for edit, count in (
            (rename, 1),
            (retype, 1),
            (lambda file: file.message_type.pop(0), None),
            (lambda file: file.service[0].method.pop(0), 1),
            (lambda file: setattr(file.service[0].method[0], "server_streaming", True), 1),
            (add, 0),
        ):
            found = change(edit)
            if count is None:
                self.assertGreater(len(found), 1)
            else:
                self.assertEqual(len(found), count, found)

    def test_since_is_true(self):
        says = since()
        methods = {
            name.rpartition("/")[2] for name in elements(read(CURRENT)) if name.startswith("rpc ")
        }
        self.assertEqual(set(says), methods)
        for path in RELEASED:
            release = tuple(int(part) for part in path.stem.split(".")[:2])
            there = {name.rpartition("/")[2] for name in elements(read(path)) if name[:4] == "rpc "}
            there -= NOT_SERVED.get(path.stem, set())
            for method in methods:
                with self.subTest(release=path.stem, method=method):
                    self.assertEqual(says[method] <= release, method in there, says[method])

    def test_everything_has_one_version(self):
        version = version_in("daemon/version.h", r'kVersion = "([^"]*)"')
        self.assertEqual(version_in("client/ptoctl/app.cc", r'"ptoctl ([\d.]+)"'), version)
        self.assertEqual(
            version_in("client/python/ptod/__init__.py", r'__version__ = "([^"]*)"'), version
        )
        self.assertEqual(version_in("client/python/BUILD.bazel", r'^VERSION = "([^"]*)"'), version)
        self.assertEqual(version_in("CHANGELOG.md", r"^## (\S+)"), version)
        self.assertEqual(version_in("deploy/debian/changelog", r"^ptod \((.*)-\d+\)"), version)
        newest = max(since().values())
        self.assertEqual(tuple(int(part) for part in version.split(".")[:2]), newest)


if __name__ == "__main__":
    unittest.main()
