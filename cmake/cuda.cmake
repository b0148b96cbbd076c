# SPDX-License-Identifier: BSD-3-Clause
# weft_cuda_fatbin(target file.cu [OPTIONS nvcc options]): compiles kernels ahead of time (machine code for the
# GPU generations below, plus PTX for later GPUs) and embeds them in the target. The driver loads them at run time.
#
# For kernels.cu the target gets `extern const unsigned char weft_fatbin_kernels[]`, `extern const size_t
# weft_fatbin_kernels_size` (C linkage) and the definition WEFT_HAVE_KERNELS=1. Without nvcc these are absent;
# the sources test `#ifdef WEFT_HAVE_KERNELS`.
#
# weft_cuda_cubins(target file.cu): the same kernels for drivers older than CUDA 13 (525 and newer) and for Volta, compiled
# by NVRTC of CUDA 12 if set-up has downloaded it (`make CUDA12=1`). The target gets the table
# `weft_cubins_kernels` (src/device/cuda/image.cpp) and the definition WEFT_HAVE_CUBINS=1.
set(WEFT_CUDA_CODE "75;80;90;100;120" CACHE STRING "GPU generations to compile machine code for")
set(WEFT_CUDA_PTX "90" CACHE STRING "GPU generation of the embedded PTX, which later GPUs use")

set(WEFT_NVCC_FLAGS "")
if(WEFT_CUDA_KERNELS)
  # Prefer the nvcc that set-up downloaded: set-up does so only if the nvcc on PATH is unusable.
  find_program(WEFT_NVCC nvcc HINTS ${WEFT_TOOLS_DIR}/cuda/nvidia/cu13/bin ENV CUDACXX)
  if(WEFT_NVCC AND NOT WEFT_NVCC_TRIED STREQUAL "${WEFT_NVCC} ${CMAKE_CXX_COMPILER}")
    # Not every nvcc supports every g++: test the combination once.
    file(WRITE ${CMAKE_BINARY_DIR}/probe.cu "extern \"C\" __global__ void probe(float* a) { *a += 1; }\n")
    execute_process(COMMAND ${WEFT_NVCC} -std=c++17 -fatbin -ccbin ${CMAKE_CXX_COMPILER} -o probe.fatbin probe.cu
                    WORKING_DIRECTORY ${CMAKE_BINARY_DIR} RESULT_VARIABLE status OUTPUT_VARIABLE why ERROR_VARIABLE why)
    if(status EQUAL 0)
      set(WEFT_NVCC_TRIED "${WEFT_NVCC} ${CMAKE_CXX_COMPILER}" CACHE INTERNAL "")
    else()
      message(NOTICE "GPU kernels: ${WEFT_NVCC} does not work with ${CMAKE_CXX_COMPILER}:\n${why}")
    endif()
  endif()
  if(WEFT_NVCC AND WEFT_NVCC_TRIED)
    execute_process(COMMAND ${WEFT_NVCC} --list-gpu-code OUTPUT_VARIABLE known ERROR_QUIET)
    foreach(generation ${WEFT_CUDA_CODE})
      if(known MATCHES "sm_${generation}\n")
        list(APPEND WEFT_NVCC_FLAGS -gencode=arch=compute_${generation},code=sm_${generation})
      endif()
    endforeach()
    if(known MATCHES "sm_${WEFT_CUDA_PTX}\n")
      list(APPEND WEFT_NVCC_FLAGS -gencode=arch=compute_${WEFT_CUDA_PTX},code=compute_${WEFT_CUDA_PTX})
    endif()
  endif()
endif()
if(WEFT_NVCC_FLAGS)
  message(STATUS "GPU kernels: ${WEFT_NVCC}")
else()
  message(NOTICE "GPU kernels: disabled (no usable nvcc); only host memory is supported")
endif()

