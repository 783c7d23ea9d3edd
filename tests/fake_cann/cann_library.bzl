"""Libraries and programs of the fake CANN, from the plain compiler of the machine."""

_OPTIONS = "-std=c++20 -O1 -g1 -fPIC -Wall -Wextra -Werror -pthread"

def cann_objects(name, srcs, hdrs):
    """Compiles the sources into NAME.o, once for all layouts.

    Args:
      name: of the rule.
      srcs: the sources.
      hdrs: the headers that they include.
    """
    native.genrule(
        name = name,
        testonly = True,
        srcs = srcs + hdrs,
        outs = [name + ".o"],
        cmd = " && ".join(
            ["g++ %s -c $(location %s) -o $(RULEDIR)/%s.%s.part" % (_OPTIONS, src, name, src) for src in srcs] +
            ["ld -r -o $@ " + " ".join(["$(RULEDIR)/%s.%s.part" % (name, src) for src in srcs])],
        ),
    )

def cann_library(name, objects, folder, soname, needed = [], exports = None):
    """Makes FOLDER/lib64/SONAME, without RPATH.

    Args:
      name: of the rule.
      objects: rules of cann_objects.
      folder: of the layout.
      soname: the library's name.
      needed: sonames of libraries in the same folder that it needs.
      exports: a version script that hides what this release does not have.
    """
    others = ["%s/lib64/%s" % (folder, other) for other in needed]
    native.genrule(
        name = name,
        testonly = True,
        srcs = objects + others + ([exports] if exports else []),
        outs = ["%s/lib64/%s" % (folder, soname)],
        cmd = " ".join(
            ["g++ -shared -pthread -Wl,-z,defs -Wl,-soname," + soname] +
            ["$(location %s)" % each for each in objects] +
            # By name only: what is recorded is the soname.
            ["-Wl,--no-as-needed $(location %s)" % other for other in others] +
            (["-Wl,--version-script=$(location %s)" % exports] if exports else []) +
            ["-ldl -o $@"],
        ),
    )

def cann_program(name, srcs, hdrs, out):
    """Makes a program whose symbols objects that it loads can find.

    Args:
      name: of the rule.
      srcs: the sources.
      hdrs: the headers that they include.
      out: the program.
    """
    native.genrule(
        name = name,
        testonly = True,
        srcs = srcs + hdrs,
        outs = [out],
        executable = True,
        cmd = " ".join(
            ["g++", _OPTIONS, "-rdynamic"] +
            ["$(location %s)" % src for src in srcs] +
            ["-ldl -o $@"],
        ),
    )
