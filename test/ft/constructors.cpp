// SPDX-License-Identifier: BSD-3-Clause
// Functions that make communicators, windows and files, and collectives of intercommunicators, on a
// communicator that is revoked at a random time: all ranks get MPIX_ERR_REVOKED. usage: constructors ROUNDS;
// constructors kill N SEED: a rank dies in call N instead; the survivors get MPIX_ERR_PROC_FAILED. One of
// them prints "good", or "none" if there is no call N. The time limit ends calls that do not end.
#include <mpi.h>
#include <signal.h>
#include <unistd.h>
#include <weft.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../live_objects.h"

namespace {

constexpr unsigned kMaxDelayUs = 3000;

int rank, size, failures = 0;

/// The communicators of a round: one is revoked, or a rank of it dies.
struct Scene {
  MPI_Comm comm = MPI_COMM_NULL;                        ///< of all ranks, or between the halves
  MPI_Comm halves[2] = {MPI_COMM_NULL, MPI_COMM_NULL};  ///< that of this rank's half: not revoked; comm's
  char port[MPI_MAX_PORT_NAME] = "";                    ///< of rank 0; nobody accepts or connects
  [[nodiscard]] int half() const { return rank % 2; }
};

int class_of(int code) {
  int error_class = MPI_SUCCESS;
  if (code != MPI_SUCCESS) MPI_Error_class(code, &error_class);
  return error_class;
}

int kept(int code, MPI_Comm& made) {
  if (code == MPI_SUCCESS && made != MPI_COMM_NULL) MPI_Comm_free(&made);
  return code;
}

int finished(int code, MPI_Request& request) {
  return code == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code;
}

MPI_Group evens_or_odds(MPI_Comm comm) {
  MPI_Group all, mine;
  int n, me;
  MPI_Comm_group(comm, &all);
  MPI_Group_size(all, &n);
  MPI_Group_rank(all, &me);
  std::vector<int> members;
  for (int i = me % 2; i < n; i += 2) members.push_back(i);
  MPI_Group_incl(all, static_cast<int>(members.size()), members.data(), &mine);
  MPI_Group_free(&all);
  return mine;
}

int cart(MPI_Comm comm, MPI_Comm* made) {
  const int periodic = 1;
  return MPI_Cart_create(comm, 1, &size, &periodic, 0, made);
}

struct Kind {
  const char* name;
  enum class On {
    all,
    halves,
    once
  } on;  ///< once: it ends on ranks that are not concerned, so it is called once
  int (*call)(Scene& scene);
  bool revokes = false;  ///< a free after a failure revokes: other ranks learn of that first
};

using On = Kind::On;
const Kind kKinds[] = {
    {"MPI_Comm_dup", On::all,
     [](Scene& s) {
       MPI_Comm made;
       return kept(MPI_Comm_dup(s.comm, &made), made);
     }},
    {"MPI_Comm_dup_with_info", On::all,
     [](Scene& s) {
       MPI_Comm made;
       return kept(MPI_Comm_dup_with_info(s.comm, MPI_INFO_NULL, &made), made);
     }},
    {"MPI_Comm_idup", On::all,
     [](Scene& s) {
       MPI_Comm made;
       MPI_Request request;
       return kept(finished(MPI_Comm_idup(s.comm, &made, &request), request), made);
     }},
    {"MPI_Comm_split", On::all,
     [](Scene& s) {
       MPI_Comm made;
       return kept(MPI_Comm_split(s.comm, rank % 2, -rank, &made), made);
     }},
    {"MPI_Comm_split_type", On::all,
     [](Scene& s) {
       MPI_Comm made;
       return kept(MPI_Comm_split_type(s.comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &made), made);
     }},
    {"MPI_Comm_create", On::all,
     [](Scene& s) {
       MPI_Comm made;
       MPI_Group group = evens_or_odds(s.comm);
       const int code = kept(MPI_Comm_create(s.comm, group, &made), made);
       MPI_Group_free(&group);
       return code;
     }},
    {"MPI_Comm_create_group", On::all,
     [](Scene& s) {
       MPI_Comm made;
       MPI_Group group;
       MPI_Comm_group(s.comm, &group);
       const int code = kept(MPI_Comm_create_group(s.comm, group, 1, &made), made);
       MPI_Group_free(&group);
       return code;
     }},
    {"MPI_Cart_create", On::all,
     [](Scene& s) {
       MPI_Comm made;
       return kept(cart(s.comm, &made), made);
     }},
    {"MPI_Graph_create", On::all,
     [](Scene& s) {
       MPI_Comm made;
       std::vector<int> index(static_cast<size_t>(size)), edges(static_cast<size_t>(size), 0);
       std::iota(index.begin(), index.end(), 1);
       return kept(MPI_Graph_create(s.comm, size, index.data(), edges.data(), 1, &made), made);
     }},
    {"MPI_Dist_graph_create", On::all,
     [](Scene& s) {
       MPI_Comm made;
       const int degree = 1, destination = (rank + 1) % size;
       return kept(MPI_Dist_graph_create(s.comm, 1, &rank, &degree, &destination, MPI_UNWEIGHTED,
                                         MPI_INFO_NULL, 0, &made),
                   made);
     }},
    {"MPI_Dist_graph_create_adjacent", On::all,
     [](Scene& s) {
       MPI_Comm made;
       const int from = (rank + size - 1) % size, to = (rank + 1) % size;
       return kept(MPI_Dist_graph_create_adjacent(s.comm, 1, &from, MPI_UNWEIGHTED, 1, &to, MPI_UNWEIGHTED,
                                                  MPI_INFO_NULL, 0, &made),
                   made);
     }},
    {"MPIX_Stream_comm_create", On::all,
     [](Scene& s) {
       MPI_Comm made;
       return kept(MPIX_Stream_comm_create(s.comm, MPIX_STREAM_NULL, &made), made);
     }},
    {"MPIX_Stream_comm_create_multiplex", On::all,
     [](Scene& s) {
       MPI_Comm made;
       MPIX_Stream streams[2] = {MPIX_STREAM_NULL, MPIX_STREAM_NULL};
       return kept(MPIX_Stream_comm_create_multiplex(s.comm, 2, streams, &made), made);
     }},
    {"MPI_Win_allocate", On::all,
     [](Scene& s) {
       MPI_Win made;
       char* memory;
       const int code = MPI_Win_allocate(8, 1, MPI_INFO_NULL, s.comm, static_cast<void*>(&memory), &made);
       if (code != MPI_SUCCESS) return code;
       MPI_Win_set_errhandler(made, MPI_ERRORS_RETURN);
       return MPI_Win_free(&made);
     },
     true},
    {"MPI_File_open", On::all,
     [](Scene& s) {
       MPI_File made;
       const std::string name = "constructors." + std::to_string(::getppid()) + ".data";
       const int mode = MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE;
       const int code = MPI_File_open(s.comm, name.c_str(), mode, MPI_INFO_NULL, &made);
       if (code != MPI_SUCCESS) return code;
       MPI_File_set_errhandler(made, MPI_ERRORS_RETURN);
       return MPI_File_close(&made);
     },
     true},
    {"MPI_Comm_accept", On::all,
     [](Scene& s) {
       MPI_Comm made;
       return kept(MPI_Comm_accept(s.port, MPI_INFO_NULL, 0, s.comm, &made), made);
     }},
    {"MPI_Intercomm_create, bridge", On::all,
     [](Scene& s) {
       MPI_Comm made;
       return kept(MPI_Intercomm_create(s.halves[0], 0, s.comm, 1 - s.half(), 5, &made), made);
     }},
    {"MPI_Intercomm_create, half", On::once,
     [](Scene& s) {
       MPI_Comm made;
       const MPI_Comm own = s.half() == 0 ? s.comm : s.halves[0];
       return kept(MPI_Intercomm_create(own, 0, MPI_COMM_WORLD, 1 - s.half(), 5, &made), made);
     }},
    {"MPI_Intercomm_merge", On::halves,
     [](Scene& s) {
       MPI_Comm made;
       return kept(MPI_Intercomm_merge(s.comm, s.half(), &made), made);
     }},
    {"MPI_Comm_dup of an intercommunicator", On::halves,
     [](Scene& s) {
       MPI_Comm made;
       return kept(MPI_Comm_dup(s.comm, &made), made);
     }},
    {"MPI_Comm_idup of an intercommunicator", On::halves,
     [](Scene& s) {
       MPI_Comm made;
       MPI_Request request;
       return kept(finished(MPI_Comm_idup(s.comm, &made, &request), request), made);
     }},
    {"MPI_Comm_split of an intercommunicator", On::halves,
     [](Scene& s) {
       MPI_Comm made;
       return kept(MPI_Comm_split(s.comm, rank / 2 % 2, rank, &made), made);
     }},
    {"MPI_Comm_create of an intercommunicator", On::halves,
     [](Scene& s) {
       MPI_Comm made;
       MPI_Group group;
       MPI_Comm_group(s.comm, &group);
       const int code = kept(MPI_Comm_create(s.comm, group, &made), made);
       MPI_Group_free(&group);
       return code;
     }},
    {"MPI_Allreduce of an intercommunicator", On::halves,
     [](Scene& s) {
       int sum = 0;
       return MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, s.comm);
     }},
    {"MPI_Iallreduce of an intercommunicator", On::halves,
     [](Scene& s) {
       int sum = 0;
       MPI_Request request;
       const int code = MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, s.comm, &request);
       return finished(code, request);
     }},
    {"MPI_Barrier of an intercommunicator", On::halves, [](Scene& s) { return MPI_Barrier(s.comm); }},
    {"MPI_Bcast of an intercommunicator", On::halves,
     [](Scene& s) {
       int word = rank;
       const int root = s.half() == 1 ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
       const int code = MPI_Bcast(&word, 1, MPI_INT, root, s.comm);
       return code == MPI_SUCCESS ? MPI_Barrier(s.comm) : code;
     }},
};

