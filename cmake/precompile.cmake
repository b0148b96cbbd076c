# SPDX-License-Identifier: BSD-3-Clause
# weft_precompile(target [LIKE other] [AND headers...]): the target's C++ files begin with standard headers that are parsed once. Targets
# LIKE another one, with the same flags, share its file. Off with a compiler cache, which does not serve such files by
# default: such builds, and sources that name what they include, keep the headers honest.
set(default ON)
if(CMAKE_CXX_COMPILER_LAUNCHER OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(default OFF)
endif()
option(WEFT_PRECOMPILE "Parse the standard headers once (a build takes a fifth less)" ${default})

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
