#include "tests/bench/engine/onetbb_scheduler.h"

#include <cstdint>
#include <memory>

#include "oneapi/tbb/flow_graph.h"
#include "oneapi/tbb/global_control.h"
#include "oneapi/tbb/task_arena.h"
#include "tests/bench/samples.h"

namespace pto::bench {
namespace {

namespace flow = oneapi::tbb::flow;
using Message = flow::continue_msg;

// A graph and its nodes, all in one array: the cheapest way to create them.
class FlowGraph {
 public:
  explicit FlowGraph(uint32_t size) : size_(size), nodes_(std::allocator<Node>().allocate(size)) {
    for (uint32_t i = 0; i < size; ++i) {
      std::construct_at(nodes_ + i, graph_, [](const Message& message) {
        DoNothing();
        return message;
      });
    }
  }
  ~FlowGraph() {
    std::destroy_n(nodes_, size_);
    std::allocator<Node>().deallocate(nodes_, size_);
  }
  FlowGraph(const FlowGraph&) = delete;
  FlowGraph& operator=(const FlowGraph&) = delete;

  void AddEdge(uint32_t before, uint32_t after) { flow::make_edge(nodes_[before], nodes_[after]); }

  void Run(const TaskGraph& graph) {
    for (uint32_t i = 0; i < size_; ++i) {
      if (graph.before(i).empty()) nodes_[i].try_put(Message());
    }
    graph_.wait_for_all();
  }

 private:
  using Node = flow::continue_node<Message>;

  flow::graph graph_;
  const uint32_t size_;
  Node* const nodes_;
};

class OneTbbScheduler final : public Scheduler {
 public:
  explicit OneTbbScheduler(int threads)
      : limit_(oneapi::tbb::global_control::max_allowed_parallelism, static_cast<size_t>(threads)),
        arena_(threads) {
    arena_.initialize();
  }
  ~OneTbbScheduler() override { Clear(); }

  absl::StatusOr<Phases> Execute(const TaskGraph& graph) override {
    Phases phases;
    arena_.execute([&] {
      const double start = Seconds();
      flow_ = std::make_unique<FlowGraph>(graph.size());
      for (uint32_t i = 0; i < graph.size(); ++i) {
        for (const uint32_t before : graph.before(i)) flow_->AddEdge(before, i);
      }
      const double built = Seconds();
      flow_->Run(graph);
      phases = {built - start, Seconds() - built};
    });
    return phases;
  }

  void Clear() override {
    arena_.execute([this] { flow_.reset(); });
  }

 private:
  oneapi::tbb::global_control limit_;
  oneapi::tbb::task_arena arena_;
  std::unique_ptr<FlowGraph> flow_;
};

}  // namespace

std::unique_ptr<Scheduler> NewOneTbbScheduler(int threads) {
  return std::make_unique<OneTbbScheduler>(threads);
}

}  // namespace pto::bench
