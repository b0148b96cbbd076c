# SPDX-License-Identifier: BSD-3-Clause
# The prefix: bin/ lib/ include/ share/weft/. A wheel (scikit-build-core) has the same prefix in the folder lib/weft of the
# environment, where no other package has files, and the Python package in site-packages. Of the names that other packages
# of MPI have, too, it installs those of commands alone. Component `demo`: the part that `make demo` builds and installs first.
if(SKBUILD)
  set(root ${SKBUILD_DATA_DIR}/lib/weft/)
  set(manual_root ${SKBUILD_DATA_DIR}/)
  set(python_root ${SKBUILD_PLATLIB_DIR})
else()
  set(root "")
  set(manual_root "")
  set(python_root share/weft/python)
endif()
set(WEFT_LIBEXEC_DIR ${root}libexec/weft)  # internal programs, started by `weft`
set(WEFT_SHARE_DIR ${root}share/weft)
set(executable OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(WEFT_STANDARD 5.0)  # the version of MPI, for pkg-config and Meson

# --- library and headers ---
if(SKBUILD)  # wheels cannot contain symbolic links: a linker script avoids a second copy
  install(TARGETS mpi_abi LIBRARY DESTINATION ${root}lib NAMELINK_SKIP COMPONENT demo)
  install(TARGETS mpi_abi_fortran LIBRARY DESTINATION ${root}lib NAMELINK_SKIP)
  foreach(name libmpi_abi libmpi_abi_fortran)
    file(WRITE ${CMAKE_BINARY_DIR}/namelink/${name}.so "INPUT(${name}.so.1)\n")
    install(FILES ${CMAKE_BINARY_DIR}/namelink/${name}.so DESTINATION ${root}lib)
  endforeach()
else()
  install(TARGETS mpi_abi LIBRARY DESTINATION lib COMPONENT demo)
  install(TARGETS mpi_abi_fortran LIBRARY DESTINATION lib)
endif()
install(FILES ${WEFT_GENERATED_DIR}/fortran/mpif.h DESTINATION ${root}include)
install(FILES ${WEFT_GENERATED_DIR}/fortran/mpi.F90 ${WEFT_GENERATED_DIR}/fortran/mpi_f08.F90
        DESTINATION ${WEFT_SHARE_DIR}/fortran)
install(TARGETS compat_mpich compat_openmpi compat_name_mpi compat_name_mpich compat_fortran_mpich compat_fortran_openmpi
                compat_name_mpichfort compat_name_mpi_usempi_ignore_tkr compat_name_mpi_usempif08
        LIBRARY DESTINATION ${root}lib/compat NAMELINK_SKIP)
foreach(name mpicxx mpichcxx)
  install(TARGETS compat_name_${name} LIBRARY DESTINATION ${root}lib/compat/cxx/lib${name}.so.12 NAMELINK_SKIP)
endforeach()
install(PROGRAMS ${CMAKE_SOURCE_DIR}/tools/wrappers/ompi_info.sh DESTINATION ${root}lib/compat/bin RENAME ompi_info)
install(DIRECTORY ${WEFT_GENERATED_DIR}/include/ ${CMAKE_SOURCE_DIR}/include/ DESTINATION ${root}include
        FILES_MATCHING PATTERN "*.h" PATTERN "*.cuh")

install(TARGETS weft_msgq weft_jax weft_torch weft_python LIBRARY DESTINATION ${root}lib)

# --- launcher ---
if(TARGET mpiexec)
  install(TARGETS mpiexec RUNTIME DESTINATION ${root}bin COMPONENT demo)
  if(SKBUILD)
    foreach(name mpirun mpirun_rsh)
      install(PROGRAMS ${CMAKE_SOURCE_DIR}/tools/wrappers/mpirun.sh DESTINATION ${root}bin RENAME ${name})
    endforeach()
  else()
    install(CODE "file(CREATE_LINK mpiexec \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/bin/mpirun SYMBOLIC)")
    install(CODE "file(CREATE_LINK mpiexec \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/bin/mpirun_rsh SYMBOLIC)")
  endif()
endif()

# --- compiler wrappers ---
function(weft_wrapper program language variable option fallbacks)
  set(libraries mpi_abi)
  set(functions "")
  set(prepare :)
  if(language STREQUAL Fortran)
    set(libraries "mpi_abi_fortran mpi_abi")
    file(READ ${CMAKE_SOURCE_DIR}/tools/wrappers/modules.sh functions)
    if(SKBUILD)
      set(modules_in_prefix no)
    else()
      set(modules_in_prefix yes)
    endif()
    set(functions "program=${program} modules_in_prefix=${modules_in_prefix}\n${functions}")
    set(prepare find_modules)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tools/wrappers/modules.sh)
  endif()
  configure_file(${CMAKE_SOURCE_DIR}/tools/wrappers/compiler.sh.in ${CMAKE_BINARY_DIR}/wrappers/${program} @ONLY)
  install(PROGRAMS ${CMAKE_BINARY_DIR}/wrappers/${program} DESTINATION ${root}bin)
endfunction()
weft_wrapper(mpicc C CC -cc "gcc cc clang")
foreach(program mpicxx mpic++ mpiCC)
  weft_wrapper(${program} C++ CXX -cxx "g++ c++ clang++")
