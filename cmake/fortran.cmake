# SPDX-License-Identifier: BSD-3-Clause
# libmpi_abi_fortran.so.1: the routines of mpif.h and the modules, with Fortran's symbols. Needs no Fortran compiler and
# no compiler's runtime.
file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/fortran/*.cpp)
add_library(mpi_abi_fortran SHARED ${sources} ${WEFT_FORTRAN_SOURCES})
set_target_properties(mpi_abi_fortran PROPERTIES SOVERSION 1 BUILD_RPATH_USE_ORIGIN ON INSTALL_RPATH "\$ORIGIN"
                      LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/fortran.map)
target_compile_features(mpi_abi_fortran PRIVATE cxx_std_20)
target_include_directories(mpi_abi_fortran PRIVATE ${CMAKE_SOURCE_DIR}/src ${WEFT_GENERATED_DIR}/include)
target_link_libraries(mpi_abi_fortran PRIVATE mpi_abi)
target_link_options(mpi_abi_fortran PRIVATE -static-libstdc++ -static-libgcc
                    LINKER:--version-script=${CMAKE_SOURCE_DIR}/cmake/fortran.map)
add_dependencies(mpi_abi_fortran weft_bindings)
weft_portable(mpi_abi_fortran)
