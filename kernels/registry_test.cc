#include "kernels/registry.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/builtin_kernels.h"
#include "runtime/base/status_matchers.h"

namespace pto {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::ElementsAre;

int32_t Nothing(const pto_context*) { return 0; }

pto_kernel_info Info(const char* name) {
  return {.struct_size = sizeof(pto_kernel_info),
          .name = name,
          .description = "For tests.",
          .function = Nothing,
          .check = nullptr,
          .default_core = PTO_AIV,
          .arguments = nullptr,
          .argument_count = 0,
          .scalars = nullptr,
          .scalar_count = 0,
          .requires_sync_start = 0,
          .flags = 0,
          .control = PTO_CONTROL_NONE};
}

std::shared_ptr<const Kernel> Own(const char* name, std::shared_ptr<const int> closure) {
  return Kernel::Owned(Info(name), closure.get(), closure).value();
}

TEST(KernelRegistryTest, FindsWhatWasAdded) {
  KernelRegistry registry;
  EXPECT_EQ(registry.Find("scale_2"), nullptr);
  ASSERT_THAT(registry.Add(Info("scale_2")), IsOk());
  ASSERT_NE(registry.Find("scale_2"), nullptr);
  EXPECT_EQ(registry.Find("scale_2")->name(), "scale_2");
  EXPECT_EQ(registry.Find("scale"), nullptr);
  EXPECT_EQ(registry.Find(""), nullptr);
}

TEST(KernelRegistryTest, RefusesAMalformedDescription) {
  KernelRegistry registry;
  EXPECT_THAT(registry.Add(Info("2")), HasReason(reason::kFieldInvalid));
  EXPECT_TRUE(registry.List().empty());
}

TEST(KernelRegistryTest, ListsInOrderOfName) {
  KernelRegistry registry;
  for (const char* name : {"c", "ab", "a"}) ASSERT_THAT(registry.Add(Info(name)), IsOk());
  EXPECT_THAT(registry.List(),
              ElementsAre(registry.Find("a"), registry.Find("ab"), registry.Find("c")));
}

TEST(KernelRegistryTest, RefusesANameThatIsTaken) {
  KernelRegistry registry;
  ASSERT_THAT(registry.Add(Info("scale")), IsOk());
  const std::shared_ptr<const Kernel> first = registry.Find("scale");
  EXPECT_THAT(registry.Add(Info("scale")), HasReason(reason::kIdConflict));
  EXPECT_EQ(registry.Find("scale"), first);
}

TEST(KernelRegistryTest, ARemovedKernelLivesWhileItIsUsed) {
  KernelRegistry registry;
  auto closure = std::make_shared<const int>(7);
  const std::weak_ptr<const int> watched = closure;
  ASSERT_THAT(registry.Add(Own("own", std::move(closure))), IsOk());
  std::shared_ptr<const Kernel> used = registry.Find("own");
  EXPECT_EQ(registry.Remove("own"), used);
  EXPECT_EQ(registry.Remove("own"), nullptr);
  EXPECT_EQ(registry.Find("own"), nullptr);
  EXPECT_EQ(used->name(), "own");
  EXPECT_FALSE(watched.expired());
  used.reset();
  EXPECT_TRUE(watched.expired());
  // The name is free again.
  EXPECT_THAT(registry.Add(Info("own")), IsOk());
}

TEST(KernelRegistryTest, AScopeFindsTheKernelsOfItsParent) {
  KernelRegistry node;
  KernelRegistry session(&node);
  ASSERT_THAT(node.Add(Info("shared")), IsOk());
  ASSERT_THAT(session.Add(Info("own")), IsOk());
  EXPECT_EQ(session.Find("shared"), node.Find("shared"));
  EXPECT_NE(session.Find("own"), nullptr);
  EXPECT_EQ(session.Find("none"), nullptr);
  EXPECT_EQ(node.Find("own"), nullptr);
  EXPECT_THAT(session.List(), ElementsAre(session.Find("own"), node.Find("shared")));
  EXPECT_EQ(node.List().size(), 1u);
}

TEST(KernelRegistryTest, AnOwnKernelHidesThatOfTheParent) {
  KernelRegistry node;
  KernelRegistry session(&node);
  ASSERT_THAT(node.Add(Info("scale")), IsOk());
  ASSERT_THAT(session.Add(Info("scale")), IsOk());
  const std::shared_ptr<const Kernel> own = session.Find("scale");
  EXPECT_NE(own, node.Find("scale"));
  EXPECT_THAT(session.List(), ElementsAre(own));
  EXPECT_EQ(session.Remove("scale"), own);
  EXPECT_EQ(session.Find("scale"), node.Find("scale"));
  // The parent's kernels cannot be removed here.
  EXPECT_EQ(session.Remove("scale"), nullptr);
  EXPECT_NE(node.Find("scale"), nullptr);
}

// For ThreadSanitizer: a found kernel is complete, and all owners are released in the end.
TEST(KernelRegistryTest, ChangesWhileOthersLook) {
  constexpr int kRounds = 2000;
  KernelRegistry node;
  KernelRegistry session(&node);
  const auto closure = std::make_shared<const int>(7);
  std::atomic<int> writers{2};
  std::atomic<uint64_t> found{0};
  const auto change = [&](KernelRegistry& registry, const char* name) {
    for (int i = 0; i < kRounds; ++i) {
      EXPECT_THAT(registry.Add(Own(name, closure)), IsOk());
      if (i % 16 == 0) std::this_thread::yield();
      EXPECT_NE(registry.Remove(name), nullptr);
    }
    --writers;
  };
  const auto look = [&] {
    do {
      for (const char* name : {"a", "b"}) {
        const std::shared_ptr<const Kernel> kernel = session.Find(name);
        if (kernel == nullptr) continue;
        EXPECT_EQ(kernel->name(), name);
        EXPECT_EQ(*static_cast<const int*>(kernel->data()), 7);
        ++found;
      }
      for (const auto& kernel : session.List()) EXPECT_FALSE(kernel->built_in());
    } while (writers > 0);
  };
  std::vector<std::thread> threads;
  threads.emplace_back(change, std::ref(node), "a");
  threads.emplace_back(change, std::ref(session), "b");
  threads.emplace_back(look);
  threads.emplace_back(look);
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(session.List().empty());
  EXPECT_EQ(closure.use_count(), 1);
}

TEST(BuiltinKernelsTest, AreAllThere) {
  std::vector<std::string> names;
  for (const auto& kernel : BuiltinKernels().List()) names.emplace_back(kernel->name());
  EXPECT_THAT(names,
              ElementsAre("add", "all_gather", "all_reduce", "all_to_all", "all_to_all_v", "axpy",
                          "barrier", "broadcast", "compare", "copy", "copy_async", "defer", "fail",
                          "falter", "fill", "gather", "hold", "iota", "join", "matmul", "mul",
                          "noop", "notify", "reduce", "reduce_scatter", "reduce_sum", "scale",
                          "scale_rows", "scatter", "send_recv", "spin", "sub", "sum_rows",
                          "take_rows", "wait", "wait_token"));
}

TEST(BuiltinKernelsTest, DescriptionsAreSentences) {
  for (const auto& kernel : BuiltinKernels().List()) {
    const std::string description = kernel->info().description;
    ASSERT_FALSE(description.empty()) << kernel->name();
    EXPECT_EQ(description.back(), '.') << kernel->name();
  }
}

}  // namespace
}  // namespace pto
