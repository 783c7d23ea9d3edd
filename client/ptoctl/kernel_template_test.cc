// `ptoctl kernels new` writes files that compile, pass their own test, and pass the check, as they
// are.

#include "client/ptoctl/kernel_template.h"

#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/ptoctl/ptoctl_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pto::ptoctl {
namespace {

using ::testing::HasSubstr;

std::string Folder(const std::string& name) {
  return absl::StrCat(std::getenv("TEST_TMPDIR"), "/", name);
}

// The exit code of a shell command in a folder.
int Shell(const std::string& folder, const std::string& command) {
  return std::system(absl::StrCat("cd '", folder, "' && ", command).c_str());
}

std::string Read(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

class KernelNewTest : public ::testing::TestWithParam<bool> {
 protected:
  std::vector<std::string> NewArgs(const std::string& name, const std::string& folder) {
    std::vector<std::string> args = {"kernels", "new", name, "--directory", folder};
    if (GetParam()) args.push_back("--pto");
    return args;
  }
  std::vector<std::string> CheckArgs(const std::string& name, const std::string& folder) {
    std::vector<std::string> args = {"kernels", "check", absl::StrCat(folder, "/", name, ".so")};
    if (GetParam()) {
      args.push_back("--signature-file");
      args.push_back(absl::StrCat(folder, "/", name, ".sig"));
    }
    return args;
  }
};

INSTANTIATE_TEST_SUITE_P(Abis, KernelNewTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Pto" : "Own"; });

TEST_P(KernelNewTest, WhatItWritesWorksAsItIs) {
  const std::string folder = Folder(GetParam() ? "pto" : "own");
  const Result made = Ptoctl(NewArgs("my_kernel2", folder));
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr(absl::StrCat(folder, "/my_kernel2.cc\n")));
  EXPECT_THAT(made.out, HasSubstr(absl::StrCat(folder, "/README.md\n")));
  EXPECT_THAT(made.err, HasSubstr("ptoctl runs submit my_kernel2.json"));
  for (const char* compiler : {"g++", "clang++-19"}) {
    EXPECT_EQ(Shell(folder, absl::StrCat("make -s clean && make -s CXX=", compiler,
                                         " CXXFLAGS='-std=c++17 -O2 -g -fPIC -Wall -Wextra "
                                         "-Wconversion -Wshadow -Werror' && make -s test CXX=",
                                         compiler)),
              0)
        << compiler;
    const Result checked = Ptoctl(CheckArgs("my_kernel2", folder));
    EXPECT_EQ(checked.code, 0) << checked.out << checked.err;
    EXPECT_THAT(checked.out, HasSubstr("my_kernel2: 40 inputs"));
    EXPECT_THAT(checked.out, HasSubstr("no problems found"));
  }
  const Result job =
      Ptoctl({"runs", "submit", absl::StrCat(folder, "/my_kernel2.json"), "--dry-run"});
  EXPECT_EQ(job.code, 0) << job.err;
}

TEST_P(KernelNewTest, ItsTestFindsAMistake) {
  const std::string folder = Folder(GetParam() ? "wrong_pto" : "wrong_own");
  ASSERT_EQ(Ptoctl(NewArgs("wrong", folder)).code, 0);
  ASSERT_EQ(Shell(folder, "sed -i 's/= factor \\*/= 1.5f + factor */' wrong.cc"), 0);
  EXPECT_NE(Shell(folder, "make -s test >/dev/null"), 0);
}

TEST_P(KernelNewTest, OverwritesNothing) {
  const std::string folder = Folder(GetParam() ? "again_pto" : "again_own");
  ASSERT_EQ(mkdir(folder.c_str(), 0755), 0);
  const std::string path = absl::StrCat(folder, "/Makefile");
  std::ofstream(path) << "mine";
  const Result result = Ptoctl(NewArgs("again", folder));
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr(absl::StrCat(path, " exists already")));
  EXPECT_EQ(Read(path), "mine");
  EXPECT_FALSE(std::ifstream(absl::StrCat(folder, "/again.cc")).good()) << "nothing is written";
}

TEST(KernelTemplateTest, NamesAreThoseOfKernels) {
  for (const char* name : {"a", "add", "my_kernel2"}) EXPECT_TRUE(IsKernelId(name)) << name;
  for (const char* name : {"", "2a", "_a", "A", "a-b", "a b", "../a"}) {
    EXPECT_FALSE(IsKernelId(name)) << name;
    EXPECT_EQ(Ptoctl({"kernels", "new", name}).code, 2) << name;
  }
  EXPECT_TRUE(IsKernelId(std::string(63, 'a')));
  EXPECT_FALSE(IsKernelId(std::string(64, 'a')));
}

TEST(KernelCheckCommandTest, FindingsAreFailures) {
  const std::string folder = Folder("buggy");
  ASSERT_EQ(Ptoctl({"kernels", "new", "buggy", "--directory", folder}).code, 0);
  ASSERT_EQ(Shell(folder, "sed -i 's/i < end; ++i/i + 1 < end; ++i/' buggy.cc && make -s"), 0);
  const std::string object = absl::StrCat(folder, "/buggy.so");
  const Result table = Ptoctl({"kernels", "check", object});
  EXPECT_EQ(table.code, 1);
  EXPECT_THAT(table.out, HasSubstr("unwritten: 1 of 16 elements of z are not written"));
  EXPECT_THAT(table.err, HasSubstr("--seed 1 --only 0"));
  const Result json = Ptoctl({"kernels", "check", object, "-o", "json", "--only", "0"});
  EXPECT_EQ(json.code, 1);
  EXPECT_THAT(json.out, HasSubstr("\"problem\": \"unwritten\""));
  const Result quiet = Ptoctl({"kernels", "check", object, "-q", "--only", "0"});
  EXPECT_EQ(quiet.out, "unwritten\n");
}

TEST(KernelCheckCommandTest, MistakesAreExplained) {
  const std::string missing = Folder("missing.so");
  EXPECT_THAT(Ptoctl({"kernels", "check", missing}).err, HasSubstr("No such file"));
  EXPECT_EQ(Ptoctl({"kernels", "check", missing, "--shape", "x"}).code, 2);
  EXPECT_EQ(Ptoctl({"kernels", "check", missing, "--signature-file", missing}).code, 2);
  EXPECT_EQ(Ptoctl({"kernels", "check"}).code, 2);
}

}  // namespace
}  // namespace pto::ptoctl
