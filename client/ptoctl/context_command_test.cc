#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "client/ptoctl/ptoctl_testing.h"

namespace pto::ptoctl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ContextCommandTest : public ::testing::Test {
 protected:
  ContextCommandTest() {
    setenv("PTOD_CONTEXTS", path_.c_str(), 1);
    unsetenv("PTOD_ADDRESS");
    unlink(path_.c_str());
  }

  // The output of a command that succeeds.
  static std::string Out(const std::vector<std::string>& args) {
    const Result result = Ptoctl(args);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.out;
  }

  const std::string path_ = ::testing::TempDir() + "/deep/contexts.txtpb";
};

TEST_F(ContextCommandTest, AddsUsesAndRemoves) {
  EXPECT_EQ(Out({"context", "ls", "-q"}), "");
  Out({"context", "add", "lab", "--address", "lab-7:7000", "--tls-ca", "ca.pem"});
  Out({"context", "add", "here", "--address", "unix:/tmp/here.sock"});
  Out({"context", "use", "here"});
  EXPECT_EQ(Out({"context", "ls"}),
            "CURRENT  NAME  ADDRESS              TLS\n"
            "-        lab   lab-7:7000           yes\n"
            "*        here  unix:/tmp/here.sock  -\n");
  // It replaces the whole context.
  Out({"context", "add", "lab", "--address", "lab-8:7000"});
  EXPECT_THAT(Out({"context", "ls", "-o", "json"}), Not(HasSubstr("ca.pem")));
  Out({"context", "rm", "here"});
  EXPECT_EQ(Out({"context", "ls", "-q"}), "lab\n");
  EXPECT_THAT(Out({"context", "ls", "-o", "json"}), HasSubstr("\"current\": \"\""));
}

TEST_F(ContextCommandTest, OnlyTheUserCanReadTheFile) {
  Out({"context", "add", "lab", "--address", "lab:7000"});
  struct stat info = {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(ContextCommandTest, TheCurrentContextIsUsed) {
  Out({"context", "add", "here", "--address", "unix:/tmp/not-there.sock"});
  Out({"context", "add", "there", "--address", "unix:/tmp/not-here.sock"});
  Out({"context", "use", "here"});
  EXPECT_THAT(Ptoctl({"chips", "ls"}).err, HasSubstr("/tmp/not-there.sock"));
  EXPECT_THAT(Ptoctl({"chips", "ls", "--context", "there"}).err, HasSubstr("/tmp/not-here.sock"));
  EXPECT_THAT(Ptoctl({"chips", "ls", "--address", "unix:/tmp/other.sock"}).err,
              HasSubstr("/tmp/other.sock"));
  setenv("PTOD_ADDRESS", "unix:/tmp/env.sock", 1);
  EXPECT_THAT(Ptoctl({"chips", "ls"}).err, HasSubstr("/tmp/env.sock"));
}

TEST_F(ContextCommandTest, RefusesWhatIsNotThere) {
  Out({"context", "add", "here", "--address", "unix:/tmp/here.sock"});
  const Result used = Ptoctl({"context", "use", "hero"});
  EXPECT_EQ(used.code, 2);
  EXPECT_THAT(used.err, HasSubstr("there is no context 'hero'"));
  EXPECT_THAT(used.err, HasSubstr("did you mean 'here'?"));
  EXPECT_THAT(Ptoctl({"chips", "ls", "--context", "hero"}).err, HasSubstr("no context 'hero'"));
  EXPECT_THAT(Ptoctl({"context", "add", "x"}).err, HasSubstr("a context needs an address"));
  EXPECT_THAT(Ptoctl({"context", "use"}).err, HasSubstr("give the name of a context"));
}

TEST_F(ContextCommandTest, ABrokenFileIsNamedWithItsLine) {
  Out({"context", "add", "here", "--address", "unix:/tmp/here.sock"});
  std::ofstream(path_) << "current: 'x'\nwrong: 1\n";
  const Result result = Ptoctl({"context", "ls"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("contexts.txtpb:2:"));
}

}  // namespace
}  // namespace pto::ptoctl
