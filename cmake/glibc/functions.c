// SPDX-License-Identifier: BSD-3-Clause
// Functions that glibc 2.28 lacks and that this library or the static libstdc++ and libgcc call. They are
// hidden: each binary has its own.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))

// Exported since 2.33; before, the headers had them inline. The kernel's struct stat is glibc's on 64-bit
// machines.
HIDDEN int stat(const char* path, struct stat* result) {
  return (int)syscall(SYS_newfstatat, AT_FDCWD, path, result, 0);
}
HIDDEN int lstat(const char* path, struct stat* result) {
  return (int)syscall(SYS_newfstatat, AT_FDCWD, path, result, AT_SYMLINK_NOFOLLOW);
}
HIDDEN int fstat(int descriptor, struct stat* result) { return (int)syscall(SYS_fstat, descriptor, result); }
HIDDEN int stat64(const char* path, struct stat64* result) {
  return (int)syscall(SYS_newfstatat, AT_FDCWD, path, result, 0);
}
HIDDEN int fstat64(int descriptor, struct stat64* result) {
  return (int)syscall(SYS_fstat, descriptor, result);
}

// Since 2.36; std::random_device calls it, which has no other source where libstdc++ was built with it.
HIDDEN uint32_t arc4random(void) {
  uint32_t value = 0;
  while (getrandom(&value, sizeof value, 0) != sizeof value) {
  }
  return value;
}

// Since 2.32: whether std::shared_ptr may count without atomic operations. Never here.
extern char __libc_single_threaded;
HIDDEN char __libc_single_threaded = 0;

#if __GLIBC_PREREQ(2, 35)
// Since 2.35: the object that contains an address, for the unwinder in libgcc.
struct search {
  uintptr_t address;
  struct dl_find_object* result;
};

static int find_in(struct dl_phdr_info* info, size_t size, void* data) {
  (void)size;
  const struct search* search = data;
  uintptr_t first = UINTPTR_MAX, end = 0;
  void* frames = NULL;
  int contains = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)* part = &info->dlpi_phdr[i];
    const uintptr_t begin = info->dlpi_addr + part->p_vaddr;
    if (part->p_type == PT_GNU_EH_FRAME) frames = (void*)begin;
    if (part->p_type != PT_LOAD) continue;
    if (begin < first) first = begin;
    if (begin + part->p_memsz > end) end = begin + part->p_memsz;
    if (search->address >= begin && search->address < begin + part->p_memsz) contains = 1;
  }
  if (!contains || frames == NULL) return 0;
  *search->result = (struct dl_find_object){
      .dlfo_map_start = (void*)first, .dlfo_map_end = (void*)end, .dlfo_eh_frame = frames};
  return 1;
}

HIDDEN int _dl_find_object(void* address, struct dl_find_object* result) {
  struct search search = {(uintptr_t)address, result};
  return dl_iterate_phdr(find_in, &search) == 1 ? 0 : -1;
}
#endif
