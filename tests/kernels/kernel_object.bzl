"""kernel_object: a shared object as a user builds it, with the plain compilers of the machine."""

_COMPILERS = {
    "gcc": "g++",
    "clang": "clang++-19",
}

def kernel_object(name, src, hdrs = [], options = "", compilers = ["gcc", "clang"], std = "c++17"):
    """Makes NAME_gcc.so and NAME_clang.so of one source. No sanitizer changes them.

    Args:
      name: of the objects.
      src: the source.
      hdrs: the headers that it includes.
      options: further options of the compiler.
      compilers: for which to make one.
      std: the language.
    """
    for compiler in compilers:
        native.genrule(
            name = name + "_" + compiler,
            testonly = True,
            srcs = [src] + hdrs,
            outs = ["%s_%s.so" % (name, compiler)],
            cmd = " ".join([
                _COMPILERS[compiler],
                "-std=" + std,
                "-O2 -fPIC -shared -Wall -Wextra -Werror -Wl,-z,defs",
                options,
                "-I. $(location %s) -o $@" % src,
            ]),
            visibility = ["//visibility:public"],
        )
