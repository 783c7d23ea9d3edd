// Kernels that clients upload, in a real daemon.

#include <openssl/sha.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/daemon_process.h"
#include "tests/integration/own_kernels.h"

namespace pto::testing {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

std::string Sha256Of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

class OwnKernelTest : public ::testing::Test {
 protected:
  DaemonProcess daemon_;
  Client client_ = ConnectTo(daemon_);
};

TEST_F(OwnKernelTest, RunsAKernelThatTheClientHasUploaded) {
  absl::StatusOr<Session> session = client_.CreateSession();
  ASSERT_TRUE(session.ok()) << session.status();
  const absl::StatusOr<v1::Kernel> kernel = session->RegisterKernel(Object("own_add_gcc"));
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_EQ(kernel->name(), session->name() + "/kernels/own_add");
  EXPECT_EQ(kernel->abi(), v1::Kernel::OWN);
  EXPECT_EQ(kernel->file_name(), "own_add_gcc.so");
  EXPECT_EQ(kernel->sha256(), Sha256Of(Object("own_add_gcc")));
  EXPECT_FALSE(kernel->built_in());
  EXPECT_FALSE(kernel->blocks());
  EXPECT_THAT(kernel->arguments(), SizeIs(3));
  EXPECT_EQ(AddWith(*session, "own_add"), absl::OkStatus());
  EXPECT_EQ(AddWith(*session, kernel->name()), absl::OkStatus());
}

TEST_F(OwnKernelTest, MovesBuffersThatAreThereBefore) {
  absl::StatusOr<Session> session = client_.CreateSession();
  ASSERT_TRUE(session.ok()) << session.status();
  absl::StatusOr<Tensor<float>> x = session->CreateTensor<float>(0, {100});
  ASSERT_TRUE(x.ok()) << x.status();
  ASSERT_EQ(x->Write(std::vector<float>(100, 3)), absl::OkStatus());
  ASSERT_TRUE(session->RegisterKernel(Object("own_add_gcc")).ok());
  GraphBuilder graph;
  const TensorRef view = graph.Tensor(*x);
  graph.Task("own_add", 0, {view, view, view});
  EXPECT_EQ(RunToEnd(*session, graph), absl::OkStatus());
  const absl::StatusOr<std::vector<float>> values = x->Read();
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_THAT(*values, ::testing::Each(6.0f));
}

TEST_F(OwnKernelTest, ListsAndDeletesKernels) {
  absl::StatusOr<Session> session = client_.CreateSession();
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_THAT(*session->ListKernels(), IsEmpty());
  for (const char* id : {"b", "a"}) {
    KernelOptions options;
    options.id = id;
    const absl::StatusOr<v1::Kernel> kernel =
        session->RegisterKernel(Object("own_add_gcc"), options);
    ASSERT_TRUE(kernel.ok()) << kernel.status();
  }
  absl::StatusOr<std::vector<v1::Kernel>> kernels = client_.ListKernels(session->name());
  ASSERT_TRUE(kernels.ok()) << kernels.status();
  ASSERT_THAT(*kernels, SizeIs(2));
  EXPECT_EQ((*kernels)[0].name(), session->name() + "/kernels/a");
  const absl::StatusOr<std::vector<v1::Host>> hosts = client_.ListHosts();
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  ASSERT_THAT(*hosts, SizeIs(1));
  EXPECT_EQ((*hosts)[0].session(), session->name());
  EXPECT_EQ((*hosts)[0].state(), v1::Host::READY);
  EXPECT_EQ((*hosts)[0].kernel_count(), 2u);
  EXPECT_GT((*hosts)[0].pid(), 0);
  EXPECT_GT((*hosts)[0].private_bytes(), 0u);
  EXPECT_EQ(session->DeleteKernel("a"), absl::OkStatus());
  EXPECT_THAT(session->DeleteKernel("a"), HasReason(reason::kKernelUnknown));
  EXPECT_THAT(AddWith(*session, "a"), HasReason(reason::kKernelUnknown));
  EXPECT_EQ(AddWith(*session, "b"), absl::OkStatus());
}

// Adds 1 and 2 in a graph that can be launched again.
class Sum {
 public:
  static constexpr int64_t kElements = 100;

