// SPDX-License-Identifier: BSD-3-Clause
// Random programs in stream order: calls, nonblocking and persistent operations, windows, graphs and errors
// on communicators that come and go and whose stream changes on each rank for itself. A gate lets streams
// begin late. Results are compared with the same calls on the host. usage: order_random rounds COUNT SEED;
// order_random seconds TIME [SEED]
#include <csignal>
#include <cstdio>
#include <deque>
#include <optional>

#include "reference/rounds.hpp"
#include "stream/order_families.hpp"
#include "time_limit.hpp"

namespace {

using namespace weft::test::ordered;

constexpr int kSteps = 40, kLanes = 3, kFamilies = 4, kWindows = 2;
constexpr int kCounts[] = {1, 7, 100, 3000};
constexpr double kHangSeconds = 60;  // of one program

/// All ranks draw the same steps from `seed`; what is local differs.
class Program {
 public:
  explicit Program(uint64_t seed, MemoryPool& pool)
      : seed_(seed), pool_(pool), own_(seed ^ 0x9e3779b97f4a7c15ULL * static_cast<uint64_t>(rank + 1)) {
    MPI_Comm_dup(MPI_COMM_WORLD, &world_.comm);
    families_[0] = std::make_shared<Family>(world_.comm, world_, nullptr);
  }

  void run() {
    for (step_ = 0; step_ < kSteps && failures == 0; ++step_) {
      Draw draw(seed_ + static_cast<uint64_t>(step_) * 7919);
      name_step("");
      if (own_.one_in(3)) close_a_gate();
      act(draw);
      check_raised({});
      if (own_.one_in(4)) graphs_.clear();
    }
    step_ = kSteps;
    name_step("the end: ");
    Draw draw(seed_);
    while (!items_.empty()) complete_some(draw, items_.size());
    for (auto& window : windows_) window.reset();
    for (Lane& lane : lanes_) lane.synchronize();
    for (auto& family : families_) family.reset();
    check_raised({});
    for (const Result& result : results_)
      expect(result.memory->result.read() == result.wanted(), result.what);
  }

 private:
  using Call = std::function<void()>;

  void name_step(const std::string& what) {
    std::snprintf(where, sizeof where, "seed %llu, step %d, %s", static_cast<unsigned long long>(seed_),
                  step_, what.c_str());
    if (std::getenv("TEST_VERBOSE") != nullptr) std::fprintf(stderr, "rank %d: %s\n", rank, where);
  }

  /// Nothing else has been raised since the last check.
  void check_raised(const std::vector<int>& wanted) {
    std::string found;
    for (const int error_class : raised) found += " " + std::to_string(error_class);
    expect(raised == wanted, std::string(where) + "error classes:" + found);
    raised.clear();
  }

  void close_a_gate() { lanes_[own_.below(kLanes)].gate.close(); }

  void act(Draw& draw) {
    const int slot = draw.below(kFamilies), kind = draw.below(24);
    std::shared_ptr<Family> family = families_[slot] != nullptr ? families_[slot] : families_[0];
    if (kind < 7) return call(family, draw);
    if (kind < 10) return start(family, draw);
    if (kind < 12) return complete_some(draw, 1 + static_cast<size_t>(draw.below(3)));
    if (kind < 15) return move(*family);
    if (kind < 16) return make_family(draw);
    if (kind < 17) return free_family(draw);
    if (kind < 20) return use_window(family, draw);
    if (kind < 22) return launch_graph(family, draw);
    if (kind < 23) return fail(family, draw);
    host_memory(*family, draw);
  }

  /// Each rank chooses its stream.
  void move(Family& family) {
    name_step("MPIX_Comm_set_stream: ");
    const int to = own_.below(kLanes + 1);
    // Without a stream, calls of kernels go to that of the communicator's creation.
    family.move_to(to == kLanes ? (family.by_kernels ? &lanes_[0] : nullptr) : &lanes_[to]);
  }

