# SPDX-License-Identifier: BSD-3-Clause
# The translation libraries in lib/compat: the binary interfaces of other MPI libraries, on top of libmpi_abi.so.1, which
# they open when they are loaded. libmpi.so.12: MPICH, Intel MPI, MVAPICH; Debian's name of it is libmpich.so.12.
file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/api/compat/*.cpp)
add_library(compat_mpich SHARED ${sources} ${WEFT_COMPAT_SOURCES})
set_target_properties(compat_mpich PROPERTIES OUTPUT_NAME mpi SOVERSION 12 LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/compat
                      LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/compat.map)
target_compile_features(compat_mpich PRIVATE cxx_std_20)
target_include_directories(compat_mpich PRIVATE ${CMAKE_SOURCE_DIR}/src ${WEFT_GENERATED_DIR} ${WEFT_GENERATED_DIR}/include)
target_link_libraries(compat_mpich PRIVATE ${CMAKE_DL_LIBS})
target_link_options(compat_mpich PRIVATE -static-libstdc++ -static-libgcc
                    LINKER:--version-script=${CMAKE_SOURCE_DIR}/cmake/compat.map)
if(NOT WEFT_SANITIZE)
  target_link_options(compat_mpich PRIVATE LINKER:--no-undefined)
endif()
add_dependencies(compat_mpich weft_bindings)

# Further names of it: libraries without code that need it. dlopen("libmpi.so") is how mpi4py looks for an MPI.
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/compat/empty.c CONTENT "")
foreach(name mpi mpich)
  add_library(compat_name_${name} SHARED ${CMAKE_BINARY_DIR}/compat/empty.c)
  set_target_properties(compat_name_${name} PROPERTIES OUTPUT_NAME ${name} LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/compat
                        BUILD_RPATH_USE_ORIGIN ON INSTALL_RPATH "\$ORIGIN")
  target_link_options(compat_name_${name} PRIVATE LINKER:--no-as-needed)
  target_link_libraries(compat_name_${name} PRIVATE compat_mpich)
endforeach()
set_target_properties(compat_name_mpi PROPERTIES NO_SONAME ON)
set_target_properties(compat_name_mpich PROPERTIES SOVERSION 12)
