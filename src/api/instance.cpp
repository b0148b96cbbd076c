// SPDX-License-Identifier: BSD-3-Clause
// Start and end of MPI (MPI 5.0 sections 11.2 to 11.4): the world model, and the one global Instance.
#include <mpi.h>
#include <pthread.h>

#include <atomic>
#include <string>

#include "api/entry.hpp"
#include "api/handles.hpp"
#include "api/impl.hpp"
#include "base/config.hpp"
#include "base/log.hpp"
#include "device/memory.hpp"
#include "launch/launch.hpp"
#include "p2p/p2p.hpp"

namespace weft::api {

core::Instance* g_instance = nullptr;
std::atomic<State> g_state{State::before_init};

namespace {

constexpr core::ContextId kWorldContext = core::kContextStep,
                          kSelfContext = 2 * core::kContextStep;  // below any that new_contexts() makes
int thread_level = MPI_THREAD_SINGLE;
pthread_t main_thread;

core::Ref<core::Communicator> predefined(core::Instance& instance, core::ContextId id, uintptr_t handle,
                                         const char* name, std::vector<core::ProcessId> processes) {
  core::Ref<core::Group> group(core::Group::create(std::move(processes), instance.self));
  core::Ref<core::Communicator> comm(core::Communicator::create(instance, id, std::move(group)));
  comm->handle = handle;
  comm->name = name;
  return comm;
}

void make_predefined(core::Instance& instance) {
  std::vector<core::ProcessId> everyone(instance.size);
  for (core::ProcessId p = 0; p < instance.size; ++p) everyone[p] = p;
  instance.world = predefined(instance, kWorldContext, reinterpret_cast<uintptr_t>(MPI_COMM_WORLD),
                              "MPI_COMM_WORLD", std::move(everyone));
  instance.self_comm = predefined(instance, kSelfContext, reinterpret_cast<uintptr_t>(MPI_COMM_SELF),
                                  "MPI_COMM_SELF", {instance.self});
}

Status start(int required) {
  if (g_state.load() == State::running) return Error(Errc::other, "MPI is initialised already");
  if (g_state.load() == State::finalized)
    return Error(Errc::other, "MPI was finalized: it cannot be initialised again in this process");
  WEFT_TRY(config::load());
  auto exchange = launch::connect();
  if (!exchange) return std::move(exchange).error();
  auto instance = std::make_unique<core::Instance>(std::move(*exchange));
  log::set_rank(static_cast<int>(instance->self));
  launch::scrub_environment();
  WEFT_TRY(device::open());
  make_predefined(*instance);
  WEFT_TRY(p2p::create(*instance));
  instance->threaded = required == MPI_THREAD_MULTIPLE;
  thread_level = required;
  main_thread = ::pthread_self();
  g_instance = instance.release();
  g_state.store(State::running);
  return {};
}

Status initialise(int required) {
  Status started = start(required);
  if (started) return started;
  if (g_state.load() != State::before_init) return started;
  // No communicator and no error handler exist yet: MPI says that the start-up error handler is fatal.
  abort_job(MPI_ERR_OTHER, std::move(started).error().message());
}

/// All traffic of this process is over when the others say so too.
void end_traffic(core::Instance& instance) {
  p2p::flush_buffer(instance);
  core::Communicator& world = *instance.world;
  const int size = world.size(), rank = world.rank(), tag = world.next_collective_tag();
  static const device::Memory host;
  for (int distance = 1; distance < size; distance *= 2) {  // dissemination barrier
    p2p::Transfer in(core::Request::Kind::receive), out(core::Request::Kind::send);
    const p2p::Buffer nothing{nullptr, 0, to_datatype(MPI_BYTE), &host};
    p2p::post_receive(in, nothing, (rank - distance + size) % size, tag, world, core::Channel::collective);
    p2p::post_send(out, nothing, (rank + distance) % size, tag, world, p2p::SendMode::standard,
                   core::Channel::collective);
    core::wait(instance, in);
    core::wait(instance, out);
  }
}

}  // namespace

namespace impl {

Status Init(int*, char***) { return initialise(MPI_THREAD_SINGLE); }

Status Init_thread(int*, char***, int required, int* provided) {
  if (required != MPI_THREAD_SINGLE && required != MPI_THREAD_FUNNELED && required != MPI_THREAD_SERIALIZED &&
      required != MPI_THREAD_MULTIPLE)
    required = MPI_THREAD_MULTIPLE;
  Status started = initialise(required);
  *provided = thread_level;
  return started;
}

Status Finalize() {
  core::Instance& instance = *g_instance;
  {
    std::unique_lock<std::mutex> lock(instance.lock, std::defer_lock);
    if (instance.threaded) lock.lock();
    // Attributes of MPI_COMM_SELF go first, while MPI still works (MPI 5.0 section 11.2.3).
    WEFT_TRY(instance.self_comm->attributes.clear(instance, MPI_COMM_SELF));
    WEFT_TRY(instance.world->attributes.clear(instance, MPI_COMM_WORLD));
    end_traffic(instance);
    p2p::destroy(instance);
  }
  instance.world = {};
  instance.self_comm = {};
  const Status left = instance.exchange->finalize();
  device::close();
  g_state.store(State::finalized);
  delete std::exchange(g_instance, nullptr);
  if (!left) log::write(log::Level::error, "leaving the job: %s", left.error().message().c_str());
  return {};
}

Status Initialized(int* flag) {
  *flag = g_state.load() != State::before_init;
  return {};
}

Status Finalized(int* flag) {
  *flag = g_state.load() == State::finalized;
  return {};
}

Status Query_thread(int* provided) {
  *provided = thread_level;
  return {};
}

Status Is_thread_main(int* flag) {
  *flag = ::pthread_equal(::pthread_self(), main_thread) != 0;
  return {};
}

Status Abort(core::Communicator& comm, int errorcode) {
  (void)comm;  // all processes of the job end, as MPI allows
  abort_job(errorcode, "MPI_Abort was called with error code " + std::to_string(errorcode));
}

}  // namespace impl
}  // namespace weft::api
