// A user's own kernel, from `ptoctl kernels new` to the result of a run on a real daemon.

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "pto/v1/kernel.pb.h"
#include "tests/integration/ptoctl_testing.h"

namespace pto::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int kFailed = 1;
constexpr int kUsage = 2;

class PtoctlKernelsTest : public PtoctlTest {
 protected:
  // Makes a kernel with `ptoctl kernels new`, builds it with make, and returns its folder.
  static std::string Make(const std::string& name, const std::vector<std::string>& options = {}) {
    const std::string folder = absl::StrCat(daemon_->directory(), "/", name);
    std::vector<std::string> args = {"kernels", "new", name, "--directory", folder};
    args.insert(args.end(), options.begin(), options.end());
    Output(args);
    Build(folder);
    return folder;
  }
  static void Build(const std::string& folder) {
    EXPECT_EQ(std::system(absl::StrCat("make -s -C '", folder, "'").c_str()), 0);
  }
  // Registers it in a new session; returns the kernel's full name.
  static std::string Register(const std::string& folder, const std::string& name,
                              const std::vector<std::string>& options = {}) {
    std::vector<std::string> args = {"kernels", "register", absl::StrCat(folder, "/", name, ".so"),
                                     "-q"};
    args.insert(args.end(), options.begin(), options.end());
    return std::string(absl::StripAsciiWhitespace(Output(args)));
  }
  static std::string SessionOf(const std::string& kernel) {
    return kernel.substr(0, kernel.find("/kernels/"));
  }
};

TEST_F(PtoctlKernelsTest, FromNewToResult) {
  const std::string folder = Make("fresh");
  const std::string object = folder + "/fresh.so";
  EXPECT_THAT(Output({"kernels", "check", object}), HasSubstr("no problems found"));
  // The job uploads it.
  const std::string ran = Output({"runs", "submit", folder + "/fresh.json"});
  EXPECT_THAT(ran, AllOf(HasSubstr("SUCCEEDED, 1/1 tasks"),
                         HasSubstr("check z: ok (100000 elements, max error 0)")));
  for (const char* option : {"--packed", "--watch"}) {
    EXPECT_THAT(Output({"runs", "submit", folder + "/fresh.json", option}),
                HasSubstr("check z: ok"));
  }
  EXPECT_THAT(Output({"runs", "stream", folder + "/fresh.json", "--repeat", "3"}),
              HasSubstr("SUCCEEDED, 3/3 tasks"));
  EXPECT_THAT(Output({"runs", "submit", folder + "/fresh.json", "--repeat", "3", "-o", "json"}),
              HasSubstr("\"ok\": true"));
}

TEST_F(PtoctlKernelsTest, PtoKernelFromNewToResult) {
  const std::string folder = Make("scale", {"--pto"});
  EXPECT_THAT(
      Output({"kernels", "check", folder + "/scale.so", "--signature-file", folder + "/scale.sig"}),
      HasSubstr("no problems found"));
  EXPECT_THAT(Output({"runs", "submit", folder + "/scale.json"}),
              HasSubstr("check y: ok (100000 elements, max error 0)"));
  const std::string kernel =
      Register(folder, "scale", {"--id", "scaled", "--signature-file", folder + "/scale.sig"});
  EXPECT_THAT(Output({"kernels", "describe", kernel}),
              AllOf(HasSubstr("PTO (kernel_entry)"), HasSubstr("in f32[] x")));
  Output({"sessions", "rm", SessionOf(kernel)});
}

