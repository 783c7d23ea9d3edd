#include "runtime/chip/ascend/cann/library_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

namespace pto::cann {
namespace {

using ::testing::HasSubstr;

class LibrarySearchTest : public ::testing::Test {
 protected:
  LibrarySearchTest() {
    input_.usual_roots = {"/usual/cann"};
    input_.driver_root = "/driver";
    input_.exists = [this](const std::string& path) { return files_.count(path) != 0; };
  }

  // The file, and the folders that it is in.
  void Add(std::string path) {
    while (path.size() > 1) {
      files_.insert(path);
      path.resize(path.rfind('/'));
    }
  }

  std::set<std::string> files_;
  SearchInput input_;
};

TEST_F(LibrarySearchTest, TellsTheLayoutsApart) {
  input_.ascend_home_path = "/a";
  Add("/a/lib64/libascendcl.so");
  EXPECT_EQ(FindCann(input_).layout, Layout::kAscendcl);
  EXPECT_EQ(FindCann(input_).acl_library, "/a/lib64/libascendcl.so");
  Add("/a/lib64/libacl_rt.so");
  EXPECT_EQ(FindCann(input_).layout, Layout::kSplit);
  // Never both: each would have its own idea of the devices.
  EXPECT_EQ(FindCann(input_).acl_library, "/a/lib64/libacl_rt.so");
  files_.erase("/a/lib64/libascendcl.so");
  Add("/a/lib64/libhccl.so");
  Add("/a/lib64/libhcomm.so");
  const SearchResult result = FindCann(input_);
  EXPECT_EQ(result.layout, Layout::kRuntime);
  EXPECT_EQ(result.hccl_library, "/a/lib64/libhccl.so");
  EXPECT_EQ(result.hcomm_library, "/a/lib64/libhcomm.so");
  EXPECT_EQ(result.toolkit, "/a");
}

TEST_F(LibrarySearchTest, LooksInOrder) {
  Add("/usual/cann/lib64/libacl_rt.so");
  EXPECT_EQ(FindCann(input_).folder, "/usual/cann/lib64");
  Add("/path/libacl_rt.so");
  input_.library_path = "/none:/path";
  EXPECT_EQ(FindCann(input_).folder, "/path");
  Add("/home/lib64/libacl_rt.so");
  input_.ascend_home_path = "/home/";
  EXPECT_EQ(FindCann(input_).folder, "/home/lib64");
  Add("/given/libacl_rt.so");
  input_.explicit_path = "/given";
  EXPECT_EQ(FindCann(input_).folder, "/given");
}

TEST_F(LibrarySearchTest, AWrongPathThatWasGivenFindsNothingElse) {
  Add("/usual/cann/lib64/libacl_rt.so");
  input_.explicit_path = "/wrong";
  const SearchResult result = FindCann(input_);
  EXPECT_FALSE(result.found());
  ASSERT_EQ(result.steps.size(), 1u);
  EXPECT_EQ(result.steps[0].result, "is not there");
}

TEST_F(LibrarySearchTest, PassesStubsOver) {
  Add("/t/lib64/stub/libacl_rt.so");
  input_.library_path = "/t/lib64/stub";
  SearchResult result = FindCann(input_);
  EXPECT_FALSE(result.found());
  EXPECT_EQ(result.stubs, std::vector<std::string>{"/t/lib64/stub"});
  Add("/usual/cann/lib64/libacl_rt.so");
  result = FindCann(input_);
  EXPECT_EQ(result.folder, "/usual/cann/lib64");
}

TEST_F(LibrarySearchTest, TheLibraryPathHasToolkitAndDriver) {
  Add("/usual/cann/lib64/libacl_rt.so");
  Add("/driver/lib64/driver/libascend_hal.so");
  Add("/driver/lib64/common/libc_sec.so");
  EXPECT_EQ(FindCann(input_).LibraryPath(),
            "/usual/cann/lib64:/driver/lib64:/driver/lib64/driver:/driver/lib64/common");
}

TEST_F(LibrarySearchTest, TheLibraryPathOfTheDaemonComesLastAndWithoutStubs) {
  Add("/usual/cann/lib64/libacl_rt.so");
  input_.library_path = "/opt/driver/lib64:/t/lib64/stub:/usual/cann/lib64/:";
  EXPECT_EQ(FindCann(input_).LibraryPath(), "/usual/cann/lib64:/opt/driver/lib64");
}

TEST_F(LibrarySearchTest, SaysWhatWasSearched) {
  const SearchResult result = FindCann(input_);
  ASSERT_EQ(result.steps.size(), 3u);
  EXPECT_EQ(result.steps[0].from, "ASCEND_HOME_PATH");
  EXPECT_EQ(result.steps[0].result, "is not set");
  EXPECT_EQ(result.steps[2].folder, "/usual/cann");
  EXPECT_THAT(result.steps[2].result, HasSubstr("is not there"));
}

}  // namespace
}  // namespace pto::cann
