# SPDX-License-Identifier: BSD-3-Clause
# cmake -DSOURCE=folder -DOUT=files -P write_commit.cmake: writes the commit of the sources into each file, from the template
# of its name beside this script, if it has changed. A git repository of the sources answers, with "+" behind the number if
# files that it tracks have changed; else cmake/commit.txt of `git archive`, else spec/commit.txt of a source distribution;
# else "unknown".
set(commit unknown)
foreach(file cmake/commit.txt spec/commit.txt)
  if(EXISTS ${SOURCE}/${file})
    file(STRINGS ${SOURCE}/${file} recorded REGEX "^[0-9a-f]+\\+?$")
    if(recorded)
      string(REGEX REPLACE "^(............)[0-9a-f]*" "\\1" commit ${recorded})
    endif()
  endif()
endforeach()
set(git git -c safe.directory=* -C ${SOURCE})  # the builder may be another user
execute_process(COMMAND ${git} rev-parse --show-toplevel --short=12 HEAD OUTPUT_VARIABLE answer ERROR_QUIET
                OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
file(REAL_PATH ${SOURCE} source)
if(NOT failed AND answer MATCHES "^(.*)\n([0-9a-f]+)$" AND CMAKE_MATCH_1 STREQUAL source)
  set(commit ${CMAKE_MATCH_2})
  execute_process(COMMAND ${git} diff --quiet HEAD RESULT_VARIABLE changed ERROR_QUIET)
  if(changed)
    string(APPEND commit "+")
  endif()
endif()
foreach(file ${OUT})
  get_filename_component(name ${file} NAME)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/${name}.in ${file} @ONLY)
endforeach()
