# SPDX-License-Identifier: BSD-3-Clause
# Options for a short first build. Both are off by default where the user names a compiler cache: caches do not support
# precompiled headers. Both hide missing includes; the preset dev has neither.
# weft_precompile(target [LIKE other] [AND headers...]): precompiles the standard headers and others for the target's C++
# files. Targets LIKE another one, with the same flags, share its precompiled header.
# All targets that share one are compiled with the same optimisation: g++ 12 crashes where it differs.
# weft_group(target [sources]): compiles the C++ files of a target, but for those sources, in groups, which share what the
# headers instantiate. Files with code that messages wait for stay alone: in a group the compiler inlines less of them.
if(CMAKE_CXX_COMPILER_LAUNCHER)
  set(first_build OFF)
else()
  set(first_build ON)
endif()
option(WEFT_PRECOMPILE "Parse frequent headers once for all sources of a layer" ${first_build})
option(WEFT_GROUPS "Compile the sources of layers in groups" ${first_build})
set(WEFT_GROUP_SIZE 8)  # sources; larger groups save little more and are long for one of many cores

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

function(weft_group target)
  if(NOT WEFT_GROUPS)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${WEFT_GROUP_SIZE})
  set_property(SOURCE ${ARGN} PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
  # g++ takes the files of a group for headers, whose types must not depend on unnamed namespaces.
  target_compile_options(${target} PRIVATE
                         $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-subobject-linkage>)
endfunction()