  std::vector<char> pattern_of(int rank_of, int salt, size_t bytes) {
    return pattern(bytes, rank_of, static_cast<int>(seed_ % 1000) + salt);
  }

  Arguments arguments(const Family& family, Memory& memory, int n, bool capturing) {
    return {family.comm,
            family.grid,
            reinterpret_cast<int*>(memory.in.data()),
            reinterpret_cast<int*>(memory.out.data()),
            n,
            family.rank,
            family.ranks,
            capturing,
            !family.by_kernels};
  }

  void call(const std::shared_ptr<Family>& family, Draw& draw) {
    const NamedCall& chosen = kCalls[draw.below(std::size(kCalls))];
    const int n = kCounts[draw.below(std::size(kCounts))];
    one_call(family, chosen, n, false, 1)();
  }

  /// Prepares a call that is to be made `times` times, with its copies, and notes its result.
  Call one_call(const std::shared_ptr<Family>& family, const NamedCall& chosen, int n, bool capturing,
                int times) {
    name_step(std::string(chosen.name) + ": ");
    auto memory = pool_.take(bytes_for(n));
    std::vector<char> source = pattern_of(family->rank, ++salt_, bytes_for(n));
    fill(memory->source, source);
    results_.push_back({where, memory, [=] {
                          std::vector<char> out;
                          for (int i = 0; i < times; ++i)
                            out = repeated(*family, chosen, source, n, capturing);
                          return out;
                        }});
    return [=, this, &chosen] {
      copies_.copy(family->lane, memory->in, memory->source);
      copies_.copy(family->lane, memory->out, memory->source);
      chosen.run(arguments(*family, *memory, n, capturing));
      copies_.copy(family->lane, memory->result, memory->out);
    };
  }
  static size_t bytes_for(int n) {
    return sizeof(int) * 2 * static_cast<size_t>(n) * static_cast<size_t>(ranks);
  }

  void host_memory(const Family& family, Draw& draw) {
    if (family.by_kernels) return;
    name_step("host memory: ");
    int local = family.rank + step_, global = -1;
    MPI_Allreduce(&local, &global, 1, MPI_INT, MPI_SUM, family.comm);
    expect(global == family.ranks * (family.ranks - 1) / 2 + family.ranks * step_,
           std::string(where) + "MPI_Allreduce of a variable");
    if (draw.one_in(2)) return;
    MPI_Request request;
    MPI_Status status;
    MPI_Message message;
    int received = -1;
    MPI_Isend(&local, 1, MPI_INT, family.right(), 50, family.comm, &request);
    MPI_Mprobe(MPI_ANY_SOURCE, 50, family.comm, &message, &status);
    MPI_Mrecv(&received, 1, MPI_INT, &message, &status);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(received == family.left() + step_ && status.MPI_SOURCE == family.left(),
           std::string(where) + "a probed message");
  }

  // Operations in flight.

