# SPDX-License-Identifier: BSD-3-Clause
# The products: libmpi_abi.so.1 from the objects of all layers, and the launcher.
set(objects "")
foreach(layer ${WEFT_LAYERS})
  list(APPEND objects $<TARGET_OBJECTS:${layer}>)
endforeach()

add_library(mpi_abi SHARED ${objects})
set_target_properties(mpi_abi PROPERTIES SOVERSION 1 LINKER_LANGUAGE CXX LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/exports.map)
target_include_directories(mpi_abi INTERFACE $<BUILD_INTERFACE:${WEFT_GENERATED_DIR}/include>
                           $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>)
target_link_libraries(mpi_abi PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
target_link_options(mpi_abi PRIVATE LINKER:--version-script=${CMAKE_SOURCE_DIR}/cmake/exports.map)
if(NOT WEFT_SANITIZE)  # with sanitizers, exceptions of operators new that a program defines must be caught here
  target_link_options(mpi_abi PRIVATE -static-libstdc++ -static-libgcc LINKER:--no-undefined)
endif()
add_dependencies(mpi_abi weft_bindings)
weft_portable(mpi_abi)

# Loaded by debuggers, into their own process.
add_library(weft_msgq MODULE ${CMAKE_SOURCE_DIR}/src/debugger/queues.cpp ${CMAKE_SOURCE_DIR}/src/debugger/target.cpp)
target_include_directories(weft_msgq PRIVATE ${CMAKE_SOURCE_DIR}/src)
target_link_options(weft_msgq PRIVATE -static-libstdc++ -static-libgcc LINKER:--exclude-libs,ALL)
weft_cold(weft_msgq)
weft_portable(weft_msgq)

file(GLOB_RECURSE launcher CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/mpiexec/*.cpp)
if(launcher)
  set(main ${CMAKE_SOURCE_DIR}/src/mpiexec/main.cpp)
  list(REMOVE_ITEM launcher ${main})
  add_library(weft_mpiexec STATIC ${launcher})  # unit tests link it, too
  set_target_properties(weft_mpiexec PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(weft_mpiexec PRIVATE -fPIE)  # as the program, which shares its precompiled header
  target_link_libraries(weft_mpiexec PUBLIC weft_launch weft_base)
  add_executable(mpiexec ${main})
  target_link_libraries(mpiexec PRIVATE weft_mpiexec)
  target_link_options(mpiexec PRIVATE -static-libstdc++ -static-libgcc)
  # Debuggers read its variables and their types. No path of the builder.
  set_source_files_properties(${CMAKE_SOURCE_DIR}/src/mpiexec/mpir.cpp PROPERTIES
                              COMPILE_OPTIONS "-g;-ffile-prefix-map=${CMAKE_BINARY_DIR}=.;-ffile-prefix-map=${CMAKE_SOURCE_DIR}=."
                              SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON)
  weft_precompile(weft_mpiexec)
  weft_precompile(mpiexec LIKE weft_mpiexec)
  weft_cold(weft_mpiexec)
  weft_cold(mpiexec)
  weft_group(weft_mpiexec)
  weft_portable(mpiexec)
endif()

# Loaded by weft_mpi.jax. It finds the library in its own folder, or in the process.
add_library(weft_jax MODULE ${CMAKE_SOURCE_DIR}/src/jax/communicators.cpp ${CMAKE_SOURCE_DIR}/src/jax/handlers.cpp
                            ${CMAKE_SOURCE_DIR}/src/jax/kernels.cpp)
target_compile_features(weft_jax PRIVATE cxx_std_20)
set_target_properties(weft_jax PROPERTIES BUILD_RPATH_USE_ORIGIN ON INSTALL_RPATH "\$ORIGIN" CXX_VISIBILITY_PRESET hidden)
target_include_directories(weft_jax PRIVATE ${CMAKE_SOURCE_DIR}/src)
target_link_libraries(weft_jax PRIVATE mpi_abi ${CMAKE_DL_LIBS})
target_link_options(weft_jax PRIVATE -static-libstdc++ -static-libgcc LINKER:--exclude-libs,ALL)
weft_cold(weft_jax)
weft_portable(weft_jax)

# Loaded by weft_mpi.torch. Python has the functions of its interface, and passes the addresses of all others.
add_library(weft_torch MODULE ${CMAKE_SOURCE_DIR}/src/torch/queue.cpp ${CMAKE_SOURCE_DIR}/src/torch/queue_type.cpp
                              ${CMAKE_SOURCE_DIR}/src/torch/issue.cpp ${CMAKE_SOURCE_DIR}/src/torch/tensor.cpp
                              ${CMAKE_SOURCE_DIR}/src/torch/module.cpp
                              ${CMAKE_SOURCE_DIR}/src/python/type.cpp ${CMAKE_SOURCE_DIR}/src/python/take_lock.c)
# Loaded by weft_mpi.arrays.
add_library(weft_python MODULE ${CMAKE_SOURCE_DIR}/src/python/buffer.cpp ${CMAKE_SOURCE_DIR}/src/python/type.cpp
                               ${CMAKE_SOURCE_DIR}/src/python/view.cpp ${CMAKE_SOURCE_DIR}/src/python/take_lock.c)
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/python/take_lock.c PROPERTIES COMPILE_OPTIONS -fno-exceptions)
foreach(module weft_torch weft_python)
  target_compile_features(${module} PRIVATE cxx_std_20)
  set_target_properties(${module} PROPERTIES CXX_VISIBILITY_PRESET hidden C_VISIBILITY_PRESET hidden)
  target_include_directories(${module} PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_link_options(${module} PRIVATE -static-libstdc++ -static-libgcc LINKER:--exclude-libs,ALL)
  weft_portable(${module})
endforeach()
