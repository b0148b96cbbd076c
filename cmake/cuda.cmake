# SPDX-License-Identifier: BSD-3-Clause
# weft_cuda_fatbin(target file.cu): compiles kernels ahead of time (machine code for the GPU generations below, and PTX for
# later GPUs) and embeds them in the target. The driver loads them at run time.
#
# For kernels.cu the target gets `extern const unsigned char weft_fatbin_kernels[]` (C linkage) and the definition
# WEFT_HAVE_KERNELS=1. Without a compiler for kernels these are absent; the sources test `#ifdef WEFT_HAVE_KERNELS`.
#
# The compilers are NVRTC and ptxas of CUDA 12, which set-up downloads (tools/setup/kernels.py): their machine code runs with
# all drivers from 525 on. Otherwise nvcc is used, whose code needs a driver of its CUDA version or newer.
#
# Machine code runs on later GPUs of the same major generation; 70 covers Turing, 80 Ada. The driver compiles the PTX for
# other GPUs, Blackwell for instance, when a program first uses them, and keeps the result in ~/.nv/ComputeCache.
set(WEFT_CUDA_ARCHITECTURES "70;80;90" CACHE STRING "GPU generations to compile machine code for")
set(WEFT_CUDA_PTX_ARCHITECTURE "90" CACHE STRING "GPU generation of the embedded PTX, which later GPUs use")
set(WEFT_CUDA12_DIR ${WEFT_TOOLS_DIR}/cuda12/nvidia CACHE PATH "Folder of NVRTC, ptxas, nvFatbin and the runtime headers of CUDA 12")

# Sets WEFT_NVCC_FLAGS if this nvcc works with this g++.
function(find_nvcc)
  find_program(WEFT_NVCC nvcc HINTS ENV CUDACXX)
  if(NOT WEFT_NVCC)
    return()
  endif()
  file(WRITE ${CMAKE_BINARY_DIR}/probe.cu "extern \"C\" __global__ void probe(float* a) { *a += 1; }\n")
  execute_process(COMMAND ${WEFT_NVCC} -std=c++17 -fatbin -ccbin ${CMAKE_CXX_COMPILER} -o probe.fatbin probe.cu
                  WORKING_DIRECTORY ${CMAKE_BINARY_DIR} RESULT_VARIABLE status OUTPUT_VARIABLE why ERROR_VARIABLE why)
  if(NOT status EQUAL 0)
    message(NOTICE "GPU kernels: ${WEFT_NVCC} does not work with ${CMAKE_CXX_COMPILER}:\n${why}")
    return()
  endif()
  execute_process(COMMAND ${WEFT_NVCC} --list-gpu-code OUTPUT_VARIABLE known ERROR_QUIET)
  foreach(generation ${WEFT_CUDA_ARCHITECTURES})
    if(known MATCHES "sm_${generation}\n")
      list(APPEND flags -gencode=arch=compute_${generation},code=sm_${generation})
    endif()
  endforeach()
  list(APPEND flags -gencode=arch=compute_${WEFT_CUDA_PTX_ARCHITECTURE},code=compute_${WEFT_CUDA_PTX_ARCHITECTURE})
  set(WEFT_NVCC_FLAGS ${flags} PARENT_SCOPE)
endfunction()

set(WEFT_NVCC_FLAGS "")
set(WEFT_NVRTC "")
if(WEFT_CUDA_KERNELS)
  if(EXISTS ${WEFT_CUDA12_DIR}/nvfatbin/lib/libnvfatbin.so.12 AND EXISTS ${WEFT_CUDA12_DIR}/cuda_nvcc/bin/ptxas)
    list(TRANSFORM WEFT_CUDA_ARCHITECTURES PREPEND sm_ OUTPUT_VARIABLE architectures)
    list(APPEND architectures compute_${WEFT_CUDA_PTX_ARCHITECTURE})
    string(REPLACE ";" "," architectures "${architectures}")
    set(WEFT_NVRTC ${CMAKE_SOURCE_DIR}/tools/setup/kernels.py --for ${architectures}
        --nvrtc ${WEFT_CUDA12_DIR}/cuda_nvrtc/lib/libnvrtc.so.12 --ptxas ${WEFT_CUDA12_DIR}/cuda_nvcc/bin/ptxas
        --nvfatbin ${WEFT_CUDA12_DIR}/nvfatbin/lib/libnvfatbin.so.12
        -I ${WEFT_CUDA12_DIR}/cuda_runtime/include)
  else()
    find_nvcc()
  endif()
endif()
set(WEFT_KERNELS OFF)
if(WEFT_NVRTC OR WEFT_NVCC_FLAGS)
  set(WEFT_KERNELS ON)
else()
  message(NOTICE "GPU kernels: disabled (neither NVRTC in ${WEFT_CUDA12_DIR}, which `make` downloads, nor a usable nvcc); "
                 "only host memory is supported")
endif()

function(weft_cuda_fatbin target source)
  get_filename_component(source ${source} ABSOLUTE)
  get_filename_component(folder ${source} DIRECTORY)
  get_filename_component(name ${source} NAME_WE)
  if(NOT WEFT_KERNELS)
    message(STATUS "${target}: without the kernels of ${name}.cu")
    return()
  endif()
  set(image ${CMAKE_CURRENT_BINARY_DIR}/${target}.${name}.fatbin)
  set(folders -I ${CMAKE_SOURCE_DIR}/src -I ${CMAKE_SOURCE_DIR}/include -I ${folder})
  if(WEFT_NVRTC)
    file(GLOB headers CONFIGURE_DEPENDS ${folder}/*.hpp ${folder}/*.cuh ${CMAKE_SOURCE_DIR}/src/base/element/*.hpp
         ${CMAKE_SOURCE_DIR}/include/*.cuh)
    add_custom_command(
      OUTPUT ${image}
      BYPRODUCTS ${image}.resources
      COMMAND ${WEFT_PYTHON} ${WEFT_NVRTC} ${folders} ${source} ${image}
      DEPENDS ${source} ${headers} ${CMAKE_SOURCE_DIR}/tools/setup/kernels.py
      COMMENT "Compiling GPU kernels ${name}.cu"
      VERBATIM)
  else()
    add_custom_command(
      OUTPUT ${image}
      COMMAND ${WEFT_NVCC} -std=c++17 -O3 -fatbin ${WEFT_NVCC_FLAGS} --threads 0 -ccbin ${CMAKE_CXX_COMPILER} ${folders}
              -MD -MF ${image}.d -MT ${image} -o ${image} ${source}
      DEPENDS ${source}
      DEPFILE ${image}.d
      COMMENT "Compiling GPU kernels ${name}.cu"
      VERBATIM)
  endif()
  set(WEFT_FATBIN_NAME ${name})
  set(WEFT_FATBIN_IMAGE ${image})
  configure_file(${CMAKE_SOURCE_DIR}/cmake/fatbin.c.in ${image}.c @ONLY)
  set_source_files_properties(${image}.c PROPERTIES OBJECT_DEPENDS ${image} SKIP_PRECOMPILE_HEADERS ON
                              SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(${target} PRIVATE ${image}.c)
  foreach(part ${target} ${target}_cold)
    if(TARGET ${part})
      target_compile_definitions(${part} PRIVATE WEFT_HAVE_KERNELS=1)
    endif()
  endforeach()
endfunction()
