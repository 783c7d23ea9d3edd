#include "runtime/engine/signal/foreign_memory.h"

#include <gtest/gtest.h>

namespace pto::engine {
namespace {

TEST(ForeignMemoryTest, ContainsWhatWasAdded) {
  ForeignMemory memory;
  char bytes[100] = {};
  EXPECT_FALSE(memory.Contains(bytes));
  memory.Add(bytes + 10, 20);
  memory.Add(bytes + 50, 10);
  EXPECT_FALSE(memory.Contains(bytes + 9));
  EXPECT_TRUE(memory.Contains(bytes + 10));
  EXPECT_TRUE(memory.Contains(bytes + 29));
  EXPECT_FALSE(memory.Contains(bytes + 30));
  EXPECT_TRUE(memory.Contains(bytes + 59));
  EXPECT_FALSE(memory.Contains(bytes + 60));
  memory.Remove(bytes + 10);
  EXPECT_FALSE(memory.Contains(bytes + 10));
  EXPECT_TRUE(memory.Contains(bytes + 50));
}

TEST(ForeignMemoryTest, StaysAsLongAsOneHasIt) {
  ForeignMemory memory;
  char bytes[10] = {};
  memory.Add(bytes, 10);
  memory.Add(bytes, 10);
  memory.Remove(bytes);
  EXPECT_TRUE(memory.Contains(bytes + 5));
  memory.Remove(bytes);
  EXPECT_FALSE(memory.Contains(bytes + 5));
  memory.Remove(bytes);
  EXPECT_FALSE(memory.Contains(bytes));
}

}  // namespace
}  // namespace pto::engine
