# SPDX-License-Identifier: BSD-3-Clause
# The target weft_commit writes the commit of the sources, for the library's version text and the command line's, each time
# something is built. One small file is compiled when it changes.
set(WEFT_COMMIT_FILES ${WEFT_GENERATED_DIR}/commit.hpp ${CMAKE_BINARY_DIR}/cli/weft_mpi/_commit.py)
add_custom_target(weft_commit
                  COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} "-DOUT=${WEFT_COMMIT_FILES}"
                          -P ${CMAKE_SOURCE_DIR}/cmake/write_commit.cmake
                  BYPRODUCTS ${WEFT_COMMIT_FILES}
                  VERBATIM)
add_dependencies(weft_base_cold weft_commit)
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/base/version.cpp PROPERTIES COMPILE_DEFINITIONS WEFT_VERSION="${PROJECT_VERSION}"
                            SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON)