endforeach()
foreach(program mpifort mpif90 mpif77)
  weft_wrapper(${program} Fortran FC -fc "gfortran flang flang-new ifx nvfortran")
endforeach()

# --- pkg-config: the files are relocatable ---
set(pc_version ${PROJECT_VERSION})
foreach(name weft weft-fortran)
  configure_file(${CMAKE_SOURCE_DIR}/tools/wrappers/${name}.pc.in ${CMAKE_BINARY_DIR}/wrappers/${name}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/wrappers/${name}.pc DESTINATION ${root}lib/pkgconfig)
endforeach()
set(pc_version ${WEFT_STANDARD})
foreach(name mpi-c mpi-cxx)  # the names by which packages ask for any MPI of a version
  configure_file(${CMAKE_SOURCE_DIR}/tools/wrappers/weft.pc.in ${CMAKE_BINARY_DIR}/wrappers/${name}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/wrappers/${name}.pc DESTINATION ${root}lib/pkgconfig)
endforeach()

# --- the command line ---
configure_file(${CMAKE_SOURCE_DIR}/cli/weft_mpi/_version.py.in ${CMAKE_BINARY_DIR}/cli/weft_mpi/_version.py @ONLY)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/cli/weft_mpi ${CMAKE_BINARY_DIR}/cli/weft_mpi DESTINATION ${python_root}
        FILES_MATCHING PATTERN "*.py" PATTERN "*.csv" PATTERN "__pycache__" EXCLUDE)
if(NOT SKBUILD)  # a wheel depends on these packages
  install(DIRECTORY ${WEFT_TOOLS_DIR}/cli/ DESTINATION ${python_root}/bundled OPTIONAL
          PATTERN "__pycache__" EXCLUDE PATTERN "bin" EXCLUDE)
  install(PROGRAMS ${CMAKE_SOURCE_DIR}/tools/wrappers/weft.sh DESTINATION bin RENAME weft)
endif()
install(FILES ${CMAKE_SOURCE_DIR}/cli/man/weft.1 ${CMAKE_SOURCE_DIR}/cli/man/mpiexec.1 DESTINATION ${manual_root}share/man/man1)
install(DIRECTORY ${WEFT_GENERATED_DIR}/man/ DESTINATION ${manual_root}share/man/man3)
install(FILES ${CMAKE_SOURCE_DIR}/tools/gdb/weft.py DESTINATION ${WEFT_SHARE_DIR}/gdb)
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${WEFT_SHARE_DIR})

# --- the bill of materials: PEP 770 names its folder in a wheel ---
set(arguments "")
if(WEFT_NVRTC)
  list(APPEND arguments --kernels ${WEFT_CUDA12_DIR}/..)
elseif(WEFT_NVCC_FLAGS)
  execute_process(COMMAND ${WEFT_NVCC} --version OUTPUT_VARIABLE version)
  string(REGEX MATCH "V([0-9.]+)" version "${version}")
  list(APPEND arguments --nvcc ${CMAKE_MATCH_1})
endif()
set(folder ${WEFT_SHARE_DIR})
if(SKBUILD)
  set(folder ${SKBUILD_METADATA_DIR}/sboms)
else()
  list(APPEND arguments --bundled ${WEFT_TOOLS_DIR}/cli)
endif()
file(GLOB packages CONFIGURE_DEPENDS ${WEFT_TOOLS_DIR}/cli/*.dist-info/METADATA ${WEFT_TOOLS_DIR}/cuda12/*.dist-info/METADATA)
set(sbom ${CMAKE_BINARY_DIR}/sbom/weft.cdx.json)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/sbom)
add_custom_command(
  OUTPUT ${sbom}
  COMMAND ${WEFT_PYTHON} ${CMAKE_SOURCE_DIR}/tools/setup/sbom.py --version ${PROJECT_VERSION} --commit-header ${WEFT_GENERATED_DIR}/commit.hpp
          --compiler ${CMAKE_CXX_COMPILER_VERSION} --spec ${CMAKE_SOURCE_DIR}/tools/setup/spec.txt ${arguments} ${sbom}
  DEPENDS weft_commit ${WEFT_GENERATED_DIR}/commit.hpp ${CMAKE_SOURCE_DIR}/tools/setup/sbom.py ${CMAKE_SOURCE_DIR}/tools/setup/spec.txt
          ${packages}
  COMMENT "Writing the bill of materials"
  VERBATIM)
add_custom_target(weft_sbom ALL DEPENDS ${sbom})
install(FILES ${sbom} DESTINATION ${folder})
install(FILES ${WEFT_GENERATED_DIR}/coverage.md DESTINATION ${WEFT_SHARE_DIR})

# --- the environment of a wheel ---
if(SKBUILD)
  foreach(program mpiexec mpirun mpirun_rsh mpicc mpicxx mpic++ mpiCC mpifort mpif90 mpif77)
    install(PROGRAMS ${CMAKE_SOURCE_DIR}/tools/wrappers/environment.sh DESTINATION ${SKBUILD_DATA_DIR}/bin RENAME ${program})
  endforeach()
  install(FILES ${CMAKE_SOURCE_DIR}/tools/wrappers/weft_mpi.pth DESTINATION ${python_root})
endif()
