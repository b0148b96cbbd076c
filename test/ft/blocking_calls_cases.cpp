// SPDX-License-Identifier: BSD-3-Clause
// The calls of blocking_calls.cpp. Each waits for the last rank, or is repeated until it fails.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "blocking_calls.hpp"

namespace weft::test {
namespace {

const bool on_gpu = [] {
  const char* const memory = std::getenv("TEST_MEMORY");
  return memory != nullptr && std::string(memory) == "device";
}();

using Kind = Buffer::Kind;

std::unique_ptr<Buffer> make_buffer() {
  auto made =
      std::make_unique<Buffer>(on_gpu ? Kind::device : Kind::host, Scene::kBytes, on_gpu ? own_device() : 0);
  made->write(std::vector<char>(Scene::kBytes));
  return made;
}

/// A collective file of the test's folder; all ranks of the host use it.
std::string file_name() { return "blocking_calls." + std::to_string(getppid()) + ".data"; }

int of_status(int code, const MPI_Status& status) {
  return code == MPI_ERR_IN_STATUS ? status.MPI_ERROR : code;
}

/// Waits for a request; frees it if it has not completed.
int finish(int code, MPI_Request& request) {
  return code == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code;
}

/// Sends a block of `bytes` bytes to each rank.
int alltoallv(Scene& s, int bytes) {
  std::vector<int> counts, places;
  for (int peer = 0; peer < s.size; ++peer) {
    counts.push_back(bytes);
    places.push_back(peer * bytes);
  }
  return MPI_Alltoallv(s.send, counts.data(), places.data(), MPI_BYTE, s.receive, counts.data(),
                       places.data(), MPI_BYTE, s.comm);
}

MPI_Request receive_of(Scene& s, int tag = 7) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Irecv(s.receive, 4, MPI_BYTE, s.last, tag, s.comm, &request);
  return request;
}

/// Tests a receive again and again: one call of the case lasts until an error.
template <class Test>
int test_loop(Scene& s, Test&& test) {
  MPI_Request request = receive_of(s);
  int code = MPI_SUCCESS, flag = 0;
  const double end = MPI_Wtime() + 4;
  while (code == MPI_SUCCESS && flag == 0 && MPI_Wtime() < end) code = test(request, flag);
  return code;
}

void lock_last(Scene& s, bool last) {
  if (last) MPI_Win_lock(MPI_LOCK_EXCLUSIVE, s.last, 0, s.win);
}
void lock_all(Scene& s, bool) { MPI_Win_lock_all(0, s.win); }

/// One operation of `bytes` on the last rank's memory, and its flush.
template <class Operation>
int flushed(Scene& s, Operation&& operation) {
  const int code = operation();
  return code == MPI_SUCCESS ? MPI_Win_flush(s.last, s.win) : code;
}

template <int bytes>
int put(Scene& s) {
  return MPI_Put(s.send, bytes, MPI_BYTE, s.last, s.disp, bytes, MPI_BYTE, s.win);
}
template <int bytes>
int put_flush(Scene& s) {
  return flushed(s, [&] { return put<bytes>(s); });
}
template <int bytes>
int get_flush(Scene& s) {
  return flushed(s,
                 [&] { return MPI_Get(s.receive, bytes, MPI_BYTE, s.last, s.disp, bytes, MPI_BYTE, s.win); });
}
template <int count>
int accumulate_flush(Scene& s) {
  return flushed(s, [&] {
    return MPI_Accumulate(s.send, count, MPI_LONG, s.last, s.disp, count, MPI_LONG, MPI_SUM, s.win);
  });
}
int get_accumulate_flush(Scene& s) {
  return flushed(s, [&] {
    return MPI_Get_accumulate(s.send, 9, MPI_LONG, s.receive, 9, MPI_LONG, s.last, s.disp, 9, MPI_LONG,
                              MPI_SUM, s.win);
  });
}
int fetch_flush(Scene& s) {
  return flushed(
      s, [&] { return MPI_Fetch_and_op(s.send, s.receive, MPI_LONG, s.last, s.disp, MPI_SUM, s.win); });
}
int swap_flush(Scene& s) {
  return flushed(s, [&] {
    return MPI_Compare_and_swap(s.send, s.send + 8, s.receive, MPI_LONG, s.last, s.disp, s.win);
  });
}
int put_wait(Scene& s) {
  MPI_Request request = MPI_REQUEST_NULL;
  return finish(MPI_Rput(s.send, 5000, MPI_BYTE, s.last, s.disp, 5000, MPI_BYTE, s.win, &request), request);
}
int put_flush_all(Scene& s) {
  const int code = put<4000>(s);
  return code == MPI_SUCCESS ? MPI_Win_flush_all(s.win) : code;
}
int put_unlock(Scene& s) {
  int code = MPI_Win_lock(MPI_LOCK_SHARED, s.last, 0, s.win);
  if (code != MPI_SUCCESS) return code;
  code = put<100000>(s);
  const int unlocked = MPI_Win_unlock(s.last, s.win);
  return code == MPI_SUCCESS ? unlocked : code;
}
MPI_Group last_group(Scene& s) {
  MPI_Group all, last;
  MPI_Comm_group(s.comm, &all);
  MPI_Group_incl(all, 1, &s.last, &last);
  MPI_Group_free(&all);
  return last;
}
int start(Scene& s) {
  MPI_Group group = last_group(s);
  const int code = MPI_Win_start(group, 0, s.win);
  MPI_Group_free(&group);
  return code;
}
int post_wait(Scene& s) {
  MPI_Group group = last_group(s);
  int code = MPI_Win_post(group, 0, s.win);
  MPI_Group_free(&group);
  return code == MPI_SUCCESS ? MPI_Win_wait(s.win) : code;
}
void post(Scene& s, bool last) {
  if (s.rank != 0) return;
  (void)last;
  MPI_Group group = last_group(s);
  MPI_Win_post(group, 0, s.win);
  MPI_Group_free(&group);
}

#define CALL(text, ...)                                     \
  {                                                         \
    text, Flavor::comm, [](Scene& s) -> int { __VA_ARGS__ } \
  }
#define START(text, ...)                                              \
  CALL(text, MPI_Request r = MPI_REQUEST_NULL; int e = (__VA_ARGS__); \
       if (e == MPI_SUCCESS && r != MPI_REQUEST_NULL) e = MPI_Start(&r); return finish(e, r);)
#define NONBLOCKING(text, ...) CALL(text, MPI_Request r = MPI_REQUEST_NULL; return finish((__VA_ARGS__), r);)

std::vector<Case> messages() {
  return {
    CALL("MPI_Recv", return MPI_Recv(s.receive, 4, MPI_BYTE, s.last, 1, s.comm, MPI_STATUS_IGNORE);),
        CALL("MPI_Recv from any source",
             return MPI_Recv(s.receive, 4, MPI_BYTE, MPI_ANY_SOURCE, 1, s.comm, MPI_STATUS_IGNORE);),
        CALL("MPI_Ssend", return MPI_Ssend(s.send, 4, MPI_BYTE, s.last, 1, s.comm);),
        CALL("MPI_Send", return MPI_Send(s.send, Scene::kBytes, MPI_BYTE, s.last, 1, s.comm);),
        CALL("MPI_Send of nothing", return MPI_Send(nullptr, 0, MPI_BYTE, s.last, 1, s.comm);),
        CALL("MPI_Sendrecv", return MPI_Sendrecv(s.send, 4, MPI_BYTE, s.last, 1, s.receive, 4, MPI_BYTE,
                                                 s.last, 1, s.comm, MPI_STATUS_IGNORE);),
        CALL("MPI_Sendrecv_replace", return MPI_Sendrecv_replace(s.send, 4, MPI_BYTE, s.last, 1, s.last, 1,
                                                                 s.comm, MPI_STATUS_IGNORE);),
        CALL("MPI_Probe", return MPI_Probe(s.last, 1, s.comm, MPI_STATUS_IGNORE);),
        CALL("MPI_Mprobe", MPI_Message m; return MPI_Mprobe(s.last, 1, s.comm, &m, MPI_STATUS_IGNORE);),
        CALL("MPI_Iprobe", int f; return MPI_Iprobe(s.last, 1, s.comm, &f, MPI_STATUS_IGNORE);),
        CALL("MPI_Improbe", int f; MPI_Message m;
             return MPI_Improbe(s.last, 1, s.comm, &f, &m, MPI_STATUS_IGNORE);),
        CALL("MPI_Wait", MPI_Request r = receive_of(s); return MPI_Wait(&r, MPI_STATUS_IGNORE);),
        CALL("MPI_Waitall", MPI_Request r[2] = {receive_of(s), receive_of(s)}; MPI_Status st[2];
             const int e = MPI_Waitall(2, r, st); return of_status(e, st[0]);),
        CALL("MPI_Waitany", MPI_Request r[2] = {receive_of(s), receive_of(s)}; int i;
             return MPI_Waitany(2, r, &i, MPI_STATUS_IGNORE);),
        CALL("MPI_Waitsome", MPI_Request r[2] = {receive_of(s), receive_of(s)}; int n; int i[2];
             MPI_Status st[2]; const int e = MPI_Waitsome(2, r, &n, i, st); return of_status(e, st[0]);),
        CALL("MPI_Test", return test_loop(
                             s, [](MPI_Request& r, int& f) { return MPI_Test(&r, &f, MPI_STATUS_IGNORE); });),
        CALL("MPI_Testany", return test_loop(s,
                                             [](MPI_Request& r, int& f) {
                                               int i;
                                               return MPI_Testany(1, &r, &i, &f, MPI_STATUS_IGNORE);
                                             });),
        CALL("MPI_Testall", return test_loop(s,
                                             [](MPI_Request& r, int& f) {
                                               MPI_Status st;
                                               const int e = MPI_Testall(1, &r, &f, &st);
                                               return of_status(e, st);
                                             });),
        CALL("MPI_Testsome", return test_loop(s,
                                              [](MPI_Request& r, int& f) {
                                                MPI_Status st;
                                                int i;
                                                const int e = MPI_Testsome(1, &r, &f, &i, &st);
                                                return of_status(e, st);
                                              });),
        START("persistent receive", MPI_Recv_init(s.receive, 4, MPI_BYTE, s.last, 1, s.comm, &r)),
        START("persistent synchronous send", MPI_Ssend_init(s.send, 4, MPI_BYTE, s.last, 1, s.comm, &r)),
        START("partitioned receive",
              MPI_Precv_init(s.receive, 2, 8, MPI_BYTE, s.last, 1, s.comm, MPI_INFO_NULL, &r)),
        CALL("MPI_Parrived", MPI_Request r;
             int e = MPI_Precv_init(s.receive, 2, 8, MPI_BYTE, s.last, 1, s.comm, MPI_INFO_NULL, &r);
             if (e == MPI_SUCCESS) e = MPI_Start(&r); int f = 0; const double end = MPI_Wtime() + 4;
             while (e == MPI_SUCCESS && f == 0 && MPI_Wtime() < end) e = MPI_Parrived(r, 0, &f);
             return e != MPI_SUCCESS ? e : MPI_Wait(&r, MPI_STATUS_IGNORE);),
        CALL("partitioned send", MPI_Request r;
             int e = MPI_Psend_init(s.send, 2, 8, MPI_BYTE, s.last, 1, s.comm, MPI_INFO_NULL, &r);
             if (e == MPI_SUCCESS) e = MPI_Start(&r); if (e == MPI_SUCCESS) e = MPI_Pready_range(0, 1, r);
             return finish(e, r);)
  };
}

std::vector<Case> messages_to_self() {
  return {
    CALL("nothing to oneself", const int e = MPI_Send(nullptr, 0, MPI_BYTE, 0, 3, s.comm);
         return e != MPI_SUCCESS ? e : MPI_Recv(nullptr, 0, MPI_BYTE, 0, 3, s.comm, MPI_STATUS_IGNORE);),
        CALL("a message to oneself", return MPI_Sendrecv(s.send, 9, MPI_BYTE, 0, 3, s.receive, 9, MPI_BYTE, 0,
                                                         3, s.comm, MPI_STATUS_IGNORE);),
        CALL("a nonblocking message to oneself", MPI_Request r[2];
             MPI_Irecv(s.receive, 9, MPI_BYTE, 0, 3, s.comm, &r[0]);
             MPI_Isend(s.send, 9, MPI_BYTE, 0, 3, s.comm, &r[1]); MPI_Status st[2];
             const int e = MPI_Waitall(2, r, st);
             return e == MPI_ERR_IN_STATUS && st[0].MPI_ERROR == MPI_SUCCESS ? st[1].MPI_ERROR
                                                                             : of_status(e, st[0]);)
  };
}

std::vector<Case> collectives() {
  return {
    CALL("MPI_Barrier", return MPI_Barrier(s.comm);),
        CALL("MPI_Bcast", return MPI_Bcast(s.receive, 999, MPI_BYTE, s.last, s.comm);),
        CALL("MPI_Bcast of nothing", return MPI_Bcast(s.receive, 0, MPI_BYTE, s.last, s.comm);),
        CALL("MPI_Gather", return MPI_Gather(s.send, 99, MPI_BYTE, s.receive, 99, MPI_BYTE, 0, s.comm);),
        CALL("MPI_Scatter",
             return MPI_Scatter(s.send, 99, MPI_BYTE, s.receive, 99, MPI_BYTE, s.last, s.comm);),
        CALL("MPI_Allgather", return MPI_Allgather(s.send, 99, MPI_BYTE, s.receive, 99, MPI_BYTE, s.comm);),
        CALL("MPI_Alltoall", return MPI_Alltoall(s.send, 99, MPI_BYTE, s.receive, 99, MPI_BYTE, s.comm);),
        CALL("MPI_Alltoallv", return alltoallv(s, 9);),
        CALL("MPI_Alltoallv of much", return alltoallv(s, 20000);),
        CALL("MPI_Allreduce", return MPI_Allreduce(s.send, s.receive, 5, MPI_INT, MPI_SUM, s.comm);),
        CALL("MPI_Allreduce of much",
             return MPI_Allreduce(s.send, s.receive, 200000, MPI_INT, MPI_SUM, s.comm);),
        CALL("MPI_Reduce", return MPI_Reduce(s.send, s.receive, 5, MPI_INT, MPI_SUM, 0, s.comm);),
        CALL("MPI_Reduce_scatter_block",
             return MPI_Reduce_scatter_block(s.send, s.receive, 5, MPI_INT, MPI_SUM, s.comm);),
        CALL("MPI_Scan", return MPI_Scan(s.send, s.receive, 5, MPI_INT, MPI_SUM, s.comm);),
        NONBLOCKING("MPI_Ibarrier", MPI_Ibarrier(s.comm, &r)),
        NONBLOCKING("MPI_Iallreduce", MPI_Iallreduce(s.send, s.receive, 5, MPI_INT, MPI_SUM, s.comm, &r)),
        NONBLOCKING("MPI_Ialltoall",
                    MPI_Ialltoall(s.send, 9999, MPI_BYTE, s.receive, 9999, MPI_BYTE, s.comm, &r)),
        START("MPI_Barrier_init", MPI_Barrier_init(s.comm, MPI_INFO_NULL, &r)),
        START("MPI_Bcast_init", MPI_Bcast_init(s.receive, 99, MPI_BYTE, s.last, s.comm, MPI_INFO_NULL, &r)),
        CALL("MPI_Comm_dup", MPI_Comm c; return MPI_Comm_dup(s.comm, &c);),
        CALL("MPI_Comm_idup", MPI_Comm c; MPI_Request r; return finish(MPI_Comm_idup(s.comm, &c, &r), r);),
        CALL("MPI_Comm_split", MPI_Comm c; return MPI_Comm_split(s.comm, 0, 0, &c);),
        CALL("MPI_Comm_split_type", MPI_Comm c;
             return MPI_Comm_split_type(s.comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &c);),
        CALL("MPI_Cart_create", MPI_Comm c; const int periods = 0;
             return MPI_Cart_create(s.comm, 1, &s.size, &periods, 0, &c);),
        CALL("MPI_Win_allocate", MPI_Win w; void* m;
             return MPI_Win_allocate(64, 1, MPI_INFO_NULL, s.comm, &m, &w);),
        CALL("MPI_Win_create_dynamic", MPI_Win w; return MPI_Win_create_dynamic(MPI_INFO_NULL, s.comm, &w);),
        CALL("MPI_File_open", MPI_File f; return MPI_File_open(
                 s.comm, file_name().c_str(), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f);),
        CALL("MPI_Comm_accept", static char port[MPI_MAX_PORT_NAME]; MPI_Comm c;
             if (port[0] == 0) MPI_Open_port(MPI_INFO_NULL, port);
             return MPI_Comm_accept(port, MPI_INFO_NULL, 0, s.comm, &c);)
  };
}

void add_windows(std::vector<Case>& all, Flavor flavor) {
  for (const Case& one : std::vector<Case>{
           {"MPI_Win_fence", flavor, [](Scene& s) { return MPI_Win_fence(0, s.win); }},
           {"MPI_Win_start", flavor, start},
           {"MPI_Win_wait", flavor, post_wait},
           {"MPI_Win_test", flavor,
            [](Scene& s) {
              int flag;
              return MPI_Win_test(s.win, &flag);
            },
            post},
           {"MPI_Win_lock", flavor, [](Scene& s) { return MPI_Win_lock(MPI_LOCK_SHARED, s.last, 0, s.win); },
            lock_last},
           {"MPI_Win_lock_all", flavor, [](Scene& s) { return MPI_Win_lock_all(0, s.win); }, lock_last},
           {"MPI_Win_unlock", flavor, put_unlock},
           {"MPI_Win_sync", flavor, [](Scene& s) { return MPI_Win_sync(s.win); }, lock_all},
           {"MPI_Win_flush", flavor, [](Scene& s) { return MPI_Win_flush(s.last, s.win); }, lock_all},
           {"MPI_Win_flush_local", flavor, [](Scene& s) { return MPI_Win_flush_local(s.last, s.win); },
            lock_all},
           {"MPI_Win_flush_all", flavor, put_flush_all, lock_all},
           {"MPI_Put", flavor, put<8>, lock_all},
           {"MPI_Put of nothing", flavor, put<0>, lock_all},
           {"MPI_Put and flush", flavor, put_flush<8>, lock_all},
           {"MPI_Put and flush of much", flavor, put_flush<200000>, lock_all},
           {"MPI_Get and flush", flavor, get_flush<8>, lock_all},
           {"MPI_Get and flush of much", flavor, get_flush<200000>, lock_all},
           {"MPI_Accumulate and flush", flavor, accumulate_flush<1>, lock_all},
           {"MPI_Accumulate and flush of much", flavor, accumulate_flush<5000>, lock_all},
           {"MPI_Get_accumulate", flavor, get_accumulate_flush, lock_all},
           {"MPI_Fetch_and_op", flavor, fetch_flush, lock_all},
           {"MPI_Compare_and_swap", flavor, swap_flush, lock_all},
           {"MPI_Rput", flavor, put_wait, lock_all}})
    all.push_back(one);
}

#define ON_FILE(text, ...)                                            \
  {                                                                   \
    text, Flavor::file, [](Scene& s) -> int { return (__VA_ARGS__); } \
  }

std::vector<Case> files() {
  return {ON_FILE("MPI_File_write_at_all",
                  MPI_File_write_at_all(s.file, 0, s.send, 99, MPI_BYTE, MPI_STATUS_IGNORE)),
          ON_FILE("MPI_File_read_all", MPI_File_read_all(s.file, s.receive, 99, MPI_BYTE, MPI_STATUS_IGNORE)),
          ON_FILE("MPI_File_write_ordered",
                  MPI_File_write_ordered(s.file, s.send, 99, MPI_BYTE, MPI_STATUS_IGNORE)),
          ON_FILE("MPI_File_set_size", MPI_File_set_size(s.file, 100)),
          ON_FILE("MPI_File_sync", MPI_File_sync(s.file)),
          {"MPI_File_iwrite_at_all", Flavor::file, [](Scene& s) {
             MPI_Request r;
             return finish(MPI_File_iwrite_at_all(s.file, 0, s.send, 99, MPI_BYTE, &r), r);
           }}};
}

std::vector<Case> independent_file_accesses() {
  return {
      ON_FILE("MPI_File_write_shared", MPI_File_write_shared(s.file, s.send, 1, MPI_BYTE, MPI_STATUS_IGNORE)),
      ON_FILE("MPI_File_write_at", MPI_File_write_at(s.file, 0, s.send, 9, MPI_BYTE, MPI_STATUS_IGNORE)),
      ON_FILE("MPI_File_read_at", MPI_File_read_at(s.file, 0, s.receive, 9, MPI_BYTE, MPI_STATUS_IGNORE))};
}

/// Marks cases that have nothing to do with the last rank: its death does not concern them.
void append(std::vector<Case>& all, std::vector<Case> more, bool of_failures) {
  for (Case& one : more) {
    one.of_failures = of_failures;
    all.push_back(one);
  }
}

}  // namespace

