"""cc_library, cc_binary and cc_test with precompiled headers.

Parsing the headers of Abseil, gRPC and GoogleTest takes most of the time of a build. A file
still has to include what it uses: --config=tidy and --define=precompiled=off compile without.
"""

# The first that a package's name begins with says which of //third_party/precompiled its
# libraries and programs use, and which one its tests.
_PRECOMPILED = [
    ("client/kernel_check/", "base", "base_test"),
    ("client/", "api", "api_test"),
    ("daemon/services/", "api", "api_test"),
    ("daemon/wire/", "api", "api_test"),
    ("daemon/", "rpc", "rpc_test"),
    ("proto/", "rpc", "rpc_test"),
    ("tests/bench/collectives/", "rpc", "rpc_test"),
    ("tests/bench/engine/", "rpc", "rpc_test"),
    ("tests/collectives/", "rpc", "rpc_test"),
    ("tests/", "api", "api_test"),
    ("", "base", "base_test"),
]

# What GCC takes from a precompiled header it would look through again and again for what could be
# freed: more work than to leave it until the compiler ends. In KiB.
_GCC = ["--param=ggc-min-heapsize=4194304"]

# .bazelrc has other options for these in --config=asan, but for their tests: see tests/fuzz.
_FUZZED = [
    "client/job/",
    "daemon/broker/",
    "daemon/events/",
    "daemon/graph/",
    "daemon/names/",
    "proto/broker/",
    "runtime/graph/",
    "runtime/host/",
    "tests/fuzz/",
]

def _include(header):
    return ["-include", "$(GENDIR)/third_party/precompiled/%s.h" % header]

def _by_clang(header):
    # Of what is in the header, Clang would list generated files by names that Bazel does not know.
    # The -MD from Bazel is without use then.
    return _include(header) + ["-MMD", "-Wno-unused-command-line-argument"]

def precompiled(attributes, name, by_clang = True, by_asan = None):
    """Lets a rule use a header of //third_party/precompiled.

    Args:
      attributes: the rule's, without copts.
      name: of the header.
      by_clang: whether Clang uses it too. It cannot where .bazelrc says `-fno-sanitize`.
      by_asan: the name of the one for --config=asan, if that is another.

    Returns:
      the attributes to give to the rule.
    """
    by_asan = by_asan or name
    return dict(
        attributes,
        copts = select({
            "//third_party:not_precompiled": [],
            "//third_party:clang_not_precompiled": [],
            "//third_party:asan": _by_clang(by_asan) if by_clang else [],
            "//third_party:clang": _by_clang(name) if by_clang else [],
            "//conditions:default": _include(name) + _GCC,
        }),
        deps = attributes.get("deps", []) + select({
            "//third_party:not_precompiled": [],
            "//third_party:asan": ["//third_party/precompiled:" + by_asan],
            "//conditions:default": ["//third_party/precompiled:" + name],
        }),
    )

def _usual(attributes, test = False):
    sources = attributes.get("srcs", [])
    if type(sources) != "list" or not [s for s in sources if s.endswith(".cc")]:
        return attributes
    if "copts" in attributes or [s for s in sources if s.endswith(".c")]:
        return attributes  # it is not for other options, nor for C
    package = native.package_name() + "/"
    _, usual, tests = [p for p in _PRECOMPILED if package.startswith(p[0])][0]
    if test:
        return precompiled(attributes, tests)
    fuzzed = [p for p in _FUZZED if package.startswith(p)]
    return precompiled(attributes, usual, by_asan = usual + "_fuzzed" if fuzzed else None)

def cc_library(**attributes):
    native.cc_library(**_usual(attributes))

def cc_binary(**attributes):
    native.cc_binary(**_usual(attributes))

def cc_test(**attributes):
    native.cc_test(**_usual(attributes, test = True))
