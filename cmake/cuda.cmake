# SPDX-License-Identifier: BSD-3-Clause
# weft_cuda_fatbin(target file.cu): compiles kernels ahead of time (machine code for the GPU generations below, and PTX for
# other GPUs) and embeds them in the target. The driver loads them at run time.
#
# For kernels.cu the target gets `extern const unsigned char weft_fatbin_kernels[]` (C linkage) and the definition
# WEFT_HAVE_KERNELS=1. Without a compiler for kernels these are absent; the sources test `#ifdef WEFT_HAVE_KERNELS`.
#
# The compilers are NVRTC and ptxas of CUDA 12, which set-up downloads (tools/setup/kernels.py): their machine code runs with
# all drivers from 525 on. Otherwise nvcc is used, whose code needs a driver of its CUDA version or newer.
#
# Machine code runs on later GPUs of the same major generation; 70 covers Turing, 80 Ada. The driver compiles the PTX for
# other GPUs when a program first uses them, and keeps the result in ~/.nv/ComputeCache.
set(WEFT_CUDA_ARCHITECTURES "auto" CACHE STRING
    "GPU generations to compile machine code for: a list such as 80;90; all: those of packages; native: those of this machine's GPUs; auto: native, or all without GPUs")
set(packaged 70 80 90)
set(WEFT_CUDA_GENERATIONS ${WEFT_CUDA_ARCHITECTURES})
if(WEFT_CUDA_ARCHITECTURES MATCHES "^(auto|native)$")
  # Compute capabilities, such as 8.6 of code for 80. A driver too old for the question: as if there were no GPU.
  set(WEFT_CUDA_GENERATIONS "")
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader OUTPUT_VARIABLE capabilities ERROR_QUIET)
  string(REGEX MATCHALL "[0-9]+\\.[0-9]" capabilities "${capabilities}")
  foreach(capability ${capabilities})
    string(REGEX REPLACE "\\..*" "0" generation ${capability})
    if(NOT generation LESS 70)
      list(APPEND WEFT_CUDA_GENERATIONS ${generation})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES WEFT_CUDA_GENERATIONS)
  list(SORT WEFT_CUDA_GENERATIONS COMPARE NATURAL)
endif()
if(WEFT_CUDA_ARCHITECTURES STREQUAL "all" OR (WEFT_CUDA_ARCHITECTURES STREQUAL "auto" AND NOT WEFT_CUDA_GENERATIONS))
  set(WEFT_CUDA_GENERATIONS ${packaged})
endif()
foreach(generation ${WEFT_CUDA_GENERATIONS})
  if(NOT generation MATCHES "^[0-9]+$")
    message(FATAL_ERROR "WEFT_CUDA_ARCHITECTURES=${WEFT_CUDA_ARCHITECTURES}: ${generation} is no GPU generation such as 90 "
                        "(all, native and auto stand alone; -DWEFT_CUDA_KERNELS=OFF: no kernels)")
  endif()
endforeach()
# The PTX serves every GPU that has no machine code.
set(WEFT_CUDA_PTX_GENERATION 70)
if("${WEFT_CUDA_GENERATIONS}" MATCHES "70;80;90")
  set(WEFT_CUDA_PTX_GENERATION 90)
endif()
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
  foreach(generation ${WEFT_CUDA_GENERATIONS})
    if(known MATCHES "sm_${generation}\n")
      list(APPEND flags -gencode=arch=compute_${generation},code=sm_${generation})
    endif()
  endforeach()
  # nvcc of CUDA 13 writes no PTX for generation 70: that of the oldest generation it knows serves the most GPUs.
  execute_process(COMMAND ${WEFT_NVCC} --list-gpu-arch OUTPUT_VARIABLE known ERROR_QUIET)
  string(REGEX MATCHALL "[0-9]+" known "${known}")
  list(SORT known COMPARE NATURAL)
  set(ptx ${WEFT_CUDA_PTX_GENERATION})
  if(known AND NOT ptx IN_LIST known)
    list(GET known 0 ptx)
  endif()
  list(APPEND flags -gencode=arch=compute_${ptx},code=compute_${ptx})
  set(WEFT_NVCC_FLAGS ${flags} PARENT_SCOPE)
