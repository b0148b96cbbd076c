// SPDX-License-Identifier: BSD-3-Clause
// WEFT_CHECK=gpu: a call on GPU memory that a queued kernel or copy still writes is an error that names the
// call, the rank and the buffer; programs without a race get none. Rank 0 makes the mistakes.
// usage: race first|messages|others|right|endless|capture [ROUNDS] [VARIANT]
#include <mpi.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "race_scene.hpp"

namespace {

using namespace weft::test::race;  // NOLINT(google-build-using-namespace): the other half of this test
using weft::test::Buffer;
using weft::test::cuda;
using weft::test::Stream;

/// Rank 0 sends, rank 1 receives, in the forms of point-to-point communication.
using Form = std::function<int(void*)>;
struct NamedForm {
  const char* call;
  Form run;
};
int wait_for(MPI_Request& request, int started) {
  return started != MPI_SUCCESS ? started : MPI_Wait(&request, MPI_STATUS_IGNORE);
}
const std::vector<NamedForm>& sends() {
  static const std::vector<NamedForm> forms = {
      {"MPI_Send", [](void* p) { return MPI_Send(p, kCount, MPI_DOUBLE, 1, 7, MPI_COMM_WORLD); }},
      {"MPI_Ssend", [](void* p) { return MPI_Ssend(p, kCount, MPI_DOUBLE, 1, 7, MPI_COMM_WORLD); }},
      {"MPI_Bsend", [](void* p) { return MPI_Bsend(p, kCount, MPI_DOUBLE, 1, 7, MPI_COMM_WORLD); }},
      {"MPI_Isend",
       [](void* p) {
         MPI_Request request;
         return wait_for(request, MPI_Isend(p, kCount, MPI_DOUBLE, 1, 7, MPI_COMM_WORLD, &request));
       }},
      {"MPI_Start",
       [](void* p) {
         MPI_Request request;
         MPI_Send_init(p, kCount, MPI_DOUBLE, 1, 7, MPI_COMM_WORLD, &request);
         const int code = wait_for(request, MPI_Start(&request));
         MPI_Request_free(&request);
         return code;
       }},
      {"MPI_Sendrecv",
       [](void* p) {
         return MPI_Sendrecv(p, kCount, MPI_DOUBLE, 1, 7, nullptr, 0, MPI_INT, MPI_PROC_NULL, 0,
                             MPI_COMM_WORLD, MPI_STATUS_IGNORE);
       }},
      {"MPI_Isendrecv",
       [](void* p) {
         MPI_Request request;
         return wait_for(request, MPI_Isendrecv(p, kCount, MPI_DOUBLE, 1, 7, nullptr, 0, MPI_INT,
                                                MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request));
       }},
      {"MPI_Sendrecv_replace", [](void* p) {
         return MPI_Sendrecv_replace(p, kCount, MPI_DOUBLE, 1, 7, MPI_PROC_NULL, 0, MPI_COMM_WORLD,
                                     MPI_STATUS_IGNORE);
       }}};
  return forms;
}
const std::vector<NamedForm>& receives() {
  static const std::vector<NamedForm> forms = {
      {"MPI_Recv",
       [](void* p) { return MPI_Recv(p, kCount, MPI_DOUBLE, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE); }},
      {"MPI_Irecv",
       [](void* p) {
         MPI_Request request;
         return wait_for(request,
                         MPI_Irecv(p, kCount, MPI_DOUBLE, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &request));
       }},
      {"MPI_Start",
       [](void* p) {
         MPI_Request request;
         MPI_Recv_init(p, kCount, MPI_DOUBLE, 1, 7, MPI_COMM_WORLD, &request);
         const int code = wait_for(request, MPI_Start(&request));
         MPI_Request_free(&request);
         return code;
       }},
      {"MPI_Mrecv",
       [](void* p) {
         MPI_Message message;
         MPI_Mprobe(1, 7, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
         return MPI_Mrecv(p, kCount, MPI_DOUBLE, &message, MPI_STATUS_IGNORE);
       }},
      {"MPI_Irecv", [](void* p) {  // by MPI_Test, and larger than the message
         MPI_Request request;
         int done = 0, code = MPI_Irecv(p, 2 * kCount, MPI_DOUBLE, 1, 7, MPI_COMM_WORLD, &request);
         while (code == MPI_SUCCESS && !done) code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
         return code;
       }}};
  return forms;
}

void receive_plain(const Scene& scene) {
  MPI_Recv(scene.data(), kCount, MPI_DOUBLE, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
void send_plain(const Scene& scene) { MPI_Send(scene.data(), kCount, MPI_DOUBLE, 0, 7, MPI_COMM_WORLD); }

/// The first message of the process: nothing of the library exists on the GPU.
void test_first(const Variant& variant) {
  Scene scene(variant);
  if (rank == 0) scene.write(scene.data());
  if (rank == 0) expect_race(sends()[0].run(scene.data()), "MPI_Send", scene.data(), "the first message");
  if (rank == 1) receive_plain(scene);
}

void test_messages(const Variant& variant, int rounds) {
  Scene scene(variant);
  const std::string name = variant.name;
  for (int i = 0; i < 2; ++i) {  // the first messages of a kind of memory allocate, and so wait for kernels
    if (rank == 0) expect_none(sends()[0].run(scene.data()), name + ", warm-up");
    if (rank == 1) receive_plain(scene);
    if (rank == 0) expect_none(receives()[0].run(scene.data()), name + ", warm-up");
    if (rank == 1) send_plain(scene);
  }
  for (int round = 0; round < rounds; ++round) {
    for (const NamedForm& form : sends()) {
      scene.reset();
      MPI_Barrier(MPI_COMM_WORLD);
      if (rank == 0) {
        scene.write(scene.data());
        expect_race(form.run(scene.data()), form.call, scene.data(), name);
        scene.wait();
        expect_none(form.run(scene.data()), name + ", after synchronisation");
      } else {
        receive_plain(scene);
        receive_plain(scene);
        expect(scene.buffer.read(0, kBytes) == weft::test::pattern(kBytes, 99), name + ": wrong data");
      }
    }
    for (const NamedForm& form : receives()) {
      scene.reset();
      MPI_Barrier(MPI_COMM_WORLD);
      if (rank == 0) {
        scene.write(scene.data(), 250);  // longer than the message takes on a busy machine
        expect_race(form.run(scene.data()), form.call, scene.data(), name);
        scene.wait();
        expect_none(form.run(scene.data()), name + ", after synchronisation");
      } else {
        send_plain(scene);
        send_plain(scene);
      }
    }
  }
}

/// Collectives, one-sided operations and files, with one variant.
void test_others(const Variant& variant) {
  Scene scene(variant);
  Buffer other(Buffer::Kind::device, 2 * kBytes, device);
  MPI_Win win;
  MPI_Win_create(other.data(), 2 * kBytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
  MPI_File file;
  MPI_File_open(MPI_COMM_SELF, ("race." + std::to_string(rank)).c_str(),
                MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
  const MPI_Comm world = MPI_COMM_WORLD;
  const int half = kCount / ranks;
  char* const out = other.data();
  struct Case {
    const char* call;
    Form run;
    bool result = false;  // the output is overwritten
    bool in_place = false;
  };
  const std::vector<Case> cases = {
      {"MPI_Allreduce", [&](void* p) { return MPI_Allreduce(p, out, kCount, MPI_DOUBLE, MPI_MAX, world); }},
      {"MPI_Allreduce",
       [&](void* p) { return MPI_Allreduce(MPI_IN_PLACE, p, kCount, MPI_DOUBLE, MPI_MAX, world); }},
      {"MPI_Allreduce", [&](void* p) { return MPI_Allreduce(out, p, kCount, MPI_DOUBLE, MPI_MAX, world); },
       true},
      {"MPI_Bcast", [&](void* p) { return MPI_Bcast(p, kCount, MPI_DOUBLE, 0, world); }},
      {"MPI_Bcast", [&](void* p) { return MPI_Bcast(p, kCount, MPI_DOUBLE, ranks - 1, world); }, true},
      {"MPI_Reduce", [&](void* p) { return MPI_Reduce(p, out, kCount, MPI_DOUBLE, MPI_MAX, 0, world); }},
      {"MPI_Gather",
       [&](void* p) { return MPI_Gather(p, half, MPI_DOUBLE, out, half, MPI_DOUBLE, ranks - 1, world); }},
      {"MPI_Scatter",
       [&](void* p) { return MPI_Scatter(p, half, MPI_DOUBLE, out, half, MPI_DOUBLE, 0, world); }},
      {"MPI_Allgather",
       [&](void* p) { return MPI_Allgather(p, half, MPI_DOUBLE, out, half, MPI_DOUBLE, world); }},
      {"MPI_Allgather",
       [&](void* p) { return MPI_Allgather(out, half, MPI_DOUBLE, p, half, MPI_DOUBLE, world); }, true},
      {"MPI_Alltoall",
       [&](void* p) { return MPI_Alltoall(p, half, MPI_DOUBLE, out, half, MPI_DOUBLE, world); }},
      {"MPI_Reduce_scatter_block",
       [&](void* p) { return MPI_Reduce_scatter_block(p, out, half, MPI_DOUBLE, MPI_MAX, world); }},
      {"MPI_Iallreduce",
       [&](void* p) {
         MPI_Request request;
         return wait_for(request, MPI_Iallreduce(p, out, kCount, MPI_DOUBLE, MPI_MAX, world, &request));
       }},
      {"MPI_Iallreduce",
       [&](void* p) {
         MPI_Request request;
         return wait_for(request, MPI_Iallreduce(out, p, kCount, MPI_DOUBLE, MPI_MAX, world, &request));
       },
       true},
      {"MPI_Start",
       [&](void* p) {
         MPI_Request request;
         MPI_Allreduce_init(p, out, kCount, MPI_DOUBLE, MPI_MAX, world, MPI_INFO_NULL, &request);
         const int code = wait_for(request, MPI_Start(&request));
         MPI_Request_free(&request);
         return code;
       }},
      {"MPI_Put",
       [&](void* p) {
         MPI_Win_fence(0, win);
         const int code =
             rank == 0 ? MPI_Put(p, kCount, MPI_DOUBLE, ranks - 1, 0, kCount, MPI_DOUBLE, win) : MPI_SUCCESS;
         MPI_Win_fence(0, win);
         return code;
       }},
      {"MPI_Accumulate",
       [&](void* p) {
         MPI_Win_fence(0, win);
         const int code = rank == 0 ? MPI_Accumulate(p, kCount, MPI_DOUBLE, ranks - 1, 0, kCount, MPI_DOUBLE,
                                                     MPI_REPLACE, win)
                                    : MPI_SUCCESS;
         MPI_Win_fence(0, win);
         return code;
       }},
      {"MPI_Rput",
       [&](void* p) {
         MPI_Request request;
         MPI_Win_lock_all(0, win);
         const int code = rank == 0 ? wait_for(request, MPI_Rput(p, kCount, MPI_DOUBLE, ranks - 1, 0, kCount,
                                                                 MPI_DOUBLE, win, &request))
                                    : MPI_SUCCESS;
         MPI_Win_unlock_all(win);
         return code;
       }},
      {"MPI_File_write",
       [&](void* p) { return MPI_File_write(file, p, kCount, MPI_DOUBLE, MPI_STATUS_IGNORE); }},
      {"MPI_File_iwrite_at", [&](void* p) {
         MPI_Request request;
         return wait_for(request, MPI_File_iwrite_at(file, 0, p, kCount, MPI_DOUBLE, &request));
       }}};
  for (const Case& one : cases) {
    other.write(weft::test::pattern(2 * kBytes, 3));
    scene.reset();
    // The first call may wait for kernels; the work must last until the call has ended.
    expect_none(one.run(scene.data()), std::string(one.call) + " without queued work");
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) scene.write(scene.data());
    const int code = one.run(scene.data());
    if (rank == 0)
      expect_race(code, one.call, scene.data(), one.result ? "results" : "inputs");
    else
      expect_none(code, std::string(one.call) + " of another rank");
    scene.wait();
    MPI_Barrier(MPI_COMM_WORLD);
    expect_none(one.run(scene.data()), std::string(one.call) + " after synchronisation");
  }
  // Work that is queued between start and completion.
  MPI_Request request;
  scene.reset();
  MPI_Barrier(world);
  MPI_Iallreduce(out, scene.data(), kCount, MPI_DOUBLE, MPI_MAX, world, &request);
  if (rank == 0) scene.write(scene.data(), 500);
  const int waited = MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (rank == 0) expect_race(waited, "MPI_Wait", scene.data(), "results of a nonblocking collective");
  MPI_File_close(&file);
  MPI_Win_free(&win);
}

/// Programs without a race: queued kernels that read the buffer, that write other parts of its allocation or
/// the gaps of a datatype, and other buffers.
void test_right(const Variant& variant) {
  Scene scene(variant);
  Buffer other(Buffer::Kind::device, kBytes, device);
  MPI_Datatype strided;
  MPI_Type_vector(kCount / 2, 1, 2, MPI_DOUBLE, &strided);
  MPI_Type_commit(&strided);
  const auto exchange = [&](int count, MPI_Datatype type, const std::string& what) {
    if (rank == 0) expect_none(MPI_Send(scene.data(), count, type, 1, 7, MPI_COMM_WORLD), what);
    if (rank == 1) receive_plain(scene);
    if (rank == 0)
      expect_none(MPI_Recv(scene.data(), count, type, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE), what);
    if (rank == 1)
      MPI_Send(scene.second(), count * (type == strided ? kCount / 2 : 1), MPI_DOUBLE, 0, 7, MPI_COMM_WORLD);
    scene.wait();
    MPI_Barrier(MPI_COMM_WORLD);
  };
  const std::string name = variant.name;
  scene.write(scene.second());
  exchange(kCount, MPI_DOUBLE, name + ": the other half of the allocation");
  scene.hold();
  copy(scene.stream, other.data(), scene.data());
  exchange(kCount, MPI_DOUBLE, name + ": a kernel that reads");
  scene.write(other.data());
  exchange(kCount, MPI_DOUBLE, name + ": another buffer");
  scene.hold();
  copy(scene.stream, scene.data() + sizeof(double), scene.source.data(), kCount / 2 - 1, 2);
  exchange(1, strided, name + ": the gaps of a datatype");
  // The elements of that datatype.
  scene.hold();
  if (rank == 0) {
    copy(scene.stream, scene.data(), scene.source.data(), kCount / 2 - 1, 2);
    expect_race(MPI_Send(scene.data(), 1, strided, 1, 7, MPI_COMM_WORLD), "MPI_Send", scene.data(),
                "strided");
  } else if (rank == 1) {
    receive_plain(scene);
  }
  MPI_Type_free(&strided);
}

/// Work that does not end in time leaves the call unchecked, and a queued kernel may wait for a message that
/// the same process sends: no deadlock.
void test_endless(const Variant& variant) {
  Scene scene(variant);
  weft::test::FullGpu gpu(device);
  for (int i = 0; i < 10; ++i) {  // the first messages from an allocation may wait for kernels
    if (rank == 0) expect_none(MPI_Send(scene.data(), kCount, MPI_DOUBLE, 1, 7, MPI_COMM_WORLD), "warm-up");
    if (rank == 1) receive_plain(scene);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    gpu.fill();
    if (cuda().emulated()) cuda().kernels(128);
    expect_none(MPI_Send(scene.data(), kCount, MPI_DOUBLE, 1, 7, MPI_COMM_WORLD), "endless work");
    expect(gpu.full(), "the kernel has ended");
    gpu.release();
  } else if (rank == 1) {
    receive_plain(scene);
  }
}

/// A capture of another stream: the call is not checked where that is known; else the check ends.
void test_capture(bool blocking) {
  Scene scene(kVariants[0]);
  Stream captured = nullptr;
  void* graph = nullptr;
  if (rank == 0) {
    succeed(cuda().cuStreamCreate(&captured, blocking ? 0 : kNonBlocking), "cuStreamCreate");
    succeed(cuda().cuStreamBeginCapture_v2(captured, 2), "cuStreamBeginCapture");
    expect_none(MPI_Send(scene.data(), kCount, MPI_DOUBLE, 1, 7, MPI_COMM_WORLD), "capture");
    make_current();
    const bool kept = cuda().cuStreamEndCapture(captured, &graph) == 0;
    expect(kept == blocking, blocking ? "the capture was invalidated" : "the capture is valid");
    if (kept) cuda().cuGraphDestroy(graph);
    cuda().cuStreamDestroy_v2(captured);
  } else if (rank == 1) {
    receive_plain(scene);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "messages";
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 1;
  device = weft::test::own_device();
  make_current();
  load(bench_delay_text, "weft_bench_delay", &delay_kernel);
  load(bench_copy_text, "weft_bench_copy", &copy_kernel);
  if (cuda().emulated()) load("an image", "emucuda_spin", &spin_kernel);
  delay(nullptr, 1, 1, 1);
  Buffer warm(Buffer::Kind::device, 2 * sizeof(double), device);
  copy(nullptr, warm.data(), warm.data() + sizeof(double), 1);  // loads the kernel
  succeed(cuda().cuCtxSynchronize(), "cuCtxSynchronize");
  weft::test::start(argc, argv, rank, ranks);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  static char attached[4 * kBytes];
  MPI_Buffer_attach(attached, sizeof attached);
  for (const Variant& variant : kVariants) {
    if (what == "first" && argc > 3 && std::string(argv[3]) == variant.name) test_first(variant);
    if (what == "messages" && (argc < 4 || std::string(argv[3]) == variant.name))
      test_messages(variant, rounds);
    if (what == "right") test_right(variant);
  }
  if (what == "others") test_others(kVariants[0]);
  if (what == "endless") test_endless(kVariants[0]);
  if (what == "capture") test_capture(true);
  if (what == "capture") test_capture(false);
  return weft::test::finish(failures);
}