  void start(const std::shared_ptr<Family>& family, Draw& draw) {
    if (family->by_kernels) return;  // while messages are in flight, collectives are errors
    const int form = draw.below(8), n = kCounts[draw.below(std::size(kCounts))];
    const bool persistent = form >= 4;
    name_step("start of form " + std::to_string(form) + ": ");
    const size_t bytes = bytes_for(n);
    Item item{family, pool_.take(bytes), {}, persistent, persistent ? 1 + draw.below(3) : 1, where, {}};
    Memory& memory = *item.memory;
    fill(memory.source, pattern_of(family->rank, ++salt_, bytes));
    if (!persistent) load(item);
    const MPI_Comm comm = family->comm;
    int* const in = reinterpret_cast<int*>(memory.in.data());
    int* const out = reinterpret_cast<int*>(memory.out.data());
    item.requests.resize(form % 4 == 0 ? 2 : 1);
    MPI_Request* const request = item.requests.data();
    const int tag = 100 + step_, source = draw.one_in(2) ? family->left() : MPI_ANY_SOURCE;
    const NamedCall* repeats = &call_of("Allreduce");
    switch (form) {
      case 0:
        MPI_Irecv(out, n, MPI_INT, source, tag, comm, &request[0]);
        MPI_Isend(in, n, MPI_INT, family->right(), tag, comm, &request[1]);
        break;
      case 1:
        MPI_Iallreduce(in, out, n, MPI_INT, MPI_SUM, comm, request);
        break;
      case 2:
        MPI_Ialltoall(in, n, MPI_INT, out, n, MPI_INT, comm, request);
        break;
      case 3:
        MPI_Ineighbor_alltoall(in, n, MPI_INT, out, n, MPI_INT, family->grid, request);
        break;
      case 4:
        MPI_Recv_init(out, n, MPI_INT, source, tag, comm, &request[0]);
        MPI_Ssend_init(in, n, MPI_INT, family->right(), tag, comm, &request[1]);
        break;
      case 5:
        MPI_Allreduce_init(in, out, n, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, request);
        break;
      case 6:
        MPI_Alltoall_init(in, n, MPI_INT, out, n, MPI_INT, comm, MPI_INFO_NULL, request);
        break;
      default:
        MPI_Neighbor_alltoall_init(in, n, MPI_INT, out, n, MPI_INT, family->grid, MPI_INFO_NULL, request);
    }
    if (form % 4 == 0) repeats = &call_of("Sendrecv");
    if (form % 4 == 2) repeats = &call_of("Alltoall");
    if (form % 4 == 3) repeats = &call_of("Neighbor_alltoall");
    item.wanted = [this, family, repeats, n, salt = salt_, bytes] {
      return repeated(*family, *repeats, pattern_of(family->rank, salt, bytes), n, false);
    };
    if (persistent) restart(item);
    items_.push_back(std::move(item));
  }

  void load(const Item& item) {
    copies_.copy(item.family->lane, item.memory->in, item.memory->source);
    copies_.copy(item.family->lane, item.memory->out, item.memory->source);
  }

  void restart(Item& item) {
    load(item);
    --item.starts;
    MPI_Startall(static_cast<int>(item.requests.size()), item.requests.data());
  }

  /// Completes items that all ranks choose together, by functions that each rank chooses.
  void complete_some(Draw& draw, size_t n) {
    std::vector<Item> chosen;
    std::vector<MPI_Request> list;
    for (size_t i = 0; i < n && !items_.empty(); ++i) {
      const auto at = items_.begin() + draw.below(static_cast<int>(items_.size()));
      chosen.push_back(std::move(*at));
      items_.erase(at);
      list.insert(list.end(), chosen.back().requests.begin(), chosen.back().requests.end());
    }
    const int form = own_.below(6);
    name_step("completion by form " + std::to_string(form) + ": ");
    complete(list, form);
    size_t at = 0;
    for (Item& item : chosen) {
      for (MPI_Request& request : item.requests) request = list[at++];
      copies_.copy(item.family->lane, item.memory->result, item.memory->out);
      if (item.persistent && item.starts > 0) {
        // The stream reads the result before it is written again, also if it has changed.
        restart(item);
        items_.push_back(std::move(item));
        continue;
      }
      for (MPI_Request& request : item.requests)
        if (item.persistent) MPI_Request_free(&request);
      for (const MPI_Request request : item.requests)
        expect(request == MPI_REQUEST_NULL, item.what + "a request is left");
      results_.push_back({item.what, item.memory, item.wanted});
    }
  }