TEST_F(PtoctlKernelsTest, RegisteredKernelCanBeUsedListedAndDeleted) {
  const std::string folder = Make("shown");
  const std::string kernel = Register(folder, "shown");
  EXPECT_THAT(kernel, HasSubstr("/kernels/shown"));
  const std::string session = SessionOf(kernel);
  // Registering it again in the same session changes nothing.
  EXPECT_EQ(Register(folder, "shown", {"--session", session}), kernel);

  EXPECT_THAT(Output({"kernels", "ls"}), AllOf(HasSubstr(kernel), HasSubstr("\nadd ")));
  EXPECT_EQ(Output({"kernels", "ls", "--session", session, "-q"}), kernel + "\n");
  const auto list = ListFromJson<v1::ListKernelsResponse>(
      "kernels", Output({"kernels", "ls", "--session", session, "-o", "json"}));
  ASSERT_EQ(list.kernels_size(), 1);
  EXPECT_EQ(list.kernels(0).arguments_size(), 3);
  EXPECT_EQ(list.kernels(0).abi(), v1::Kernel::OWN);
  EXPECT_THAT(Output({"kernels", "describe", "shown"}),
              AllOf(HasSubstr(kernel), HasSubstr("z out F32, may be x or y"),
                    HasSubstr("factor float"), HasSubstr("shown.so, ")));
  EXPECT_THAT(Output({"kernels", "describe", "matmul"}), HasSubstr("kernels/matmul"));

  // A job without `kernels`, in that session.
  EXPECT_EQ(std::system(absl::StrCat("sed '/\"kernels\"/d' '", folder, "/shown.json' > '", folder,
                                     "/use.json'")
                            .c_str()),
            0);
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(Output({"runs", "submit", folder + "/use.json", "--session", session}),
                HasSubstr("check z: ok"));
  }
  EXPECT_THAT(Ptoctl({"runs", "submit", folder + "/use.json"}).err, HasSubstr("KERNEL_UNKNOWN"));

  // Its host.
  const auto hosts =
      ListFromJson<v1::ListHostsResponse>("hosts", Output({"hosts", "ls", "-o", "json"}));
  ASSERT_EQ(hosts.hosts_size(), 1);
  EXPECT_EQ(hosts.hosts(0).session(), session);
  EXPECT_EQ(hosts.hosts(0).kernel_count(), 1u);
  EXPECT_GT(hosts.hosts(0).pid(), 0);
  EXPECT_THAT(Output({"hosts", "ls"}), AllOf(HasSubstr("SESSION"), HasSubstr(session)));
  EXPECT_THAT(Output({"hosts", "describe", session}),
              AllOf(HasSubstr("READY"), HasSubstr("system_calls:")));
  EXPECT_EQ(Output({"hosts", "describe", absl::StrCat(hosts.hosts(0).pid()), "-q"}),
            session + "\n");

  EXPECT_EQ(Output({"kernels", "rm", "shown", "-q"}), kernel + "\n");
  EXPECT_THAT(Output({"kernels", "ls", "--session", session, "-q"}), IsEmpty());
  const ProgramResult gone = Ptoctl({"kernels", "rm", "shown"});
  EXPECT_EQ(gone.exit_code, kFailed);
  EXPECT_THAT(gone.err, HasSubstr("there is no kernel 'shown' (KERNEL_UNKNOWN)"));
  Output({"sessions", "rm", session});
}

TEST_F(PtoctlKernelsTest, MistakesAreExplained) {
  const std::string folder = Make("faulty");
  const ProgramResult builtin = Ptoctl({"kernels", "rm", "add"});
  EXPECT_EQ(builtin.exit_code, kFailed);
  const ProgramResult missing = Ptoctl({"kernels", "register", folder + "/none.so"});
  EXPECT_EQ(missing.exit_code, kUsage);
  EXPECT_THAT(missing.err, HasSubstr("none.so"));
  const ProgramResult text = Ptoctl({"kernels", "register", folder + "/Makefile"});
  EXPECT_EQ(text.exit_code, kFailed);
  EXPECT_THAT(text.err, HasSubstr("KERNEL_INVALID"));
  EXPECT_EQ(Ptoctl({"kernels", "register", folder + "/faulty.so", "--session", "nobody"}).exit_code,
            kFailed);
  EXPECT_THAT(Ptoctl({"hosts", "describe", "nobody"}).err, HasSubstr("no kernel host runs for"));
  // The position in the job file.
  const std::string job = folder + "/wrong.json";
  WriteFile(job, R"({"kernels": [{"file": "Makefile"}],
    "graph": {"tasks": [{"kernel": "noop"}]}})");
  const ProgramResult wrong = Ptoctl({"runs", "submit", job});
  EXPECT_EQ(wrong.exit_code, kFailed);
  EXPECT_THAT(wrong.err, AllOf(HasSubstr("KERNEL_INVALID"), HasSubstr("kernels[0]"),
                               HasSubstr("wrong.json:1:")));
  // Sessions of refused uploads do not stay.
  EXPECT_THAT(Output({"hosts", "ls", "-q"}), IsEmpty());
}

TEST_F(PtoctlKernelsTest, CrashIsReportedAndTheNextRunWorks) {
  const std::string folder = Make("crashing");
  constexpr char kCrash[] = "if (factor == 99) { int* volatile nowhere = nullptr; *nowhere = 1; }";
  const std::string change = absl::StrCat(
      "cd '", folder, "' && sed -i 's/    if (i % 65536/    ", kCrash,
      "\\n&/' crashing.cc && sed 's/\"f64\": 2/\"f64\": 99/' crashing.json > crash.json");
  ASSERT_EQ(std::system(change.c_str()), 0);
  Build(folder);
  const ProgramResult crash = Ptoctl({"runs", "submit", folder + "/crash.json"});
  EXPECT_EQ(crash.exit_code, kFailed);
  EXPECT_THAT(crash.err,
              AllOf(HasSubstr("HOST_LOST"), HasSubstr("SIGSEGV"), HasSubstr("crashing")));
  EXPECT_THAT(Output({"runs", "submit", folder + "/crashing.json"}), HasSubstr("check z: ok"));
}

TEST_F(PtoctlKernelsTest, ScenarioWithOwnKernelsRuns) {
  EXPECT_THAT(Output({"scenarios", "run", "own_kernel_ffn", "--chips", "0-3", "--repeat", "3"}),
              HasSubstr("1 of 1 scenarios passed"));
}

}  // namespace
}  // namespace pto::testing
