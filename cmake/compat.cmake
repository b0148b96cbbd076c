# SPDX-License-Identifier: BSD-3-Clause
# The translation libraries in lib/compat: the binary interfaces of other MPI libraries, on top of libmpi_abi.so.1, which
# they open when they are loaded. libmpi.so.12: MPICH, Intel MPI, MVAPICH; Debian's name of it is libmpich.so.12.
# libmpi.so.40: Open MPI 4 and 5. libmpi.so: one of the two, by the symbols that the program imports.
file(GLOB compat_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/compat/*.cpp)
# Hundreds of small functions that copy attributes and create keys: at -O3 each library takes 7 s to compile.
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/compat/callbacks.cpp PROPERTIES COMPILE_OPTIONS -O1)
function(add_translation interface number)
  set(own ${compat_sources} ${WEFT_COMPAT_SOURCES})
  list(FILTER own INCLUDE REGEX "/${interface}[^/]*$")
  set(shared ${compat_sources})
  list(FILTER shared EXCLUDE REGEX "/(mpich|openmpi)[^/]*$")
  string(TOUPPER ${interface} macro)
  set(target compat_${interface})
  add_library(${target} SHARED ${shared} ${own})
  # The version is part of the suffix, since the folder has several libraries of this name.
  set_target_properties(${target} PROPERTIES OUTPUT_NAME mpi SUFFIX .so.${number} NO_SONAME ON
                        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/compat
                        LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/compat.map)
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_compile_definitions(${target} PRIVATE WEFT_COMPAT_${macro})
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/src ${WEFT_GENERATED_DIR} ${WEFT_GENERATED_DIR}/include ${CMAKE_SOURCE_DIR}/include)
  target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})
  # -Bsymbolic-functions: two of these libraries in one process do not call each other. Objects must remain replaceable: a
  # program may have copies of them.
  target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc LINKER:-soname,libmpi.so.${number}
                      LINKER:-Bsymbolic-functions LINKER:--version-script=${CMAKE_SOURCE_DIR}/cmake/compat.map)
  if(NOT WEFT_SANITIZE)
    target_link_options(${target} PRIVATE LINKER:--no-undefined)
  endif()
  add_dependencies(${target} weft_bindings)
  weft_portable(${target})
endfunction()
add_translation(mpich 12)
add_translation(openmpi 40)

# A further name of MPICH's: a library without code that needs it.
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/compat/empty.c CONTENT "")
add_library(compat_name_mpich SHARED ${CMAKE_BINARY_DIR}/compat/empty.c)
set_target_properties(compat_name_mpich PROPERTIES OUTPUT_NAME mpich SOVERSION 12 LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/compat
                      BUILD_RPATH_USE_ORIGIN ON INSTALL_RPATH "\$ORIGIN")
target_link_options(compat_name_mpich PRIVATE LINKER:--no-as-needed)
target_link_libraries(compat_name_mpich PRIVATE compat_mpich)

# The name that both have.
set(compat_names ${CMAKE_BINARY_DIR}/compat/compat/unversioned_names.inc)
add_custom_command(
  OUTPUT ${compat_names}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/compat/compat
  COMMAND ${WEFT_PYTHON} ${CMAKE_SOURCE_DIR}/tools/compat_names.py ${compat_names} $<TARGET_FILE:compat_mpich> $<TARGET_FILE:compat_openmpi>
  DEPENDS compat_mpich compat_openmpi ${CMAKE_SOURCE_DIR}/tools/compat_names.py
  VERBATIM)
add_library(compat_name_mpi SHARED ${CMAKE_SOURCE_DIR}/src/compat/unversioned/library.cpp ${compat_names})
set_target_properties(compat_name_mpi PROPERTIES OUTPUT_NAME mpi NO_SONAME ON LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/compat
                      BUILD_RPATH_USE_ORIGIN ON INSTALL_RPATH "\$ORIGIN" LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/compat.map)
target_compile_features(compat_name_mpi PRIVATE cxx_std_20)
target_include_directories(compat_name_mpi PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_BINARY_DIR}/compat ${WEFT_GENERATED_DIR}
                           ${WEFT_GENERATED_DIR}/include ${CMAKE_SOURCE_DIR}/include)
target_link_options(compat_name_mpi PRIVATE -static-libstdc++ -static-libgcc LINKER:-soname,libmpi.so LINKER:--no-as-needed
                    LINKER:-Bsymbolic-functions LINKER:--version-script=${CMAKE_SOURCE_DIR}/cmake/compat.map)
target_link_libraries(compat_name_mpi PRIVATE compat_openmpi ${CMAKE_DL_LIBS})
add_dependencies(compat_name_mpi weft_bindings)
weft_portable(compat_name_mpi)

# The routines of Fortran with the interfaces of these libraries: the sources of libmpi_abi_fortran.so.1 but for mpi_f08,
# compiled with a mpi.h that has the other interface's types and values.
set(fortran_sources ${WEFT_FORTRAN_SOURCES})
list(FILTER fortran_sources INCLUDE REGEX "/entry_[^/]*$")
foreach(name attributes callbacks convert openmpi own strings)
  list(APPEND fortran_sources ${CMAKE_SOURCE_DIR}/src/fortran/${name}.cpp)
endforeach()
function(add_fortran_translation interface name number)
  string(TOUPPER ${interface} macro)
  set(target compat_fortran_${interface})
  add_library(${target} SHARED ${fortran_sources})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} SUFFIX .so.${number} NO_SONAME ON
                        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/compat BUILD_RPATH_USE_ORIGIN ON INSTALL_RPATH "\$ORIGIN"
                        LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/compat_fortran.map)
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_compile_definitions(${target} PRIVATE WEFT_FORTRAN_FOREIGN WEFT_FORTRAN_${macro})
  target_include_directories(${target} PRIVATE ${WEFT_GENERATED_DIR}/compat/fortran_${interface} ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(${target} PRIVATE compat_${interface})
  target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc LINKER:-soname,lib${name}.so.${number}
                      LINKER:--version-script=${CMAKE_SOURCE_DIR}/cmake/compat_fortran.map)
  add_dependencies(${target} weft_bindings)
  weft_portable(${target})
endfunction()
add_fortran_translation(mpich mpifort 12)
add_fortran_translation(openmpi mpi_mpifh 40)
function(add_further_name interface name number)
  set(target compat_name_${name})
  add_library(${target} SHARED ${CMAKE_BINARY_DIR}/compat/empty.c)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} SOVERSION ${number} BUILD_RPATH_USE_ORIGIN ON
                        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/compat INSTALL_RPATH "\$ORIGIN")
  target_link_options(${target} PRIVATE LINKER:--no-as-needed)
  target_link_libraries(${target} PRIVATE compat_fortran_${interface})
endfunction()
add_further_name(mpich mpichfort 12)
add_further_name(openmpi mpi_usempi_ignore_tkr 40)
add_further_name(openmpi mpi_usempif08 40)

# Names of MPICH's library of C++ bindings, for programs and modules that are linked with it and do not use it: empty
# libraries in folders that mpiexec names where MPICH's own is not installed (src/mpiexec/cxx_bindings.hpp).
foreach(name mpicxx mpichcxx)
  add_library(compat_name_${name} SHARED ${CMAKE_BINARY_DIR}/compat/empty.c)
  set_target_properties(compat_name_${name} PROPERTIES OUTPUT_NAME ${name} SOVERSION 12
                        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/compat)
endforeach()
