#include "kernels/kernel.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "kernels/kernel_info.h"
#include "runtime/base/status_matchers.h"

namespace pto {
namespace {

using ::pto::testing::HasReason;

int32_t Nothing(const pto_context*) { return 0; }
int32_t AnyCheck(const pto_tensor*, uint32_t, char*, size_t) { return 0; }

// A description as a library has it: everything lies in the library's memory.
struct Library {
  std::string name = "own";
  std::string description = "For tests.";
  std::string in = "in", out = "out", alpha = "alpha";
  pto_argument_info arguments[2] = {{in.c_str(), PTO_INPUT, PTO_DTYPE_ALL},
                                    {out.c_str(), PTO_OUTPUT, PTO_DTYPE_BIT(PTO_F32)}};
  pto_scalar_info scalars[1] = {{alpha.c_str(), PTO_FLOAT}};
  pto_overlap_info overlaps[2] = {{0, 0}, {1, 0}};
  pto_kernel_info info = {.struct_size = sizeof(pto_kernel_info),
                          .name = name.c_str(),
                          .description = description.c_str(),
                          .function = Nothing,
                          .check = AnyCheck,
                          .default_core = PTO_AIC,
                          .arguments = arguments,
                          .argument_count = 2,
                          .scalars = scalars,
                          .scalar_count = 1,
                          .requires_sync_start = 1,
                          .flags = PTO_KERNEL_NOTIFIES,
                          .control = PTO_CONTROL_NONE,
                          .plan = nullptr,
                          .overlaps = overlaps};
};

TEST(KernelTest, ABuiltInKernelRefersToItsDescription) {
  const Library library;
  const std::shared_ptr<const Kernel> kernel = Kernel::BuiltIn(library.info).value();
  EXPECT_TRUE(kernel->built_in());
  EXPECT_EQ(kernel->data(), nullptr);
  EXPECT_EQ(kernel->info().name, library.info.name);
  EXPECT_EQ(kernel->info().arguments, library.info.arguments);
  EXPECT_EQ(OverlapOf(kernel->info(), 1).same, 1u);
}

TEST(KernelTest, AnOwnedKernelCopiesItsDescription) {
  auto library = std::make_unique<Library>();
  const int closure = 0;
  const std::shared_ptr<const Kernel> kernel =
      Kernel::Owned(library->info, &closure, nullptr).value();
  // Overwritten, so that a kept pointer is noticed even without AddressSanitizer.
  for (std::string* text :
       {&library->name, &library->description, &library->in, &library->out, &library->alpha}) {
    text->assign(text->size(), '#');
  }
  std::memset(library->arguments, 0, sizeof library->arguments);
  std::memset(library->scalars, 0, sizeof library->scalars);
  std::memset(library->overlaps, 0, sizeof library->overlaps);
  library.reset();

  EXPECT_FALSE(kernel->built_in());
  EXPECT_EQ(kernel->data(), &closure);
  const pto_kernel_info& info = kernel->info();
  EXPECT_EQ(kernel->name(), "own");
  EXPECT_STREQ(info.description, "For tests.");
  EXPECT_EQ(info.function, &Nothing);
  EXPECT_EQ(info.check, &AnyCheck);
  EXPECT_EQ(info.default_core, PTO_AIC);
  EXPECT_EQ(info.requires_sync_start, 1u);
  EXPECT_EQ(info.flags, uint32_t{PTO_KERNEL_NOTIFIES});
  ASSERT_EQ(info.argument_count, 2u);
  EXPECT_STREQ(info.arguments[0].name, "in");
  EXPECT_EQ(info.arguments[0].direction, PTO_INPUT);
  EXPECT_STREQ(info.arguments[1].name, "out");
  EXPECT_EQ(info.arguments[1].dtypes, PTO_DTYPE_BIT(PTO_F32));
  ASSERT_EQ(info.scalar_count, 1u);
  EXPECT_STREQ(info.scalars[0].name, "alpha");
  EXPECT_EQ(OverlapOf(info, 1).same, 1u);
}

TEST(KernelTest, ReadsNoMoreThanAnOlderDescriptionHas) {
  Library library;
  library.info.struct_size = offsetof(pto_kernel_info, overlaps);
  for (const std::shared_ptr<const Kernel>& kernel :
       {Kernel::BuiltIn(library.info).value(),
        Kernel::Owned(library.info, nullptr, nullptr).value()}) {
    EXPECT_EQ(OverlapOf(kernel->info(), 1).same, 0u);
  }
  EXPECT_EQ(Kernel::BuiltIn(library.info).value()->info().overlaps, nullptr);
}

TEST(KernelTest, ReleasesItsOwnerWithTheLastReference) {
  const Library library;
  auto owner = std::make_shared<int>(0);
  const std::weak_ptr<int> watched = owner;
  std::shared_ptr<const Kernel> one = Kernel::Owned(library.info, nullptr, owner).value();
  owner.reset();
  std::shared_ptr<const Kernel> two = one;
  one.reset();
  EXPECT_FALSE(watched.expired());
  two.reset();
  EXPECT_TRUE(watched.expired());
}

TEST(KernelTest, OnALaneItBlocksAndNeedsNoFunction) {
  Library library;
  library.info.function = nullptr;
  const std::shared_ptr<int> port = std::make_shared<int>();
  // Only a handle here: nothing looks at what it points to.
  const std::shared_ptr<engine::LanePort> lane(port,
                                               reinterpret_cast<engine::LanePort*>(port.get()));
  const std::shared_ptr<const Kernel> kernel =
      Kernel::OnLane(library.info, nullptr, nullptr, lane).value();
  EXPECT_EQ(kernel->lane(), lane.get());
  EXPECT_NE(kernel->info().flags & PTO_KERNEL_BLOCKS, 0u);
  EXPECT_NE(kernel->info().function, nullptr);
  EXPECT_EQ(lane.use_count(), 3);
  library.info.control = PTO_CONTROL_JOIN;
  EXPECT_THAT(Kernel::OnLane(library.info, nullptr, nullptr, lane).status(),
              HasReason(reason::kFieldInvalid));
  library.info.control = PTO_CONTROL_NONE;
  library.info.plan = [](const pto_launch*, pto_plan*, char*, size_t) { return 0; };
  EXPECT_THAT(Kernel::OnLane(library.info, nullptr, nullptr, lane).status(),
              HasReason(reason::kFieldInvalid));
}

TEST(KernelTest, RefusesAMalformedDescription) {
  Library library;
  library.info.function = nullptr;
  EXPECT_THAT(Kernel::BuiltIn(library.info).status(), HasReason(reason::kFieldInvalid));
  EXPECT_THAT(Kernel::Owned(library.info, nullptr, nullptr).status(),
              HasReason(reason::kFieldInvalid));
}

}  // namespace
}  // namespace pto