Scene::Scene(MPI_Comm base, Flavor flavor) : send_(make_buffer()), receive_(make_buffer()) {
  send = send_->data();
  receive = receive_->data();
  MPI_Comm_dup(base, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  last = size - 1;
  if (flavor != Flavor::comm && flavor != Flavor::file) make_window(flavor);
  if (flavor != Flavor::file) return;
  MPI_File_open(comm, file_name().c_str(), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
  MPI_File_set_errhandler(file, MPI_ERRORS_RETURN);
}

void Scene::make_window(Flavor flavor) {
  char* base = nullptr;
  if (flavor == Flavor::alloc_mem) {
    MPI_Alloc_mem(kBytes, MPI_INFO_NULL, &allocated_);
    base = allocated_;
  } else if (flavor == Flavor::create || flavor == Flavor::dynamic) {
    memory_ = make_buffer();
    base = memory_->data();
  }
  if (flavor == Flavor::allocate)
    MPI_Win_allocate(kBytes, 1, MPI_INFO_NULL, comm, &base, &win);
  else if (flavor == Flavor::shared)
    MPI_Win_allocate_shared(kBytes, 1, MPI_INFO_NULL, comm, &base, &win);
  else if (flavor == Flavor::dynamic)
    MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &win);
  else
    MPI_Win_create(base, kBytes, 1, MPI_INFO_NULL, comm, &win);
  MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
  if (flavor != Flavor::dynamic) return;
  MPI_Win_attach(win, base, kBytes);
  MPI_Get_address(base, &disp);
  MPI_Bcast(&disp, 1, MPI_AINT, last, comm);
}

void Scene::free() {
  if (win != MPI_WIN_NULL) MPI_Win_free(&win);
  if (file != MPI_FILE_NULL) MPI_File_close(&file);
  if (allocated_ != nullptr) MPI_Free_mem(allocated_);
  MPI_Comm_free(&comm);
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> made;
    append(made, messages(), true);
    append(made, messages_to_self(), false);
    append(made, collectives(), true);
    append(made, files(), true);
    append(made, independent_file_accesses(), false);
    for (const Flavor flavor :
         {Flavor::create, Flavor::allocate, Flavor::dynamic, Flavor::alloc_mem, Flavor::shared}) {
      if (on_gpu && flavor != Flavor::create && flavor != Flavor::dynamic) continue;
      if (std::getenv("WEFT_FAKE_HOSTS") != nullptr && flavor == Flavor::shared) continue;
      add_windows(made, flavor);
    }
    return made;
  }();
  return all;
}

int until_error(const Case& of, Scene& scene, double limit) {
  int code = MPI_SUCCESS;
  for (const double end = MPI_Wtime() + limit; code == MPI_SUCCESS && MPI_Wtime() < end;)
    code = of.call(scene);
  return code;
}

}  // namespace weft::test
