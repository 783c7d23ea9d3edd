// The doctor as its users run it: `ptod_chip_host --doctor`, on machines that lack something.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"

namespace pto::ascend {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Examine(const std::string& options, const std::string& environment = "",
                    int* code = nullptr) {
  const std::string command =
      absl::StrCat("env FAKE_CANN_DIR=", std::getenv("TEST_TMPDIR"), "/doctor ", environment,
                   " runtime/chip/ascend/host/ptod_chip_host --doctor ", options, " 2>&1");
  FILE* const pipe = popen(command.c_str(), "r");
  std::string out;
  char buffer[4096];
  while (const size_t got = fread(buffer, 1, sizeof buffer, pipe)) out.append(buffer, got);
  const int status = pclose(pipe);
  if (code != nullptr) *code = WEXITSTATUS(status);
  return out;
}

// A folder with a copy of one layout, to damage.
std::string CopyOf(const std::string& layout, const std::string& name) {
  const std::string folder = absl::StrCat(std::getenv("TEST_TMPDIR"), "/", name);
  EXPECT_EQ(
      std::system(absl::StrCat("mkdir -p ", folder, "/lib64 && cp -Lf tests/fake_cann/", layout,
                               "/lib64/*.so ", folder, "/lib64/ && chmod u+w ", folder, "/lib64/*")
                      .c_str()),
      0);
  return folder;
}

TEST(DoctorTest, WithoutCannItSaysWhatWasSearched) {
  int code = 0;
  const std::string out = Examine("", "", &code);
  EXPECT_EQ(code, 1);
  EXPECT_THAT(out, HasSubstr("ASCEND_HOME_PATH: is not set"));
  EXPECT_THAT(out, HasSubstr("no libraries of CANN"));
  EXPECT_THAT(out, HasSubstr("-> install CANN 8.5 or later"));
  EXPECT_THAT(out, HasSubstr("davinci_manager is missing"));
  EXPECT_THAT(out, HasSubstr("hccl network"));
  EXPECT_THAT(out, HasSubstr("hccl ports"));
  EXPECT_THAT(out, HasSubstr("locked memory"));
  EXPECT_THAT(out, HasSubstr("sandbox"));
  EXPECT_THAT(out, HasSubstr("user "));
}

TEST(DoctorTest, JsonIsForPrograms) {
  const std::string out = Examine("-o json");
  EXPECT_EQ(out.substr(0, 2), "[\n");
  EXPECT_THAT(out, HasSubstr("\"state\": \"problem\""));
  EXPECT_THAT(out, HasSubstr("\"check\": \"toolkit\""));
}

TEST(DoctorTest, FindsAllLayoutsWithALibraryPathOfItsOwn) {
  for (const char* const layout : {"8.5", "9"}) {
    const std::string out = Examine(absl::StrCat("--cann-path tests/fake_cann/cann-", layout));
    EXPECT_THAT(out, HasSubstr(absl::StrCat("layout ", layout)));
    EXPECT_THAT(out, HasSubstr("opened, with all required functions"));
    EXPECT_THAT(out, HasSubstr("runtime 9.0.0, hccl 9.0.0"));
    EXPECT_THAT(out, HasSubstr("2 devices Ascend910B3"));
  }
}

TEST(DoctorTest, AnOldReleaseCannotLaunch) {
  const std::string out = Examine("--cann-path tests/fake_cann/cann-8.1");
  EXPECT_THAT(out, HasSubstr("opened, with all required functions"));
  EXPECT_THAT(out, HasSubstr("this release has no"));
  EXPECT_THAT(out, HasSubstr("older than 8.5"));
}

TEST(DoctorTest, EachProblemHasATextOfItsOwn) {
  const std::string mixed =
      Examine("--cann-path tests/fake_cann/cann-9", "FAKE_CANN_HCCL_VERSION=80500000");
  EXPECT_THAT(mixed, HasSubstr("different releases: runtime 9.0.0, hccl 8.5.0"));

  const std::string stub =
      Examine("--cann-path tests/fake_cann/cann-9", "FAKE_CANN_PLAN=aclInit:1=100039");
  EXPECT_THAT(stub, HasSubstr("the library is a stub"));

  const std::string driver =
      Examine("--cann-path tests/fake_cann/cann-9", "FAKE_CANN_PLAN=aclrtGetDeviceCount:1=500004");
  EXPECT_THAT(driver, AllOf(HasSubstr("the driver failed"), HasSubstr("does it suit the toolkit")));

  const std::string crash =
      Examine("--cann-path tests/fake_cann/cann-9", "FAKE_CANN_PLAN=aclInit:1=abort");
  EXPECT_THAT(crash, HasSubstr("CANN has ended the probe with signal 6"));
}

TEST(DoctorTest, AMissingLibraryIsNamed) {
  const std::string folder = CopyOf("cann-9", "no-hcomm");
  ASSERT_EQ(unlink((folder + "/lib64/libhcomm.so").c_str()), 0);
  const std::string out = Examine("--cann-path " + folder);
  EXPECT_THAT(out, AllOf(HasSubstr("cannot be opened: libhcomm.so"),
                         HasSubstr("is not in the library path")));
}

TEST(DoctorTest, AMissingFunctionIsNamed) {
  // A library of HCCL in the place of the runtime has none of its functions.
  const std::string folder = CopyOf("cann-8.1", "no-function");
  ASSERT_EQ(std::system(absl::StrCat("echo 'int x;' | gcc -shared -fPIC -x c - -o ", folder,
                                     "/lib64/libacl_rt.so -Wl,-soname,libacl_rt.so")
                            .c_str()),
            0);
  EXPECT_THAT(Examine("--cann-path " + folder), HasSubstr("lacks the function aclInit"));
}

TEST(DoctorTest, AStubFolderIsPassedOver) {
  const std::string folder = CopyOf("cann-9", "stub");
  const std::string out = Examine("--cann-path " + folder);
  EXPECT_THAT(out, HasSubstr("is passed over"));
  EXPECT_THAT(out, HasSubstr("only stub libraries"));
}

TEST(DoctorTest, DeviceNodesThatCannotBeOpenedAreShownWithTheirGroup) {
  const std::string folder = absl::StrCat(std::getenv("TEST_TMPDIR"), "/dev");
  ASSERT_EQ(
      std::system(absl::StrCat("mkdir -p ", folder, " && touch ", folder, "/davinci0 ", folder,
                               "/davinci_manager ", folder, "/devmm_svm ", folder, "/hisi_hdc")
                      .c_str()),
      0);
  ASSERT_EQ(chmod((folder + "/davinci0").c_str(), 0), 0);
  const std::string out = Examine("--devices " + folder);
  EXPECT_THAT(out, Not(HasSubstr("is missing")));
  EXPECT_THAT(out, HasSubstr("/davinci0: group "));
  if (geteuid() != 0) {
    EXPECT_THAT(out, HasSubstr("cannot be opened"));
    EXPECT_THAT(out, HasSubstr("SupplementaryGroups="));
  }
}

}  // namespace
}  // namespace pto::ascend