  Sum(Session& session, const std::string& kernel, uint32_t chip = 0) {
    for (int i = 0; i < 3; ++i) {
      absl::StatusOr<Tensor<float>> tensor = session.CreateTensor<float>(chip, {kElements});
      EXPECT_THAT(tensor, IsOk());
      EXPECT_THAT(tensor->Write(std::vector<float>(kElements, static_cast<float>(i + 1))), IsOk());
      tensors_.push_back(*std::move(tensor));
    }
    graph_
        .Task(kernel, chip,
              {graph_.Tensor(tensors_[0]), graph_.Tensor(tensors_[1]), graph_.Tensor(tensors_[2])})
        .Blocks(3);
  }
  const GraphBuilder& graph() const { return graph_; }
  void ExpectDone() {
    const absl::StatusOr<std::vector<float>> sum = tensors_[2].Read();
    ASSERT_THAT(sum, IsOk());
    EXPECT_THAT(*sum, ::testing::Each(3.0f));
    EXPECT_THAT(tensors_[2].Write(std::vector<float>(kElements)), IsOk());
  }

 private:
  std::vector<Tensor<float>> tensors_;
  GraphBuilder graph_;
};

TEST_F(OwnKernelTest, EveryWayToStartARunKnowsTheKernelsOfTheSession) {
  absl::StatusOr<Session> session = client_.CreateSession();
  ASSERT_THAT(session, IsOk());
  ASSERT_THAT(session->RegisterKernel(Object("own_add_clang")), IsOk());
  Sum sum(*session, "own_add");
  absl::StatusOr<pto::Run> packed = session->SubmitPacked(sum.graph());
  ASSERT_THAT(packed, IsOk());
  EXPECT_THAT(StatusOf(*packed->Wait()), IsOk());
  sum.ExpectDone();
  ASSERT_THAT(session->Register("g", sum.graph()), IsOk());
  ASSERT_THAT(session->RegisterPacked("p", sum.graph()), IsOk());
  // Graphs keep the kernel that they were compiled with.
  EXPECT_THAT(session->DeleteKernel("own_add"), IsOk());
  for (const char* graph : {"g", "p"}) {
    absl::StatusOr<pto::Run> run = session->Launch(graph);
    ASSERT_THAT(run, IsOk());
    EXPECT_THAT(StatusOf(*run->Wait()), IsOk());
    sum.ExpectDone();
  }
  EXPECT_THAT(session->Submit(sum.graph()), HasReason(reason::kKernelUnknown));
  const absl::StatusOr<v1::Graph> shown = client_.GetGraphStructure(session->name() + "/graphs/g");
  ASSERT_THAT(shown, IsOk());
  EXPECT_THAT(shown->structure().kernels(), ::testing::ElementsAre("own_add"));
}

TEST_F(OwnKernelTest, NamesBelongToTheirSession) {
  absl::StatusOr<Session> one = client_.CreateSession();
  absl::StatusOr<Session> two = client_.CreateSession();
  ASSERT_THAT(one, IsOk());
  ASSERT_THAT(two, IsOk());
  KernelOptions options;
  options.id = "mine";
  ASSERT_THAT(one->RegisterKernel(Object("own_add_gcc"), options), IsOk());
  EXPECT_THAT(AddWith(*two, "mine"), HasReason(reason::kKernelUnknown));
  EXPECT_THAT(AddWith(*two, one->name() + "/kernels/mine"), HasReason(reason::kKernelUnknown));
  EXPECT_THAT(AddWith(*one, "kernels/mine"), HasReason(reason::kKernelUnknown));
  // The same name in both, and a built-in one that is hidden, with other arguments.
  options.id = "noop";
  ASSERT_THAT(two->RegisterKernel(Object("own_add_gcc"), options), IsOk());
  EXPECT_THAT(AddWith(*two, "noop"), IsOk());
  EXPECT_THAT(AddWith(*two, "kernels/noop"), HasReason(reason::kArgumentCount));
  EXPECT_THAT(AddWith(*one, "noop"), HasReason(reason::kArgumentCount));
  EXPECT_THAT(AddWith(*one, "mine"), IsOk());
}

TEST_F(OwnKernelTest, ARepeatedUploadIsTheSameKernelAndAnotherOneIsAConflict) {
  absl::StatusOr<Session> session = client_.CreateSession();
  ASSERT_THAT(session, IsOk());
  KernelOptions options;
  options.id = "k";
  const absl::StatusOr<v1::Kernel> first = session->RegisterKernel(Object("own_add_gcc"), options);
  const absl::StatusOr<v1::Kernel> again = session->RegisterKernel(Object("own_add_gcc"), options);
  ASSERT_THAT(first, IsOk());
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(first->create_time().seconds(), again->create_time().seconds());
  EXPECT_EQ(first->create_time().nanos(), again->create_time().nanos());
  EXPECT_THAT(session->RegisterKernel(Object("own_add_clang"), options),
              HasReason(reason::kIdConflict));

  // A run that is submitted again under its id is another one when the kernel is.
  Sum sum(*session, "k");
  RunOptions once;
  once.run_id = "once";
  ASSERT_THAT(RunToEnd(*session, sum.graph(), once), IsOk());
  ASSERT_THAT(session->Register("g", sum.graph()), IsOk());
  EXPECT_THAT(session->DeleteKernel("k"), IsOk());
  EXPECT_THAT(RunToEnd(*session, sum.graph(), once), IsOk());
  EXPECT_THAT(session->Register("g", sum.graph()), IsOk());
  ASSERT_THAT(session->RegisterKernel(Object("own_add_clang"), options), IsOk());
  EXPECT_THAT(RunToEnd(*session, sum.graph(), once), HasReason(reason::kIdConflict));
  EXPECT_THAT(session->Register("g", sum.graph()), HasReason(reason::kIdConflict));
}

TEST_F(OwnKernelTest, MixesWithBuiltInKernelsAndGangs) {
  absl::StatusOr<Session> session = client_.CreateSession();
  ASSERT_THAT(session, IsOk());
  ASSERT_THAT(session->RegisterKernel(Object("own_add_gcc")), IsOk());
  absl::StatusOr<Tensor<float>> x = session->CreateTensor<float>(1, {1000});
  absl::StatusOr<Tensor<float>> y = session->CreateTensor<float>(1, {1000});
  ASSERT_THAT(x, IsOk());
  ASSERT_THAT(y, IsOk());
  GraphBuilder graph;
  const TensorRef in = graph.Tensor(*x);
  const TensorRef out = graph.Tensor(*y);
  graph.Task("fill", 1, {in}).Scalar(1.5);
  graph.Task("own_add", 1, {in, in, out}).Blocks(8).SyncStart();
  graph.Task("scale", 1, {out, out}).Scalar(2.0).Blocks(4).SyncStart();
  graph.Task("own_add", 1, {out, in, out}).Blocks(5);
  EXPECT_THAT(RunToEnd(*session, graph), IsOk());
  const absl::StatusOr<std::vector<float>> values = y->Read();
  ASSERT_THAT(values, IsOk());
  EXPECT_THAT(*values, ::testing::Each(7.5f));
}

TEST_F(OwnKernelTest, UsesWindowsOfDomains) {
  absl::StatusOr<Session> session = client_.CreateSession();
  ASSERT_THAT(session, IsOk());
  DomainSpec spec;
  spec.chips = {0, 1};
  spec.buffers = {{.name = "x", .dtype = v1::F32, .count = 64}};
  spec.signal_count = 4;
  // One from before the host, and one from after.
  absl::StatusOr<Domain> before = session->CreateDomain(spec);
  ASSERT_THAT(before, IsOk());
  ASSERT_THAT(session->RegisterKernel(Object("own_add_gcc")), IsOk());
  absl::StatusOr<Domain> after = session->CreateDomain(spec);
  ASSERT_THAT(after, IsOk());
  for (Domain* domain : {&*before, &*after}) {
    absl::StatusOr<Buffer> window =
        session->GetBuffer(absl::StrCat(domain->name(), "/ranks/1/buffers/x"));
    ASSERT_THAT(window, IsOk());
    const Tensor<float> tensor(*window, {64});
    ASSERT_THAT(tensor.Write(std::vector<float>(64, 2)), IsOk());
    GraphBuilder graph;
    const TensorRef view = graph.Tensor("x", *window, v1::F32, {64});
    graph.Task("own_add", 1, {view, view, view});
    EXPECT_THAT(RunToEnd(*session, graph), IsOk());
    const absl::StatusOr<std::vector<float>> values = tensor.Read();
    ASSERT_THAT(values, IsOk());
    EXPECT_THAT(*values, ::testing::Each(4.0f));
  }
}

TEST_F(OwnKernelTest, RefusesWhatIsNoKernel) {
  absl::StatusOr<Session> session = client_.CreateSession();
  ASSERT_THAT(session, IsOk());
  const absl::Status text = session->RegisterKernelObject("#!/bin/sh", {}).status();
  EXPECT_THAT(text, HasReason(reason::kKernelInvalid));
  EXPECT_THAT(session->RegisterKernelObject("", {}), HasReason(reason::kFieldInvalid));
  KernelOptions options;
  options.entry = "nothing_of_this_name";
  EXPECT_THAT(session->RegisterKernel(Object("own_add_gcc"), options),
              HasReason(reason::kKernelInvalid));
  EXPECT_THAT(session->RegisterKernel("/nowhere/k.so"), HasReason(reason::kFieldInvalid));
  options = KernelOptions();
  options.id = "Not-An-Id";
  EXPECT_THAT(session->RegisterKernel(Object("own_add_gcc"), options),
              HasReason(reason::kIdInvalid));
  EXPECT_THAT(*session->ListKernels(), IsEmpty());
}

TEST_F(OwnKernelTest, SaysWhatConfinesThem) {
  const auto& capabilities = client_.node().capabilities();
  EXPECT_THAT(capabilities, ::testing::Contains("kernels"));
  absl::StatusOr<Session> session = client_.CreateSession();
  ASSERT_THAT(session, IsOk());
  ASSERT_THAT(session->RegisterKernel(Object("own_add_gcc")), IsOk());
  const absl::StatusOr<std::vector<v1::Host>> hosts = client_.ListHosts();
  ASSERT_THAT(hosts, IsOk());
  ASSERT_THAT(*hosts, SizeIs(1));
  // What the node says before is what the host does.
  for (const v1::Host::Restriction& part : (*hosts)[0].sandbox()) {
    if (part.name() != "system_calls" && part.name() != "file_system") continue;
    const std::string capability =
        absl::StrCat("kernel-sandbox-", absl::StrReplaceAll(part.name(), {{"_", "-"}}));
    EXPECT_EQ(std::count(capabilities.begin(), capabilities.end(), capability),
              part.in_force() ? 1 : 0)
        << capability << ": " << part.detail();
  }
}

TEST(OwnKernelPolicyTest, AHostWritesNoFileThatIsLargerThanAKernel) {
  DaemonProcess daemon({"--sim-chips=1", "--max-kernel-bytes=1M"});
  Client client = ConnectTo(daemon);
  absl::StatusOr<Session> session = client.CreateSession();
  ASSERT_THAT(session, IsOk());
  ASSERT_THAT(session->RegisterKernel(Object("own_add_gcc")), IsOk());
  const absl::StatusOr<std::vector<v1::Host>> hosts = client.ListHosts();
  ASSERT_THAT(hosts, IsOk());
  ASSERT_THAT(*hosts, SizeIs(1));
  std::ifstream limits(absl::StrCat("/proc/", (*hosts)[0].pid(), "/limits"));
  std::string found;
  for (std::string line; std::getline(limits, line);) {
    if (absl::StartsWith(line, "Max file size")) found = line;
  }
  EXPECT_THAT(found, ::testing::ContainsRegex("Max file size +(1000000|1048576) "));
}

TEST(OwnKernelPolicyTest, EachKernelCountsInTheClientsMemory) {
  DaemonProcess daemon({"--sim-chips=1", "--max-client-memory-bytes=16M"});
  Client client = ConnectTo(daemon);
  absl::StatusOr<Session> session = client.CreateSession();
  ASSERT_THAT(session, IsOk());
  KernelOptions options;
  absl::Status refused;
  int registered = 0;
  for (; refused.ok() && registered < 400; ++registered) {
    options.id = absl::StrCat("k", registered);
    refused = session->RegisterKernel(Object("own_add_gcc"), options).status();
  }
  EXPECT_THAT(refused, HasReason(reason::kMemoryBudget));
  EXPECT_GT(registered, 10);
  EXPECT_THAT(session->DeleteKernel("k0"), IsOk());
  EXPECT_THAT(session->RegisterKernel(Object("own_add_gcc"), options), IsOk());
}

TEST(OwnKernelPolicyTest, UploadsCanBeSwitchedOff) {
  DaemonProcess daemon({"--sim-chips=1", "--kernel-uploads=off"});
  Client client = ConnectTo(daemon);
  absl::StatusOr<Session> session = client.CreateSession();
  ASSERT_THAT(session, IsOk());
  const absl::Status refused = session->RegisterKernel(Object("own_add_gcc")).status();
  EXPECT_THAT(refused, HasReason(reason::kPermissionDenied));
  EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr("--kernel-uploads=off"));
}

TEST(OwnKernelPolicyTest, ClientsHaveALimitOfBytes) {
  DaemonProcess daemon(
      {"--sim-chips=1", "--max-kernel-bytes=100K", "--max-client-kernel-bytes=20K"});
  Client client = ConnectTo(daemon);
  absl::StatusOr<Session> session = client.CreateSession();
  ASSERT_THAT(session, IsOk());
  EXPECT_THAT(session->RegisterKernelObject(std::string(100'001 * 2, 'x'), {}),
              HasReason(reason::kFieldInvalid));
  EXPECT_THAT(session->RegisterKernelObject(std::string(50'000, 'x'), {}),
              HasReason(reason::kQuotaKernels));
  // What was refused does not count.
  EXPECT_THAT(session->RegisterKernelObject(std::string(15'000, 'x'), {}),
              HasReason(reason::kKernelInvalid));
  EXPECT_THAT(session->RegisterKernelObject(std::string(15'001, 'x'), {}),
              HasReason(reason::kKernelInvalid));
}

}  // namespace
}  // namespace pto::testing
