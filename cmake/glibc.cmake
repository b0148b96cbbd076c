# SPDX-License-Identifier: BSD-3-Clause
# weft_portable(targets...): the binaries run with glibc 2.28 and newer (RHEL 8, Debian 10), whichever glibc builds them.
# Since 2.34 the linker records newer versions of old functions; here it finds the old versions first, in stub libraries
# that exist for linking only. cmake/glibc/functions.c has the functions that glibc 2.28 lacks, start.c the start of
# programs. test/setup/glibc.py checks the result.
set(portable OFF)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64" AND NOT WEFT_SANITIZE AND NOT WEFT_COVERAGE)
  execute_process(COMMAND ${CMAKE_C_COMPILER} -dumpmachine OUTPUT_VARIABLE machine ERROR_QUIET)
  if(machine MATCHES "linux-gnu")
    set(portable ON)
  endif()
endif()
option(WEFT_PORTABLE "Build for glibc 2.28 and newer" ${portable})

set(stubs_libpthread.so.0
    GLIBC_2.2.5 __pthread_key_create pthread_attr_getstack pthread_create pthread_detach pthread_getattr_np
    pthread_barrier_destroy pthread_barrier_init pthread_barrier_wait pthread_getspecific pthread_join
    pthread_key_create pthread_key_delete pthread_kill pthread_mutex_trylock pthread_once pthread_rwlock_rdlock
    pthread_rwlock_unlock pthread_rwlock_wrlock pthread_setspecific pthread_sigmask
    GLIBC_2.3.3 __pthread_register_cancel __pthread_unregister_cancel __pthread_unwind_next
    GLIBC_2.3.4 pthread_getaffinity_np pthread_setaffinity_np
    GLIBC_2.12 pthread_setname_np)
set(stubs_libdl.so.2 GLIBC_2.2.5 dladdr dlclose dlerror dlopen dlsym GLIBC_2.3.3 dlinfo)

function(add_stubs library)
  set(code "")
  set(versions "")
  foreach(word ${stubs_${library}})
    if(word MATCHES "^GLIBC_")
      string(APPEND versions "} ${word} {\n")
    else()
      string(APPEND versions "  ${word};\n")
      string(APPEND code "void ${word}(void) {}\n")
    endif()
  endforeach()
  string(REGEX REPLACE "^} " "" versions "${versions}}")
  string(REGEX REPLACE "}( [^{]*{|$)" "};\\1" versions "${versions}")
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/glibc/${library}.c CONTENT "${code}")
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/glibc/${library}.map CONTENT "${versions}\n")
  add_library(weft_${library} SHARED ${CMAKE_BINARY_DIR}/glibc/${library}.c)
  set_target_properties(weft_${library} PROPERTIES OUTPUT_NAME stub-${library} NO_SONAME ON
                        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/glibc)
  target_compile_options(weft_${library} PRIVATE -fno-builtin -w -fvisibility=default)
  target_link_options(weft_${library} PRIVATE -nostdlib LINKER:-soname,${library}
                      LINKER:--version-script=${CMAKE_BINARY_DIR}/glibc/${library}.map)
endfunction()

if(WEFT_PORTABLE)
  add_stubs(libpthread.so.0)
  add_stubs(libdl.so.2)
  add_library(weft_glibc_functions OBJECT ${CMAKE_SOURCE_DIR}/cmake/glibc/functions.c)
  add_library(weft_glibc_start OBJECT ${CMAKE_SOURCE_DIR}/cmake/glibc/start.c)
endif()

function(weft_portable)
  if(NOT WEFT_PORTABLE)
    return()
  endif()
  foreach(target ${ARGN})
    add_dependencies(${target} weft_libpthread.so.0 weft_libdl.so.2)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:weft_glibc_functions>)
    # Behind all objects, before the implicit libraries.
    target_link_libraries(${target} PRIVATE -Wl,--push-state,--no-as-needed $<TARGET_FILE:weft_libpthread.so.0>
                          $<TARGET_FILE:weft_libdl.so.2> -Wl,--pop-state)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "EXECUTABLE")
      target_sources(${target} PRIVATE $<TARGET_OBJECTS:weft_glibc_start>)
    endif()
  endforeach()
endfunction()
