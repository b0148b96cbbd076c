// SPDX-License-Identifier: BSD-3-Clause
// The start of a program that was linked with glibc 2.34 or newer and runs with an older one. The new crt1.o
// leaves the constructors of the program to __libc_start_main; the old one calls the function that it is
// given for them.
typedef void (*function)(void);
typedef void (*constructor)(int argc, char** argv, char** environment);
extern const constructor __preinit_array_start[] __attribute__((visibility("hidden")));
extern const constructor __preinit_array_end[] __attribute__((visibility("hidden")));
extern const constructor __init_array_start[] __attribute__((visibility("hidden")));
extern const constructor __init_array_end[] __attribute__((visibility("hidden")));
extern void _init(void) __attribute__((visibility("hidden")));

int weft_old_start(int (*main)(int, char**, char**), int argc, char** argv, constructor init, function fini,
                   function rtld_fini, void* stack_end);
__asm__(".symver weft_old_start, __libc_start_main@GLIBC_2.2.5");

static void construct(int argc, char** argv, char** environment) {
  for (const constructor* each = __preinit_array_start; each < __preinit_array_end; ++each)
    (*each)(argc, argv, environment);
  _init();
  for (const constructor* each = __init_array_start; each < __init_array_end; ++each)
    (*each)(argc, argv, environment);
}

/// Called by crt1.o. Destructors of the program are in DT_FINI_ARRAY, which rtld_fini runs in all versions.
__attribute__((visibility("hidden"))) int __libc_start_main(int (*main)(int, char**, char**), int argc,
                                                            char** argv, constructor init, function fini,
                                                            function rtld_fini, void* stack_end) {
  (void)init;
  return weft_old_start(main, argc, argv, construct, fini, rtld_fini, stack_end);
}