  void complete(std::vector<MPI_Request>& list, int form) {
    const int n = static_cast<int>(list.size());
    std::vector<MPI_Status> statuses(list.size());
    int flag = 0, index = 0;
    switch (form) {
      case 0:
        MPI_Waitall(n, list.data(), statuses.data());
        break;
      case 1:
        for (MPI_Request& request : list)
          for (flag = 0; flag == 0;) MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        break;
      case 2:
        for (int i = 0; i < n; ++i) MPI_Waitany(n, list.data(), &index, MPI_STATUS_IGNORE);
        break;
      case 3:
        while (flag == 0) MPI_Testall(n, list.data(), &flag, MPI_STATUSES_IGNORE);
        break;
      case 4:
        for (auto request = list.rbegin(); request != list.rend(); ++request)
          MPI_Wait(&*request, MPI_STATUS_IGNORE);
        break;
      default:
        MPI_Waitall(n, list.data(), MPI_STATUSES_IGNORE);
    }
  }

  // Communicators.

  void make_family(Draw& draw) {
    const int from = draw.below(kFamilies), to = 1 + draw.below(kFamilies - 1), form = draw.below(3);
    if (families_[from] == nullptr) return;
    name_step("making communicators of form " + std::to_string(form) + ": ");
    const std::shared_ptr<Family> parent = families_[from];
    auto made = std::make_shared<Family>(parent->comm, *parent->twin, form == 0 ? &lanes_[0] : nullptr);
    families_[to].reset();
    families_[to] = std::move(made);
    if (form == 1) move(*families_[to]);
  }

  /// Its operations in flight go on, and its windows keep its stream.
  void free_family(Draw& draw) {
    name_step("freeing communicators: ");
    std::shared_ptr<Family>& family = families_[1 + draw.below(kFamilies - 1)];
    if (family == nullptr) return;
    family->free();
    family.reset();
  }

  // Windows.

  void use_window(const std::shared_ptr<Family>& family, Draw& draw) {
    std::optional<Window>& window = windows_[draw.below(kWindows)];
    if (draw.one_in(4)) {
      name_step("a new window: ");
      window.reset();
      if (draw.one_in(3)) return;
      window.emplace(family, sizeof(int));
    }
    if (!window || window->slot == kSlots) return;
    const Family& of = *window->family;
    const bool locks = draw.one_in(2) && of.comm != MPI_COMM_NULL && !of.by_kernels, adds = draw.one_in(2);
    name_step(std::string(locks ? "locks" : "fences") + (adds ? ", MPI_Accumulate: " : ", MPI_Put: "));
    auto memory = pool_.take(kWindowInts * sizeof(int));
    fill(memory->source, pattern_of(of.rank, ++salt_, kWindowInts * sizeof(int)));
    copies_.copy(of.lane, memory->in, memory->source);
    const MPI_Win win = window->win;
    const MPI_Aint at = kWindowInts * window->slot++;
    locks ? MPI_Win_lock(MPI_LOCK_EXCLUSIVE, of.right(), 0, win) : MPI_Win_fence(0, win);
    if (adds)
      MPI_Accumulate(memory->in.data(), kWindowInts, MPI_INT, of.right(), at, kWindowInts, MPI_INT, MPI_SUM,
                     win);
    else
      MPI_Put(memory->in.data(), kWindowInts, MPI_INT, of.right(), at, kWindowInts, MPI_INT, win);
    if (locks) {
      MPI_Win_unlock(of.right(), win);
      MPI_Barrier(of.comm);
      MPI_Win_lock(MPI_LOCK_SHARED, of.rank, 0, win);
    } else {
      MPI_Win_fence(0, win);
    }
    MPI_Get(memory->out.data(), kWindowInts, MPI_INT, of.rank, at, kWindowInts, MPI_INT, win);
    locks ? MPI_Win_unlock(of.rank, win) : MPI_Win_fence(0, win);
    copies_.copy(of.lane, memory->result, memory->out);
    results_.push_back({where, memory, [this, left = of.left(), salt = salt_] {
                          return pattern_of(left, salt, kWindowInts * sizeof(int));
                        }});
  }

  // Graphs.

