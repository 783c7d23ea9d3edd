// A client of the memory broker that misbehaves: the daemon is not harmed.

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/file_descriptor.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/broker_client.h"
#include "tests/harness/daemon_process.h"
#include "tests/integration/world.h"

namespace pto::testing {
namespace {

using broker::Outcome;

constexpr int kCount = 1 << 20;
constexpr uint64_t kBytes = kCount * sizeof(float);

class HostileTest : public ::testing::Test {
 protected:
  HostileTest() : session_id_(UniqueId("hostile")) {
    v1::CreateSessionRequest request;
    request.set_session_id(session_id_);
    request.mutable_ttl()->set_seconds(300);
    request.set_attach_key(std::string(broker::kKeyBytes, 'k'));
    session_ = Call(*api().session, &v1::SessionService::Stub::CreateSession, request)->name();
    MakeBuffer(api(), session_, "out", kBytes);
  }

  Api& api() { return daemon_.api(); }
  std::string path() const { return daemon_.socket_path() + ".mem"; }
  BrokerClient Attached() const {
    BrokerClient client(path());
    EXPECT_EQ(client.Attach(session_id_, 'k'), Outcome::kOk);
    return client;
  }
  static void* MapAll(const FileDescriptor& descriptor) {
    void* const data =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
    EXPECT_NE(data, MAP_FAILED);
    return data;
  }
  // A run over the whole buffer.
  void RunFill(double value) {
    const v1::Run run = WaitForRun(api(), Submit(api(), session_, Fill(kCount, value)).name());
    EXPECT_EQ(run.state(), v1::Run::SUCCEEDED);
  }
  // Everything is freed once the session has ended.
  void ExpectNothingLeft(size_t files) {
    DeleteSession(api(), session_);
    EXPECT_TRUE(Eventually([&] { return GetChip(api(), 0).memory_used_bytes() == 0; }));
    EXPECT_TRUE(Eventually([&] { return daemon_.OpenFiles() <= files; }))
        << daemon_.OpenFiles() << " files are open, not " << files;
    EXPECT_TRUE(daemon_.IsServing());
  }

  DaemonProcess daemon_;
  const std::string session_id_;
  std::string session_;
};

TEST_F(HostileTest, TruncatingChangesNothing) {
  const size_t files = daemon_.OpenFiles();
  {
    const BrokerClient client = Attached();
    FileDescriptor descriptor;
    ASSERT_EQ(client.Map("out", &descriptor), Outcome::kOk);
    void* const data = MapAll(descriptor);
    const v1::Run run = Submit(api(), session_, Fill(kCount, 3));
    for (const off_t size : {off_t{0}, off_t{4096}, static_cast<off_t>(2 * kBytes)}) {
      EXPECT_EQ(ftruncate(descriptor.get(), size), -1);
      EXPECT_EQ(errno, EPERM);
    }
    EXPECT_EQ(fcntl(descriptor.get(), F_ADD_SEALS, F_SEAL_WRITE), -1);
    EXPECT_EQ(WaitForRun(api(), run.name()).state(), v1::Run::SUCCEEDED);
    EXPECT_EQ(static_cast<float*>(data)[kCount - 1], 3.0f);
    munmap(data, kBytes);
  }
  ExpectNothingLeft(files);
}

// The client can corrupt the contents, and nothing else.
TEST_F(HostileTest, HolesAndUnmappingDuringARunHurtNobody) {
  const size_t files = daemon_.OpenFiles();
  {
    const BrokerClient client = Attached();
    FileDescriptor descriptor;
    ASSERT_EQ(client.Map("out", &descriptor), Outcome::kOk);
    std::atomic<bool> stop{false};
    std::thread spoiler([&] {
      while (!stop) {
        void* const data = MapAll(descriptor);
        fallocate(descriptor.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                  static_cast<off_t>(kBytes));
        std::memset(data, 0xff, kBytes / 2);
        munmap(data, kBytes);
      }
    });
    for (int round = 0; round < 20; ++round) RunFill(round);
    stop = true;
    spoiler.join();
    RunFill(7);
    void* const data = MapAll(descriptor);
    EXPECT_EQ(static_cast<float*>(data)[kCount - 1], 7.0f);
    munmap(data, kBytes);
  }
  ExpectNothingLeft(files);
}

// Between fork and its end, the child only makes system calls.
[[noreturn]] void WriteUntilKilled(int descriptor, int ready) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  void* const data = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  const char byte = 1;
  if (data == MAP_FAILED || write(ready, &byte, 1) != 1) _exit(1);
  for (volatile char* const memory = static_cast<char*>(data);;) {
    for (uint64_t i = 0; i < kBytes; i += 4096) memory[i] = static_cast<char>(memory[i] + 1);
  }
}

TEST_F(HostileTest, AClientThatIsKilledLeavesNothing) {
  const size_t files = daemon_.OpenFiles();
  for (int round = 0; round < 20; ++round) {
    auto client = std::make_unique<BrokerClient>(path());
    ASSERT_EQ(client->Attach(session_id_, 'k'), Outcome::kOk);
    FileDescriptor descriptor;
    ASSERT_EQ(client->Map("out", &descriptor), Outcome::kOk);
    int ready[2];
    ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) WriteUntilKilled(descriptor.get(), ready[1]);
    // Now only the child has the connection and the memory.
    client.reset();
    descriptor = FileDescriptor();
    char byte = 0;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    const v1::Run run = Submit(api(), session_, Fill(kCount, round));
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    close(ready[0]);
    close(ready[1]);
    EXPECT_EQ(WaitForRun(api(), run.name()).state(), v1::Run::SUCCEEDED);
  }
  RunFill(9);
  ExpectNothingLeft(files);
}