Scene make(const Kind& kind) {
  Scene scene;
  const auto returns = [](MPI_Comm comm) { MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN); };
  MPI_Comm_split(MPI_COMM_WORLD, scene.half(), 0, &scene.halves[0]);
  MPI_Comm_dup(scene.halves[0], &scene.halves[1]);
  returns(scene.halves[0]);
  if (kind.on == On::all)
    MPI_Comm_dup(MPI_COMM_WORLD, &scene.comm);
  else if (kind.on == On::halves)
    MPI_Intercomm_create(scene.halves[1], 0, MPI_COMM_WORLD, 1 - scene.half(), 6, &scene.comm);
  else
    std::swap(scene.comm, scene.halves[1]);
  returns(scene.comm);
  if (rank == 0) MPI_Open_port(MPI_INFO_NULL, scene.port);
  MPI_Barrier(MPI_COMM_WORLD);
  return scene;
}

void free(Scene& scene) {
  if (rank == 0) MPI_Close_port(scene.port);
  for (MPI_Comm* comm : {&scene.comm, &scene.halves[0], &scene.halves[1]})
    if (*comm != MPI_COMM_NULL) MPI_Comm_free(comm);
}

/// Calls until an error, which must be of the class.
void run(const Kind& kind, Scene& scene, int wanted, const std::string& when) {
  int code = MPI_SUCCESS;
  do code = kind.call(scene);
  while (code == MPI_SUCCESS && kind.on != On::once);
  const int found = class_of(code);
  if (found == wanted || (kind.revokes && found == MPIX_ERR_REVOKED) ||
      (kind.on == On::once && found == MPI_SUCCESS))
    return;
  ++failures;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  std::fprintf(stderr, "rank %d, %s%s: %s\n", rank, kind.name, when.c_str(), text);
}

