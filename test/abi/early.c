/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions that MPI allows before MPI_Init and after MPI_Finalize. */
#include "expect.h"

static void any_time_calls(void) {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int flag, length, version, subversion, code;
  MPI_Info info;
  MPI_Errhandler handler;
  EXPECT(MPI_Initialized(&flag) == MPI_SUCCESS && MPI_Finalized(&flag) == MPI_SUCCESS);
  EXPECT(MPI_Get_version(&version, &subversion) == MPI_SUCCESS && version == 5);
  EXPECT(MPI_Get_library_version(text, &length) == MPI_SUCCESS && strstr(text, "Weft") == text);
  EXPECT(MPI_Info_create(&info) == MPI_SUCCESS && MPI_Info_set(info, "key", "value") == MPI_SUCCESS);
  length = sizeof text;
  EXPECT(MPI_Info_get_string(info, "key", &length, text, &flag) == MPI_SUCCESS && flag &&
         strcmp(text, "value") == 0);
  EXPECT(MPI_Info_free(&info) == MPI_SUCCESS);
  EXPECT(MPI_Add_error_class(&code) == MPI_SUCCESS && MPI_Error_string(code, text, &length) == MPI_SUCCESS);
  EXPECT(MPI_Comm_create_errhandler((MPI_Comm_errhandler_function*)any_time_calls, &handler) == MPI_SUCCESS);
  EXPECT(MPI_Errhandler_free(&handler) == MPI_SUCCESS);
  EXPECT(MPI_Abi_get_version(&version, &subversion) == MPI_SUCCESS && version == 1 && subversion == 0);
}

int main(int argc, char** argv) {
  any_time_calls();
  MPI_Init(&argc, &argv);
  any_time_calls();
  MPI_Finalize();
  any_time_calls();
  return finish();
}
