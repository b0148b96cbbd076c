# SPDX-License-Identifier: BSD-3-Clause
# Bindings: runs tools/bindgen/generate.py over the Forum's apis.json. Sets WEFT_GENERATED_DIR (with
# include/mpi.h, api/*.cpp, compat/*, coverage.md), WEFT_API_SOURCES, WEFT_COMPAT_SOURCES, and the target weft_bindings.
set(WEFT_GENERATED_DIR ${CMAKE_BINARY_DIR}/gen)
set(WEFT_API_SOURCES "")
set(generator ${CMAKE_SOURCE_DIR}/tools/bindgen/generate.py)
file(MAKE_DIRECTORY ${WEFT_GENERATED_DIR}/include)

# The API description: in a source distribution, else downloaded by set-up, else from the Python package in the environment (pip builds).
set(WEFT_APIS_JSON "" CACHE FILEPATH "The MPI Forum's apis.json")
if(NOT WEFT_APIS_JSON AND EXISTS ${CMAKE_SOURCE_DIR}/spec/apis.json)
  set(WEFT_APIS_JSON ${CMAKE_SOURCE_DIR}/spec/apis.json)
elseif(NOT WEFT_APIS_JSON)
  set(WEFT_APIS_JSON ${WEFT_TOOLS_DIR}/spec/pympistandard/data/apis.json)
  if(NOT EXISTS ${WEFT_APIS_JSON})
    execute_process(
      COMMAND ${Python3_EXECUTABLE} -c
              "import importlib.util as u; print(u.find_spec('pympistandard').submodule_search_locations[0])"
      OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    set(WEFT_APIS_JSON ${found}/data/apis.json)
  endif()
endif()
if(NOT EXISTS ${WEFT_APIS_JSON})
  message(FATAL_ERROR "The MPI Forum's apis.json is missing (it is downloaded, not part of the repository): "
                      "run `python3 tools/setup/setup.py`, or `make`, or install pympistandard==0.2.0")
endif()

set(command ${WEFT_PYTHON} ${generator} --src ${CMAKE_SOURCE_DIR} --out ${WEFT_GENERATED_DIR}
            --apis ${WEFT_APIS_JSON})
execute_process(COMMAND ${command} --list-outputs OUTPUT_VARIABLE outputs ERROR_VARIABLE errors
                RESULT_VARIABLE status OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${generator} --list-outputs failed:\n${errors}")
endif()
string(REPLACE "\n" ";" outputs "${outputs}")
# Inputs: the generator, Weft's overlay of the description, and src/api and src/tool, where it finds the implemented functions.
file(GLOB_RECURSE inputs CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tools/bindgen/*.py ${CMAKE_SOURCE_DIR}/spec/*
     ${CMAKE_SOURCE_DIR}/include/weft.h)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${inputs})
file(GLOB_RECURSE entry_points CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/api/*.cpp ${CMAKE_SOURCE_DIR}/src/tool/*.cpp)
list(APPEND inputs ${entry_points})
add_custom_command(
  OUTPUT ${outputs}
  COMMAND ${command}
  DEPENDS ${inputs} ${WEFT_APIS_JSON}
  COMMENT "Generating mpi.h and the bindings"
  VERBATIM)
add_custom_target(weft_bindings DEPENDS ${outputs})
set(WEFT_API_SOURCES ${outputs})
list(FILTER WEFT_API_SOURCES INCLUDE REGEX "/api/.*\\.cpp$")
set(WEFT_COMPAT_SOURCES ${outputs})
list(FILTER WEFT_COMPAT_SOURCES INCLUDE REGEX "/compat/.*\\.cpp$")
set(WEFT_FORTRAN_SOURCES ${outputs})
list(FILTER WEFT_FORTRAN_SOURCES INCLUDE REGEX "/fortran/.*\\.cpp$")
