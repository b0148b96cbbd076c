// SPDX-License-Identifier: BSD-3-Clause
// Start and end of MPI (MPI 5.0 sections 11.2 to 11.4): the one global Instance, made by the first view of it
// (the world model or a session) and kept for the life of the process, and the world model.
#include "api/instance.hpp"

#include <mpi.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string>

#include "api/entry.hpp"
#include "api/handles.hpp"
#include "api/impl.hpp"
#include "api/memory_kinds.hpp"
#include "base/config.hpp"
#include "base/log.hpp"
#include "base/trace.hpp"
#include "device/memory.hpp"
#include "device/workspace.hpp"
#include "launch/launch.hpp"
#include "p2p/p2p.hpp"
#include "stream/queue.hpp"

namespace weft::api {

core::Instance* g_instance = nullptr;
std::atomic<State> g_state{State::before_init};

namespace {

constexpr core::ContextId kWorldContext = core::kContextStep,
                          kSelfContext = 2 * core::kContextStep;  // below any that new_contexts() makes
int world_thread_level = MPI_THREAD_SINGLE;
pthread_t main_thread;

/// The world model's part of the process's life; sessions have none.
enum class World { before, running, finalized };
std::atomic<World> world{World::before};

std::mutex lifecycle;  // making the instance and counting its views; taken before the instance lock
int views = 0;         // the world model and the open sessions

core::Ref<core::Communicator> predefined(core::Instance& instance, core::ContextId id, uintptr_t handle,
                                         const char* name, std::vector<core::ProcessId> processes) {
  core::Ref<core::Group> group(core::Group::create(std::move(processes), instance.self));
  core::Ref<core::Communicator> comm(core::Communicator::create(instance, id, std::move(group)));
  comm->handle = handle;
  comm->name = name;
  comm->errhandler = core::Ref<core::Errhandler>::share(initial_errhandler());
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

/// What MPI_INFO_ENV says beside what the process sees itself (MPI 5.0 section 11.2.1).
void describe_start(const launch::Job& job) {
  core::Info& info = *core::Info::environment();
  if (job.program_size != 0) info.set("maxprocs", std::to_string(job.program_size));
  info.set("mpi_initial_errhandler", initial_errhandler_name());
  if (!memory_kinds_at_start().empty()) info.set("mpi_memory_alloc_kinds", memory_kinds(std::nullopt));
}

/// Everything that works alone; the transports come with the first communicator that needs them.
Result<std::unique_ptr<core::Instance>> make_instance() {
  WEFT_TRY(config::load());
  WEFT_TRY(trace::open());
  auto exchange = launch::connect();
  if (!exchange) return std::move(exchange).error();
  auto instance = std::make_unique<core::Instance>(std::move(*exchange));
  log::set_rank(static_cast<int>(instance->self));
  launch::scrub_environment();
  WEFT_TRY(p2p::create(*instance));
  describe_start(instance->exchange->job());
  return instance;
}

/// The launcher takes leaving without a goodbye for a crash.
void say_goodbye() {
  static bool said = false;
  if (std::exchange(said, true)) return;
  const Status left = g_instance->exchange->finalize();
  if (!left) log::write(log::Level::error, "leaving the job: %s", left.error().message().c_str());
}

/// A child of fork() shares the parent's memory with other ranks and its connection to the launcher: none of
/// it is the child's to use. For those who ask, MPI is finalized there, so what ends MPI at exit leaves it
/// alone.
void disown_in_children() {
  static const int registered = ::pthread_atfork(nullptr, nullptr, [] {
    g_state.store(State::forked);
    if (world.load() == World::running) world.store(World::finalized);
    g_instance->threaded = false;  // whoever held the lock is not here
  });
  (void)registered;
}

/// A process that never communicated may still do so after its last session: it leaves the job when it ends.
void leave_at_exit() {
  static pid_t process = ::getpid();
  std::atexit([] {
    if (process == ::getpid() && g_state.load() == State::finalized) say_goodbye();
  });
}

Status start_world(int required) {
  if (world.load() == World::running) return Error(Errc::other, "MPI is initialised already");
  if (world.load() == World::finalized)
    return Error(Errc::other, "MPI was finalized: MPI_Init cannot be called again in this process");
  auto instance = join(required);
  if (!instance) return std::move(instance).error();
  WEFT_TRY(p2p::connect(**instance));
  make_predefined(**instance);
  world_thread_level = required;
  core::Info::environment()->set("thread_level", thread_level_name(required));
  world.store(World::running);
  return {};
}

Status initialise(int required) {
  Status started = start_world(required);
  if (started || world.load() != World::before) return started;
  // No communicator and no error handler exist yet: MPI says that the start-up error handler is fatal.
  abort_job(MPI_ERR_OTHER, std::move(started).error().message());
}

/// next_collective_tag() begins behind it: a rank that ends early completes no collective of the others.
constexpr int kLastTag = 0;

/// All traffic of this process is over when the others say so too.
void end_traffic(core::Instance& instance) {
  p2p::flush_buffers(instance);
  core::Communicator& comm = *instance.world;
  const int size = comm.size(), rank = comm.rank(), tag = kLastTag;
  static const device::Memory host;
  for (int distance = 1; distance < size; distance *= 2) {  // dissemination barrier
    p2p::Transfer in(core::Request::Kind::receive), out(core::Request::Kind::send);
    const p2p::Buffer nothing{nullptr, 0, to_datatype(MPI_BYTE), &host};
    p2p::post_receive(in, nothing, (rank - distance + size) % size, tag, comm, core::Channel::collective);
    p2p::post_send(out, nothing, (rank + distance) % size, tag, comm, p2p::SendMode::standard,
                   core::Channel::collective);
    core::wait(instance, in);
    core::wait(instance, out);
  }
}

}  // namespace

const char* thread_level_name(int level) {
  switch (level) {
    case MPI_THREAD_SINGLE:
      return "MPI_THREAD_SINGLE";
    case MPI_THREAD_FUNNELED:
      return "MPI_THREAD_FUNNELED";
    case MPI_THREAD_SERIALIZED:
      return "MPI_THREAD_SERIALIZED";
    default:
      return "MPI_THREAD_MULTIPLE";
  }
}

std::unique_lock<std::mutex> lock_of(core::Instance& instance) {
  std::unique_lock<std::mutex> lock(instance.lock, std::defer_lock);
  if (instance.threaded) lock.lock();
  return lock;
}

Result<core::Instance*> join(int required) {
  const std::lock_guard guard(lifecycle);
  if (g_state.load() == State::forked)
    return Error(Errc::other, "this is a child of fork(): MPI belongs to the process that called MPI_Init");
  if (g_instance == nullptr) {
    auto made = make_instance();
    if (!made) return std::move(made).error();
    g_instance = made->release();
    main_thread = ::pthread_self();
    disown_in_children();
  }
  WEFT_TRY(device::open());
  const auto lock = lock_of(*g_instance);
  if (required == MPI_THREAD_MULTIPLE) g_instance->threaded = true;
  ++views;
  g_state.store(State::running);
  return g_instance;
}

void leave() {
  const std::lock_guard guard(lifecycle);
  core::Instance& instance = *g_instance;
  const auto lock = lock_of(instance);
  if (--views != 0) return;
  p2p::flush_buffers(instance);
  stream::abandon_all();
  p2p::quiesce(instance);
  device::Workspace::close();
  instance.gpu_scratch.reset();
  device::close();
  g_state.store(State::finalized);
  if (p2p::connected(instance))
    say_goodbye();
  else
    leave_at_exit();
}

namespace impl {

Status Init(int*, char***) { return initialise(MPI_THREAD_SINGLE); }

Status Init_thread(int*, char***, int required, int* provided) {
  if (required != MPI_THREAD_SINGLE && required != MPI_THREAD_FUNNELED && required != MPI_THREAD_SERIALIZED &&
      required != MPI_THREAD_MULTIPLE)
    required = MPI_THREAD_MULTIPLE;
  Status started = initialise(required);
  *provided = world_thread_level;
  return started;
}

Status Finalize() {
  core::Instance& instance = *g_instance;
  if (world.load() != World::running)
    return Error(Errc::other, "the world model is not initialised: only sessions are open");
  {
    const auto lock = lock_of(instance);
    // Attributes of MPI_COMM_SELF go first, while MPI still works (MPI 5.0 section 11.2.3).
    WEFT_TRY(instance.self_comm->attributes.clear(instance, MPI_COMM_SELF));
    WEFT_TRY(instance.world->attributes.clear(instance, MPI_COMM_WORLD));
    stream::settle_all();
    end_traffic(instance);
    instance.world = {};
    instance.self_comm = {};
  }
  world.store(World::finalized);
  leave();
  return {};
}

Status Initialized(int* flag) {
  *flag = world.load() != World::before;
  return {};
}

Status Finalized(int* flag) {
  *flag = world.load() == World::finalized;
  return {};
}

Status Query_thread(int* provided) {
  *provided = world_thread_level;
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
