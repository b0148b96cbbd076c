// SPDX-License-Identifier: BSD-3-Clause
// Start and end of MPI (MPI 5.0 sections 11.2 to 11.4). The first user, the world model or a session, creates
// the Instance, which lives as long as the process.
#include "api/instance.hpp"

#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <new>
#include <string>

#include "api/banner.hpp"
#include "api/check.hpp"
#include "api/crash.hpp"
#include "api/debugger.hpp"
#include "api/entry_point.hpp"
#include "api/errors.hpp"
#include "api/finalize_barrier.hpp"
#include "api/handles.hpp"
#include "api/impl.hpp"
#include "api/leaks.hpp"
#include "api/memory_kinds.hpp"
#include "api/process.hpp"
#include "api/summary.hpp"
#include "base/clock.hpp"
#include "base/config.hpp"
#include "base/counters.hpp"
#include "base/log.hpp"
#include "base/recorder.hpp"
#include "base/trace.hpp"
#include "coll/bootstrap/clocks.hpp"
#include "core/progress_thread.hpp"
#include "device/memory.hpp"
#include "device/pool.hpp"
#include "device/race_check.hpp"
#include "ft/service.hpp"
#include "launch/job_id.hpp"
#include "launch/launch.hpp"
#include "p2p/p2p.hpp"
#include "spawn/spawn.hpp"
#include "stream/ordered.hpp"
#include "stream/queue.hpp"
#include "transport/shm/access.hpp"
#include "transport/shm/shm.hpp"

