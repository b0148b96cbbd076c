// SPDX-License-Identifier: BSD-3-Clause
// Every blocking call, and loops of the others, end with an error of the right class soon after the last rank
// revokes the communicator, window or file (blocking_calls revoke) or is killed (blocking_calls kill: the
// last live rank in each call). usage: blocking_calls WHAT [FIRST COUNT]: some of the calls.
// TEST_MEMORY=device: on GPU memory. TEST_ONLY: cases whose names contain the text. TEST_LIMIT: seconds that
// a call may take.
#include "blocking_calls.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

using weft::test::Case;
using weft::test::Scene;

/// Seconds until the error; most calls take less than 0.1.
double limit() {
  static const char* const given = std::getenv("TEST_LIMIT");
  return given != nullptr ? std::atof(given) : 1;
}
constexpr unsigned kHangSeconds = 8;

const char* running = "";

void on_alarm(int) {
  (void)!write(STDERR_FILENO, running, strlen(running));
  const char text[] = ": the call never ends\n";
  (void)!write(STDERR_FILENO, text, sizeof text - 1);
  _exit(1);
}

int class_of(int code) {
  int found = MPI_SUCCESS;
  MPI_Error_class(code, &found);
  return found;
}

void revoke(Scene& scene) {
  if (scene.win != MPI_WIN_NULL)
    MPIX_Win_revoke(scene.win);
  else if (scene.file != MPI_FILE_NULL)
    MPIX_File_revoke(scene.file);
  else
    MPIX_Comm_revoke(scene.comm);
}

/// Rank 0 makes the call; the last rank ends it. Returns whether the call ended as it should.
bool run(const Case& of, MPI_Comm base, bool kills) {
  Scene scene(base, of.flavor);
  running = of.name;
  alarm(kHangSeconds);
  const bool last = scene.rank == scene.size - 1;
  if (of.prepare != nullptr) of.prepare(scene, last);
  MPI_Barrier(base);
  bool right = true;
  if (scene.rank == 0) {
    const double start = MPI_Wtime();
    const int code = weft::test::until_error(of, scene, 4 * limit());
    const double time = MPI_Wtime() - start;
    const int found = class_of(code);
    const int wanted = kills ? MPIX_ERR_PROC_FAILED : MPIX_ERR_REVOKED;
    right = (found == wanted || (kills && found == MPIX_ERR_REVOKED)) && time < limit();
    if (!right) {
      char text[MPI_MAX_ERROR_STRING] = "no error";
      int length = 0;
      if (code != MPI_SUCCESS) MPI_Error_string(code, text, &length);
      std::printf("%s: after %.2f s %s\n", of.name, time, text);
      std::fflush(stdout);
    }
  } else if (last) {
    usleep(15000);
    if (kills) kill(getpid(), SIGKILL);
    revoke(scene);
  }
  if (!kills) MPI_Barrier(base);
  alarm(0);
  scene.free();
  return right;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(nullptr, nullptr);
  signal(SIGALRM, on_alarm);
  const bool kills = argc > 1 && std::strcmp(argv[1], "kill") == 0;
  const char* const only = std::getenv("TEST_ONLY");
  std::vector<const Case*> chosen;
  for (const Case& one : weft::test::cases())
    if ((one.of_failures || !kills) && (only == nullptr || std::strstr(one.name, only) != nullptr))
      chosen.push_back(&one);
  const size_t first = argc > 2 ? static_cast<size_t>(std::atoi(argv[2])) : 0;
  const size_t end =
      argc > 3 ? std::min(chosen.size(), first + static_cast<size_t>(std::atoi(argv[3]))) : chosen.size();
  MPI_Comm base = MPI_COMM_WORLD;
  MPI_Comm_set_errhandler(base, MPI_ERRORS_RETURN);
  int wrong = 0, rank = 0;
  MPI_Comm_rank(base, &rank);
  for (size_t i = first; i < end; ++i) {
    wrong += run(*chosen[i], base, kills) ? 0 : 1;
    if (!kills) continue;
    MPI_Comm next;
    MPIX_Comm_shrink(base, &next);
    if (base != MPI_COMM_WORLD) MPI_Comm_free(&base);
    base = next;
    MPI_Comm_set_errhandler(base, MPI_ERRORS_RETURN);
  }
  if (rank == 0) std::printf("%d of %zu calls wrong\n", wrong, chosen.size());
  MPI_Finalize();
  return wrong == 0 ? 0 : 1;
}
