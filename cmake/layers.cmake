# SPDX-License-Identifier: BSD-3-Clause
# weft_layer(folder [COLD] [LIKE layer] [DEPENDS folders] [GENERATED sources] [GROUP names] [PRECOMPILE headers]): the static
# library weft_<folder> of src/<folder>. PRECOMPILE: headers that most of its sources include; without it, those of the layer
# LIKE, or the standard headers only.
# COLD: starts, ends and reports only; see weft_cold(). GROUP: its folders and files that no message waits for, `.` for all;
# see weft_group().
# An empty or absent folder becomes an empty interface library, so that the table is complete.
set(WEFT_LAYERS "")

# weft_cold(target): no message waits for the target's code. -O1 compiles it in two thirds of the time of -O3.
function(weft_cold target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

function(weft_layer name)
  cmake_parse_arguments(ARG "COLD" "LIKE" "DEPENDS;GENERATED;GROUP;PRECOMPILE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cpp)
  file(GLOB_RECURSE kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cu)
  list(APPEND sources ${ARG_GENERATED})
  if(sources)
    add_library(weft_${name} STATIC ${sources})
    set(scope PUBLIC)
    target_compile_features(weft_${name} PUBLIC cxx_std_20)
    target_compile_definitions(weft_${name} PRIVATE WEFT_VERSION="${PROJECT_VERSION}")
    add_dependencies(weft_${name} weft_bindings)
    if(ARG_PRECOMPILE OR name STREQUAL "base")
      list(TRANSFORM ARG_PRECOMPILE REPLACE ".+" "$<$<COMPILE_LANGUAGE:CXX>:\\0>" OUTPUT_VARIABLE headers)
      weft_precompile(weft_${name} AND ${headers})
    elseif(ARG_LIKE)
      weft_precompile(weft_${name} LIKE weft_${ARG_LIKE})
    else()
      weft_precompile(weft_${name} LIKE weft_base)
    endif()
    if(ARG_COLD)
      weft_cold(weft_${name})
    endif()
    if(ARG_GROUP)
      list(TRANSFORM ARG_GROUP REPLACE "^([^.]+)$" "${CMAKE_SOURCE_DIR}/src/${name}/\\1[./]")
      list(JOIN ARG_GROUP "|" grouped)
      weft_group(weft_${name} "^(${grouped})")
    endif()
    foreach(kernel ${kernels})
      weft_cuda_fatbin(weft_${name} ${kernel})
    endforeach()
    set(WEFT_LAYERS ${WEFT_LAYERS} weft_${name} PARENT_SCOPE)
  else()
    add_library(weft_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(weft_${name} ${scope} ${CMAKE_SOURCE_DIR}/src ${WEFT_GENERATED_DIR}
                             ${WEFT_GENERATED_DIR}/include ${CMAKE_SOURCE_DIR}/include)
  target_link_libraries(weft_${name} ${scope} Threads::Threads ${CMAKE_DL_LIBS})
  foreach(dependency ${ARG_DEPENDS})
    target_link_libraries(weft_${name} ${scope} weft_${dependency})
  endforeach()
endfunction()

# weft_sublayers(layer folders...): the folders inside a layer, lowest first. tools/check_layers.py reads the call.
function(weft_sublayers layer)
endfunction()
