// Lists: all pages together equal the whole list.

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_matchers.h"
#include "tests/integration/lifecycle.h"

namespace pto::testing {
namespace {

using PagingTest = LifecycleTest;

template <typename Stub, typename Request, typename Response, typename Items>
std::vector<std::string> AllPages(Stub& stub,
                                  grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                               Response*),
                                  Request request, int page_size, const Items& items) {
  std::vector<std::string> names;
  request.set_page_size(page_size);
  while (true) {
    const auto page = Call(stub, method, request);
    EXPECT_THAT(page, IsOk());
    if (!page.ok()) return names;
    const auto& list = items(*page);
    EXPECT_LE(list.size(), page_size == 0 ? 100 : page_size);
    for (const auto& item : list) names.push_back(item.name());
    if (page->next_page_token().empty()) return names;
    EXPECT_FALSE(list.empty()) << "an empty page that is not the last";
    request.set_page_token(page->next_page_token());
  }
}

// `list` returns the names, given a page size.
void ExpectPages(size_t count, const std::function<std::vector<std::string>(int)>& list) {
  const std::vector<std::string> all = list(1000);
  EXPECT_EQ(all.size(), count);
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), count);
  for (const int size : {1, 2, 3, 7, static_cast<int>(count), static_cast<int>(count) + 1, 0}) {
    SCOPED_TRACE(absl::StrCat("pages of ", size));
    EXPECT_EQ(list(size), all);
  }
}

TEST_F(PagingTest, Chips) {
  DaemonProcess daemon({"--sim-chips=11"});
  ExpectPages(11, [&](int size) {
    return AllPages(*daemon.api().node, &v1::NodeService::Stub::ListChips, v1::ListChipsRequest(),
                    size, [](const auto& page) -> const auto& { return page.chips(); });
  });
}

TEST_F(PagingTest, Kernels) {
  const size_t count =
      Call(*api().kernel, &v1::KernelService::Stub::ListKernels, {})->kernels_size();
  EXPECT_GE(count, 10u);
  ExpectPages(count, [&](int size) {
    return AllPages(*api().kernel, &v1::KernelService::Stub::ListKernels, v1::ListKernelsRequest(),
                    size, [](const auto& page) -> const auto& { return page.kernels(); });
  });
}

TEST_F(PagingTest, Buffers) {
  for (int i = 0; i < 12; ++i) MakeBuffer(api(), session_, absl::StrCat("b", i), 64, i % 2);
  v1::ListBuffersRequest request;
  request.set_parent(session_);
  ExpectPages(12, [&](int size) {
    return AllPages(*api().buffer, &v1::BufferService::Stub::ListBuffers, request, size,
                    [](const auto& page) -> const auto& { return page.buffers(); });
  });
}

TEST_F(PagingTest, SessionsAndRuns) {
  DaemonProcess daemon;
  Api& own = daemon.api();
  std::vector<std::string> sessions;
  std::string spinning;
  for (int i = 0; i < 5; ++i) {
    sessions.push_back(MakeSession(own));
    for (int n = 0; n < i * 3; ++n) WaitForRun(own, Submit(own, sessions[i], Noops(1)).name());
  }
  ExpectPages(5, [&](int size) {
    return AllPages(*own.session, &v1::SessionService::Stub::ListSessions,
                    v1::ListSessionsRequest(), size,
                    [](const auto& page) -> const auto& { return page.sessions(); });
  });
  const auto runs = [](const auto& page) -> const auto& { return page.runs(); };
  for (int i = 0; i < 5; ++i) {
    v1::ListRunsRequest request;
    request.set_parent(sessions[i]);
    ExpectPages(i * 3, [&](int size) {
      return AllPages(*own.run, &v1::RunService::Stub::ListRuns, request, size, runs);
    });
  }
  v1::ListRunsRequest all;
  all.set_parent("sessions/-");
  const auto list_all = [&](int size) {
    return AllPages(*own.run, &v1::RunService::Stub::ListRuns, all, size, runs);
  };
  ExpectPages(30, list_all);
  // Newest first within a session.
  EXPECT_EQ(list_all(0)[0], sessions[1] + "/runs/r-3");
  all.set_active_only(true);
  ExpectPages(0, list_all);
  const v1::Run active = Submit(own, sessions[2], Spin(absl::Minutes(10)));
  EXPECT_EQ(list_all(0), std::vector<std::string>({active.name()}));
}

TEST_F(PagingTest, ATokenStaysGoodWhenItsEntryGoes) {
  for (const char* id : {"a", "b", "c", "d"}) MakeBuffer(api(), session_, id, 64);
  v1::ListBuffersRequest request;
  request.set_parent(session_);
  request.set_page_size(2);
  const auto first = Call(*api().buffer, &v1::BufferService::Stub::ListBuffers, request);
  ASSERT_THAT(first, IsOk());
  v1::DeleteBuffersRequest remove;
  remove.add_names(Name("buffers", "b"));
  ASSERT_THAT(Call(*api().buffer, &v1::BufferService::Stub::DeleteBuffers, remove), IsOk());
  request.set_page_token(first->next_page_token());
  const auto second = Call(*api().buffer, &v1::BufferService::Stub::ListBuffers, request);
  ASSERT_THAT(second, IsOk());
  ASSERT_EQ(second->buffers_size(), 2);
  EXPECT_EQ(second->buffers(0).name(), Name("buffers", "c"));
}

}  // namespace
}  // namespace pto::testing
