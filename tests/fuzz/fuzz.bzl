"""fuzz_target: a libFuzzer program, its corpus as a test, and 10 seconds of fuzzing as a test."""

def fuzz_target(name, deps, options = [], dictionary = None):
    """Makes NAME_fuzzer, NAME_corpus_test and NAME_fuzz_test of NAME_fuzzer.cc and corpus/NAME.

    With Clang the program is libFuzzer's. GCC has none: there it runs what it is given, once.
    Without --config=asan the code under test is not instrumented, and fuzzing finds little.

    Args:
      name: of the target; its source is NAME_fuzzer.cc.
      deps: of the source.
      options: of libFuzzer, such as -max_len=4096.
      dictionary: words for libFuzzer to put into inputs.
    """
    program = name + "_fuzzer"
    native.cc_binary(
        name = program,
        testonly = True,
        srcs = [program + ".cc"] + select({
            "//third_party:clang": [],
            "//conditions:default": ["replay_main.cc"],
        }),
        linkopts = select({
            "//third_party:clang": ["-fsanitize=fuzzer"],
            "//conditions:default": [],
        }),
        deps = deps,
    )

    data = [":" + program] + native.glob(["corpus/%s/*" % name])
    arguments = ["$(location :%s)" % program, "tests/fuzz/corpus/" + name] + options
    if dictionary:
        data.append(dictionary)
        arguments.append("-dict=tests/fuzz/" + dictionary)
    native.sh_test(
        name = name + "_corpus_test",
        size = "small",
        srcs = ["run_target.sh"],
        args = ["replay"] + arguments,
        data = data,
    )
    native.sh_test(
        name = name + "_fuzz_test",
        size = "medium",
        srcs = ["run_target.sh"],
        args = ["fuzz"] + arguments,
        data = data,
        # Without AddressSanitizer it would only repeat the corpus.
        tags = ["asan-only"],
    )