  /// A rank without a stream makes the calls instead.
  void launch_graph(const std::shared_ptr<Family>& family, Draw& draw) {
    const int launches = 1 + draw.below(3);
    std::vector<Call> calls;
    for (int i = 1 + draw.below(3); i > 0; --i)
      calls.push_back(one_call(family, kCalls[draw.below(std::size(kCalls))],
                               kCounts[draw.below(std::size(kCounts))], true, launches));
    name_step("a graph: ");
    const auto all = [&] {
      for (const Call& call : calls) call();
    };
    if (family->lane == nullptr) {
      for (int i = 0; i < launches; ++i) all();
      return;
    }
    Graph& graph = graphs_.emplace_back(family->lane->stream);
    all();
    graph.end();
    for (int i = 0; i < launches; ++i) graph.launch();
    family->lane->synchronize();  // later calls in another stream are not ordered behind the graph
  }

  // Errors.

  /// A message longer than its receive, of a rank to itself, or a root or target that does not exist.
  void fail(std::shared_ptr<Family>& family, Draw& draw) {
    const int form = draw.below(4);
    name_step("error of form " + std::to_string(form) + ": ");
    auto memory = pool_.take(400);
    if (form == 0) {
      MPI_Bcast(memory->in.data(), 10, MPI_INT, family->ranks, family->comm);
      return check_raised({MPI_ERR_ROOT});
    }
    if (form == 1) {
      MPI_Request request = MPI_REQUEST_NULL;
      MPI_Isend(memory->in.data(), 10, MPI_INT, family->ranks, 1, family->comm, &request);
      return check_raised({MPI_ERR_RANK});
    }
    const int tag = 99, to = family->by_kernels ? family->right() : family->rank,
              from = family->by_kernels ? family->left() : family->rank;
    MPI_Request request;
    MPI_Isend(memory->in.data(), 100, MPI_INT, to, tag, family->comm, &request);
    MPI_Recv(memory->out.data(), 10, MPI_INT, from, tag, family->comm, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    held_.push_back(memory);
    // It may return the error, and is made all the same.
    if (draw.one_in(2))
      one_call(family, call_of(draw.of({"Sendrecv", "Bcast", "Allreduce", "Isend, Irecv, Waitall"})), 7,
               false, 1)();
    if (form == 3 && family != families_[0]) {
      family->free();
      for (auto& other : families_)
        if (other == family) other.reset();
    } else {
      if (family->lane != nullptr) family->lane->synchronize();
      int queried = MPI_SUCCESS;
      MPIX_Comm_stream_error(family->comm, &queried);
      if (queried != MPI_SUCCESS) note(queried);
    }
    check_raised({MPI_ERR_TRUNCATE});
  }

  const uint64_t seed_;
  MemoryPool& pool_;
  Draw own_;  // of this rank
  int step_ = 0, salt_ = 0;
  Twin world_;
  std::array<Lane, kLanes> lanes_;
  Copies copies_;
  std::array<std::shared_ptr<Family>, kFamilies> families_;
  std::array<std::optional<Window>, kWindows> windows_;
  std::deque<Item> items_;
  std::deque<Graph> graphs_;
  std::vector<std::shared_ptr<Memory>> held_;
  std::vector<Result> results_;
};

}  // namespace

int main(int argc, char** argv) {
  device = weft::test::own_device();
  weft::test::start(argc, argv, rank, ranks);
  MPI_Comm_create_errhandler(note_comm, &comm_handler);
  MPI_Win_create_errhandler(note_window, &window_handler);
  std::signal(SIGALRM, report_hang);
  {
    MemoryPool pool;
    randomized::run_rounds(argc, argv, [&](uint64_t seed) {
      ::alarm(static_cast<unsigned>(weft::test::time_limit(kHangSeconds)));
      Program(seed, pool).run();
      ::alarm(0);
    });
  }
  MPI_Errhandler_free(&comm_handler);
  MPI_Errhandler_free(&window_handler);
  return weft::test::finish(failures);
}
