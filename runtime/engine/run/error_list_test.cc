#include "runtime/engine/run/error_list.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace pto::engine {
namespace {

absl::Status Numbered(size_t i) { return absl::InternalError(absl::StrCat("error ", i)); }

TEST(ErrorListTest, ListsTheFirstAndKeepsTheOthersUntilTheyAreTaken) {
  ErrorList errors;
  for (size_t i = 0; i < ErrorList::kListed + 3; ++i) errors.Add(Numbered(i));
  ASSERT_EQ(errors.listed().size(), ErrorList::kListed);
  for (size_t i = 0; i < ErrorList::kListed; ++i) EXPECT_EQ(errors.listed()[i], Numbered(i));
  EXPECT_EQ(errors.unlisted(), 3u);
  const std::vector<absl::Status> others = errors.TakeUnlisted();
  ASSERT_EQ(others.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(others[i], Numbered(ErrorList::kListed + i));
  EXPECT_TRUE(errors.TakeUnlisted().empty());
  // Taken, but not undone.
  EXPECT_EQ(errors.unlisted(), 3u);
}

TEST(ErrorListTest, WhatMustBeListedIsHoweverManyThereAre) {
  ErrorList errors;
  for (size_t i = 0; i < ErrorList::kListed + 1; ++i) errors.Add(Numbered(i));
  const size_t place = errors.AddListed(Numbered(100));
  EXPECT_EQ(place, ErrorList::kListed);
  EXPECT_EQ(errors.listed()[place], Numbered(100));
  errors.at(place) = Numbered(101);
  EXPECT_EQ(errors.listed()[place], Numbered(101));
  errors.Add(Numbered(102));
  EXPECT_EQ(errors.listed().size(), ErrorList::kListed + 1);
  EXPECT_EQ(errors.unlisted(), 2u);
}

TEST(ErrorListTest, CountsWhatNobodyTakes) {
  ErrorList errors;
  constexpr size_t kMore = 5;
  for (size_t i = 0; i < ErrorList::kListed + ErrorList::kMostWaiting + kMore; ++i) {
    errors.Add(Numbered(i));
  }
  EXPECT_EQ(errors.unlisted(), ErrorList::kMostWaiting + kMore);
  EXPECT_EQ(errors.TakeUnlisted().size(), ErrorList::kMostWaiting);
  errors.Add(Numbered(0));
  EXPECT_EQ(errors.TakeUnlisted().size(), 1u);
}

}  // namespace
}  // namespace pto::engine
