# SPDX-License-Identifier: BSD-3-Clause
# weft_precompile(target [LIKE other] [AND headers...]): precompiles the standard headers and others for the target's C++
# files. Targets LIKE another one, with the same flags, share its precompiled header. Off by default where there is a
# compiler cache: caches do not support precompiled headers, which hide missing includes, too.
if(CMAKE_CXX_COMPILER_LAUNCHER)
  option(WEFT_PRECOMPILE "Parse frequent headers once for all sources of a layer" OFF)
else()
  option(WEFT_PRECOMPILE "Parse frequent headers once for all sources of a layer" ON)
endif()

function(weft_precompile target)
  cmake_parse_arguments(ARG "" "LIKE" "AND" ${ARGN})
  if(NOT WEFT_PRECOMPILE)
    return()
  endif()
  if(ARG_LIKE)
    target_precompile_headers(${target} REUSE_FROM ${ARG_LIKE})
  else()
    target_precompile_headers(${target} PRIVATE
                              $<$<COMPILE_LANGUAGE:CXX>:${CMAKE_SOURCE_DIR}/cmake/standard.hpp> ${ARG_AND})
  endif()
endfunction()
