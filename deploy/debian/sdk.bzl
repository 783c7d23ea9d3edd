"""The C++ client library as others link it: one archive, and one shared library."""

def _objects_archive_impl(ctx):
    archives = []
    for dep in ctx.attr.deps:
        for input in dep[CcInfo].linking_context.linker_inputs.to_list():
            for library in input.libraries:
                archive = library.pic_static_library or library.static_library
                if archive != None and archive not in archives:
                    archives.append(archive)

    # Each .a has its own members; thin or nested archives would need the build tree.
    lines = ["CREATE %s" % ctx.outputs.archive.path]
    lines += ["ADDLIB %s" % archive.path for archive in archives]
    lines += ["SAVE", "END", ""]
    script = ctx.actions.declare_file(ctx.label.name + ".mri")
    ctx.actions.write(script, "\n".join(lines))
    ctx.actions.run_shell(
        inputs = archives + [script],
        outputs = [ctx.outputs.archive],
        command = "ar -M < %s && strip --strip-debug --remove-section=.comment --enable-deterministic-archives %s" %
                  (script.path, ctx.outputs.archive.path),
        mnemonic = "MergeArchives",
        use_default_shell_env = True,
    )
    return [DefaultInfo(files = depset([ctx.outputs.archive]))]

objects_archive = rule(
    doc = "All objects of this workspace that `deps` consist of, without what Debian has.",
    implementation = _objects_archive_impl,
    attrs = {
        "archive": attr.output(mandatory = True),
        "deps": attr.label_list(providers = [CcInfo]),
    },
)

def _installed_headers_impl(ctx):
    public = ctx.attr.library[CcInfo].compilation_context.headers.to_list()
    tree = ctx.actions.declare_directory(ctx.label.name)
    args = ctx.actions.args()
    args.add("--out", tree.path)
    args.add_all(ctx.attr.roots, before_each = "--root")
    args.add_all([header for header in public if header.extension in ["h", "inc"]])
    args.use_param_file("@%s")
    args.set_param_file_format("multiline")
    ctx.actions.run(
        executable = ctx.executable._tool,
        arguments = [args],
        inputs = public,
        outputs = [tree],
        mnemonic = "InstalledHeaders",
    )
    return [DefaultInfo(files = depset([tree]))]

installed_headers = rule(
    doc = "A folder with the headers `roots` of `library`, and those that they include.",
    implementation = _installed_headers_impl,
    attrs = {
        "library": attr.label(providers = [CcInfo]),
        "roots": attr.string_list(mandatory = True),
        "_tool": attr.label(
            default = ":install_headers",
            cfg = "exec",
            executable = True,
        ),
    },
)
