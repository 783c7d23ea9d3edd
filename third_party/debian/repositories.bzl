"""The external repositories of this project, all of them made from Debian packages."""

load(":absl.bzl", "debian_absl")

_STATIC = "@pto//third_party/debian:static"

def _system_impl(rctx):
    """Lays out a repository of links to installed files and a BUILD file."""
    missing = []
    for path in rctx.attr.links.values():
        if not rctx.path(path).exists:
            missing.append(path)
    if missing:
        fail("%s is not there. Run: apt-get install %s" % (
            ", ".join(missing),
            " ".join(rctx.attr.packages),
        ))
    for link, path in rctx.attr.links.items():
        rctx.symlink(path, link)
    rctx.symlink(rctx.attr.build_file, "BUILD.bazel")
    for package, build_file in rctx.attr.sub_packages.items():
        rctx.symlink(build_file, package + "/BUILD.bazel")

system_repository = repository_rule(
    implementation = _system_impl,
    attrs = {
        "build_file": attr.label(mandatory = True),
        # link in the repository: absolute path it points at
        "links": attr.string_dict(mandatory = True),
        # the Debian packages that install them, for the error message
        "packages": attr.string_list(mandatory = True),
        "sub_packages": attr.string_dict(),
    },
    local = True,
)

def debian_repositories():
    """Declares every external repository, under the name its upstream project uses."""

    # What Bazel's own files load and would otherwise download.
    native.local_repository(name = "rules_cc", path = "third_party/offline/rules_cc")
    native.local_repository(name = "rules_java", path = "/usr/share/bazel/rules/java")
    native.local_repository(name = "rules_proto", path = "/usr/share/bazel/rules/proto")
    native.local_repository(name = "bazel_skylib", path = "/usr/share/bazel/tools/skylib")
    native.local_repository(
        name = "remote_coverage_tools",
        path = "third_party/offline/remote_coverage_tools",
    )

    debian_absl(name = "com_google_absl", static_setting = _STATIC)
    system_repository(
        name = "com_google_protobuf",
        build_file = "@pto//third_party/debian:protobuf.BUILD",
        links = {
            "include/google/protobuf": "/usr/include/google/protobuf",
            "protoc": "/usr/bin/protoc",
        },
        packages = ["libprotobuf-dev", "protobuf-compiler"],
    )
    system_repository(
        name = "com_github_grpc_grpc",
        build_file = "@pto//third_party/debian:grpc.BUILD",
        links = {
            "include/grpcpp": "/usr/include/grpcpp",
            "grpc_cpp_plugin": "/usr/bin/grpc_cpp_plugin",
            "grpc_python_plugin": "/usr/bin/grpc_python_plugin",
        },
        packages = ["libgrpc++-dev", "protobuf-compiler-grpc"],
    )
    system_repository(
        name = "com_google_googletest",
        build_file = "@pto//third_party/debian:googletest.BUILD",
        links = {
            "include/gtest": "/usr/include/gtest",
            "include/gmock": "/usr/include/gmock",
        },
        packages = ["libgtest-dev", "libgmock-dev"],
    )
    system_repository(
        name = "boost_context",
        build_file = "@pto//third_party/debian:boost_context.BUILD",
        links = {"include/boost/context": "/usr/include/boost/context"},
        packages = ["libboost-context-dev"],
    )
    system_repository(
        name = "cli11",
        build_file = "@pto//third_party/debian:cli11.BUILD",
        links = {"include/CLI": "/usr/include/CLI"},
        packages = ["libcli11-dev"],
    )
    system_repository(
        name = "libseccomp",
        build_file = "@pto//third_party/debian:libseccomp.BUILD",
        links = {"include/seccomp.h": "/usr/include/seccomp.h"},
        packages = ["libseccomp-dev"],
    )
    system_repository(
        name = "onetbb",
        build_file = "@pto//third_party/debian:onetbb.BUILD",
        links = {"include/oneapi": "/usr/include/oneapi"},
        packages = ["libtbb-dev"],
    )
    system_repository(
        name = "openssl",
        build_file = "@pto//third_party/debian:openssl.BUILD",
        links = {"include/openssl": "/usr/include/openssl"},
        packages = ["libssl-dev"],
    )
    system_repository(
        name = "prometheus_cpp",
        build_file = "@pto//third_party/debian:prometheus_cpp.BUILD",
        links = {"include/prometheus": "/usr/include/prometheus"},
        packages = ["prometheus-cpp-dev"],
    )
    system_repository(
        name = "starpu",
        build_file = "@pto//third_party/debian:starpu.BUILD",
        links = {"include": "/usr/include/starpu/1.3"},
        packages = ["libstarpu-dev"],
    )
    system_repository(
        name = "sqlite",
        build_file = "@pto//third_party/debian:sqlite.BUILD",
        links = {"include/sqlite3.h": "/usr/include/sqlite3.h"},
        packages = ["libsqlite3-dev"],
    )
    system_repository(
        name = "xxhash",
        build_file = "@pto//third_party/debian:xxhash.BUILD",
        links = {"include/xxhash.h": "/usr/include/xxhash.h"},
        packages = ["libxxhash-dev"],
    )
