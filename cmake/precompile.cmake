# SPDX-License-Identifier: BSD-3-Clause
# weft_precompile(target [LIKE other] [AND headers...]): the target's C++ files begin with standard headers that are parsed
# once. Targets LIKE another one, with the same flags, share its file. Off by default: a compiler cache does not serve such
# files, and without it a source that forgets an include shows.
option(WEFT_PRECOMPILE "Parse the standard headers once for all sources" OFF)

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
