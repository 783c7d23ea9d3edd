"""precompiled_header: headers that are parsed once for each kind of build, not in each file.

GCC and Clang both take NAME.h.gch instead of NAME.h when told to -include the latter, provided
that it was made with the same options.
"""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "CPP_COMPILE_ACTION_NAME")
load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    text = ctx.actions.declare_file(ctx.label.name + ".h")
    ctx.actions.write(text, "".join(["#include <%s>\n" % header for header in ctx.attr.headers]))
    includes = [word for header in ctx.attr.headers for word in ["-include", header]]
    parsed = ctx.actions.declare_file(ctx.label.name + ".h.gch")
    used = cc_common.merge_cc_infos(cc_infos = [d[CcInfo] for d in ctx.attr.deps])
    variables = cc_common.create_compile_variables(
        feature_configuration = features,
        cc_toolchain = toolchain,
        user_compile_flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts +
                             ctx.attr.copts + ["-xc++-header"] + includes,
        quote_include_directories = used.compilation_context.quote_includes,
        # As system headers, so that Clang does not list them for whoever uses them with -MMD.
        system_include_directories = depset(transitive = [
            used.compilation_context.includes,
            used.compilation_context.system_includes,
        ]),
        preprocessor_defines = used.compilation_context.defines,
        source_file = "/usr/include/absl/base/config.h",
        output_file = parsed.path,
        use_pic = True,
    )
    ctx.actions.run(
        executable = cc_common.get_tool_for_action(
            feature_configuration = features,
            action_name = CPP_COMPILE_ACTION_NAME,
        ),
        arguments = cc_common.get_memory_inefficient_command_line(
            feature_configuration = features,
            action_name = CPP_COMPILE_ACTION_NAME,
            variables = variables,
        ),
        # Clang remembers where the headers were; by this name they are there in any sandbox.
        env = {"PATH": "/bin:/usr/bin", "PWD": "/proc/self/cwd"},
        inputs = depset(transitive = [used.compilation_context.headers, toolchain.all_files]),
        outputs = [parsed],
        mnemonic = "PrecompileHeader",
        progress_message = "Precompiling %s" % text.short_path,
    )
    own = CcInfo(compilation_context = cc_common.create_compilation_context(
        headers = depset([text, parsed]),
    ))
    return [cc_common.merge_cc_infos(cc_infos = [own, used])]

precompiled_header = rule(
    implementation = _impl,
    attrs = {
        "copts": attr.string_list(doc = "Beside those of .bazelrc."),
        "deps": attr.label_list(providers = [CcInfo], doc = "Whose headers are among them."),
        "headers": attr.string_list(mandatory = True, doc = "As in #include <>."),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
