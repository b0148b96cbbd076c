// SPDX-License-Identifier: BSD-3-Clause
// A tool that wraps PMPI_ functions at their addresses in all libraries libmpi*.so* sees no call between
// Weft's libraries, whose handles belong to another interface: the functions of libmpi_abi.so.1 begin with a
// trap here.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "expect.h"

static const char* const kFunctions[] = {"Init",  "Comm_rank", "Comm_size", "Type_size",
                                         "Send",  "Recv",      "Allreduce", "Barrier",
                                         "Isend", "Wait",      "Finalize",  "Get_count"};
static char library[4096];

static int find_library(struct dl_phdr_info* object, size_t size, void* unused) {
  const char* const name = strrchr(object->dlpi_name, '/');
  if (name != NULL && strcmp(name, "/libmpi_abi.so.1") == 0)
    snprintf(library, sizeof library, "%s", object->dlpi_name);
  return 0;
}

static void* address_of(void* handle, const char* name) {
  char symbol[64];
  snprintf(symbol, sizeof symbol, "PMPI_%s", name);
  return dlsym(handle, symbol);
}

static void trapped(int number) {
  static const char kText[] = "a call between libraries of Weft went to a PMPI_ function\n";
  if (write(STDERR_FILENO, kText, sizeof kText - 1) < 0) _exit(4);
  _exit(3);
}

static void set_trap(unsigned char* code) {
  const uintptr_t page = (uintptr_t)code & ~(uintptr_t)(getpagesize() - 1);
  if (mprotect((void*)page, 2 * (size_t)getpagesize(), PROT_READ | PROT_WRITE | PROT_EXEC) != 0) return;
#if defined(__x86_64__)
  *code = 0xcc;
#elif defined(__aarch64__)
  *(uint32_t*)code = 0xd4200000;
  __builtin___clear_cache((char*)code, (char*)code + 4);
#endif
}

int main(int argc, char** argv) {
  dl_iterate_phdr(find_library, NULL);
  void* const handle = dlopen(library, RTLD_NOLOAD | RTLD_LAZY);
  EXPECT(handle != NULL);
  for (size_t i = 0; i < sizeof kFunctions / sizeof kFunctions[0]; ++i) {
    unsigned char* const code = address_of(handle, kFunctions[i]);
    EXPECT(code != NULL);
    set_trap(code);
  }
  signal(SIGTRAP, trapped);

  begin(&argc, &argv);
  int size, sum, received, count;
  OK(MPI_Type_size(MPI_INT, &size));
  EXPECT(size == sizeof(int));
  OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
  EXPECT(sum == ranks * (ranks - 1) / 2);
  MPI_Request request;
  MPI_Status status;
  OK(MPI_Isend(&rank, 1, MPI_INT, (rank + 1) % ranks, 0, MPI_COMM_WORLD, &request));
  OK(MPI_Recv(&received, 1, MPI_INT, (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD, &status));
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  OK(MPI_Get_count(&status, MPI_INT, &count));
  EXPECT(received == (rank + ranks - 1) % ranks && count == 1);
  return end();
}
