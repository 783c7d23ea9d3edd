#include "proto/status/utf8.h"

#include "gtest/gtest.h"

namespace pto {
namespace {

TEST(CutUtf8Test, LeavesGoodTextAlone) {
  EXPECT_EQ(CutUtf8("", 8), "");
  EXPECT_EQ(CutUtf8("abc", 3), "abc");
  const std::string good = "a\xc2\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf";
  EXPECT_EQ(CutUtf8(good, good.size()), good);
}

TEST(CutUtf8Test, CutsBetweenCharacters) {
  EXPECT_EQ(CutUtf8("abcdef", 5), "ab...");
  // Three characters of three bytes; only one leaves room for the dots.
  EXPECT_EQ(CutUtf8("\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac", 8), "\xe2\x82\xac...");
  EXPECT_EQ(CutUtf8("abcdef", 3), "...");
}

TEST(CutUtf8Test, ReplacesWhatIsNoCharacter) {
  EXPECT_EQ(CutUtf8("\x80", 8), "?");                 // continuation without a lead
  EXPECT_EQ(CutUtf8("a\xe2\x82", 8), "a??");          // cut off
  EXPECT_EQ(CutUtf8("\xc0\xaf", 8), "??");            // longer than needed
  EXPECT_EQ(CutUtf8("\xe0\x80\x80", 8), "???");       // longer than needed
  EXPECT_EQ(CutUtf8("\xed\xa0\x80", 8), "???");       // surrogate
  EXPECT_EQ(CutUtf8("\xf4\x90\x80\x80", 8), "????");  // beyond the last
  EXPECT_EQ(CutUtf8("\xf5\x80\x80\x80", 8), "????");  // no such lead
  EXPECT_EQ(CutUtf8("\xe2\x28\xa1", 8), "?(?");       // resumes at the next good byte
}

}  // namespace
}  // namespace pto