endfunction()

set(WEFT_NVCC_FLAGS "")
set(WEFT_NVRTC "")
if(WEFT_CUDA_KERNELS)
  if(EXISTS ${WEFT_CUDA12_DIR}/nvfatbin/lib/libnvfatbin.so.12 AND EXISTS ${WEFT_CUDA12_DIR}/cuda_nvcc/bin/ptxas)
    set(WEFT_NVRTC ${CMAKE_SOURCE_DIR}/tools/setup/kernels.py)
    if(WEFT_CUDA_ARCHITECTURES MATCHES "^(auto|native)$")  # this machine's GPUs may be newer than the assembler
      execute_process(COMMAND ${WEFT_CUDA12_DIR}/cuda_nvcc/bin/ptxas --help OUTPUT_VARIABLE known ERROR_QUIET)
      foreach(generation ${WEFT_CUDA_GENERATIONS})
        if(NOT known MATCHES "'sm_${generation}'")
          message(NOTICE "GPU kernels: no machine code for generation ${generation}, which ptxas does not know: the driver "
                         "compiles their PTX at first use")
          list(REMOVE_ITEM WEFT_CUDA_GENERATIONS ${generation})
        endif()
      endforeach()
    endif()
  else()
    find_nvcc()
  endif()
endif()
set(WEFT_KERNELS OFF)
if(WEFT_NVRTC OR WEFT_NVCC_FLAGS)
  set(WEFT_KERNELS ON)
  if(NOT WEFT_CUDA_GENERATIONS)
    message(NOTICE "GPU kernels: as PTX, since this machine has no GPU for machine code; drivers from 570 on compile it at first use "
                   "(-DWEFT_CUDA_ARCHITECTURES=all: machine code)")
  endif()
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
    set(ptx ${CMAKE_CURRENT_BINARY_DIR}/${target}.${name}.ptx)
    add_custom_command(
      OUTPUT ${ptx}
      COMMAND ${WEFT_PYTHON} ${WEFT_NVRTC} compile --nvrtc ${WEFT_CUDA12_DIR}/cuda_nvrtc/lib/libnvrtc.so.12
              -I ${WEFT_CUDA12_DIR}/cuda_runtime/include ${folders} ${source} ${ptx}
      DEPENDS ${source} ${headers} ${CMAKE_SOURCE_DIR}/tools/setup/kernels.py
      COMMENT "Compiling GPU kernels ${name}.cu"
      VERBATIM)
    # One file a generation: a build for further generations assembles those alone.
    set(codes "")
    foreach(generation ${WEFT_CUDA_GENERATIONS})
      set(code ${CMAKE_CURRENT_BINARY_DIR}/${target}.${name}.sm_${generation}.cubin)
      add_custom_command(
        OUTPUT ${code}
        BYPRODUCTS ${code}.resources
        COMMAND ${WEFT_PYTHON} ${WEFT_NVRTC} assemble --ptxas ${WEFT_CUDA12_DIR}/cuda_nvcc/bin/ptxas --for ${generation} ${ptx} ${code}
        DEPENDS ${ptx}
        COMMENT "Assembling GPU kernels ${name}.cu for sm_${generation}"
        VERBATIM)
      list(APPEND codes ${code})
    endforeach()
    add_custom_command(
      OUTPUT ${image}
      COMMAND ${WEFT_PYTHON} ${WEFT_NVRTC} pack --nvfatbin ${WEFT_CUDA12_DIR}/nvfatbin/lib/libnvfatbin.so.12
              --ptx-for ${WEFT_CUDA_PTX_GENERATION} ${ptx} ${codes} ${image}
      DEPENDS ${ptx} ${codes}
      COMMENT "Packing GPU kernels ${name}.cu"
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
