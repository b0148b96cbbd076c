# SPDX-License-Identifier: BSD-3-Clause
# cmake -DSOURCE=folder -DOUT=file -P commit.cmake: writes a header with the commit of the sources if it has changed, for
# the first line of WEFT_LOG=info. "unknown" outside of a git repository of the sources.
execute_process(COMMAND git -C ${SOURCE} rev-parse --show-toplevel --short=12 HEAD OUTPUT_VARIABLE answer ERROR_QUIET
                OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
set(commit unknown)
if(NOT failed AND answer MATCHES "^(.*)\n([0-9a-f]+)$")
  set(top ${CMAKE_MATCH_1})
  set(found ${CMAKE_MATCH_2})
  file(REAL_PATH ${SOURCE} source)
  if(top STREQUAL source)
    set(commit ${found})
  endif()
endif()
set(text "#define WEFT_COMMIT \"${commit}\"\n")
set(before "")
if(EXISTS ${OUT})
  file(READ ${OUT} before)
endif()
if(NOT text STREQUAL before)
  file(WRITE ${OUT} "${text}")
endif()