void revoke(int rounds) {
  std::mt19937 common(1);
  for (int round = 0; round < rounds; ++round) {
    const Kind& kind = kKinds[static_cast<size_t>(round) % std::size(kKinds)];
    Scene scene = make(kind);
    const bool revokes = static_cast<int>(common() % static_cast<unsigned>(size)) == rank;
    const auto delay = common() % kMaxDelayUs;
    std::thread revoker;
    if (revokes)
      revoker = std::thread([&] {
        ::usleep(delay);
        MPIX_Comm_revoke(scene.comm);
      });
    run(kind, scene, MPIX_ERR_REVOKED, ", round " + std::to_string(round));
    if (revoker.joinable()) revoker.join();
    free(scene);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  // No process is started.
  MPI_Comm comm, children = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPIX_Comm_revoke(comm);
  const int code =
      MPI_Comm_spawn("/bin/false", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, comm, &children, MPI_ERRCODES_IGNORE);
  if (class_of(code) != MPIX_ERR_REVOKED || children != MPI_COMM_NULL) {
    ++failures;
    std::fprintf(stderr, "rank %d, MPI_Comm_spawn: class %d\n", rank, class_of(code));
  }
  MPI_Comm_free(&comm);
}

/// The victim is a leader of a half, or another rank, by the time.
void kill_one(const Kind& kind, unsigned seed) {
  std::mt19937 common(seed);
  Scene scene = make(kind);
  const bool dies = static_cast<int>(common() % static_cast<unsigned>(size)) == rank;
  const auto delay = common() % kMaxDelayUs;
  if (dies)
    std::thread([&] {
      ::usleep(delay);
      ::raise(SIGKILL);
    }).detach();
  run(kind, scene, MPIX_ERR_PROC_FAILED, "");
  if (dies)
    for (;;) pause();
  MPI_Comm survivors;
  MPIX_Comm_shrink(MPI_COMM_WORLD, &survivors);
  int first = 0;
  MPI_Comm_rank(survivors, &first);
  MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, survivors);
  if (first == 0 && failures == 0) std::puts("good");
}

}  // namespace

int main(int argc, char** argv) {
  ends_with_live_objects = 1;  // of communicators with failed ranks
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (argc > 2 && std::strcmp(argv[1], "kill") == 0) {
    const auto n = static_cast<size_t>(std::atoi(argv[2]));
    if (n < std::size(kKinds))
      kill_one(kKinds[n], argc > 3 ? static_cast<unsigned>(std::atoi(argv[3])) : 1);
    else if (rank == 0)
      std::puts("none");
  } else {
    revoke(argc > 1 ? std::atoi(argv[1]) : 10 * static_cast<int>(std::size(kKinds)));
  }
  MPI_Finalize();
  return failures != 0;
}