set(WEFT_CUBIN_CODE "70;80;90" CACHE STRING "GPU generations to compile machine code of CUDA 12 for")
set(WEFT_CUDA12_DIR ${WEFT_TOOLS_DIR}/cuda12/nvidia CACHE PATH "Folder of NVRTC and the runtime headers of CUDA 12")
set(WEFT_NVRTC12 "")
if(WEFT_CUDA_KERNELS AND EXISTS ${WEFT_CUDA12_DIR}/cuda_nvrtc/lib/libnvrtc.so.12)
  set(WEFT_NVRTC12 ${WEFT_CUDA12_DIR}/cuda_nvrtc/lib/libnvrtc.so.12)
  message(STATUS "GPU kernels for older drivers: ${WEFT_NVRTC12}")
endif()

function(weft_cuda_cubins target source)
  if(NOT WEFT_NVRTC12)
    return()
  endif()
  get_filename_component(folder ${source} DIRECTORY)
  get_filename_component(name ${source} NAME_WE)
  set(stem ${CMAKE_CURRENT_BINARY_DIR}/${target}.${name}.cubins)
  file(GLOB headers CONFIGURE_DEPENDS ${folder}/*.hpp ${folder}/*.cuh ${CMAKE_SOURCE_DIR}/src/base/element/*.hpp
       ${CMAKE_SOURCE_DIR}/include/*.cuh)
  string(REPLACE ";" "," generations "${WEFT_CUBIN_CODE}")
  add_custom_command(
    OUTPUT ${stem}.c
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/setup/cubins.py --nvrtc ${WEFT_NVRTC12} --generations
            ${generations} -I ${CMAKE_SOURCE_DIR}/src -I ${CMAKE_SOURCE_DIR}/include -I ${WEFT_CUDA12_DIR}/cuda_runtime/include ${source}
            weft_cubins_${name} ${stem}.c
    DEPENDS ${source} ${headers} ${CMAKE_SOURCE_DIR}/tools/setup/cubins.py
    COMMENT "Compiling GPU kernels ${name}.cu for older drivers"
    VERBATIM)
  set_source_files_properties(${stem}.c PROPERTIES GENERATED TRUE COMPILE_OPTIONS "-w" SKIP_PRECOMPILE_HEADERS TRUE)
  target_sources(${target} PRIVATE ${stem}.c)
  target_compile_definitions(${target} PRIVATE WEFT_HAVE_CUBINS=1)
endfunction()

function(weft_cuda_fatbin target source)
  cmake_parse_arguments(ARG "" "" "OPTIONS" ${ARGN})
  get_filename_component(source ${source} ABSOLUTE)
  get_filename_component(name ${source} NAME_WE)
  if(NOT WEFT_NVCC_FLAGS)
    message(STATUS "${target}: without the kernels of ${name}.cu")
    return()
  endif()
  set(stem ${CMAKE_CURRENT_BINARY_DIR}/${target}.${name})
  add_custom_command(
    OUTPUT ${stem}.fatbin.c
    COMMAND ${WEFT_NVCC} -std=c++17 -O3 -fatbin ${WEFT_NVCC_FLAGS} --threads 0 -ccbin ${CMAKE_CXX_COMPILER}
            -I${CMAKE_SOURCE_DIR}/src -I${CMAKE_SOURCE_DIR}/include ${ARG_OPTIONS} -MD -MF ${stem}.fatbin.d -MT ${stem}.fatbin.c
            -o ${stem}.fatbin ${source}
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/setup/embed.py ${stem}.fatbin weft_fatbin_${name}
            ${stem}.fatbin.c
    DEPENDS ${source} ${CMAKE_SOURCE_DIR}/tools/setup/embed.py
    DEPFILE ${stem}.fatbin.d
    COMMENT "Compiling GPU kernels ${name}.cu"
    VERBATIM)
  set_source_files_properties(${stem}.fatbin.c PROPERTIES GENERATED TRUE COMPILE_OPTIONS "-w" SKIP_PRECOMPILE_HEADERS TRUE)
  target_sources(${target} PRIVATE ${stem}.fatbin.c)
  target_compile_definitions(${target} PRIVATE WEFT_HAVE_KERNELS=1)
endfunction()