namespace weft::api {

core::Instance* g_instance = nullptr;
std::atomic<State> g_state{State::before_init};

namespace {

constexpr core::ContextId kWorldContext = core::kContextStep,
                          kSelfContext = 2 * core::kContextStep;  // below all ids of new_contexts()
constexpr uint64_t kExitLockTimeoutNs = 1'000'000'000;
int world_thread_level = MPI_THREAD_SINGLE;
pthread_t main_thread;

/// State of the world model.
enum class World { before, running, finalized };
std::atomic<World> world{World::before};

std::mutex lifecycle;  // guards creation of the instance and user_count; taken before the instance lock
int user_count = 0;    // the world model and the open sessions

core::Ref<core::Communicator> predefined(core::Instance& instance, core::ContextId id, uintptr_t handle,
                                         const char* name, std::vector<core::ProcessId> processes) {
  core::Ref<core::Group> group(core::Group::create(std::move(processes), instance.self));
  if (!group) throw std::bad_alloc();
  core::Ref<core::Communicator> comm(core::Communicator::create(instance, id, std::move(group)));
  if (!comm) throw std::bad_alloc();
  comm->handle = handle;
  comm->name = name;
  comm->errhandler = core::Ref<core::Errhandler>::share(initial_errhandler());
  return comm;
}

/// Both create nothing if a session has used the communicator before MPI_Init.
core::Communicator* create_world(core::Instance& instance) {
  debugger::publish(instance);  // again, since it is connected now
  std::vector<core::ProcessId> all_processes(instance.size);
  for (core::ProcessId p = 0; p < instance.size; ++p) all_processes[p] = p;
  if (!instance.world)
    instance.world = predefined(instance, kWorldContext, reinterpret_cast<uintptr_t>(MPI_COMM_WORLD),
                                "MPI_COMM_WORLD", std::move(all_processes));
  return instance.world.get();
}

core::Communicator* create_self(core::Instance& instance) {
  if (!instance.self_comm)
    instance.self_comm = predefined(instance, kSelfContext, reinterpret_cast<uintptr_t>(MPI_COMM_SELF),
                                    "MPI_COMM_SELF", {instance.self});
  return instance.self_comm.get();
}

/// Sets the keys of MPI_INFO_ENV that come from the launcher (MPI 5.0 section 11.2.1).
void fill_environment_info(const launch::Job& job) {
  core::Info& info = *core::Info::environment();
  if (job.program_size != 0) info.set("maxprocs", std::to_string(job.program_size));
  info.set("mpi_initial_errhandler", initial_errhandler_name());
  if (!startup_memory_kinds().empty()) info.set("mpi_memory_alloc_kinds", memory_kinds(std::nullopt));
}

/// Creates the instance without communication: transports are opened for the first communicator that needs
/// them.
Result<std::unique_ptr<core::Instance>> make_instance() {
  WEFT_TRY(config::load());
  WEFT_TRY(trace::open());
  auto exchange = launch::connect();
  if (!exchange) return std::move(exchange).error();
  auto instance = std::make_unique<core::Instance>(std::move(*exchange));
  log::set_rank(static_cast<int>(instance->self));
  recorder::set_process(static_cast<int>(instance->self), static_cast<int>(instance->size),
                        launch::JobId::of(instance->exchange->job().id).tag(), instance->host);
  launch::scrub_environment();
  WEFT_TRY(p2p::create(*instance));
  if (checking_gpu()) {
    trace::keep_on();
    p2p::check_buffers(*instance);
  }
  if (reporting()) p2p::check_types(*instance);
  ft::Service::start(*instance);
  debugger::publish(*instance);
  fill_environment_info(instance->exchange->job());
  return instance;
}

/// Sends the disconnect notice once. The launcher treats an exit without it as a crash.
void disconnect_from_launcher() {
  static bool disconnected = false;
  if (std::exchange(disconnected, true)) return;
  const Status status = g_instance->exchange->finalize();
  if (!status)
    log::write(log::Level::error, "disconnect from the launcher: %s", status.error().message().c_str());
}

/// A child of fork() shares shared memory and the launcher connection with its parent and must not use them.
/// MPI_Finalized returns true there, so that exit handlers do not call MPI_Finalize.
void install_fork_handler() {
  static const int registered = ::pthread_atfork(nullptr, nullptr, [] {
    g_state.store(State::forked);
    if (world.load() == World::running) world.store(World::finalized);
    g_instance->threaded = false;  // the thread that held the lock does not exist in the child
    (void)g_instance->progress_thread.release();
  });
  (void)registered;
}

/// A process that never communicated may do so in a later session: it disconnects when it exits.
void disconnect_at_exit() {
  static pid_t process = ::getpid();
  std::atexit([] {
    if (process == ::getpid() && g_state.load() == State::finalized) disconnect_from_launcher();
  });
}

/// Takes the instance lock. Returns no lock if another thread keeps it, e.g. while it awaits the
/// interpreter of a program that ends.
std::unique_lock<core::InstanceLock> lock_at_exit(core::Instance& instance) {
  std::unique_lock<core::InstanceLock> lock(instance.lock, std::defer_lock);
  const uint64_t end = monotonic_ns() + kExitLockTimeoutNs;
  while (!lock.try_lock() && monotonic_ns() < end) ::sched_yield();
  return lock;
}

/// The other processes are told, and do not wait for this one; the launcher must not end them. After MPI_Init
/// the program owes MPI_Finalize.
void leave_job(int status, void*) {
  if (status != 0 || g_state.load() != State::running || world.load() == World::running) return;
  const auto lock = lock_at_exit(*g_instance);
  if (!lock)
    return log::write(log::Level::error,
                      "a thread is inside of MPI at exit: the launcher takes this process for failed");
  p2p::leave(*g_instance, g_instance->exit_time_ns);
  disconnect_from_launcher();
}

/// For a trace of several hosts. An error is one of a process or of the network, which later calls report.
void record_clocks(core::Instance& instance) {
  if (!recorder::enabled() || !instance.failures.check(*instance.world->group).ok()) return;
  if (const Status measured = coll::record_clocks(*instance.world); !measured.ok())
    log::write(log::Level::warn, "the clocks of the hosts cannot be compared for the trace: %s",
               measured.error().message().c_str());
}

Status start_world(int required) {
  if (world.load() == World::running) return Error(Errc::other, "MPI is already initialised");
  if (world.load() == World::finalized)
    return Error(Errc::other, "MPI was finalized: MPI_Init cannot be called again in this process");
  auto instance = acquire_instance(required);
  if (!instance) return std::move(instance).error();
  const auto lock = lock_of(**instance);
  const core::PublishedCall published((*instance)->waits, "MPI_Init");
  WEFT_TRY(p2p::connect(**instance));
  create_world(**instance);
  create_self(**instance);
  record_clocks(**instance);
  world_thread_level = required;
  core::Info::environment()->set("thread_level", thread_level_name(required));
  auto parent = spawn::connect_parent(*(*instance)->world);
  if (!parent) return std::move(parent).error();
  if (*parent != nullptr) (*parent)->name = "MPI_COMM_PARENT";
  set_parent(*parent);
  world.store(World::running);
  log_banner(**instance, thread_level_name(required));
  return {};
}

Status initialize_or_abort(int required) {
  Status started = start_world(required);
  if (started || world.load() != World::before) return started;
  // No communicator exists yet; the initial error handler is fatal.
  abort_job(MPI_ERR_OTHER, std::move(started).error().message());
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

std::unique_lock<core::InstanceLock> lock_of(core::Instance& instance) {
  std::unique_lock<core::InstanceLock> lock(instance.lock, std::defer_lock);
  if (instance.threaded) lock.lock();
  return lock;
}

/// Ends the progress thread before the statics that it uses are destroyed.
void end_progress_thread_at_exit() {
  static const int registered = std::atexit([] { g_instance->progress_thread.reset(); });
  (void)registered;
}

void end_progress_thread(core::Instance& instance) {
  std::unique_ptr<core::ProgressThread> thread;  // is destroyed after the lock is released
  const auto lock = lock_of(instance);
  thread = std::move(instance.progress_thread);
}

/// Announces that this process has left MPI, or has entered it again.
void set_departed(bool departed) {
  g_instance->shm->set_departed(departed);
  transport::shm::allow_access(!departed);
}

Result<core::Instance*> acquire_instance(int required) {
  const std::lock_guard guard(lifecycle);
  if (g_state.load() == State::forked)
    return Error(Errc::other, "this is a child of fork(): MPI belongs to the process that called MPI_Init");
  if (g_instance == nullptr) {
    auto made = make_instance();
    if (!made) return std::move(made).error();
    g_instance = made->release();
    main_thread = ::pthread_self();
    install_fork_handler();
    install_crash_handlers();
  }
  WEFT_TRY(device::open());
  const auto lock = lock_of(*g_instance);
  if (checking_gpu()) device::prepare_race_checks();
  if (required == MPI_THREAD_MULTIPLE || core::ProgressThread::wanted()) g_instance->threaded = true;
  if (user_count++ == 0 && g_instance->shm != nullptr) set_departed(false);
  g_instance->waits.set_state(false, g_instance->threaded);
  g_instance->waits.count_thread();
  if (core::ProgressThread::wanted() && g_instance->progress_thread == nullptr) {
    g_instance->progress_thread = core::ProgressThread::start(*g_instance);
    end_progress_thread_at_exit();
  }
  g_state.store(State::running);
  return g_instance;
}

void start_progress_thread() {
  core::ProgressThread::start_for_windows(*g_instance);
  end_progress_thread_at_exit();
}

Status take_locks() {
  core::Instance& instance = *g_instance;
  if (instance.threaded) return {};
  if (instance.in_unlocked_callback())
    return Error(Errc::other, "stream order begins in a callback: call the function outside of callbacks");
  instance.threaded = true;
  instance.waits.set_state(false, true);
  return {};
}

core::Communicator* predefined_of_session(MPI_Comm handle) {
  core::Instance& instance = *g_instance;
  if (world.load() == World::finalized) return nullptr;
  const bool of_all = handle == MPI_COMM_WORLD;
  if (reporting())
    report(std::string(of_all ? "MPI_COMM_WORLD" : "MPI_COMM_SELF") +
           " is used without MPI_Init, which MPI 5.0 section 11.3 does not allow: call MPI_Init, or use "
           "MPI_Comm_create_from_group");
  if (!of_all) return create_self(instance);
  if (Status connected = p2p::connect(instance); !connected)
    abort_job(MPI_ERR_OTHER, "MPI_COMM_WORLD without MPI_Init: " + connected.error().message());
  return create_world(instance);
}

/// Logs what this process has counted.
void log_counters() {
  if (!log::enabled(log::Level::debug)) return;
  for (const counters::Counter* counter : counters::all())
    if (const uint64_t value = counter->value(); value != 0)
      log::write(log::Level::debug, "counter %s: %llu %s (%s)", counter->name(),
                 static_cast<unsigned long long>(value), counters::name_of(counter->unit()), counter->help());
}

void allow_exit(uint64_t time_ns) {
  g_instance->exit_time_ns = std::max<uint64_t>(time_ns, 1);
  launch::continue_on_failure();
  static const int registered = ::on_exit(leave_job, nullptr);
  (void)registered;
}

void release_instance() {
  const std::lock_guard guard(lifecycle);
  core::Instance& instance = *g_instance;
  if (user_count == 1) {
    end_progress_thread(instance);
    stream::end_threads(instance);
  }
  const auto lock = lock_of(instance);
  if (--user_count != 0) return;
  const core::PublishedCall published(
      instance.waits, world.load() == World::finalized ? "MPI_Finalize" : "MPI_Session_finalize");
  p2p::flush_buffers(instance);
  instance.world = {};  // present if a program without MPI_Init has used MPI_COMM_WORLD or MPI_COMM_SELF
  instance.self_comm = {};
  stream::abandon_all(instance);
  p2p::quiesce(instance);
  device::Workspace::close();
  instance.gpu_regions.reset();
  device::close();
  if (instance.shm != nullptr) set_departed(true);
  instance.waits.set_state(true, instance.threaded);
  log_counters();
  report_summary(instance);
  g_state.store(State::finalized);
  if (p2p::connected(instance))
    disconnect_from_launcher();
  else
    disconnect_at_exit();
}

namespace impl {

Status Init(int*, char***) { return initialize_or_abort(MPI_THREAD_SINGLE); }

Status Init_thread(int*, char***, int required, int* provided) {
  if (required != MPI_THREAD_SINGLE && required != MPI_THREAD_FUNNELED && required != MPI_THREAD_SERIALIZED &&
      required != MPI_THREAD_MULTIPLE)
    required = MPI_THREAD_MULTIPLE;
  Status started = initialize_or_abort(required);
  *provided = world_thread_level;
  return started;
}

Status Finalize() {
  core::Instance& instance = *g_instance;
  if (world.load() != World::running)
    return Error(Errc::other, "the world model is not initialised, only sessions are open");
  {
    const auto lock = lock_of(instance);
    const core::PublishedCall published(instance.waits, "MPI_Finalize", instance.world.get());
    // Delete callbacks of MPI_COMM_SELF run first and may still call MPI (MPI 5.0 section 11.2.3).
    WEFT_TRY(instance.self_comm->attributes.clear(instance, MPI_COMM_SELF));
    WEFT_TRY(instance.world->attributes.clear(instance, MPI_COMM_WORLD));
    stream::settle_all(instance);
    for (core::Communicator* const comm : {&*instance.world, &*instance.self_comm})
      if (auto* const order = stream::order::Order::of(*comm); order != nullptr)
        WEFT_TRY(with_error_communicator(comm, order->take_error()));
    if (reporting()) report_leaks();
    print_summary(*instance.world);
    instance.gpu_use.finish(instance);
    record_clocks(instance);
    drain_world(instance);
    if (reporting()) report_unreceived(instance);
    instance.world = {};
    instance.self_comm = {};
  }
  world.store(World::finalized);
  release_instance();
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
  (void)comm;  // aborts the whole job, as MPI allows
  const std::string text = error_text(errorcode);
  const bool known =
      errorcode > MPI_ERR_LASTCODE && !text.empty();  // small numbers are exit codes of programs
  abort_job(errorcode, "MPI_Abort was called with error code " + (known ? text : std::to_string(errorcode)));
}

}  // namespace impl
}  // namespace weft::api