TEST_F(HostileTest, AClientThatKeepsEverythingKeepsNoneOfTheDaemonsMemory) {
  std::vector<FileDescriptor> kept;
  const BrokerClient client = Attached();
  for (int i = 0; i < 30; ++i) {
    const std::string id = absl::StrCat("b-", i);
    MakeBuffer(api(), session_, id, kBytes);
    ASSERT_EQ(client.Map(id, &kept.emplace_back()), Outcome::kOk);
    v1::DeleteBuffersRequest request;
    request.add_names(absl::StrCat(session_, "/buffers/", id));
    ASSERT_THAT(Call(*api().buffer, &v1::BufferService::Stub::DeleteBuffers, request), IsOk());
  }
  for (const FileDescriptor& descriptor : kept) {
    EXPECT_TRUE(Eventually([&] {
      struct stat found = {};
      return fstat(descriptor.get(), &found) == 0 && found.st_blocks == 0;
    }));
  }
  EXPECT_TRUE(Eventually([&] { return GetChip(api(), 0).memory_used_bytes() == kBytes; }));
}

// Memory whose page faults block while the object exists.
class NeverThere {
 public:
  NeverThere()
      : faults_(static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK))),
        data_(mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    uffdio_api api = {};
    api.api = UFFD_API;
    uffdio_register range = {};
    range.range = {reinterpret_cast<uintptr_t>(data_), kSize};
    range.mode = UFFDIO_REGISTER_MODE_MISSING;
    works_ = faults_.valid() && ioctl(faults_.get(), UFFDIO_API, &api) == 0 &&
             ioctl(faults_.get(), UFFDIO_REGISTER, &range) == 0;
  }
  ~NeverThere() { munmap(data_, kSize); }
  NeverThere(const NeverThere&) = delete;
  NeverThere& operator=(const NeverThere&) = delete;

  // Not every user may block the kernel this way.
  bool works() const { return works_; }
  const void* data() const { return data_; }
  // Waits until a thread faults on it.
  void AwaitFault() const {
    pollfd ready = {faults_.get(), POLLIN, 0};
    EXPECT_EQ(poll(&ready, 1, 20'000), 1);
    EXPECT_EQ(ready.revents, POLLIN);
  }
  // From now on it is ordinary memory.
  void LetGo() { faults_ = FileDescriptor(); }

  static constexpr uint64_t kSize = 4096;

 private:
  FileDescriptor faults_;
  void* const data_;
  bool works_ = false;
};

uint64_t PagesOf(const FileDescriptor& file) {
  struct stat found = {};
  EXPECT_EQ(fstat(file.get(), &found), 0);
  return static_cast<uint64_t>(found.st_blocks);
}

// The daemon frees the pages of a buffer's file, and must wait for a write to it.
TEST_F(HostileTest, AWriteThatDoesNotEndHoldsUpNobody) {
  NeverThere source;
  if (!source.works()) GTEST_SKIP() << "no userfaultfd here";
  const size_t files = daemon_.OpenFiles();
  const auto remove = [&](const std::string& id) {
    v1::DeleteBuffersRequest request;
    request.add_names(absl::StrCat(session_, "/buffers/", id));
    EXPECT_THAT(Call(*api().buffer, &v1::BufferService::Stub::DeleteBuffers, request), IsOk());
  };
  {
    const BrokerClient client = Attached();
    FileDescriptor held;
    ASSERT_EQ(client.Map("out", &held), Outcome::kOk);
    std::thread writer([&] {
      EXPECT_EQ(write(held.get(), source.data(), NeverThere::kSize),
                static_cast<ssize_t>(NeverThere::kSize));
    });
    source.AwaitFault();
    remove("out");
    // Other buffers are created, used and deleted as usual.
    for (int round = 0; round < 3; ++round) {
      MakeBuffer(api(), session_, "out", kBytes);
      FileDescriptor other;
      EXPECT_EQ(client.Map("out", &other), Outcome::kOk);
      RunFill(round);
      remove("out");
      EXPECT_TRUE(Eventually([&] { return PagesOf(other) == 0; }));
    }
    EXPECT_GT(PagesOf(held), 0u);
    source.LetGo();
    writer.join();
    EXPECT_TRUE(Eventually([&] { return PagesOf(held) == 0; }));
  }
  ExpectNothingLeft(files);
}

TEST_F(HostileTest, GarbageFloodsAndSilenceStopNobody) {
  const size_t files = daemon_.OpenFiles();
  {
    std::vector<std::unique_ptr<BrokerClient>> silent;
    for (int i = 0; i < 100; ++i) silent.push_back(std::make_unique<BrokerClient>(path()));
    // The places for unattached clients are taken, and freed after their timeout.
    EXPECT_TRUE(Eventually([&] {
      const BrokerClient late(path());
      late.Send(BrokerClient::AttachRequest(session_id_, 'k'));
      const auto reply = late.Receive();
      return reply.has_value() && reply->outcome == Outcome::kOk;
    }));
  }
  const BrokerClient flooding = Attached();
  const broker::RequestBytes check = broker::Encode(BrokerClient::About(broker::Op::kCheck, 5));
  while (flooding.Send(check.data(), check.size())) {
  }
  for (const size_t size : {size_t{1}, broker::kRequestBytes, size_t{60'000}}) {
    const BrokerClient garbage(path());
    const std::string bytes(size, '\xee');
    ASSERT_TRUE(garbage.Send(bytes.data(), bytes.size()));
    EXPECT_TRUE(garbage.HungUp());
  }
  RunFill(1);
  {
    const BrokerClient good = Attached();
    EXPECT_EQ(good.Map("out"), Outcome::kOk);
  }
  ExpectNothingLeft(files);
}

TEST_F(HostileTest, OthersGetNothing) {
  const BrokerClient wrong_key(path());
  EXPECT_EQ(wrong_key.Attach(session_id_, 'l'), Outcome::kDenied);
  EXPECT_TRUE(wrong_key.HungUp());
  const std::string without_key = MakeSession(api());
  const BrokerClient no_key(path());
  EXPECT_EQ(no_key.Attach(without_key.substr(sizeof("sessions/") - 1), '\1'), Outcome::kDenied);
  EXPECT_TRUE(no_key.HungUp());
  EXPECT_TRUE(Eventually([&] { return daemon_.Log().find("may not map") != std::string::npos; }));
  v1::CreateSessionRequest short_key;
  short_key.set_session_id(UniqueId("hostile"));
  short_key.set_attach_key("k");
  EXPECT_THAT(Call(*api().session, &v1::SessionService::Stub::CreateSession, short_key),
              HasReason(reason::kFieldInvalid));
}

}  // namespace
}  // namespace pto::testing
